//! What a supervised child gets from its host is the same in every generation, and nothing of nostray's own is among it; and what
//! the front keeps for the next generation does not grow. Where there is no room for something, that is said, and nothing stays.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use badchild::{Folder, Found, Scene, User, badchild, comes_true, wait_until};
use nostray_sys::proc::open_files_of;
use serde_json::json;
use testkit::stage::{Caller, Stage};
use testkit::{in_parallel, nostray};

const GENERATIONS: usize = 4;

/// What `badchild status` sees of itself when a shell starts it after some preparations: without nostray, and in each generation.
fn look(preparation: &str) -> (BTreeSet<String>, Vec<BTreeSet<String>>) {
    let stage = Stage::new();
    let status = |name: &str| -> BTreeSet<String> {
        let text = std::fs::read(stage.file(name)).expect("read");
        let lines = String::from_utf8_lossy(&text).into_owned();
        let is_stream = |line: &&str| ["fd 0 ", "fd 1 ", "fd 2 "].iter().any(|fd| line.starts_with(fd));
        let of_the_test =
            |line: &&str| ["env N=", "env _=", "env XDG_CACHE_HOME="].iter().any(|own| line.starts_with(own));
        // The one limit that is lowered has the name of the pen in it.
        let lowered = |line: &&str| line.starts_with("Max realtime timeout");
        lines
            .lines()
            .filter(|line| !is_stream(line) && !of_the_test(line) && !lowered(line))
            .map(str::to_owned)
            .collect()
    };
    // A life is a number in a file; the status is written before the server takes over.
    let script = r#"N=$(cat "$0/count" 2>/dev/null || echo 0); N=$((N + 1)); echo $N > "$0/count"; "$1" status > "$0/status.$N"
                    shift; [ "$1" = - ] || exec "$@""#;
    let folder = stage.folder.path().display().to_string();
    let (badchild, record) = (badchild().display().to_string(), stage.file("record"));
    let run = |wrapper: &str, rest: &[&str]| {
        let script = format!("{preparation}\nexec {wrapper} sh -c '{script}' \"$@\"");
        let mut words = vec!["-c".to_owned(), script, "bash".to_owned(), folder.clone(), badchild.clone()];
        words.extend(rest.iter().map(|word| (*word).to_owned()));
        words
    };
    let words = run("", &["-"]);
    let direct = stage.scene.command("bash".as_ref()).args(&words).stdin(Stdio::null()).status().expect("run bash");
    assert!(direct.success());
    let direct = status("status.1");
    let wrapper = format!("{} run --respawn --backoff 1ms..5ms --max-failures 100/1s --", nostray().display());
    let words = run(&wrapper, &[&badchild, "server", "--record", &record]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut caller = stage.start_plain("bash", &words);
    caller.initialize();
    for _ in 1..GENERATIONS {
        caller.error("die", json!({}));
        caller.who();
    }
    let pids: Vec<i32> = stage.lives().iter().map(|life| life.pid).collect();
    assert_eq!(pids.len(), GENERATIONS);
    caller.close();
    caller.code();
    stage.scene.expect_empty();
    let generations = (0..GENERATIONS).map(|at| {
        let mut seen = status(&format!("status.{}", at + 2));
        // The one variable that is added names the session, the generation, and its child.
        let mark = seen.iter().find(|line| line.starts_with("env NOSTRAY_PEN=")).cloned().expect("a mark");
        let expected = format!(".{}@{}", at + 1, pids[at]);
        assert!(mark.ends_with(&expected) && mark.len() == "env NOSTRAY_PEN=".len() + 8 + expected.len(), "{mark}");
        seen.remove(&mark);
        seen
    });
    let generations = generations.collect();
    (direct, generations)
}

#[track_caller]
fn assert_same(preparation: &str) {
    let (direct, generations) = look(preparation);
    for (at, seen) in generations.iter().enumerate() {
        let lost: Vec<_> = direct.difference(seen).collect();
        let added: Vec<_> = seen.difference(&direct).collect();
        assert!(
            lost.is_empty() && added.is_empty(),
            "generation {} after `{preparation}`: lost {lost:#?}, added {added:#?}",
            at + 1
        );
    }
}

#[test]
fn environment_directory_limits_files_and_signals_are_the_hosts_in_every_generation() {
    let preparations = vec![
        "cd /tmp; umask 027; ulimit -n 200; ulimit -c 0; export A='b c' EMPTY= ODD=$'\\xff\\n'",
        "exec 5</dev/null 7>/dev/null 33<>/dev/null; trap '' PIPE CHLD USR1 TSTP",
        "renice -n 7 -p $$ >/dev/null; trap '' INT HUP",
    ];
    in_parallel(preparations, assert_same);
}

/// A write end of the front's own stdin that leaked into it must reach no child, in no generation, or its end would never come.
#[test]
fn a_leaked_write_end_reaches_nobody() {
    for stdin in ["pipe", "socket"] {
        let stage = Stage::new();
        let (nostray, badchild) = (nostray().display().to_string(), badchild().display().to_string());
        let record = stage.file("record");
        let mut words = vec![nostray.as_str(), "run", "--respawn", "--backoff", "1ms..5ms", "--"];
        words.extend([badchild.as_str(), "server", "--plain", "--record", &record]);
        let mut host = badchild::Host::start(&stage.scene, &["--stdin", stdin, "--leak"], &words);
        host.line();
        host.say(r#"{"jsonrpc":"2.0","id":1,"method":"die"}"#);
        wait_until("another one", || stage.lives().len() == 2);
        host.order("close");
        wait_until("only the host is left", || stage.scene.processes().len() == 1);
        host.order("exit");
        stage.scene.expect_empty();
    }
}

/// What others wait for the end of is held by the child and by nobody of ours inside; and the host's own streams by the managed
/// front alone, so that its end is seen at once.
#[test]
fn the_hosts_output_ends_with_its_front_and_not_with_its_tree() {
    let stage = Stage::new();
    let options = ["--respawn", "--eof-grace", "8s", "--term-grace", "1s"];
    let mut caller = stage.start(&options, &["--ignore-eof"]);
    caller.initialize();
    caller.process.kill().expect("kill");
    caller.process.wait().expect("reap");
    let began = std::time::Instant::now();
    assert_eq!(caller.line_within(Duration::from_secs(20)), None);
    assert!(began.elapsed() < Duration::from_secs(5), "its output ended after {:?}", began.elapsed());
    assert!(!stage.trees().is_empty(), "the tree is given its graces");
    stage.scene.expect_empty();
}

/// The kibibytes of memory that are a process's own: what it shares with those whom it has forked depends on how many they are.
fn own_memory(pid: badchild::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("is there");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Descriptors and memory after two hundred children are what they were after a few.
#[test]
fn two_hundred_children_leave_nothing_with_the_front() {
    let stage = Stage::new();
    let options = ["--respawn", "--backoff", "1ms..1ms", "--max-failures", "1000/1s", "--no-sweep"];
    let mut caller = stage.start(&options, &[]);
    caller.initialize();
    let front = badchild::pid(i32::try_from(caller.process.id()).expect("small"));
    let kill = |caller: &mut Caller, times: usize| {
        for _ in 0..times {
            assert_eq!(caller.error("die", json!({}))["code"], -32000);
            caller.who();
        }
    };
    let files = || open_files_of(front).expect("is there");
    kill(&mut caller, 20);
    let (files_before, memory) = ((0..50).map(|_| files()).min().expect("some"), own_memory(front));
    kill(&mut caller, 200);
    // What is on its way between two children, or about to be heard of a new one, is not what stays: one a child would be 200.
    wait_until(&format!("about the {files_before} files of before"), || files() < files_before + 20);
    let memory_after = own_memory(front);
    // Buffers of the allocator come and go; a page a child would be 800 KiB.
    assert!(memory_after < memory + 400, "{memory} KiB, and after 200 more children {memory_after}");
    assert_eq!(stage.lives().len(), 221);
    let place = std::fs::read_dir(stage.scene.runtime().join("nostray")).expect("read").flatten();
    let left: Vec<_> = place.map(|entry| entry.file_name()).collect();
    assert!(left.len() <= 7, "two records, two locks, the journal and what was printed: {left:?}");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// However few files may be open: it works, or whoever calls is told what is wrong. Never a second child beside the first one, and
/// never somebody who stays.
#[test]
fn with_few_files_it_works_or_says_why() {
    in_parallel((5..26).collect(), |files: u32| {
        let stage = Stage::new();
        let (nostray, badchild, record) =
            (nostray().display().to_string(), badchild().display().to_string(), stage.file("record"));
        let limit = format!("--nofile={files}");
        let options = ["run", "--respawn", "--backoff", "1ms..5ms", "--max-failures", "3/1m", "--eof-grace", "20s"];
        let command = ["--term-grace", "100ms", "--", &badchild, "server", "--record", &record];
        let words = [&[limit.as_str(), &nostray], &options[..], &command].concat();
        let mut caller = stage.start_plain("prlimit", &words);
        let mut answer = json!(null);
        let hello =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "x" } });
        let mut ended = None;
        caller.try_send(&hello);
        comes_true(Duration::from_secs(20), &mut || {
            ended = ended.or(caller.process.try_wait().expect("look"));
            if let Some(line) = caller.line_within(Duration::from_millis(5)) {
                answer = serde_json::from_slice(&line).unwrap_or_default();
            }
            answer["id"] == 1 || ended.is_some()
        });
        // What it said last may be read after its end was seen.
        while ended.is_some() && answer["id"] != 1 {
            let Some(line) = caller.line_within(badchild::PATIENCE) else { break };
            answer = serde_json::from_slice(&line).unwrap_or_default();
        }
        assert!(answer["id"] == 1 || ended.is_some(), "{files} files: neither an answer nor an end");
        let works = answer.get("result").is_some();
        caller.close();
        let code = caller.code();
        stage.scene.expect_empty();
        if works {
            assert_eq!((code, stage.lives().len()), (0, 1), "{files} files: {}", caller.errors());
        } else {
            let said = format!("{}{answer}", caller.errors());
            assert!(said.contains("ulimit -n") || said.contains("open files"), "{files} files: {said}");
        }
        if files >= 24 {
            assert!(works, "{files} files are enough: {}", caller.errors());
        }
    });
}

/// The same for processes: whichever of ours cannot be started.
#[test]
fn with_few_processes_it_works_or_says_why() {
    if !User::all().contains(&User::Nobody) {
        return; // needs a user with nothing else running
    }
    // A user whom nobody else here is, since the limit counts all that a user has running.
    let alone = 100_000 + std::process::id();
    for processes in 1..=6 {
        let (scene, folder) = (Scene::new(User::Current), Folder::new("few"));
        std::os::unix::fs::chown(folder.path(), Some(alone), Some(alone)).expect("chown");
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
        let mut command = scene.command("prlimit".as_ref());
        command.arg(format!("--nproc={processes}")).arg(nostray());
        command.args(["run", "--protocol", "mcp", "--eof-grace", "20s", "--term-grace", "100ms", "--"]);
        command.arg(badchild()).args(["server", "--exit", "7"]);
        command.env("XDG_RUNTIME_DIR", folder.path()).uid(alone).gid(alone);
        let output = command.stdin(Stdio::null()).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // The managed front, the pen's front, its spare, its guard, and the child.
        if processes >= 5 {
            assert_eq!(output.status.code(), Some(7), "{processes} processes: {said}");
        } else {
            assert_eq!(output.status.code(), Some(125), "{processes} processes: {said}");
            assert!(said.contains("ulimit -u") || said.contains("temporarily unavailable"), "{processes}: {said}");
        }
        scene.expect_empty();
    }
}

/// Whatever is wrong with the place for records: the child runs, contained, and comes back.
#[test]
fn without_a_place_for_records_the_session_goes_on_all_the_same() {
    let folder = Folder::new("no-place");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("write");
    for runtime in [Some(file), None] {
        let stage = Stage::new();
        let change = |command: &mut std::process::Command| {
            command.env("HOME", "/dev/null").env_remove("XDG_STATE_HOME").env_remove("XDG_RUNTIME_DIR");
            if let Some(runtime) = &runtime {
                command.env("XDG_RUNTIME_DIR", runtime);
            }
        };
        let mut caller = stage.start_in(&["--respawn", "--backoff", "1ms..5ms", "--hibernate", "1h"], &[], change);
        caller.initialize();
        caller.error("die", json!({}));
        caller.who();
        assert_eq!(stage.lives().len(), 2);
        if runtime.is_some() {
            wait_until("it is said", || caller.errors().contains("contained, but not on record"));
        }
        caller.end(&stage);
    }
}

#[test]
fn a_full_disk_costs_the_records_and_not_the_session() {
    if !User::all().contains(&User::Nobody) {
        return; // only root can mount a small file system
    }
    let (stage, folder) = (Stage::new(), Folder::new("full"));
    let script = "mount -t tmpfs -o size=4k,mode=700 none \"$1\" && export XDG_RUNTIME_DIR=$1 HOME=/dev/null && unset XDG_STATE_HOME \
                  && mkdir -m 700 $1/nostray && dd if=/dev/zero of=$1/fill bs=4k count=1 2>/dev/null; shift; exec \"$@\"";
    let (nostray, badchild, record) =
        (nostray().display().to_string(), badchild().display().to_string(), stage.file("record"));
    let path = folder.path().display().to_string();
    let mut words =
        vec!["-m", "sh", "-c", script, "sh", &path, &nostray, "run", "--respawn", "--backoff", "1ms..5ms"];
    words.extend(["--", &badchild, "server", "--record", &record, "--banner", "printed, and nowhere to put it"]);
    let mut caller = stage.start_plain("unshare", &words);
    caller.initialize();
    for _ in 0..3 {
        caller.error("die", json!({}));
        caller.who();
    }
    wait_until("it is said", || caller.errors().contains("not on record"));
    caller.end(&stage);
    assert_eq!(stage.lives().len(), 4);
}

/// A process that may not be signalled is named, not waited for, and has no successor beside it.
#[test]
fn a_process_of_another_user_is_named_and_nothing_is_started_beside_it() {
    use std::os::unix::fs::PermissionsExt;
    if !User::all().contains(&User::Nobody) {
        return; // only root can make a set-user-id program
    }
    for keepers_killed in [false, true] {
        let stage = Stage::for_user(User::Nobody);
        let setuid = stage.folder.path().join("setuid-badchild");
        assert!(std::process::Command::new("cp").arg(badchild()).arg(&setuid).status().expect("cp").success());
        std::fs::set_permissions(&setuid, std::fs::Permissions::from_mode(0o4755)).expect("chmod u+s");
        let script = "\"$0\" become-root >/dev/null 2>&1 & exec \"$@\"";
        let (setuid, badchild, record) =
            (setuid.display().to_string(), badchild().display().to_string(), stage.file("record"));
        let options = ["--backoff", "1ms..5ms", "--eof-grace", "50ms", "--term-grace", "50ms"];
        let command = ["sh", "-c", script, &setuid, &badchild, "server", "--record", &record];
        let mut caller = stage.start_command(&options, &command);
        caller.initialize();
        wait_until("it is root", || {
            // For good, and not only by its file.
            let status =
                |f: &Found| std::fs::read_to_string(format!("/proc/{}/status", f.stat.pid)).unwrap_or_default();
            let found = stage.scene.those_with("become-root");
            found.iter().any(|f| status(f).contains("Uid:\t0\t0\t0\t0"))
        });
        let hanging = caller.ask("hang", json!({}));
        if keepers_killed {
            for found in stage.own().iter().filter(|found| found.stat.name != "nostray") {
                found.send(nostray_sys::Signal::KILL);
            }
        } else {
            stage.child().send(nostray_sys::Signal::KILL);
        }
        assert_eq!(caller.answer(hanging)["error"]["code"], -32000);
        caller.code();
        assert!(caller.errors().contains("may not be signalled"), "{}", caller.errors());
        assert_eq!(caller.errors().matches("may not be signalled").count(), 1, "{}", caller.errors());
        assert_eq!(stage.lives().len(), 1, "another one beside it");
        let left = stage.scene.processes();
        assert_eq!(left.len(), 1, "only the one that may not be signalled is left: {left:#?}");
        left.iter().for_each(|found: &Found| found.send(nostray_sys::Signal::KILL));
        stage.scene.expect_empty();
    }
}
