//! What nostray refuses before it starts a child: wrong options, directories in which it cannot keep a slot, file
//! systems without working locks, and a wait for itself.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use badchild::{Folder, PATIENCE, Scene, User, comes_true, wait_until};
use serde_json::json;
use testkit::slots::{MANAGED, NOT_NOW, Ring, SLOT, end, ended};
use testkit::{in_parallel, nostray};

/// The exit code of a failure of nostray's own.
const OWN_FAILURE: i32 = 125;

fn run_in(scene: &Scene, words: &[&str], change: impl FnOnce(&mut Command)) -> Output {
    let mut command = scene.command(&nostray());
    command.args(words).stdin(Stdio::null());
    change(&mut command);
    command.output().expect("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A child that leaves a trace if it is started.
fn tracer(folder: &Folder) -> (String, String) {
    let trace = folder.path().join("started");
    (trace.display().to_string(), "touch".to_owned())
}

#[test]
fn a_name_that_no_file_could_have_is_refused() {
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("names"));
    let (trace, touch) = tracer(&folder);
    let long = "x".repeat(65);
    for name in ["", ".", "..", "a/b", "../x", "a b", "-x", ".x", "ä", "a\nb", &long, "x\u{1b}[31m"] {
        let option = format!("--slot={name}");
        // `run` passes its child's exit code on, so it has a code of its own for wrong options.
        for (words, code) in
            [(vec!["run", &option, "--", &touch, &trace], OWN_FAILURE), (vec!["slot", "show", "--", name], 2)]
        {
            let output = run_in(&scene, &words, |_| {});
            assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
            assert!(text(&output.stderr).contains("a name is like memory or db.main"), "{output:?}");
            assert!(!text(&output.stderr).contains('\u{1b}'), "the name is printed unescaped: {output:?}");
        }
        assert!(!std::path::Path::new(&trace).exists(), "{name:?}: a child was started");
    }
    for name in ["a", "db.main", "A-1_b", &long[1..]] {
        let output = run_in(&scene, &["run", "--slot", name, "--", "true"], |_| {});
        assert!(output.status.success(), "{name}: {output:?}");
    }
}

#[test]
fn options_about_a_slot_without_one_and_wrong_values_are_refused() {
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("options"));
    let (trace, touch) = tracer(&folder);
    for options in [
        &["--if-taken", "wait"][..],
        &["--wait-timeout", "1s"],
        &["--max-handovers", "3/1m"],
        &["--slot", SLOT, "--if-taken", "steal"],
        &["--slot", SLOT, "--wait-timeout", "soon"],
        &["--slot", SLOT, "--wait-timeout", "0s"],
        &["--slot", SLOT, "--max-handovers", "3"],
        &["--slot", SLOT, "--max-handovers", "x/1m"],
        &["--slot", SLOT, "--slot", "other"],
    ] {
        let output = run_in(&scene, &[&["run"], options, &["--", &touch, &trace]].concat(), |_| {});
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{options:?}: {output:?}");
        assert!(text(&output.stderr).contains("--help"), "{output:?}");
    }
    assert!(!std::path::Path::new(&trace).exists());
}

