//! What is refused, before anything is started: wrong words, places in which nothing can be kept, locks that keep nobody out, and a
//! wait for oneself.

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
        // `run` has the codes of whatever it runs, so a wrong call of it is a failure of its own.
        for (words, code) in
            [(vec!["run", &option, "--", &touch, &trace], OWN_FAILURE), (vec!["slot", "show", "--", name], 2)]
        {
            let output = run_in(&scene, &words, |_| {});
            assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
            assert!(text(&output.stderr).contains("a name is like memory or db.main"), "{output:?}");
            assert!(!text(&output.stderr).contains('\u{1b}'), "what was given is printed as it is: {output:?}");
        }
        assert!(!std::path::Path::new(&trace).exists(), "{name:?}: it was started");
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

/// Locks that fail, and locks that everybody gets: both are said to be no locks, and nothing is started.
#[test]
fn a_file_system_without_working_locks_is_refused() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return; // there is no other way to have such a file system everywhere
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
        assert!(!std::path::Path::new(&trace).exists(), "{lie} {policy}: it was started");
        scene.expect_empty();
    });
}

/// The same for one that is shared: its session is told. (Only the slot's own lock fails here; without any locks there is no broker.)
#[test]
fn a_shared_child_on_a_file_system_without_working_locks_is_refused() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return;
    }
    in_parallel(vec!["inject=flock:error=ENOLCK", "inject=flock:retval=0"], |lie| {
        let ring = Ring::new();
        assert_eq!(end(ring.holder(&[])), 0); // so that there is a lock
        let (words, nostray) = (ring.words(&[]), nostray().display().to_string());
        let lock = ring.place().join("lock").display().to_string();
        let mut all = vec!["-f", "-qq", "-o", "/dev/null", "-P", &lock, "-e", "trace=flock", "-e", lie, &nostray];
        all.extend(["run", "--slot", SLOT, "--if-taken", "share", "--"]);
        all.extend(words.iter().map(String::as_str));
        let mut caller = ring.stage.start_plain("strace", &all);
        let code = caller.code();
        assert!(caller.errors().contains("locks do not work"), "{}", caller.errors());
        assert_eq!(code, OWN_FAILURE, "to try again later would not help: {}", caller.errors());
        assert_eq!(ring.stage.lives().len(), 1, "it was started");
        ring.stage.scene.expect_empty();
    });
}

