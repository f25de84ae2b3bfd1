//! Twenty contenders for one slot, while hosts, fronts, spares, guards, children and waiters are killed and stopped at
//! random. These are a few rounds; `cargo run --release --bin nostray-bench -- race --slots` plays a thousand.

use badchild::contest::{self, Lookalikes, Plan, Programs, Tally};
use badchild::{Bystanders, Scene, User, badchild, random};
use std::sync::Mutex;
use testkit::{in_parallel, nostray};

/// Fixed seeds. With `NOSTRAY_LONG`, more of them, and random ones.
fn seeds() -> Vec<u64> {
    let (first, rounds) =
        if std::env::var_os("NOSTRAY_LONG").is_some() { (nostray_sys::process::random(), 300) } else { (6, 12) };
    (0..rounds).map(|round| random::seed_of_round(first, round)).collect()
}

#[test]
fn a_slot_never_has_two_holders_and_is_obtained_in_the_end_whichever_processes_are_killed_or_stopped() {
    let programs = Programs { nostray: nostray(), badchild: badchild() };
    let (bystanders, lookalikes) = (Bystanders::start(User::Current), Lookalikes::start(&programs));
    let (users, tally) = (User::all(), Mutex::new(Tally::default()));
    in_parallel(seeds(), |seed| {
        let plan = Plan::new(seed, &users);
        let scene = Scene::apart(plan.user);
        match contest::play(&programs, &plan, &scene) {
            Ok(outcome) => tally.lock().expect("no panic under the lock").add(&outcome),
            Err(trouble) => panic!("seed {seed}: {plan}\n  {trouble}"),
        }
        assert_eq!(lookalikes.hit(), Vec::<String>::new(), "seed {seed}");
    });
    bystanders.expect_untouched();
    let tally = tally.into_inner().expect("no panic under the lock");
    assert!(tally.holders > tally.rounds * 2, "the slot changed hands too rarely: {tally}");
}