#[test]
fn options_that_a_shared_child_cannot_have_are_refused() {
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("share"));
    let (trace, touch) = tracer(&folder);
    for (options, named) in [
        (&["--idle-timeout", "5s"][..], "--idle-timeout"),
        (&["--verbose"], "--verbose"),
        (&["--log-file", "/dev/null"], "--log-file"),
        (&["--ready-line", "x"], "ready"),
        (&["--ready-port", "8080"], "ready"),
        (&["--ready-file", "/tmp/x"], "ready"),
        (&["--ready-cmd", "true"], "ready"),
        (&["--ready-notify"], "ready"),
    ] {
        let words = [&["run", "--slot", SLOT, "--if-taken", "share"], options, &["--", &touch, &trace]].concat();
        let output = run_in(&scene, &words, |_| {});
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{options:?}: {output:?}");
        assert!(said.contains(named) && said.contains("--if-taken share"), "{options:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(!std::path::Path::new(&trace).exists());
    scene.expect_empty();
}

/// Locks that fail, and locks that every process gets: nostray refuses both, and starts no child.
#[test]
fn a_file_system_without_working_locks_is_refused() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return; // there is no other way to get such a file system everywhere
    }
    let mut cells = Vec::new();
    for lie in ["error=ENOLCK", "error=ENOSYS", "error=EOPNOTSUPP", "retval=0"] {
        for policy in ["wait", "fail", "replace"] {
            for options in [&[][..], &MANAGED] {
                cells.push((lie, policy, options));
            }
        }
    }
    in_parallel(cells, |(lie, policy, options)| {
        let (scene, folder) = (Scene::apart(User::Current), Folder::new("locks"));
        let (trace, touch) = tracer(&folder);
        let mut command = scene.command("strace".as_ref());
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", &format!("inject=flock:{lie}")]);
        command.arg(nostray()).args(["run", "--slot", SLOT, "--if-taken", policy]).args(options);
        let output = command.args(["--", &touch, &trace]).stdin(Stdio::null()).output().expect("strace");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{lie} {policy} {options:?}: {said}");
        for part in ["locks do not work", "XDG_STATE_HOME"] {
            assert!(said.contains(part), "{lie} {policy} {options:?}: '{part}' is not in: {said}");
        }
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!std::path::Path::new(&trace).exists(), "{lie} {policy}: a child was started");
        scene.expect_empty();
    });
}

/// The same for a shared child: its session gets the error. Only the slot's own lock fails here; without any locks
/// there is no broker.
#[test]
fn a_shared_child_on_a_file_system_without_working_locks_is_refused() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return;
    }
    in_parallel(vec!["inject=flock:error=ENOLCK", "inject=flock:retval=0"], |lie| {
        let ring = Ring::new();
        assert_eq!(end(ring.holder(&[])), 0); // so that there is a lock file
        let (words, nostray) = (ring.words(&[]), nostray().display().to_string());
        let lock = ring.place().join("lock").display().to_string();
        let mut all = vec!["-f", "-qq", "-o", "/dev/null", "-P", &lock, "-e", "trace=flock", "-e", lie, &nostray];
        all.extend(["run", "--slot", SLOT, "--if-taken", "share", "--"]);
        all.extend(words.iter().map(String::as_str));
        let mut caller = ring.stage.start_plain("strace", &all);
        let code = caller.code();
        assert!(caller.errors().contains("locks do not work"), "{}", caller.errors());
        assert_eq!(code, OWN_FAILURE, "75 would tell the host to try again later: {}", caller.errors());
        assert_eq!(ring.stage.lives().len(), 1, "a child was started");
        ring.stage.scene.expect_empty();
    });
}

/// A slot works only if all contenders use the same private directory.
#[test]
fn a_slot_directory_that_is_not_private_or_no_directory_is_refused() {
    for user in User::all() {
        let scene = Scene::apart(user);
        let folder = Folder::new("place");
        let (trace, touch) = tracer(&folder);
        let words = ["run", "--slot", SLOT, "--", &touch, &trace];
        // The slot's directory is open to others, a file, or a link.
        let state = scene.runtime().join("state/nostray");
        assert!(run_in(&scene, &["run", "--slot", SLOT, "--", "true"], |_| {}).status.success());
        let slot = state.join("slots").join(SLOT);
        for (what, part) in [("open", "chmod 700"), ("file", "not a directory"), ("link", "not a directory")] {
            match what {
                "open" => std::fs::set_permissions(&slot, std::fs::Permissions::from_mode(0o755)).expect("chmod"),
                "file" => {
                    std::fs::remove_dir_all(&slot).expect("remove");
                    std::fs::write(&slot, "").expect("write");
                }
                _ => {
                    std::fs::remove_file(&slot).expect("remove");
                    std::os::unix::fs::symlink(folder.path(), &slot).expect("link");
                }
            }
            let output = run_in(&scene, &words, |_| {});
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(OWN_FAILURE), "{what}: {said}");
            assert!(said.contains(part) && said.contains(SLOT), "{what}: {said}");
            // The commands that look at the slot fail, too.
            for words in [&["slot", "show", SLOT][..], &["slot", "release", SLOT]] {
                let output = run_in(&scene, words, |_| {});
                assert_eq!(output.status.code(), Some(1), "{what}, {words:?}: {output:?}");
            }
            assert!(run_in(&scene, &["slot", "list", "--all"], |_| {}).status.success());
        }
        assert!(!std::path::Path::new(&trace).exists());
        scene.expect_empty();
    }
}

