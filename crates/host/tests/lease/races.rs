//! Two things at once, thousands of times (`NOSTRAY_LONG=1`; a few of them every day). What is asserted is what the children themselves
//! have found: a lock that the whole tree of a child holds, which the next one would find taken, and the list of all that ever held it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use badchild::random::{Random, seed_of_round};
use badchild::{Found, PATIENCE, pid, wait_until};
use nostray::{CallError, IfTaken, Lease, LeaseSpec, LeaseSpecBuilder, Supervisor};
use nostray_sys::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::apart::apart;
use crate::children::{Claim, build, in_time, ms, pid_of, rounds, runtime};

/// Both at the same moment, give or take what luck adds.
fn at_once<A: Send, B: Send>(
    runtime: &Runtime,
    random: &mut Random,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    let barrier = Barrier::new(2);
    // Mostly as near as can be; sometimes with as much between them as the steps of a start or of an end take.
    let mut pause =
        || Duration::from_micros(random.pick(&[0, 0, 0, 0, 20, 100, 500, 2_000, 5_000]) * random.below(2));
    let (before_one, before_other) = (pause(), pause());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _inside = runtime.enter();
            barrier.wait();
            spin(before_other);
            other()
        });
        let _inside = runtime.enter();
        barrier.wait();
        spin(before_one);
        let one = one();
        (one, other.join().expect("no panic"))
    })
}

/// A sleep would take longer than what is raced for.
fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// With graces so short that thousands of ends can be waited for.
fn quick(spec: LeaseSpecBuilder) -> LeaseSpecBuilder {
    spec.eof_grace(ms(40)).term_grace(ms(20)).max_failures("1000/1s".parse().expect("right"))
}

fn kind(random: &mut Random) -> Option<&'static str> {
    random.pick(&[None, None, Some("plain"), Some("daemon"), Some("term-ignoring")])
}

/// Kills the process that answers, if it is still there.
fn kill(number: i64) {
    if let Some(found) = i32::try_from(number).ok().and_then(|number| Found::by_pid(pid(number))) {
        found.send(Signal::KILL);
    }
}

/// All leases are dropped: when the supervisor is empty, no process is left, and none ever comes back.
fn expect_over(supervisor: &Supervisor, claim: &Claim) -> usize {
    wait_until("the supervisor has forgotten it", || supervisor.is_empty());
    assert!(claim.is_free(), "forgotten, but not gone: {:#?}", claim.those());
    claim.expect_never_two();
    claim.holders()
}

/// After all rounds: what was over stayed so.
fn expect_still_over(all: &[(Claim, usize)]) {
    // A pause between a failure and the next start is four milliseconds at most.
    std::thread::sleep(ms(100));
    for (claim, holders) in all {
        assert_eq!(claim.holders(), *holders, "revived without a lease: {}", claim.folder().display());
        claim.expect_never_two();
    }
    crate::apart::expect_alone();
}

const SEED: u64 = 7;

#[test]
fn the_last_release_against_a_new_lease() {
    apart(|| {
        let (runtime, supervisor) = (runtime(), Supervisor::new());
        let mut over = Vec::new();
        for stage in 0..5 {
            let mut random = Random::new(seed_of_round(SEED, stage));
            let claim = Claim::new(&format!("claim{stage}"));
            let spec = build(quick(claim.server([None, None, Some("plain"), Some("daemon"), None][stage as usize])));
            let mut lease = runtime.block_on(async { supervisor.lease(&spec).expect("a lease") });
            for round in 0..rounds(12, 600) {
                if random.percent(80) {
                    runtime.block_on(pid_of(&lease)); // otherwise it may be just starting
                }
                let take = || supervisor.lease(&spec).expect("a lease");
                let ((), next) = at_once(&runtime, &mut random, || drop(lease), take);
                if random.percent(20) {
                    // A lease that comes and goes in between.
                    let (_, ()) = at_once(&runtime, &mut random, take, || drop(next.clone()));
                }
                // A lease has a child.
                runtime.block_on(pid_of(&next));
                assert_eq!(supervisor.len(), 1, "round {round}");
                claim.expect_never_two();
                lease = next;
            }
            drop(lease);
            let holders = expect_over(&supervisor, &claim);
            over.push((claim, holders));
        }
        expect_still_over(&over);
    });
}

/// A round that has a child of its own, which answers.
struct Round<'a> {
    runtime: &'a Runtime,
    supervisor: &'a Supervisor,
    random: Random,
    claim: &'a Claim,
    spec: &'a LeaseSpec,
    /// Of the process that answers.
    number: i64,
}

