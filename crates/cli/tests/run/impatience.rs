//! One request to end counts once, however many processes it reaches. A log without a reader holds nothing up.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use badchild::{Folder, Scene, User, wait_until};
use nostray_sys::Signal;
use testkit::{nostray, own_processes, run_command, run_words};

fn wait_ready(process: &mut Child) {
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
}

/// A service manager, or `tree-kill`, signals every process of the tree.
#[test]
fn a_signal_to_all_nostray_processes_is_one_request() {
    for _ in 0..5 {
        let (scene, folder) = (Scene::new(User::Current), Folder::new("all"));
        let file = folder.path().join("flushed");
        let mut process =
            run_command(&scene, &[], &["slow", "300", &file.display().to_string()]).spawn().expect("start");
        wait_ready(&mut process);
        let own = own_processes(&scene);
        [own.front, own.spare, own.guard].iter().for_each(|found| found.send(Signal::TERM));
        process.wait().expect("wait");
        assert!(file.exists(), "the child was killed within its grace");
        scene.expect_empty();
    }
}

#[test]
fn a_signal_to_a_pen_around_a_pen_is_one_request() {
    for _ in 0..5 {
        let (scene, folder) = (Scene::new(User::Current), Folder::new("nested"));
        let file = folder.path().join("flushed");
        let inner = run_words(&[], &["slow", "300", &file.display().to_string()]);
        let mut outer = scene.command(&nostray());
        outer.args(["run", "--"]).args(&inner).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = outer.spawn().expect("start");
        wait_ready(&mut process);
        let front = badchild::Found::by_pid(badchild::pid(process.id() as i32)).expect("is there");
        front.send(Signal::TERM);
        process.wait().expect("wait");
        assert!(file.exists(), "the child was killed within its grace");
        scene.expect_empty();
    }
}

#[test]
fn a_log_without_a_reader_holds_nothing_up() {
    let (scene, folder) = (Scene::new(User::Current), Folder::new("fifo"));
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let options = ["--log-file", fifo.to_str().expect("text"), "--eof-grace", "0s", "--term-grace", "0s"];
    let refused = run_command(&scene, &options, &["exit", "0"]).stderr(Stdio::null()).status().expect("run");
    assert_eq!(refused.code(), Some(125), "a pipe without a reader must be refused");
    // Now the pipe is full, and its reader never reads.
    let reader = std::fs::File::options().read(true).write(true).open(&fifo).expect("open");
    let started = Instant::now();
    let mut process = run_command(&scene, &options, &["tree", "stubborn", "daemon"]).spawn().expect("start");
    wait_ready(&mut process);
    let fill = "dd if=/dev/zero of=\"$0\" oflag=nonblock bs=1 count=70000 2>/dev/null";
    std::process::Command::new("sh").args(["-c", fill]).arg(&fifo).status().expect("fill");
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("wait").code(), Some(137));
    assert!(started.elapsed() < Duration::from_secs(25));
    drop(reader);
    scene.expect_empty();
}

/// nostray's own messages exceed a limit on the size of files. The child must not get the signal.
#[test]
fn a_signal_that_nostrays_own_messages_cause_does_not_reach_the_child() {
    let (scene, folder) = (Scene::new(User::Current), Folder::new("fsize"));
    let words = std::fs::File::create(folder.path().join("words")).expect("create");
    let mut shell = scene.command("bash".as_ref());
    let script = "ulimit -f 0; exec \"$0\" run -v -- sh -c 'sleep 0.3; exit 5'";
    let status = shell.args(["-c", script]).arg(nostray()).stdin(Stdio::null()).stderr(words).status().expect("run");
    assert_eq!(status.code(), Some(5));
    scene.expect_empty();
}

#[test]
fn a_pen_inside_a_pen_starts_also_without_an_environment() {
    let scene = Scene::new(User::Current);
    let nostray = nostray();
    let mut outer = scene.command(&nostray);
    outer.args(["run", "--", "env", "-i", "PATH=/usr/bin:/bin"]).arg(&nostray).args(["run", "--", "echo", "hi"]);
    let output = outer.stdin(Stdio::null()).output().expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hi\n", "{}", String::from_utf8_lossy(&output.stderr));
    scene.expect_empty();
}

#[test]
fn a_proc_of_another_namespace_is_refused() {
    let scene = Scene::new(User::Current);
    let mut unshare = scene.command("unshare".as_ref());
    unshare
        .args(["--user", "--map-root-user", "--pid", "--fork"])
        .arg(nostray())
        .args(["run", "--", "echo", "started"]);
    let output = unshare.stdin(Stdio::null()).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()), "{said}");
    assert!(said.contains("--mount-proc"), "{said}");
    scene.expect_empty();
}

/// The child is stopped and continued faster than the guard can follow. In the end both front and child run.
#[test]
fn front_and_child_agree_on_whether_they_are_stopped() {
    let scene = Scene::new(User::Current);
    let mut process = run_command(&scene, &[], &["pause"]).spawn().expect("start");
    wait_ready(&mut process);
    let front = badchild::Found::by_pid(badchild::pid(process.id() as i32)).expect("is there");
    let child = scene.processes().into_iter().find(|found| found.stat.name == "badchild").expect("the child");
    let is_stopped =
        |found: &badchild::Found| nostray_sys::proc::Stat::of(found.stat.pid).is_some_and(|stat| stat.is_stopped());
    for _ in 0..200 {
        child.send(Signal::STOP);
        child.send(Signal::CONT);
    }
    wait_until("both run", || !is_stopped(&front) && !is_stopped(&child));
    front.send(Signal::TERM);
    assert_eq!(process.wait().expect("wait").code(), Some(143));
    scene.expect_empty();
}
