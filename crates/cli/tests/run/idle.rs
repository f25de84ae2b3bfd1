//! `--idle-timeout`: an idle tree is ended, and a tree that works is not.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::{Scene, User};
use testkit::{nostray, run_command};

#[test]
fn an_idle_tree_is_ended_and_the_front_says_why() {
    for user in User::all() {
        for isolate in [&[][..], &["--isolate", "pid"]] {
            let scene = Scene::new(user);
            let options = [&["--idle-timeout", "600ms"], isolate].concat();
            let mut command = run_command(&scene, &options, &["tree", "cooperative", "setsid"]);
            let started = Instant::now();
            let mut process = command.stderr(Stdio::piped()).spawn().expect("start");
            let mut said = String::new();
            process.stderr.take().expect("piped").read_to_string(&mut said).expect("read");
            // The host still holds stdin, so the end of input did not end the tree.
            assert_eq!(process.wait().expect("wait").code(), Some(143), "{said}");
            assert!(said.contains("nostray: idle for 600ms"), "{said}");
            assert!(started.elapsed() >= Duration::from_millis(600));
            scene.expect_empty();
        }
    }
}

#[test]
fn a_message_now_and_then_keeps_the_tree_alive() {
    let scene = Scene::new(User::Current);
    let mut process = run_command(&scene, &["--idle-timeout", "3s"], &["echo"]).spawn().expect("start");
    let mut input = process.stdin.take().expect("piped");
    let mut output = BufReader::new(process.stdout.take().expect("piped"));
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(4500) {
        std::thread::sleep(Duration::from_millis(300)); // the pace of a host with few messages
        input.write_all(b"hello\n").expect("the server is alive");
        let mut line = String::new();
        output.read_line(&mut line).expect("read");
        assert_eq!(line, "hello\n", "ended after {:?}", started.elapsed());
    }
    assert_eq!(process.wait().expect("wait").code(), Some(143));
    scene.expect_empty();
}

/// CPU time of a descendant counts like that of the child, also when it moves no byte.
#[test]
fn a_descendant_that_computes_keeps_the_tree_alive() {
    let scene = Scene::new(User::Current);
    let mut command = scene.command(&nostray());
    let script = "setsid sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; exec sleep 100' & exec sleep 100";
    command.args(["run", "--idle-timeout", "400ms", "--", "sh", "-c", script]);
    let status = command.stdin(Stdio::null()).stderr(Stdio::null()).status().expect("run");
    assert_eq!(status.code(), Some(143));
    scene.expect_empty();
}
