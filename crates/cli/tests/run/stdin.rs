//! The end of standard input ends the pen. A missing standard input does not.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use badchild::{Scene, User, badchild};
use testkit::{GRACES, nostray, run_command, start_host};

#[test]
fn a_write_end_that_leaked_into_the_front_does_not_keep_the_pen_alive() {
    for stdin in ["pipe", "socket"] {
        let scene = Scene::new(User::Current);
        let mut host = start_host(&scene, &["--stdin", stdin, "--leak"], &GRACES, &["tree", "cooperative", "plain"]);
        host.ready();
        host.order("close");
        badchild::wait_until(&format!("the tree sees the end of its {stdin}"), || scene.processes().len() == 1);
        host.order("exit");
        scene.expect_empty();
    }
}

/// Without nostray the leak keeps the child alive; otherwise the test above would prove nothing.
#[test]
fn without_nostray_a_leaked_write_end_keeps_the_child_alive() {
    let scene = Scene::new(User::Current);
    let program = badchild().display().to_string();
    let command = [program.as_str(), "tree", "cooperative", "plain"];
    let mut host = badchild::Host::start(&scene, &["--leak"], &command);
    host.ready();
    host.order("close");
    // The child itself holds the write end, so it never sees the end of its input. It would see a closed pipe within
    // microseconds.
    let ended = badchild::comes_true(std::time::Duration::from_millis(300), &mut || scene.processes().len() < 3);
    assert!(!ended, "the leak has no effect");
}

#[test]
fn a_null_device_or_file_as_stdin_does_not_end_the_pen() {
    let file = std::fs::File::open("/etc/passwd").expect("open");
    for stdin in [Stdio::null(), Stdio::from(file)] {
        let scene = Scene::new(User::Current);
        let mut command = scene.command(&nostray());
        command.args(["run", "--eof-grace", "0s", "--term-grace", "0s", "--", "sh", "-c", "sleep 0.5; exit 3"]);
        assert_eq!(command.stdin(stdin).status().expect("run").code(), Some(3));
        scene.expect_empty();
    }
}

#[test]
fn a_stdin_that_is_closed_from_the_start_does_not_end_the_pen() {
    let scene = Scene::new(User::Current);
    let mut shell = scene.command("sh".as_ref());
    let script = "exec \"$0\" run --eof-grace 0s --term-grace 0s -- sh -c 'sleep 0.3; exit 3' <&-";
    assert_eq!(shell.args(["-c", script]).arg(nostray()).status().expect("run").code(), Some(3));
    scene.expect_empty();
}

/// The host closes stdin while the child still has bytes to read. The child reads them.
#[test]
fn bytes_that_were_written_before_the_end_are_still_read() {
    let scene = Scene::new(User::Current);
    let mut process = run_command(&scene, &["--eof-grace", "1m"], &["echo"]).spawn().expect("start");
    let text = vec![b'z'; 60_000];
    process.stdin.take().expect("piped").write_all(&text).expect("write");
    let output = process.wait_with_output().expect("wait");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), text.len()));
    scene.expect_empty();
}

/// Node gives its children socket pairs, and may close only the sending half.
#[test]
fn the_end_of_a_sockets_sending_half_is_the_end() {
    let scene = Scene::new(User::Current);
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("pair");
    let mut command = run_command(&scene, &GRACES, &["tree", "stubborn", "setsid"]);
    let mut process = command.stdin(std::os::fd::OwnedFd::from(theirs)).spawn().expect("start");
    drop(command);
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line, "ready\n");
    ours.shutdown(std::net::Shutdown::Write).expect("shut down");
    assert_eq!(process.wait().expect("wait").code(), Some(137));
    scene.expect_empty();
}
