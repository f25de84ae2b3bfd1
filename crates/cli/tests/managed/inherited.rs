//! A supervised child inherits the same from its host in every generation, and nothing of nostray's own. What the front
//! keeps for the next generation does not grow. When files, processes or disk space run out, nostray says so, and no
//! process stays.

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

/// The output of `badchild status` when a shell starts it after this preparation: without nostray, and in each
/// generation.
fn look(preparation: &str) -> (BTreeSet<String>, Vec<BTreeSet<String>>) {
    let stage = Stage::new();
    let status = |name: &str| -> BTreeSet<String> {
        let text = std::fs::read(stage.file(name)).expect("read");
        let lines = String::from_utf8_lossy(&text).into_owned();
        let is_stream = |line: &&str| ["fd 0 ", "fd 1 ", "fd 2 "].iter().any(|fd| line.starts_with(fd));
        let of_the_test =
            |line: &&str| ["env N=", "env _=", "env XDG_CACHE_HOME="].iter().any(|own| line.starts_with(own));
        // nostray lowers this one limit: it encodes the name of the pen.
        let lowered = |line: &&str| line.starts_with("Max realtime timeout");
        lines
            .lines()
            .filter(|line| !is_stream(line) && !of_the_test(line) && !lowered(line))
            .map(str::to_owned)
            .collect()
    };
    // A file counts the lives. The shell writes the status, and then executes the server.
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
        // nostray adds this one variable: it names the session, the generation and the child.
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

/// The host leaks the write end of the front's stdin into the front. No child of any generation may inherit it, or the
/// end of input would never come.
#[test]
fn a_leaked_write_end_reaches_no_child() {
    for stdin in ["pipe", "socket"] {
        let stage = Stage::new();
        let (nostray, badchild) = (nostray().display().to_string(), badchild().display().to_string());
        let record = stage.file("record");
        let mut words = vec![nostray.as_str(), "run", "--respawn", "--backoff", "1ms..5ms", "--"];
        words.extend([badchild.as_str(), "server", "--plain", "--record", &record]);
        let mut host = badchild::Host::start(&stage.scene, &["--stdin", stdin, "--leak"], &words);
        host.line();
        host.say(r#"{"jsonrpc":"2.0","id":1,"method":"die"}"#);
        wait_until("the next child has started", || stage.lives().len() == 2);
        host.order("close");
        wait_until("only the host is left", || stage.scene.processes().len() == 1);
        host.order("exit");
        stage.scene.expect_empty();
    }
}

/// Only the managed front holds the host's streams, so the host sees the front's end at once. The processes of the pen
/// hold none of them.
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
    assert!(began.elapsed() < Duration::from_secs(5), "the host saw the end of output after {:?}", began.elapsed());
    assert!(!stage.trees().is_empty(), "the tree must get its graces");
    stage.scene.expect_empty();
}

/// The private memory of a process, in KiB. Memory that it shares with forked processes would vary with their number.
fn own_memory(pid: badchild::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("is there");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// After two hundred children the front has as many file descriptors and as much memory as after a few.
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
    // File descriptors of a child that starts or ends come and go. A leak of one per child would be 200.
    wait_until(&format!("about the {files_before} files of before"), || files() < files_before + 20);
    let memory_after = own_memory(front);
    // Buffers of the allocator come and go. A leak of one page per child would be 800 KiB.
    assert!(memory_after < memory + 400, "{memory} KiB, and after 200 more children {memory_after}");
    assert_eq!(stage.lives().len(), 221);
    let place = std::fs::read_dir(stage.scene.runtime().join("nostray")).expect("read").flatten();
    let left: Vec<_> = place.map(|entry| entry.file_name()).collect();
    assert!(left.len() <= 7, "two records, two locks, the journal and the kept output: {left:?}");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// With any limit of open files, either the session works, or the host is told what is wrong. There is never a second
/// child beside the first one, and no process stays.
#[test]
fn with_few_files_the_session_works_or_the_front_says_why() {
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
        // The front's last line may arrive after the test has seen its end.
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

/// The same for a limit of processes, whichever nostray process cannot be started.
#[test]
fn with_few_processes_the_session_works_or_the_front_says_why() {
    if !User::all().contains(&User::Nobody) {
        return; // needs a user with nothing else running
    }
    // A user id that no other process has: the limit counts all processes of a user.
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

/// When the directory for records is unusable, the child runs, contained, and is restarted.
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
            wait_until("the front has warned", || caller.errors().contains("contained, but not on record"));
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
    wait_until("the front has warned", || caller.errors().contains("not on record"));
    caller.end(&stage);
    assert_eq!(stage.lives().len(), 4);
}

/// The front names a process that it may not signal, does not wait for it, and starts no child beside it.
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
        wait_until("the process is root", || {
            // Its real, effective and saved user id.
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
        assert_eq!(stage.lives().len(), 1, "a second child was started beside it");
        let left = stage.scene.processes();
        assert_eq!(left.len(), 1, "only the process that may not be signalled is left: {left:#?}");
        left.iter().for_each(|found: &Found| found.send(nostray_sys::Signal::KILL));
        stage.scene.expect_empty();
    }
}
