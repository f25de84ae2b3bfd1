//! Signals reach the child as the host sent them.

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};

use badchild::{Folder, Found, Scene, User, badchild, pid, wait_until};
use nostray_sys::Signal;
use nostray_sys::proc::Stat;
use testkit::debugger::Debugger;
use testkit::puppet::wait_until_quiet;
use testkit::{nostray, own_processes, run_command};

fn wait_ready(process: &mut Child) {
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line, "ready\n");
}

fn child_of(scene: &Scene, guard: &Found) -> Found {
    let mut all = scene.processes().into_iter();
    all.find(|found| found.stat.parent == Some(guard.stat.pid)).expect("a child")
}

/// Waits for the end of the front, with a deadline, and returns its exit code.
fn code(process: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_until("the front ends", || {
        status = process.try_wait().expect("look");
        status.is_some()
    });
    status.and_then(|status| status.code())
}

fn front(process: &Child) -> Found {
    Found::by_pid(pid(i32::try_from(process.id()).expect("small"))).expect("is there")
}

#[test]
fn a_signal_that_the_host_sends_reaches_the_child_once() {
    let (scene, folder) = (Scene::new(User::Current), Folder::new("signals"));
    let file = folder.path().join("got");
    let mut command = run_command(&scene, &[], &["count-signals", &file.display().to_string()]);
    let mut process = command.spawn().expect("start");
    wait_ready(&mut process);
    let front = front(&process);
    let mut expected = String::new();
    for signal in [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT, Signal::TSTP, Signal::USR1] {
        front.send(signal);
        expected += &format!("{signal}\n");
        let so_far = expected.clone();
        // Two pending signals of the same number merge, so wait for each.
        wait_until("the child has the signal", || std::fs::read_to_string(&file).unwrap_or_default() == so_far);
    }
    front.send(Signal::TERM);
    assert_eq!(process.wait().expect("wait").code(), Some(0));
    assert_eq!(std::fs::read_to_string(&file).expect("read"), expected + "SIGTERM\n");
    scene.expect_empty();
}

/// A host makes a process group for its server and signals the group. The front passes the signal on. The child is not
/// in that group, or it would get every signal twice.
#[test]
fn a_signal_to_the_group_that_a_host_has_made_reaches_the_child_once() {
    for session in [false, true] {
        let (scene, folder) = (Scene::new(User::Current), Folder::new("group"));
        let file = folder.path().join("got");
        let manner = ["count-signals", &file.display().to_string()];
        let mut command = if session {
            let mut command = scene.command(&badchild());
            command.args(["leader", "--"]).args(testkit::run_words(&[], &manner));
            command
        } else if nostray_sys::process::has_terminal() {
            continue; // on a terminal the child shares the group, for the sake of job control
        } else {
            let mut command = run_command(&scene, &[], &manner);
            command.process_group(0);
            command
        };
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
        wait_ready(&mut process);
        let group = format!("-{}", process.id());
        let kill = |signal: &str| {
            let status = std::process::Command::new("kill").args([signal, "--", &group]).status().expect("kill");
            assert!(status.success());
        };
        kill("-USR1");
        wait_until("the child has the signal", || {
            std::fs::read_to_string(&file).is_ok_and(|got| got.contains("SIGUSR1"))
        });
        kill("-TERM");
        assert_eq!(process.wait().expect("wait").code(), Some(0));
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "SIGUSR1\nSIGTERM\n");
        scene.expect_empty();
    }
}

#[test]
fn an_interrupt_is_an_interrupt_for_the_child_and_not_a_termination() {
    for (signal, code) in [(Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::TERM, 143)] {
        let scene = Scene::new(User::Current);
        let mut process = run_command(&scene, &[], &["pause"]).spawn().expect("start");
        wait_ready(&mut process);
        front(&process).send(signal);
        assert_eq!(process.wait().expect("wait").code(), Some(code), "{signal}");
        scene.expect_empty();
    }
}

