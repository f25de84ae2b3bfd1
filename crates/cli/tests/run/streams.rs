//! Streams with any bytes and any amount, and hosts that do not read.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use badchild::{Scene, User};
use testkit::{GRACES, run_command};

#[test]
fn a_line_of_64_mebibytes_passes() {
    let scene = Scene::new(User::Current);
    let length = 64 << 20;
    let mut process =
        run_command(&scene, &["--eof-grace", "1m"], &["long-line", &length.to_string()]).spawn().expect("start");
    process.stdin.as_mut().expect("piped").write_all(b"request\n").expect("write");
    let mut output = BufReader::new(process.stdout.take().expect("piped"));
    let mut line = Vec::new();
    output.read_until(b'\n', &mut line).expect("read");
    assert_eq!(line.len(), length + 1);
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(0));
    scene.expect_empty();
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let scene = Scene::new(User::Current);
    let mut process = run_command(&scene, &["--eof-grace", "1m"], &["echo"]).spawn().expect("start");
    let bytes: Vec<u8> = (0..=255u8).cycle().take(40_000).collect();
    process.stdin.take().expect("piped").write_all(&bytes).expect("write");
    let mut back = Vec::new();
    process.stdout.take().expect("piped").read_to_end(&mut back).expect("read");
    assert!(back == bytes);
    process.wait().expect("wait");
    scene.expect_empty();
}

/// The host has stopped reading stdout and stderr. nostray writes to stderr, and must not wait for the host.
#[test]
fn a_host_that_does_not_read_does_not_keep_the_tree_alive() {
    let scene = Scene::new(User::Current);
    let mut command = run_command(&scene, &[&GRACES[..], &["-v"]].concat(), &["flood"]);
    let mut process = command.stderr(Stdio::piped()).spawn().expect("start");
    let (output, errors) = (process.stdout.take(), process.stderr.take());
    badchild::wait_until("the child is stuck", || {
        let flooding = scene.processes().into_iter().find(|found| found.stat.name == "badchild");
        flooding.is_some_and(|found| nostray_sys::proc::bytes_moved(found.stat.pid).is_some_and(|n| n > 120_000))
    });
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(143));
    scene.expect_empty();
    drop((output, errors));
}

/// The host has closed stderr. nostray's first message must not kill the guard by SIGPIPE, nor block it.
#[test]
fn a_host_that_has_closed_stderr_does_not_keep_the_tree_alive() {
    let scene = Scene::new(User::Current);
    let mut command = run_command(&scene, &[&GRACES[..], &["-v"]].concat(), &["tree", "stubborn", "daemon"]);
    let mut process = command.stderr(Stdio::piped()).spawn().expect("start");
    drop(process.stderr.take());
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(137));
    scene.expect_empty();
}