/// Without state directory, runtime directory and home, there is no directory for a lock.
#[test]
fn without_any_directory_no_child_is_started() {
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("nowhere"));
    let (trace, touch) = tracer(&folder);
    let nowhere = |command: &mut Command| {
        command.env("XDG_RUNTIME_DIR", "/dev/null/x").env("HOME", "/dev/null").env("XDG_STATE_HOME", "/dev/null/y");
    };
    for policy in ["wait", "fail", "replace"] {
        let output = run_in(&scene, &["run", "--slot", SLOT, "--if-taken", policy, "--", &touch, &trace], nowhere);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{policy}: {said}");
        assert!(said.contains("/dev/null"), "the error does not name the directory: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for words in [&["slot", "list"][..], &["slot", "show", SLOT], &["slot", "release", SLOT]] {
        let output = run_in(&scene, words, nowhere);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        assert!(!text(&output.stderr).is_empty());
    }
    assert!(!std::path::Path::new(&trace).exists());
    scene.expect_empty();
}

/// A host that passes no HOME on uses the same slot: nostray finds the home in the user database.
#[test]
fn without_home_in_the_environment_the_slot_is_the_same() {
    if !User::all().contains(&User::Nobody) {
        return; // only root may give a user a home for the test
    }
    let (scene, folder) = (Scene::new(User::Current), Folder::private("home", User::Current));
    // In a mount namespace the user gets a home of its own, so that the test does not touch the real one.
    let script = r#"
set -e
cp /etc/passwd "$1/passwd"
sed -i "s#^\(root:[^:]*:[^:]*:[^:]*:[^:]*:\)[^:]*#\1$1#" "$1/passwd"
mount --bind "$1/passwd" /etc/passwd
mkdir -m 700 "$1/run"
export XDG_RUNTIME_DIR=$1/run HOME=$1
unset XDG_STATE_HOME
mkfifo "$1/in"
"$2" run --slot db -- cat < "$1/in" &
exec 9> "$1/in"
until "$2" slot list --json | grep -q '"state": "ready"'; do :; done
code=0; env -u HOME "$2" run --slot db --if-taken fail -- true || code=$?
exec 9>&-
wait
echo "code $code"
"#;
    let mut command = scene.command("unshare".as_ref());
    command.args(["-m", "bash", "-c", script, "bash"]).arg(folder.path()).arg(nostray());
    let output = command.stdin(Stdio::null()).output().expect("unshare");
    assert!(text(&output.stdout).ends_with("code 75\n"), "{output:?}");
    scene.expect_empty();
}

/// The disk has no room for the files of a slot: nostray says so, and starts no child.
#[test]
fn on_a_full_disk_a_slot_is_refused_and_no_child_is_started() {
    if !User::all().contains(&User::Nobody) {
        return; // only root can mount a small file system
    }
    for (what, limits) in [("no blocks", "size=8k"), ("no inodes", "nr_inodes=5")] {
        let (scene, folder) = (Scene::apart(User::Current), Folder::new("full"));
        let trace = Folder::new("trace");
        let (trace, _) = tracer(&trace);
        let script = r#"
mount -t tmpfs -o $3,mode=700 none "$1" && export XDG_STATE_HOME=$1 && mkdir -m 700 $1/nostray
dd if=/dev/zero of=$1/fill bs=4k count=9 2>/dev/null; for i in 1 2 3 4 5 6 7 8; do touch $1/$i; done 2>/dev/null
exec "$2" run --slot db -- touch "$4"
"#;
        let mut command = scene.command("unshare".as_ref());
        command.args(["-m", "sh", "-c", script, "sh"]).arg(folder.path()).arg(nostray()).args([limits, &trace]);
        let output = command.stdin(Stdio::null()).output().expect("unshare");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{what}: {said}");
        assert!(said.contains("space") && said.contains("nostray"), "{what}: {said}");
        assert!(!std::path::Path::new(&trace).exists(), "{what}: a child was started");
        scene.expect_empty();
    }
}

