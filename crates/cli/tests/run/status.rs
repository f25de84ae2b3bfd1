//! `--status-fd`: what a host that is a program is told of its child.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use badchild::{Folder, Scene, User, badchild};
use serde_json::{Value, json};
use testkit::{GRACES, nostray, own_processes};

/// A command `nostray WORDS`, whose status lines go to the test's pipe in place of the child's output.
fn command(scene: &Scene, words: &[&str]) -> Command {
    let mut shell = scene.command("bash".as_ref());
    shell.args(["-c", "exec \"$0\" \"$@\" 9>&1 >/dev/null"]).arg(nostray()).args(words);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

fn lines(text: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(text).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn events(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["event"].as_str().expect("an event")).collect()
}

/// Runs it to its end, with stdin open all the time.
fn run(scene: &Scene, words: &[&str]) -> (Output, Vec<Value>) {
    let mut started = command(scene, words).spawn().expect("start");
    let stdin = started.stdin.take();
    let output = started.wait_with_output().expect("wait");
    drop(stdin);
    let said = lines(&output.stdout);
    (output, said)
}

#[test]
fn the_host_is_told_from_the_start_to_the_empty_tree() {
    let scene = Scene::apart(User::Current);
    let (output, said) = run(&scene, &["run", "--status-fd", "9", "--", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(events(&said), ["started", "executed", "ready", "exited", "empty"], "{said:#?}");
    assert!(said[0]["pid"].as_i64().is_some_and(|pid| pid > 1), "{said:#?}");
    let log = scene.command(&nostray()).args(["log", "--json"]).output().expect("log").stdout;
    let id = said[0]["id"].as_str().expect("an id");
    assert!(String::from_utf8_lossy(&log).contains(id), "the journal does not know {id}");
    assert_eq!(said[3], json!({ "event": "exited", "code": 3 }));
    scene.expect_empty();
}

#[test]
fn a_signal_is_told_from_an_exit_code_above_128() {
    let scene = Scene::apart(User::Current);
    for (script, exited) in [("kill -9 $$", json!({ "signal": 9 })), ("exit 137", json!({ "code": 137 }))] {
        let (output, said) = run(&scene, &["run", "--status-fd", "9", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(137));
        let last = said.iter().find(|line| line["event"] == "exited").expect("it exited");
        for (member, value) in exited.as_object().expect("an object") {
            assert_eq!(&last[member], value, "{last}");
        }
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_told_with_the_systems_number_and_not_on_stderr() {
    let scene = Scene::apart(User::Current);
    for (program, errno, code) in [("no-such-program", 2, 127), ("/etc/passwd", 13, 126), ("/etc", 13, 126)] {
        let (output, said) = run(&scene, &["run", "--status-fd", "9", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{program}");
        let failed = said.iter().find(|line| line["event"] == "not-executed").expect("it was told");
        assert_eq!(failed["errno"], errno, "{failed}");
        assert!(failed["text"].as_str().is_some_and(|text| text.contains(program)), "{failed}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn the_child_does_not_have_the_descriptor() {
    let scene = Scene::apart(User::Current);
    let script = "ls /proc/$$/fd >&2";
    let (output, _) = run(&scene, &["run", "--status-fd", "9", "--", "sh", "-c", script]);
    let had: Vec<_> = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
    assert!(!had.is_empty() && !had.contains(&"9".to_owned()), "{had:?}");
}

fn first_lines(started: &mut Child, until: &str) -> BufReader<std::process::ChildStdout> {
    let mut status = BufReader::new(started.stdout.take().expect("piped"));
    loop {
        let mut line = String::new();
        assert!(status.read_line(&mut line).expect("read") > 0, "it ended before {until}");
        if line.contains(until) {
            return status;
        }
    }
}

/// The end of file is the host's proof, also if the process that the host started was killed.
#[test]
fn the_descriptor_is_closed_when_the_tree_is_empty_and_not_before() {
    for user in User::all() {
        let scene = Scene::apart(user);
        let badchild = badchild().display().to_string();
        let words =
            [&["run", "--status-fd", "9"], &GRACES[..], &["--", &badchild, "tree", "stubborn", "daemon"]].concat();
        let mut started = command(&scene, &words).spawn().expect("start");
        let stdin = started.stdin.take();
        let mut status = first_lines(&mut started, "\"ready\"");
        let own = own_processes(&scene);
        badchild::wait_until("the tree is there", || scene.those_with("badchild").len() >= 3);
        own.front.send(nostray_sys::Signal::KILL);
        let mut rest = Vec::new();
        status.read_to_end(&mut rest).expect("read");
        let left = scene.those_with("badchild");
        assert!(left.is_empty(), "the descriptor was closed before these had ended: {left:#?}");
        let said = lines(&rest);
        assert_eq!(events(&said), ["stopping", "exited", "empty"], "{said:#?}");
        assert_eq!(said[0]["reason"], "front-killed");
        started.wait().expect("reap");
        drop(stdin);
        scene.expect_empty();
    }
}

#[test]
fn a_host_that_does_not_read_holds_up_no_guard() {
    let scene = Scene::apart(User::Current);
    let folder = Folder::new("status");
    let pipe = folder.path().join("pipe");
    // Full before nostray starts, and never read.
    let script = "mkfifo \"$0\"; exec 9<>\"$0\"; timeout 1 head -c 200000 /dev/zero >&9; exec \"$@\"";
    let mut shell = scene.command("bash".as_ref());
    shell.args(["-c", script]).arg(&pipe).arg(nostray()).args([
        "run",
        "--status-fd",
        "9",
        "--",
        "sh",
        "-c",
        "exit 4",
    ]);
    assert_eq!(shell.stdin(Stdio::null()).status().expect("run").code(), Some(4));
    scene.expect_empty();
}

#[test]
fn a_slot_that_is_taken_is_told() {
    let scene = Scene::apart(User::Current);
    let mut holder =
        command(&scene, &["run", "--status-fd", "9", "--slot", "db", "--", "cat"]).spawn().expect("start");
    let status = first_lines(&mut holder, "\"ready\"");
    let (output, said) =
        run(&scene, &["run", "--status-fd", "9", "--slot", "db", "--if-taken", "fail", "--", "true"]);
    assert_eq!(output.status.code(), Some(75));
    assert_eq!(events(&said), ["refused"], "{said:#?}");
    let waits = ["run", "--status-fd", "9", "--slot", "db", "--wait-timeout", "300ms", "--", "true"];
    let (output, said) = run(&scene, &waits);
    assert_eq!(output.status.code(), Some(75));
    assert_eq!(events(&said), ["waiting", "refused"], "{said:#?}");
    assert_eq!(said[0]["slot"], "db");
    drop(holder.stdin.take());
    assert_eq!(holder.wait().expect("reap").code(), Some(0));
    drop(status);
    scene.expect_empty();
}

#[test]
fn a_descriptor_that_nostray_cannot_write_to_is_refused() {
    let scene = Scene::apart(User::Current);
    for (number, why) in
        [("1", "0, 1 and 2 are the child's"), ("8", "Bad file descriptor"), ("7", "opened it for writing")]
    {
        let mut shell = scene.command("bash".as_ref());
        shell
            .args(["-c", "exec \"$0\" run --status-fd \"$1\" -- echo started 7</dev/null"])
            .arg(nostray())
            .arg(number);
        let output = shell.stdin(Stdio::null()).output().expect("run");
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why) && said.contains("--status-fd"), "{said}");
    }
}

#[test]
fn the_command_can_be_called_by_another_name() {
    let scene = Scene::apart(User::Current);
    let mut run = scene.command(&nostray());
    run.args(["run", "--argv0", "-login", "--", "sh", "-c", "tr '\\0' ' ' </proc/$$/cmdline"]);
    let output = run.stdin(Stdio::null()).output().expect("run");
    assert!(output.stdout.starts_with(b"-login -c "), "{output:?}");
}
