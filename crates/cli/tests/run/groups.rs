//! No control group of a dead pen stays, and no other group is touched. When the limit of open files is reached, a
//! failed start leaves nothing either.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use badchild::{Scene, User, badchild, wait_until};
use nostray_sys::cgroup::Cgroup;
use testkit::nostray;

/// A control group of the test's own, in which it starts all processes: all groups below it are the test's.
struct Group(PathBuf);

impl Group {
    /// `None` where this user may not create control groups.
    fn new() -> Option<Self> {
        let group =
            Cgroup::create(&format!("test-{}-{}", std::process::id(), nostray_sys::process::random())).ok()?;
        Some(Self(group.path().to_owned()))
    }

    fn make(&self, name: &str, is_old: bool) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir(&path).expect("make a group");
        if is_old {
            make_old(&path);
        }
        path
    }

    /// The groups of pens in it.
    fn pens(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).expect("read").map(|entry| entry.expect("an entry").path());
        entries.filter(|path| path.is_dir() && path.display().to_string().contains("/nostray-")).collect()
    }

    /// A command of a scene, started in this group.
    fn command(&self, scene: &Scene, words: &[&str]) -> Command {
        let mut command = scene.command("sh".as_ref());
        let procs = self.0.join("cgroup.procs").display().to_string();
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\"", &procs]).args(words);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        badchild::comes_true(Duration::from_secs(5), &mut || {
            if let Ok(group) = Cgroup::open(&self.0) {
                group.remove();
            }
            !self.0.exists()
        });
    }
}

fn make_old(path: &Path) {
    assert!(Command::new("touch").args(["-d", "2 minutes ago"]).arg(path).status().expect("touch").success());
}

fn wait_for_output(child: Child) -> Output {
    child.wait_with_output().expect("wait")
}

#[test]
fn empty_groups_of_dead_pens_are_removed_by_the_next_run_and_by_a_sweep_and_no_others_are() {
    let Some(group) = Group::new() else { return };
    let nostray = nostray().display().to_string();
    for words in [&["run", "--", "cat"][..], &["run", "--respawn", "--", "cat"], &["sweep"]] {
        let scene = Scene::apart(User::Current);
        let debris = [group.make("nostray-00000000", true), group.make("nostray-0123abcd.17", true)];
        std::fs::create_dir(debris[0].join("inner")).expect("make a group");
        make_old(&debris[0]);
        let others = [
            group.make("nostray-00000001", false),
            group.make("nostray-other", true),
            group.make("nostray-0000000u", true),
            group.make("nostray-00000002.x", true),
            group.make("else-00000000", true),
        ];
        let busy = group.make("nostray-00000003", true);
        std::fs::create_dir(busy.join("empty")).expect("make a group");
        let mut member = scene.command(&badchild()).arg("pause").stdout(Stdio::null()).spawn().expect("start");
        std::fs::write(busy.join("cgroup.procs"), member.id().to_string()).expect("move");
        make_old(&busy);
        let words: Vec<&str> = std::iter::once(nostray.as_str()).chain(words.iter().copied()).collect();
        let mut process =
            group.command(&scene, &words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("start");
        wait_until(&format!("{words:?} removes what dead pens left"), || !debris.iter().any(|path| path.exists()));
        drop(process.stdin.take());
        assert!(process.wait().expect("reap").success());
        for path in others.iter().chain([&busy, &busy.join("empty")]) {
            assert!(path.exists(), "{words:?}: {} was removed", path.display());
        }
        member.kill().expect("kill");
        member.wait().expect("reap");
        scene.expect_empty();
        for path in others.iter().chain([&busy.join("empty"), &busy]) {
            wait_until("the group can be removed", || std::fs::remove_dir(path).is_ok());
        }
    }
}

/// Kills the front at many moments of its start.
#[test]
fn groups_of_a_front_that_was_killed_while_it_started_are_removed() {
    let Some(group) = Group::new() else { return };
    let nostray = nostray().display().to_string();
    let scene = Scene::apart(User::Current);
    for round in 0..60u64 {
        let mut process = group.command(&scene, &[&nostray, "run", "--no-sweep", "--", "true"]);
        let mut process = process.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("start");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(round * 200) {
            std::hint::spin_loop();
        }
        process.kill().expect("kill");
        process.wait().expect("reap");
    }
    scene.expect_empty();
    group.pens().iter().for_each(|path| make_old(path));
    assert!(group.command(&scene, &[&nostray, "sweep"]).stdout(Stdio::null()).status().expect("run").success());
    assert_eq!(group.pens(), Vec::<PathBuf>::new());
}

/// With each limit, the command works, or says what is wrong and what to do, and leaves nothing.
#[test]
fn with_too_few_open_files_the_front_says_so_and_leaves_nothing() {
    let group = Group::new();
    let nostray = nostray().display().to_string();
    for words in
        [&["run", "--", "true"][..], &["run", "--respawn", "--", "true"], &["run", "--slot", "s", "--", "true"]]
    {
        // With a limit of three, the dynamic loader cannot load the program.
        let (mut worked, mut refused) = (0, 0);
        for limit in 4..=28 {
            let scene = Scene::apart(User::Current);
            let limit = format!("--nofile={limit}");
            let all: Vec<&str> = ["prlimit", &limit, &nostray].into_iter().chain(words.iter().copied()).collect();
            let mut command = match &group {
                Some(group) => group.command(&scene, &all),
                None => {
                    let mut command = scene.command(all[0].as_ref());
                    command.args(&all[1..]);
                    command
                }
            };
            let output = wait_for_output(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("start"));
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                worked += 1;
                assert_eq!(said, "", "{all:?}");
            } else {
                refused += 1;
                assert_eq!(output.status.code(), Some(125), "{all:?}: {said}");
                assert!(said.contains("files") && said.contains("ulimit -n"), "{all:?}: {said}");
                assert!(!said.contains("/proc") && said.lines().count() == 1, "{all:?}: {said}");
            }
            scene.expect_empty();
            let left = std::fs::read_dir(scene.runtime().join("nostray")).into_iter().flatten().flatten();
            let left: Vec<_> = left.map(|file| file.file_name()).filter(|name| name != "journal").collect();
            assert!(left.is_empty(), "{all:?}: {left:?}");
            assert_eq!(group.as_ref().map(Group::pens).unwrap_or_default(), Vec::<PathBuf>::new(), "{all:?}");
        }
        assert!(worked > 2 && refused > 2, "{words:?}: {worked} worked, {refused} were refused");
    }
}

#[test]
fn ps_and_stop_say_that_too_few_files_may_be_open() {
    let scene = Scene::apart(User::Current);
    let mut pen = testkit::run_command(&scene, &[], &["pause"]).spawn().expect("start");
    wait_until("the pen is on record", || {
        let shown = scene.command(&nostray()).args(["ps", "-q"]).output().expect("run");
        shown.status.success()
    });
    for words in [&["ps", "-q"][..], &["stop", "no-such-id"]] {
        let plain = scene.command(&nostray()).args(words).output().expect("run");
        for limit in 4..=20 {
            let mut command = scene.command("prlimit".as_ref());
            let output = command.arg(format!("--nofile={limit}")).arg(nostray()).args(words).output().expect("run");
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.code() == Some(125) {
                assert!(said.contains("files") && said.contains("ulimit -n"), "{limit} {words:?}: {said}");
            } else {
                assert_eq!(output, plain, "{limit} {words:?}");
            }
        }
    }
    drop(pen.stdin.take());
    pen.kill().expect("kill");
    pen.wait().expect("reap");
    scene.expect_empty();
}