/// The disk fills up while the slot is held. The slot keeps its one holder, and is free afterwards.
#[test]
fn a_disk_that_fills_up_while_a_slot_is_held_loses_history_and_nothing_else() {
    if !User::all().contains(&User::Nobody) {
        return;
    }
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("fills"));
    let script = r#"
mount -t tmpfs -o size=40k,mode=700 none "$1" && export XDG_STATE_HOME=$1
mkfifo "$1/in"
"$2" run --slot db -- cat < "$1/in" & holder=$!
exec 9> "$1/in"
until "$2" slot list --json | grep -q '"state": "ready"'; do :; done
dd if=/dev/zero of=$1/fill bs=4k count=99 2>/dev/null
"$2" run --slot db --if-taken fail -- echo two 2>/dev/null; echo "fail $?"
"$2" run --slot db --wait-timeout 200ms -- echo two 2>/dev/null; echo "wait $?"
exec 9>&-
wait $holder; echo "holder $?"
rm $1/fill
"$2" run --slot db --if-taken fail -- echo next; echo "next $?"
"#;
    let mut command = scene.command("unshare".as_ref());
    command.args(["-m", "sh", "-c", script, "sh"]).arg(folder.path()).arg(nostray());
    let output = command.stdin(Stdio::null()).output().expect("unshare");
    let said = text(&output.stdout);
    // A waiter needs a file for its place in the queue. Without room for it, the waiter is refused.
    assert_eq!(said, "fail 75\nwait 125\nholder 0\nnext\nnext 0\n", "{output:?}");
    scene.expect_empty();
}

/// Without /proc, nostray could not tell a holder from a stranger.
#[test]
fn without_proc_no_child_is_started() {
    if !User::all().contains(&User::Nobody) {
        return; // only root can hide /proc
    }
    for policy in ["wait", "fail", "replace"] {
        let (scene, folder) = (Scene::apart(User::Current), Folder::new("proc"));
        let (trace, _) = tracer(&folder);
        let script = "mount -t tmpfs none /proc && exec \"$1\" run --slot db --if-taken $2 -- touch \"$3\"";
        let mut command = scene.command("unshare".as_ref());
        command.args(["-m", "sh", "-c", script, "sh"]).arg(nostray()).args([policy, &trace]);
        let output = command.stdin(Stdio::null()).output().expect("unshare");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{policy}: {said}");
        assert!(said.contains("/proc") || said.contains("cannot list the open files"), "{said}");
        assert!(!std::path::Path::new(&trace).exists(), "{policy}: a child was started");
    }
}

/// Without a slot such a child would run without a record. With a slot it must not: the next contender could not find
/// it.
#[test]
fn a_holder_that_cannot_be_put_on_record_is_not_started() {
    for options in [&[][..], &MANAGED] {
        let (scene, folder) = (Scene::apart(User::Current), Folder::new("record"));
        let (trace, touch) = tracer(&folder);
        // The directory for records is a file here. The fallback for records is the state directory, which also has the
        // slots.
        let place = scene.runtime().join("state/nostray");
        let words = [&["run", "--slot", SLOT], options, &["--", &touch, &trace]].concat();
        assert!(run_in(&scene, &["run", "--slot", SLOT, "--", "true"], |_| {}).status.success());
        if std::path::Path::new("/run/user/0").is_dir() {
            return; // there is always a directory for records here
        }
        // Make the fallback unusable as well: it is open to others.
        std::fs::remove_dir_all(scene.runtime().join("nostray")).expect("remove");
        std::fs::write(scene.runtime().join("nostray"), "").expect("write");
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        let output = run_in(&scene, &words, |_| {});
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{options:?}: {said}");
        assert!(!std::path::Path::new(&trace).exists(), "{options:?}: a child was started");
        scene.expect_empty();
    }
}