/// Plays so many; each lets go of the lease that it is given.
fn in_rounds(count: usize, play: impl Fn(Round<'_>, Lease)) {
    let (runtime, supervisor) = (runtime(), Supervisor::new());
    let mut over = Vec::new();
    for round in 0..count {
        let mut random = Random::new(seed_of_round(SEED, round as u64));
        let claim = Claim::new(&format!("claim{round}"));
        let spec = build(quick(claim.server(kind(&mut random))));
        let lease = runtime.block_on(async { supervisor.lease(&spec).expect("a lease") });
        let number = runtime.block_on(pid_of(&lease));
        let (runtime, supervisor) = (&runtime, &supervisor);
        play(Round { runtime, supervisor, random, claim: &claim, spec: &spec, number }, lease);
        let holders = expect_over(supervisor, &claim);
        over.push((claim, holders));
    }
    expect_still_over(&over);
}

#[test]
fn a_respawn_against_the_last_release() {
    apart(|| {
        in_rounds(rounds(60, 3000), |mut round, lease| {
            at_once(round.runtime, &mut round.random, || kill(round.number), || drop(lease));
        });
    });
}

#[test]
fn a_stop_against_a_crash() {
    apart(|| {
        in_rounds(rounds(60, 3000), |round, lease| {
            let Round { runtime, supervisor, mut random, claim, spec, number } = round;
            let hanging = {
                let lease = lease.clone();
                runtime.spawn(async move { lease.call::<Value>("hang", &json!({})).await })
            };
            let stop = || runtime.block_on(in_time(supervisor.shutdown()));
            at_once(runtime, &mut random, stop, || kill(number));
            // The shutdown has waited: now no process is there, and none comes.
            assert!(claim.is_free(), "still there after the shutdown: {:#?}", claim.those());
            let holders = claim.holders();
            let cut_off = runtime.block_on(in_time(hanging)).expect("no panic");
            assert!(matches!(cut_off, Err(CallError::CutOff(_) | CallError::Refused(_))), "{cut_off:?}");
            let refused = runtime.block_on(in_time(lease.call::<Value>("who", &json!({}))));
            assert!(matches!(refused, Err(CallError::Refused(_))), "{refused:?}");
            // A new lease while the old one is still held is a new child.
            if random.percent(20) {
                let anew = runtime.block_on(async { supervisor.lease(spec).expect("a lease") });
                runtime.block_on(pid_of(&anew));
                assert_eq!(claim.holders(), holders + 1);
                drop(anew);
            }
        });
    });
}

#[test]
fn a_stop_against_a_new_lease_and_a_crash() {
    apart(|| {
        let (runtime, supervisor) = (runtime(), Supervisor::new());
        let mut over = Vec::new();
        for stage in 0..5 {
            let claim = Claim::new(&format!("claim{stage}"));
            let spec = build(quick(claim.server([None, None, Some("plain"), Some("daemon"), None][stage as usize])));
            let mut random = Random::new(seed_of_round(SEED, stage));
            for _ in 0..rounds(10, 600) {
                let lease = runtime.block_on(async { supervisor.lease(&spec).expect("a lease") });
                let number = runtime.block_on(pid_of(&lease));
                if random.percent(50) {
                    kill(number);
                }
                let stop = || runtime.block_on(in_time(supervisor.shutdown()));
                let take = || supervisor.lease(&spec).expect("a lease");
                let ((), next) = at_once(&runtime, &mut random, stop, take);
                // It came before the stop and is refused, or after it and has a child of its own.
                let answer = runtime.block_on(in_time(next.call::<Value>("who", &json!({}))));
                assert!(
                    matches!(answer, Ok(_) | Err(CallError::Refused(_) | CallError::CutOff(_))),
                    "neither: {answer:?}"
                );
                claim.expect_never_two();
                drop((lease, next));
            }
            let holders = expect_over(&supervisor, &claim);
            over.push((claim, holders));
        }
        expect_still_over(&over);
    });
}

#[test]
fn two_supervisors_on_one_key_have_one_child_each_and_one_in_all_with_a_slot() {
    apart(|| {
        let runtime = runtime();
        let (one, two) = (Supervisor::new(), Supervisor::new());
        let claims = [Claim::new("claim1"), Claim::new("claim2"), Claim::new("slot")];
        let named = |claim: &Claim| build(quick(claim.server(None)).key("memory"));
        let specs = [named(&claims[0]), named(&claims[1])];
        let slotted = build(quick(claims[2].server(Some("daemon"))).slot("memory", IfTaken::Wait));
        let mut random = Random::new(SEED);
        let mut held: [Option<Lease>; 2] = [None, None];
        for round in 0..rounds(40, 3000) {
            if round % 4 == 3 {
                // The same slot: the first supervisor has it, and the other one waits for the end of the tree.
                let turn = |supervisor: &Supervisor| {
                    let lease = supervisor.lease(&slotted).expect("a lease");
                    runtime.block_on(pid_of(&lease))
                };
                let (first, second) = at_once(&runtime, &mut random, || turn(&one), || turn(&two));
                assert_ne!(first, second);
            } else {
                // The same key: each lets go of one lease and takes another one, or loses its child meanwhile.
                let crash = random.percent(30);
                let [old_one, old_two] = held.each_mut().map(Option::take);
                let step = |supervisor: &Supervisor, spec, old: Option<Lease>| {
                    let number = old.as_ref().filter(|_| crash).map(|lease| runtime.block_on(pid_of(lease)));
                    number.into_iter().for_each(kill);
                    std::thread::scope(|scope| {
                        scope.spawn(|| drop(old));
                        let lease = supervisor.lease(spec).expect("a lease");
                        runtime.block_on(pid_of_survivor(&lease));
                        lease
                    })
                };
                let (next_one, next_two) = at_once(
                    &runtime,
                    &mut random,
                    || step(&one, &specs[0], old_one),
                    || step(&two, &specs[1], old_two),
                );
                held = [Some(next_one), Some(next_two)];
            }
            claims.iter().for_each(Claim::expect_never_two);
        }
        drop(held);
        let mut over = Vec::new();
        for claim in claims {
            wait_until("the supervisors have forgotten it", || one.is_empty() && two.is_empty());
            assert!(claim.is_free(), "{:#?}", claim.those());
            let holders = claim.holders();
            over.push((claim, holders));
        }
        expect_still_over(&over);
    });
}

/// The child may be killed under a call, which is then not made again.
async fn pid_of_survivor(lease: &Lease) -> i64 {
    loop {
        match in_time(lease.call::<Value>("who", &json!({}))).await {
            Ok(who) => return who["pid"].as_i64().expect("a number"),
            Err(CallError::CutOff(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn everything_at_once_from_many_threads() {
    apart(|| {
        let (runtime, supervisor) = (runtime(), Supervisor::new());
        let claims: Vec<_> = (0..3).map(|n| Claim::new(&format!("claim{n}"))).collect();
        let specs: Vec<_> = claims.iter().map(|claim| build(quick(claim.server(None)).hibernate(ms(30)))).collect();
        let stop = AtomicBool::new(false);
        let until = Instant::now() + if rounds(0, 1) == 1 { Duration::from_secs(60) } else { Duration::from_secs(2) };
        // On a busy machine that may be too short for anything to happen.
        let is_enough = || {
            let now = Instant::now();
            now > until && (now > until + PATIENCE || claims.iter().all(|claim| claim.holders() > 1))
        };
        std::thread::scope(|scope| {
            for worker in 0..6u64 {
                let (runtime, supervisor, specs, stop) = (&runtime, &supervisor, &specs, &stop);
                let is_enough = &is_enough;
                scope.spawn(move || {
                    let _inside = runtime.enter();
                    let mut random = Random::new(seed_of_round(SEED, worker));
                    let mut held = Vec::new();
                    while !is_enough() && !stop.load(Ordering::Relaxed) {
                        let spec = &specs[usize::try_from(random.below(3)).expect("small")];
                        match random.below(10) {
                            0..3 => held.push(supervisor.lease(spec).expect("a lease")),
                            3..6 => drop(held.pop()),
                            6..8 => {
                                if let Some(lease) = held.last() {
                                    let time = Some(ms(random.below(20) + 1));
                                    drop(runtime.block_on(lease.call_within::<Value>("who", &json!({}), time)));
                                }
                            }
                            8 => {
                                if let Some(lease) = held.last() {
                                    let who = runtime.block_on(in_time(lease.call::<Value>("who", &json!({}))));
                                    who.ok().and_then(|who| who["pid"].as_i64()).into_iter().for_each(kill);
                                }
                            }
                            _ if random.percent(5) => runtime.block_on(in_time(supervisor.shutdown())),
                            _ => held.iter().for_each(Lease::restart),
                        }
                        held.truncate(5);
                    }
                });
            }
        });
        wait_until("the supervisor has forgotten all", || supervisor.is_empty());
        let over: Vec<_> = claims
            .into_iter()
            .map(|claim| {
                assert!(claim.is_free(), "{:#?}", claim.those());
                assert!(claim.holders() > 1);
                let holders = claim.holders();
                (claim, holders)
            })
            .collect();
        expect_still_over(&over);
    });
}
