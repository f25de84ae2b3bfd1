//! Tests that are hosts. Each is played in a process of its own: the test program, started once more for this one test. So it has
//! an environment and a registry of its own, and may do to its process what hosts do to theirs; and the test program
//! that started it sees what it has left behind.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part of it")]

pub mod any;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use badchild::{Folder, Found, PATIENCE, Scene, User, comes_true};
use nostray::{PenSpec, PenSpecBuilder};

/// The variable that tells a process to play the test, with the folder that is its own.
const FOLDER: &str = "NOSTRAY_TEST_FOLDER";
/// The variable with the folder in which the programs are.
const PROGRAMS: &str = "NOSTRAY_TEST_PROGRAMS";

/// Plays a test in a process of its own, in whose `PATH` nostray is, and sees that nothing is left of it. To be called by the test
/// itself: it goes by the name of the function in which `play` is written.
pub fn apart<F: FnOnce()>(play: F) {
    apart_with(|_, _| (), play, |_| ());
}

/// The same, with a change to how it is started, and a look at its folder afterwards.
pub fn apart_with<F: FnOnce()>(change: impl FnOnce(&mut Command, &Folder), play: F, look: impl FnOnce(&Folder)) {
    if let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) {
        play();
        std::fs::write(folder.join("played"), "").expect("write");
        return;
    }
    let name = std::any::type_name::<F>();
    let name = name.trim_end_matches("::{{closure}}").split_once("::").expect("a crate and a test").1;
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("apart"));
    let file = |name: &str| File::create(folder.path().join(name)).expect("make a file");
    let mut command = scene.command(&std::env::current_exe().expect("own path"));
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder.path()).env(PROGRAMS, programs()).env("PATH", path_with(programs()));
    command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
    change(&mut command, &folder);
    let mut process = command.spawn().expect("start the test");
    let mut status = None;
    // Only for what hangs: many of them play hundreds of rounds.
    let limit = if std::env::var_os("NOSTRAY_LONG").is_some() { PATIENCE * 60 } else { PATIENCE * 4 };
    comes_true(limit, &mut || {
        status = process.try_wait().expect("wait");
        status.is_some()
    });
    if status.is_none() {
        process.kill().and_then(|()| process.wait()).expect("kill the test");
    }
    let read =
        |name: &str| String::from_utf8_lossy(&std::fs::read(folder.path().join(name)).expect("read")).into_owned();
    let is_fine = status.is_some_and(|status| status.success()) && folder.path().join("played").exists();
    assert!(is_fine, "{name}: {status:?}\n{}\n{}", read("stdout"), read("stderr"));
    scene.expect_empty();
    look(&folder);
}

/// The folder in which `nostray` and `badchild` are.
pub fn programs() -> PathBuf {
    static PROGRAMS_FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let make = || match std::env::var_os(PROGRAMS) {
        Some(folder) => folder.into(),
        None => {
            let nostray = badchild::built(&["--bin", "nostray", "--examples"], "nostray");
            let (nostray, badchild) = (badchild::publish(&nostray), badchild::badchild());
            assert_eq!(nostray.parent(), badchild.parent());
            badchild.parent().expect("a folder").to_owned()
        }
    };
    PROGRAMS_FOLDER.get_or_init(make).clone()
}

/// An example program of this crate: built with the others.
pub fn example(name: &str) -> PathBuf {
    programs();
    let test = std::env::current_exe().expect("own path");
    test.ancestors().nth(2).expect("target/PROFILE/deps/test").join("examples").join(name)
}

/// `PATH` with this folder first.
pub fn path_with(folder: PathBuf) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path))).expect("no colon in it")
}

/// The folder of the test that is played in this process.
pub fn folder() -> PathBuf {
    std::env::var_os(FOLDER).expect("is played apart").into()
}

/// A file in it.
pub fn file(name: &str) -> PathBuf {
    folder().join(name)
}

/// `badchild MANNER`, with graces that are long enough to be told apart.
pub fn child(manner: &[&str]) -> PenSpecBuilder {
    let spec = PenSpec::builder(programs().join("badchild")).args(manner);
    spec.eof_grace(Duration::from_millis(150)).term_grace(Duration::from_millis(150))
}

/// The same, to be leased.
#[cfg(feature = "supervisor")]
pub fn leased(manner: &[&str]) -> nostray::LeaseSpecBuilder {
    let spec = nostray::LeaseSpec::builder(programs().join("badchild")).args(manner);
    spec.eof_grace(Duration::from_millis(150)).term_grace(Duration::from_millis(150))
}

/// A command `nostray WORDS`.
pub fn nostray(words: &[&str]) -> Command {
    let mut command = Command::new(programs().join("nostray"));
    command.args(words);
    command
}

/// The processes in the trees of children: all around this process but nostray's own.
pub fn trees() -> Vec<Found> {
    let is_own = |found: &Found| found.stat.name.starts_with("nostray") || found.command.contains("--nostray-guard");
    badchild::company().into_iter().filter(|found| !is_own(found)).collect()
}

/// nostray's own processes around this one.
pub fn keepers() -> Vec<Found> {
    let is_one = |found: &Found| {
        let name = found.stat.name.as_str();
        // Before a front has read what it is charged with, it has the name of the host's program.
        found.command.contains("--nostray-guard")
            || ["nostray-front", "nostray-spare", "nostray-guard"].contains(&name)
    };
    badchild::company().into_iter().filter(is_one).collect()
}

/// Waits until all of nostray's own processes around this one have settled: a moment after its start each lets go of the child's output,
/// and before that the front looks for what dead ones have left.
pub fn expect_settled() {
    let output = |keeper: &Found| std::fs::read_link(format!("/proc/{}/fd/1", keeper.stat.pid));
    let is_settled = |keeper: &Found| output(keeper).is_ok_and(|target| target == Path::new("/dev/null"));
    badchild::wait_until("they have settled", || keepers().iter().all(is_settled));
}

/// Waits until this process is alone, zombies not counted.
pub fn expect_alone() {
    badchild::comes_true(PATIENCE, &mut || badchild::company().is_empty());
    let left: Vec<_> = badchild::company().into_iter().map(|f| format!("{} {}", f.stat.pid, f.command)).collect();
    assert!(left.is_empty(), "still there: {left:#?}");
}

/// The children of this process that have ended and have not been reaped.
pub fn zombies() -> Vec<i32> {
    let ours = nostray_sys::process::getpid();
    let all = nostray_sys::proc::scan().unwrap_or_default().into_iter();
    let zombies = all.filter(|stat| stat.parent == Some(ours) && stat.is_zombie());
    zombies.map(|stat| stat.pid.as_raw_nonzero().get()).collect()
}
