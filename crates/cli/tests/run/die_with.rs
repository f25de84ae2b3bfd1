//! `--die-with PID`: one more process whose end ends the pen.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use badchild::{Scene, User, badchild};
use nostray_sys::proc::Stat;
use testkit::{nostray, run_command};

fn pausing(scene: &Scene) -> Child {
    let mut process =
        scene.command(&badchild()).arg("pause").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("start");
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    process
}

#[test]
fn the_tree_ends_with_any_of_the_named_processes() {
    for which in 0..2 {
        let (scene, others) = (Scene::new(User::Current), Scene::new(User::Current));
        let mut processes = [pausing(&others), pausing(&others)];
        let numbers = processes.each_ref().map(|process| process.id().to_string());
        let options = ["--die-with", &numbers[0], "--die-with", &numbers[1], "--term-grace", "100ms"];
        let mut pen = run_command(&scene, &options, &["tree", "stubborn", "daemon"]).spawn().expect("start");
        BufReader::new(pen.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
        processes[which].kill().expect("kill");
        assert_eq!(pen.wait().expect("wait").code(), Some(137));
        scene.expect_empty();
        // Only now the pid may be reused: the pen, which watches it, is gone.
        processes[which].wait().expect("reap");
        let mut other = processes.into_iter().nth(1 - which).expect("the other one");
        assert!(other.try_wait().expect("look").is_none(), "the other named process was ended");
        other.kill().expect("kill");
        other.wait().expect("reap");
    }
}

/// A zombie has ended, although it still has its pid.
#[test]
fn a_process_that_has_ended_but_was_not_reaped_has_ended() {
    let scene = Scene::new(User::Current);
    let mut process = pausing(&scene);
    process.kill().expect("kill");
    let number = badchild::pid(i32::try_from(process.id()).expect("small"));
    badchild::wait_until("the process is a zombie", || Stat::of(number).is_some_and(|stat| stat.is_zombie()));
    let mut command = scene.command(&nostray());
    command.args(["run", "--die-with", &process.id().to_string(), "--", "echo", "started"]);
    let output = command.stdin(Stdio::null()).output().expect("run");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("has ended already"), "{output:?}");
    process.wait().expect("reap");
}
