//! What an operator does: look, stop, read the journal.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

use badchild::{Scene, User};
use common::{GRACES, nostray, run_command};

fn nostray_in(scene: &Scene, words: &[&str]) -> Output {
    scene.command(&nostray()).args(words).stdin(Stdio::null()).output().expect("run nostray")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn start(scene: &Scene, options: &[&str], manner: &[&str]) -> Child {
    let before = text(&nostray_in(scene, &["ps", "--json"]).stdout).matches("\"ready\"").count();
    let mut process = run_command(scene, &[&GRACES[..], options].concat(), manner).spawn().expect("start");
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    badchild::wait_until("it is on record", || {
        text(&nostray_in(scene, &["ps", "--json"]).stdout).matches("\"ready\"").count() == before + 1
    });
    process
}

#[test]
fn ps_finds_by_session_and_label_and_tells_scripts_by_its_exit_code() {
    let scene = Scene::apart(User::Current);
    assert_eq!(nostray_in(&scene, &["ps", "-q"]).status.code(), Some(1));
    let mut pens = [
        start(&scene, &["--session", "a", "--label", "k=1"], &["tree", "cooperative", "setsid"]),
        start(&scene, &["--session", "b", "--label", "k=1", "--label", "l=2"], &["pause"]),
    ];
    let count = |words: &[&str]| {
        let output = nostray_in(&scene, &[&["ps", "-q"], words].concat());
        (output.status.code(), text(&output.stdout).lines().count())
    };
    assert_eq!(count(&[]), (Some(0), 2));
    assert_eq!(count(&["--session", "a"]), (Some(0), 1));
    assert_eq!(count(&["--session", "c"]), (Some(1), 0));
    assert_eq!(count(&["--label", "k=1"]), (Some(0), 2));
    assert_eq!(count(&["--label", "k=1", "--label", "l=2"]), (Some(0), 1));
    let table = text(&nostray_in(&scene, &["ps", "--tree"]).stdout);
    assert!(table.lines().next().is_some_and(|line| line.starts_with("ID") && line.ends_with("COMMAND")), "{table}");
    assert!(table.contains("member setsid"), "{table}");
    let json = text(&nostray_in(&scene, &["ps", "--json", "--session", "a"]).stdout);
    for part in ["\"processes\": 2", "\"version\": 1", "\"session\": \"a\"", "\"state\": \"ready\""] {
        assert!(json.contains(part), "{part} is not in {json}");
    }
    let memory = json.lines().find_map(|line| line.trim().strip_prefix("\"memory\": ")).expect("memory");
    assert!(memory.trim_end_matches(',').parse::<u64>().expect("a number") > 50_000, "{json}");
    assert!(nostray_in(&scene, &["stop", "--all"]).status.success());
    for pen in &mut pens {
        pen.wait().expect("reap");
    }
    let all = text(&nostray_in(&scene, &["ps", "--all"]).stdout);
    assert_eq!(all.matches("it was asked to stop").count(), 2, "{all}");
    scene.expect_empty();
}

#[test]
fn stop_ends_what_was_meant_waits_for_it_and_says_how() {
    let scene = Scene::apart(User::Current);
    let mut meant = start(&scene, &["--session", "a"], &["tree", "stubborn", "daemon"]);
    let mut other = start(&scene, &["--session", "b"], &["pause"]);
    let output = nostray_in(&scene, &["stop", "--session", "a"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("SIGKILL") && said.contains("had to be killed"), "{said}");
    // It returns when all is over, and not before.
    assert_eq!(scene.those_with("stubborn").len(), 0);
    assert_eq!(meant.wait().expect("reap").code(), Some(137));
    assert!(other.try_wait().expect("look").is_none(), "another session was touched");
    let id = text(&nostray_in(&scene, &["ps", "-q"]).stdout).trim().to_owned();
    assert_eq!(nostray_in(&scene, &["stop", "no-such-id"]).status.code(), Some(1));
    let output = nostray_in(&scene, &["stop", &id[..4]]);
    assert!(output.status.success() && text(&output.stdout).starts_with(&id), "{output:?}");
    assert_eq!(other.wait().expect("reap").code(), Some(143));
    assert_eq!(nostray_in(&scene, &["stop", "--all"]).status.code(), Some(1), "there is nothing to stop");
    assert_eq!(nostray_in(&scene, &["stop"]).status.code(), Some(2), "nothing was chosen");
    scene.expect_empty();
}

#[test]
fn stop_now_has_no_patience() {
    let scene = Scene::apart(User::Current);
    let options = ["--eof-grace", "1h", "--term-grace", "1h"];
    let mut process = run_command(&scene, &options, &["tree", "stubborn", "setsid"]).spawn().expect("start");
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    badchild::wait_until("it is on record", || nostray_in(&scene, &["stop", "--all", "--now"]).status.success());
    assert_eq!(process.wait().expect("reap").code(), Some(137));
    scene.expect_empty();
}

#[test]
fn the_journal_tells_why_each_ended() {
    let scene = Scene::apart(User::Current);
    let mut process = start(&scene, &["--session", "s"], &["tree", "stubborn", "setsid"]);
    drop(process.stdin.take());
    process.wait().expect("reap");
    let refused = scene.command(&nostray()).args(["run", "--", "no-such-command"]).stderr(Stdio::null()).status();
    assert_eq!(refused.expect("run").code(), Some(127));
    let story = text(&nostray_in(&scene, &["log"]).stdout);
    let parts = [
        "started for session s",
        "ready: child",
        "stopping: stdin was closed",
        "2 did not end when asked",
        "was killed by SIGKILL",
        "nothing is left of it",
        "refused: cannot run 'no-such-command'",
    ];
    for part in parts {
        assert!(story.contains(part), "'{part}' is not in:\n{story}");
    }
    let json = text(&nostray_in(&scene, &["log", "--json"]).stdout);
    assert!(json.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{json}");
    assert!(json.contains("\"event\":\"stopping\",\"reason\":\"stdin-closed\""), "{json}");
    assert_eq!(text(&nostray_in(&scene, &["log", "--since", "2000-01-01T00:00:00Z"]).stdout), story);
    assert_eq!(text(&nostray_in(&scene, &["log", "--since", "2100-01-01T00:00:00Z"]).stdout), "");
    assert_eq!(text(&nostray_in(&scene, &["log", "no-such-id"]).stdout), "");
}

#[test]
fn log_follow_shows_what_happens() {
    let scene = Scene::apart(User::Current);
    let mut first = start(&scene, &[], &["pause"]);
    let mut follower = scene
        .command(&nostray())
        .args(["log", "--follow"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let mut until = |part: &str| while !lines.next().expect("goes on").expect("read").contains(part) {};
    until("ready");
    drop(first.stdin.take());
    until("stdin was closed");
    until("nothing is left of it");
    follower.kill().expect("kill");
    follower.wait().expect("reap");
    first.wait().expect("reap");
    scene.expect_empty();
}
