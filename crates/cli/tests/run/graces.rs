//! A tree gets its graces, and not more.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use badchild::{Folder, Found, Scene, User, pid};
use nostray_sys::Signal;
use testkit::{own_processes, run_command};

fn wait_ready(process: &mut Child) -> Found {
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line, "ready\n");
    Found::by_pid(pid(i32::try_from(process.id()).expect("small"))).expect("is there")
}

/// A child gets its grace to flush a database, also when keepers are killed meanwhile.
#[test]
fn the_graces_are_kept_whichever_keepers_are_killed_meanwhile() {
    for victim in ["no keeper", "front", "spare", "guard", "front and spare", "front and guard"] {
        let (scene, folder) = (Scene::new(User::Current), Folder::new("flush"));
        let file = folder.path().join("flushed");
        let options = ["--eof-grace", "100ms", "--term-grace", "20s"];
        let mut process =
            run_command(&scene, &options, &["slow", "700", &file.display().to_string()]).spawn().expect("start");
        wait_ready(&mut process);
        let own = own_processes(&scene);
        drop(process.stdin.take());
        for (name, found) in [("front", own.front), ("spare", own.spare), ("guard", own.guard)] {
            if victim.contains(name) {
                found.send(Signal::KILL);
            }
        }
        process.wait().expect("wait");
        scene.expect_empty();
        assert!(file.exists(), "{victim} killed: the child was killed before it had flushed");
    }
}

#[test]
fn a_stubborn_tree_is_gone_soon_after_its_graces_and_not_before() {
    let scene = Scene::new(User::Current);
    let options = ["--eof-grace", "400ms", "--term-grace", "600ms"];
    let mut process = run_command(&scene, &options, &["tree", "stubborn", "term-ignoring"]).spawn().expect("start");
    wait_ready(&mut process);
    let closed = Instant::now();
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(137));
    assert!(closed.elapsed() >= Duration::from_secs(1), "killed after {:?}", closed.elapsed());
    assert!(closed.elapsed() < Duration::from_secs(10), "took {:?}", closed.elapsed());
    scene.expect_empty();
}

#[test]
fn a_second_signal_ends_the_graces() {
    let scene = Scene::new(User::Current);
    let options = ["--eof-grace", "1h", "--term-grace", "1h"];
    let mut process = run_command(&scene, &options, &["tree", "stubborn", "daemon"]).spawn().expect("start");
    let front = wait_ready(&mut process);
    front.send(Signal::INT);
    front.send(Signal::TERM);
    assert_eq!(process.wait().expect("wait").code(), Some(137));
    scene.expect_empty();
}

#[test]
fn no_grace_means_at_once() {
    let scene = Scene::new(User::Current);
    let options = ["--eof-grace", "0s", "--term-grace", "0s"];
    let mut process = run_command(&scene, &options, &["tree", "stubborn", "setsid"]).spawn().expect("start");
    wait_ready(&mut process);
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(137));
    scene.expect_empty();
}

/// A `docker run -i` stops its container when its input ends; an early SIGTERM would leave the container behind.
#[test]
fn a_client_that_ends_with_its_input_never_sees_a_signal() {
    let (scene, folder) = (Scene::new(User::Current), Folder::new("docker"));
    let file = folder.path().join("signal");
    let script = format!("trap 'echo got one > {}' TERM INT HUP; echo ready; cat; sleep 0.5; exit 4", file.display());
    let mut command = scene.command(&testkit::nostray());
    command.args(["run", "--eof-grace", "20s", "--", "bash", "-c", &script]);
    let mut process =
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().expect("start");
    wait_ready(&mut process);
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(4));
    assert!(!file.exists(), "the child got a signal");
    scene.expect_empty();
}

#[test]
fn processes_that_a_child_leaves_behind_end_with_it_and_the_exit_code_stays() {
    for kind in ["plain", "term-ignoring", "setsid", "daemon", "holding-stdout"] {
        let scene = Scene::new(User::Current);
        let output = run_command(&scene, &["--no-sweep"], &["leave", kind, "7"]).output().expect("run");
        assert_eq!(output.status.code(), Some(7), "{kind}");
        scene.expect_empty_within(Duration::ZERO);
    }
}

#[test]
fn wrappers_in_wrappers_end_together() {
    let scene = Scene::new(User::Current);
    let badchild = badchild::badchild().display().to_string();
    let manner = ["wrap", "12", "--", &badchild, "tree", "stubborn", "daemon"];
    let options = [&testkit::GRACES[..], &["--no-sweep"]].concat();
    let mut process = run_command(&scene, &options, &manner).spawn().expect("start");
    wait_ready(&mut process);
    assert!(scene.processes().len() >= 25);
    drop(process.stdin.take());
    process.wait().expect("wait");
    scene.expect_empty_within(Duration::ZERO);
}

/// A stopped process cannot act on SIGTERM unless it is continued.
#[test]
fn a_stopped_child_is_continued_and_ends_by_sigterm() {
    let (scene, folder) = (Scene::new(User::Current), Folder::new("stopped"));
    let file = folder.path().join("flushed");
    let options = ["--eof-grace", "100ms", "--term-grace", "20s"];
    let mut process =
        run_command(&scene, &options, &["slow", "1", &file.display().to_string()]).spawn().expect("start");
    wait_ready(&mut process);
    for child in scene.those_with("slow").iter().filter(|found| found.stat.name == "badchild") {
        child.send(Signal::STOP);
        badchild::wait_until("the child is stopped", || child.is_stopped());
    }
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(0));
    assert!(file.exists());
    scene.expect_empty();
}