/// Whoever keeps others out must be sure that they look in the same place.
#[test]
fn a_place_that_is_not_private_or_not_there_is_said_so() {
    for user in User::all() {
        let scene = Scene::apart(user);
        let folder = Folder::new("place");
        let (trace, touch) = tracer(&folder);
        let words = ["run", "--slot", SLOT, "--", &touch, &trace];
        // Its own directory is open to others, or no directory, or somebody else's.
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
            // Looking is no better.
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

/// Neither a state directory nor a runtime directory, and no home: there is nowhere to keep a lock.
#[test]
fn without_any_place_nothing_is_started() {
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("nowhere"));
    let (trace, touch) = tracer(&folder);
    let nowhere = |command: &mut Command| {
        command.env("XDG_RUNTIME_DIR", "/dev/null/x").env("HOME", "/dev/null").env("XDG_STATE_HOME", "/dev/null/y");
    };
    for policy in ["wait", "fail", "replace"] {
        let output = run_in(&scene, &["run", "--slot", SLOT, "--if-taken", policy, "--", &touch, &trace], nowhere);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{policy}: {said}");
        assert!(said.contains("/dev/null"), "where it has looked: {said}");
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

/// What a host leaves out of the environment does not make another slot: the machine knows where its users live.
#[test]
fn without_home_in_the_environment_it_is_the_same_slot() {
    if !User::all().contains(&User::Nobody) {
        return; // only root may give a user a home for the test
    }
    let (scene, folder) = (Scene::new(User::Current), Folder::private("home", User::Current));
    // With a home of its own in a mount namespace of its own, nothing of the real one is touched.
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

/// A disk without room for the files of a slot: said, and nothing is started; and whoever has the slot is not disturbed.
#[test]
fn a_full_disk_is_said_so_and_nothing_is_started() {
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
        assert!(!std::path::Path::new(&trace).exists(), "{what}: it was started");
        scene.expect_empty();
    }
}

/// The disk fills up while the slot is held: it stays held, by one, and is free afterwards.
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
    // One who waits needs a file for its place in the queue: without room for that it is refused.
    assert_eq!(said, "fail 75\nwait 125\nholder 0\nnext\nnext 0\n", "{output:?}");
    scene.expect_empty();
}

/// Nobody could be told apart from a stranger.
#[test]
fn without_proc_nothing_is_started() {
    if !User::all().contains(&User::Nobody) {
        return; // only root can hide it
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
        assert!(!std::path::Path::new(&trace).exists(), "{policy}: it was started");
    }
}

/// One that is contained all the same without a slot; with one, it could not be found by whoever comes next.
#[test]
fn a_holder_that_cannot_be_put_on_record_is_not_started() {
    for options in [&[][..], &MANAGED] {
        let (scene, folder) = (Scene::apart(User::Current), Folder::new("record"));
        let (trace, touch) = tracer(&folder);
        // Where records would be is no directory; the state directory, where slots are, would be the next best place for them.
        let place = scene.runtime().join("state/nostray");
        let words = [&["run", "--slot", SLOT], options, &["--", &touch, &trace]].concat();
        assert!(run_in(&scene, &["run", "--slot", SLOT, "--", "true"], |_| {}).status.success());
        if std::path::Path::new("/run/user/0").is_dir() {
            return; // there is always a place here
        }
        // Records may not be written there either: a folder lies in the way of each of their names.
        std::fs::remove_dir_all(scene.runtime().join("nostray")).expect("remove");
        std::fs::write(scene.runtime().join("nostray"), "").expect("write");
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        let output = run_in(&scene, &words, |_| {});
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OWN_FAILURE), "{options:?}: {said}");
        assert!(!std::path::Path::new(&trace).exists(), "{options:?}: it was started");
        scene.expect_empty();
    }
}

/// Inside of the holder's tree, a wait for its end would never end.
#[test]
fn whoever_is_started_by_the_holder_is_refused_whatever_it_wants() {
    let mut cells = Vec::new();
    for policy in ["wait", "fail", "replace", "share"] {
        for outer in [&[][..], &MANAGED] {
            for inner in [&[][..], &MANAGED] {
                cells.push((policy, outer, inner, ""));
            }
        }
        // A host that gives its children little of its environment.
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
        assert!(came, "{policy} {outer:?} {inner:?} {prefix}: it waits for itself: {said}");
        let code = std::fs::read_to_string(&file).expect("read");
        assert_eq!(code, "75\n", "{policy} {outer:?} {inner:?} {prefix}: {said}");
        assert!(!std::path::Path::new(&format!("{file}.started")).exists(), "{policy}: it was started");
        assert!(said.contains(SLOT), "{said}");
        if policy != "fail" {
            assert!(said.contains("it would wait for itself"), "{policy} {outer:?} {inner:?}: {said}");
        }
        // The holder is not disturbed by it.
        assert!(holder.process.try_wait().expect("look").is_none());
        holder.close();
        ended(&mut holder);
        ring.stage.scene.expect_empty();
    });
}

/// Another slot inside of a tree is no business of the outer one.
#[test]
fn another_slot_inside_of_the_holders_tree_is_fine() {
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
    // The inner one is replaced from outside, and with it goes what the outer one was for.
    let mut newcomer = ring.stage.start(&["--slot", "inner", "--if-taken", "replace"], &[]);
    newcomer.initialize();
    outer.code();
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// What it was refused for is known at once, not after a wait.
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
    // On a busy machine any one of them may have to wait for the processor.
    let fastest = (0..10).map(|_| time()).min().expect("some");
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    assert_eq!(holder.result("echo", json!({ "n": 1 })), json!({ "n": 1 }));
    assert_eq!(end(holder), 0);
    ring.expect_over();
}
