//! Kills one or two keepers at random moments, from the first microsecond on. These are a few rounds; `cargo run
//! --release --bin nostray-bench -- race` plays thousands.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::random::Random;
use badchild::{Bystanders, Folder, Found, PATIENCE, Scene, User, pid};
use nostray_sys::Signal;
use testkit::{GRACES, in_parallel, run_command};

#[test]
fn no_process_is_left_when_one_or_two_keepers_are_killed_at_any_moment() {
    let bystanders = Bystanders::start(User::Current);
    in_parallel((1..=120).collect(), |seed: u64| {
        let mut random = Random::new(seed);
        let users = User::all();
        let scene = Scene::new(random.pick(&users));
        let kind = random.pick(&["plain", "term-ignoring", "setsid", "daemon"]);
        let manner = random.pick(&["cooperative", "stubborn"]);
        let mut process = run_command(&scene, &GRACES, &["tree", manner, kind])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start");
        let front = Found::by_pid(pid(i32::try_from(process.id()).expect("small"))).expect("is there");
        let tear_down = random.below(2) == 0;
        if tear_down {
            pass(Duration::from_micros(random.below(20_000)));
            drop(process.stdin.take());
        }
        pass(Duration::from_micros(random.below(if tear_down { 400_000 } else { 15_000 })));
        for _ in 0..=random.below(2) {
            match random.below(3) {
                0 => front.send(Signal::KILL),
                1 => own(&scene, "nostray-spare").iter().for_each(|found| found.send(Signal::KILL)),
                _ => own(&scene, "nostray-guard").iter().for_each(|found| found.send(Signal::KILL)),
            }
            pass(Duration::from_micros(random.below(50_000)));
        }
        drop(process.stdin.take());
        let ended = badchild::comes_true(PATIENCE, &mut || scene.processes().is_empty());
        assert!(ended, "seed {seed}, {manner} {kind}: these processes are left: {:#?}", scene.processes());
        process.wait().expect("reap");
    });
    bystanders.expect_untouched();
}

/// In its first moments, only the spare knows the guard. If the spare is killed then, the front has to find out that
/// the guard lives, and leave the tree to it: a front that ends the tree itself also kills the guard, and is then the
/// only keeper.
#[test]
fn a_spare_that_is_killed_in_the_first_moments_leaves_the_tree_to_the_guard() {
    in_parallel((0..80).collect(), |round: u64| {
        let scene = Scene::new(User::Current);
        let errors = Folder::new("errors");
        let errors = errors.path().join("stderr");
        let graces = ["--no-sweep", "--eof-grace", "20ms", "--term-grace", "50ms"];
        let mut process = run_command(&scene, &graces, &["tree", "stubborn", "term-ignoring"])
            .stdout(Stdio::null())
            .stderr(File::create(&errors).expect("a file"))
            .spawn()
            .expect("start");
        let front = Found::by_pid(pid(i32::try_from(process.id()).expect("small"))).expect("is there");
        // As soon as the spare has a guard.
        let only_child = |of: &Found| {
            let all =
                std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", of.stat.pid)).unwrap_or_default();
            all.split_whitespace().next()?.parse().ok().and_then(|number| Found::by_pid(pid(number)))
        };
        let begun = Instant::now();
        let spare = loop {
            assert!(begun.elapsed() < PATIENCE, "no guard");
            if let Some(spare) = only_child(&front)
                && only_child(&spare).is_some()
            {
                break spare;
            }
        };
        spare.send(Signal::KILL);
        // Around the moment when the graces are over.
        pass(Duration::from_micros(40_000 + 400 * round));
        front.send(Signal::KILL);
        let ended = badchild::comes_true(PATIENCE, &mut || scene.processes().is_empty());
        assert!(ended, "round {round}: these processes are left: {:#?}", scene.processes());
        process.wait().expect("reap");
        let said = std::fs::read_to_string(&errors).expect("read");
        assert!(!said.contains("the guard was killed"), "round {round}: {said}");
    });
}

fn own(scene: &Scene, name: &str) -> Vec<Found> {
    scene.processes().into_iter().filter(|found| found.stat.name == name).collect()
}

/// Waits for this time, more exactly than a sleep.
fn pass(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}