/// A contender inside the holder's tree would wait for its own end.
#[test]
fn a_contender_inside_the_holders_tree_is_refused_with_every_policy() {
    let mut cells = Vec::new();
    for policy in ["wait", "fail", "replace", "share"] {
        for outer in [&[][..], &MANAGED] {
            for inner in [&[][..], &MANAGED] {
                cells.push((policy, outer, inner, ""));
            }
        }
        // A holder that does not pass the mark on in the environment.
        cells.push((policy, &[], &[], "env -u NOSTRAY_PEN "));
    }
    in_parallel(cells, |(policy, outer, inner, prefix)| {
        let ring = Ring::new();
        let (inner, file) = (inner.join(" "), ring.stage.file("code"));
        let script = format!(
            "tail -f /dev/null | {prefix}\"$0\" run --slot {SLOT} --if-taken {policy} {inner} -- touch \"$1.started\" 2>\"$1.err\"; \
             echo $? >\"$1.new\"; mv \"$1.new\" \"$1\"; exec cat"
        );
        let nostray = nostray().display().to_string();
        let options = [&["--slot", SLOT, "--eof-grace", "300ms", "--term-grace", "300ms"], outer].concat();
        let mut holder = ring.stage.start_command(&options, &["sh", "-c", &script, &nostray, &file]);
        let came = comes_true(PATIENCE, &mut || std::path::Path::new(&file).exists());
        let said = std::fs::read_to_string(format!("{file}.err")).unwrap_or_default();
        assert!(came, "{policy} {outer:?} {inner:?} {prefix}: the inner contender waits for itself: {said}");
        let code = std::fs::read_to_string(&file).expect("read");
        assert_eq!(code, "75\n", "{policy} {outer:?} {inner:?} {prefix}: {said}");
        assert!(!std::path::Path::new(&format!("{file}.started")).exists(), "{policy}: a child was started");
        assert!(said.contains(SLOT), "{said}");
        if policy != "fail" {
            assert!(said.contains("it would wait for itself"), "{policy} {outer:?} {inner:?}: {said}");
        }
        // The holder goes on.
        assert!(holder.process.try_wait().expect("look").is_none());
        holder.close();
        ended(&mut holder);
        ring.stage.scene.expect_empty();
    });
}

/// A contender inside the holder's tree may take another slot.
#[test]
fn another_slot_inside_the_holders_tree_is_fine() {
    let ring = Ring::new();
    let nostray = nostray().display().to_string();
    let words = ring.words(&[]);
    let mut command = vec![nostray.as_str(), "run", "--slot", "inner", "--"];
    command.extend(words.iter().map(String::as_str));
    let mut outer = ring.stage.start_command(&["--slot", SLOT], &command);
    outer.initialize();
    wait_until("both are on record", || {
        let listed = text(&ring.stage.nostray(&["slot", "list", "--json"]).stdout);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        listed["slots"]
            .as_array()
            .is_some_and(|slots| slots.iter().filter(|slot| slot["state"] == "ready").count() == 2)
    });
    // A newcomer replaces the inner holder, which is the outer holder's child, so the outer holder ends as well.
    let mut newcomer = ring.stage.start(&["--slot", "inner", "--if-taken", "replace"], &[]);
    newcomer.initialize();
    outer.code();
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// A refusal comes at once, not after a wait.
#[test]
fn a_refusal_takes_no_time() {
    let ring = Ring::new();
    let mut holder = ring.holder(&[]);
    let time = || {
        let began = Instant::now();
        let mut refused = ring.run(&["--if-taken", "fail"], &[]);
        assert_eq!(refused.code(), NOT_NOW);
        began.elapsed()
    };
    // On a busy machine any one run may wait for the CPU.
    let fastest = (0..10).map(|_| time()).min().expect("some");
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    assert_eq!(holder.result("echo", json!({ "n": 1 })), json!({ "n": 1 }));
    assert_eq!(end(holder), 0);
    ring.expect_over();
}
