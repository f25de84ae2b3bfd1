//! `nostray wait`: by identity, for as long as the process that started it lives.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use badchild::{PATIENCE, Scene, User, badchild, wait_until};
use nostray_sys::Signal;
use nostray_sys::signal::send_to_own_child;
use testkit::nostray;

fn pausing(scene: &Scene) -> Child {
    let mut process =
        scene.command(&badchild()).arg("pause").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("start");
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    process
}

fn waiting(scene: &Scene, words: &[&str]) -> Command {
    let mut wait = scene.command(&nostray());
    wait.arg("wait").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wait
}

/// From then on it knows the process that started it.
fn expect_watching(host: &mut Child) {
    let mut line = String::new();
    BufReader::new(host.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert!(line.contains("watching"), "{line}");
}

#[test]
fn it_waits_until_the_process_has_ended_and_tells_programs_so() {
    let scene = Scene::new(User::Current);
    let mut process = pausing(&scene);
    let number = process.id().to_string();
    let mut wait = waiting(&scene, &["--json", &number]).spawn().expect("start");
    let mut said = BufReader::new(wait.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("read");
    assert_eq!(line, format!("{{\"event\":\"watching\",\"pid\":{number}}}\n"));
    assert!(wait.try_wait().expect("look").is_none());
    process.kill().expect("kill");
    // Not reaped yet: a zombie has ended.
    assert_eq!(wait.wait().expect("wait").code(), Some(0));
    line.clear();
    said.read_to_string(&mut line).expect("read");
    assert_eq!(line, format!("{{\"event\":\"ended\",\"pid\":{number}}}\n"));
    process.wait().expect("reap");
    scene.expect_empty();
}

#[test]
fn it_says_nothing_to_people_and_ends_with_75_if_the_time_is_over() {
    let scene = Scene::new(User::Current);
    let mut process = pausing(&scene);
    let output = waiting(&scene, &["--timeout", "100ms", &process.id().to_string()]).output().expect("run");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(75), b"".as_slice()), "{output:?}");
    process.kill().expect("kill");
    process.wait().expect("reap");
}

#[test]
fn what_is_no_process_is_an_error() {
    let scene = Scene::new(User::Current);
    for (words, why) in [
        (&["4194304999"][..], "not a process number"),
        (&["0"], "not a process number"),
        (&["4194304"], "there is no such process"),
        (&[], "required"),
        (&["1", "--parent-of", "1"], "cannot be used with"),
        (&["--term-grace", "1s", "1"], "--end-caller"),
    ] {
        let output = waiting(&scene, words).output().expect("run");
        assert!(!output.status.success(), "{words:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{words:?}: {said}");
    }
}

/// A watcher must not be the next stray.
#[test]
fn it_ends_with_the_process_that_started_it() {
    let scene = Scene::new(User::Current);
    let mut host = scene.command("bash".as_ref());
    host.args(["-c", "\"$0\" wait --json $PPID & read"]).arg(nostray()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut host = host.spawn().expect("start");
    expect_watching(&mut host);
    host.kill().expect("kill");
    host.wait().expect("reap");
    scene.expect_empty();
}

/// A program that hangs, and does not even handle SIGTERM, does not outlive the process that started it.
#[test]
fn the_caller_is_ended_when_its_parent_has_ended() {
    for (before, script, is_stubborn) in [("", "sleep 1000", false), ("trap '' TERM;", "while :; do :; done", true)] {
        let scene = Scene::new(User::Current);
        let caller = format!("{before} \"$0\" wait --json --parent-of $$ --end-caller --term-grace 300ms & {script}");
        let mut parent = scene.command("bash".as_ref());
        parent
            .args(["-c", "bash -c \"$1\" \"$0\" & read"])
            .arg(nostray())
            .arg(caller)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut parent = parent.spawn().expect("start");
        expect_watching(&mut parent);
        let began = Instant::now();
        send_to_own_child(badchild::pid(i32::try_from(parent.id()).expect("small")), Signal::KILL).expect("kill");
        parent.wait().expect("reap");
        // `sleep` is the caller's child and not ours to end.
        wait_until("the caller is gone", || scene.those_with("--parent-of").is_empty());
        assert!(began.elapsed() < PATIENCE);
        if is_stubborn {
            assert!(began.elapsed().as_millis() >= 300, "the grace was cut short: {:?}", began.elapsed());
        }
    }
}