/// `nohup` and a shell's `&` ignore signals on behalf of the command, which may handle them again.
#[test]
fn a_signal_that_the_host_ignores_ends_nothing_but_reaches_the_child() {
    let (scene, folder) = (Scene::new(User::Current), Folder::new("ignored"));
    let file = folder.path().join("got");
    let mut command = scene.command("sh".as_ref());
    command.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"]).arg(nostray()).args(["run", "--"]);
    command.arg(badchild()).args(["count-signals", &file.display().to_string()]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    wait_ready(&mut process);
    let front = front(&process);
    for signal in [Signal::HUP, Signal::INT] {
        front.send(signal);
        wait_until("the child has the signal", || {
            std::fs::read_to_string(&file).is_ok_and(|got| got.contains(&signal.to_string()))
        });
    }
    own_processes(&scene);
    front.send(Signal::TERM);
    assert_eq!(process.wait().expect("wait").code(), Some(0));
    scene.expect_empty();
}

/// SIGABRT kills the front and is not passed on. The guard then ends the tree.
#[test]
fn the_tree_of_a_front_that_dies_of_sigabrt_ends() {
    let scene = Scene::new(User::Current);
    let mut process = run_command(&scene, &testkit::GRACES, &["tree", "stubborn", "setsid"]).spawn().expect("start");
    wait_ready(&mut process);
    front(&process).send(Signal::ABRT);
    assert_eq!(process.wait().expect("wait").signal(), Some(Signal::ABRT.as_raw()));
    scene.expect_empty();
}

/// The front learns of the child's stop only after the tree has ended. If it stopped itself then, no keeper would be
/// left to continue it.
#[test]
fn a_front_that_was_stopped_with_its_child_does_not_stop_again_after_the_childs_end() {
    let scene = Scene::new(User::Current);
    let mut process = run_command(&scene, &[], &["pause"]).spawn().expect("start");
    wait_ready(&mut process);
    let own = own_processes(&scene);
    let child = child_of(&scene, &own.guard);
    for found in [&own.front, &child] {
        found.send(Signal::STOP);
        wait_until("the process is stopped", || Stat::of(found.stat.pid).is_some_and(|stat| stat.is_stopped()));
    }
    // By then the guard has reported the stop to the front.
    wait_until_quiet(&own.guard);
    child.send(Signal::KILL);
    assert_eq!(code(&mut process), Some(137));
    scene.expect_empty();
}

/// A shell continues a job, and the job is stopped again before the guard has seen either.
#[test]
fn a_sigcont_does_not_undo_the_next_stop_of_the_child() {
    let scene = Scene::new(User::Current);
    let mut process = run_command(&scene, &[], &["pause"]).spawn().expect("start");
    wait_ready(&mut process);
    let own = own_processes(&scene);
    let child = child_of(&scene, &own.guard);
    let is_stopped = |found: &Found| Stat::of(found.stat.pid).is_some_and(|stat| stat.is_stopped());
    child.send(Signal::STOP);
    wait_until("both are stopped", || is_stopped(&child) && is_stopped(&own.front));
    wait_until_quiet(&own.guard);
    let mut debugger = Debugger::start(&scene);
    debugger.attach(std::slice::from_ref(&own.guard));
    child.send(Signal::CONT);
    own.front.send(Signal::CONT);
    wait_until("the child goes on", || !is_stopped(&child));
    // By then the front has passed SIGCONT on.
    wait_until_quiet(&own.front);
    child.send(Signal::STOP);
    wait_until("the child is stopped again", || is_stopped(&child));
    drop(debugger);
    wait_until("the front is stopped again", || is_stopped(&own.front));
    assert!(is_stopped(&child));
    child.send(Signal::KILL);
    assert_eq!(code(&mut process), Some(137));
    scene.expect_empty();
}

#[test]
fn a_stopped_guard_is_continued() {
    let scene = Scene::new(User::Current);
    let mut process = run_command(&scene, &testkit::GRACES, &["tree", "stubborn", "daemon"]).spawn().expect("start");
    wait_ready(&mut process);
    let own = own_processes(&scene);
    own.spare.send(Signal::STOP);
    own.guard.send(Signal::STOP);
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(137));
    scene.expect_empty();
}
