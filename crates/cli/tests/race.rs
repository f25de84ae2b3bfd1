//! One or two of nostray's own processes are killed at random moments, from the first microsecond on. A small number of
//! rounds; `cargo run --release -p nostray-bench -- race` plays thousands.

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::{Bystanders, Found, Scene, User, pid};
use common::{GRACES, in_parallel, run_command};
use nostray_sys::Signal;

/// Random numbers that come again with the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn whoever_of_us_is_killed_whenever_nobody_is_left() {
    let bystanders = Bystanders::start(User::Current);
    in_parallel((1..=120).collect(), |seed: u64| {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let users = User::all();
        let scene = Scene::new(users[random.below(users.len() as u64) as usize]);
        let kind = ["plain", "term-ignoring", "setsid", "daemon"][random.below(4) as usize];
        let manner = ["cooperative", "stubborn"][random.below(2) as usize];
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
        let ended = badchild::comes_true(badchild::PATIENCE, &mut || scene.everybody().is_empty());
        assert!(ended, "seed {seed}, {manner} {kind}: left are {:#?}", scene.everybody());
        process.wait().expect("reap");
    });
    bystanders.expect_untouched();
}

fn own(scene: &Scene, name: &str) -> Vec<Found> {
    scene.everybody().into_iter().filter(|found| found.stat.name == name).collect()
}

/// Lets so much time pass, more exactly than a sleep would.
fn pass(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}
