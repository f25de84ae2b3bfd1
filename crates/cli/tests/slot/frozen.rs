//! A holder that does not react: it is stopped in part or as a whole, held by a debugger, or some of its keepers are
//! killed. A newcomer that replaces it gets the slot when the old tree is empty. A stopped waiter does not block the
//! others.

use std::time::{Duration, Instant};

use badchild::{Bystanders, Found, User, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::json;
use testkit::debugger::Debugger;
use testkit::in_parallel;
use testkit::slots::{MANAGED, Ring, SLOT, end, ended, front_of, kill_at_once};
use testkit::stage::Caller;

const REPLACE: [&str; 2] = ["--if-taken", "replace"];
const GRACES: [&str; 4] = ["--eof-grace", "200ms", "--term-grace", "600ms"];
const LONG_GRACES: [&str; 4] = ["--eof-grace", "200ms", "--term-grace", "8s"];

/// The processes of a holder that a test stops or kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Child,
    Tree,
    Front,
    Spare,
    Guard,
    Keepers,
    Everything,
}

const PARTS: [Part; 7] =
    [Part::Child, Part::Tree, Part::Front, Part::Spare, Part::Guard, Part::Keepers, Part::Everything];

fn part(ring: &Ring, holder: &Caller, part: Part) -> Vec<Found> {
    let (keepers, tree) = (ring.keepers(holder), ring.stage.trees());
    let named = |names: &[&str]| {
        let found = keepers.iter().filter(|found| names.contains(&found.stat.name.as_str())).cloned();
        found.collect::<Vec<_>>()
    };
    let found = match part {
        Part::Child => vec![ring.stage.child()],
        Part::Tree => tree,
        // A managed holder has two fronts: the process that the host started, and the front of the pen.
        Part::Front => named(&["nostray", "nostray-front"]),
        Part::Spare => named(&["nostray-spare"]),
        Part::Guard => named(&["nostray-guard"]),
        Part::Keepers => keepers,
        Part::Everything => keepers.into_iter().chain(tree).collect(),
    };
    assert!(!found.is_empty(), "{part:?}: {:?}", ring.stage.scene.processes());
    found
}

/// A holder whose tree has a daemon and a process that ignores SIGTERM. Returns the tree as well.
fn holder_with_tree(ring: &Ring, options: &[&str]) -> (Caller, Vec<Found>) {
    holder_with_tree_and(ring, &GRACES, options)
}

fn holder_with_tree_and(ring: &Ring, graces: &[&str], options: &[&str]) -> (Caller, Vec<Found>) {
    let mut holder = ring.holder(&[graces, options].concat());
    holder.result("fork", json!({ "kind": "daemon" }));
    holder.result("fork", json!({ "kind": "term-ignoring" }));
    let tree = ring.stage.trees();
    assert_eq!(tree.len(), 3, "{tree:?}");
    (holder, tree)
}

/// Checks that the newcomer has the slot, and that the old tree is empty.
fn expect_handed_over(ring: &Ring, newcomer: &mut Caller, old: &[Found], what: &str) {
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let id = newcomer.ask("initialize", hello);
    let answer = newcomer.answer(id);
    assert!(answer.get("result").is_some(), "{what}: {answer}");
    let left: Vec<_> = old.iter().filter(|found| found.is_alive()).collect();
    assert!(left.is_empty(), "{what}: processes of the old tree are left: {left:?}\n{}", ring.stage.journal());
    ring.expect_one_at_a_time();
}

/// Adds the cell to the message of a failed assertion.
fn told<T: std::fmt::Debug>(cell: T, test: impl FnOnce(&T)) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&cell))) {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        let text = if text.is_empty() { panic.downcast_ref::<&str>().unwrap_or(&"?").to_string() } else { text };
        panic!("{cell:?}: {text}");
    }
}

#[test]
fn a_holder_with_some_or_all_processes_stopped_is_replaced() {
    let bystanders = Bystanders::start(User::Current);
    let mut cells = Vec::new();
    for which in PARTS {
        for options in [&[][..], &MANAGED] {
            cells.push((which, options));
        }
    }
    in_parallel(cells, |cell| {
        told(cell, |&(which, options)| {
            let ring = Ring::new();
            let (mut holder, old) = holder_with_tree(&ring, options);
            part(&ring, &holder, which).iter().for_each(|found| found.send(Signal::STOP));
            let mut newcomer = ring.run(&REPLACE, &[]);
            expect_handed_over(&ring, &mut newcomer, &old, &format!("{which:?}"));
            assert!(
                !newcomer.errors().contains("from outside"),
                "a stopped holder must be continued, not ended from outside: {}",
                newcomer.errors()
            );
            ended(&mut holder);
            assert_eq!(end(newcomer), 0);
            ring.expect_over();
        });
    });
    bystanders.expect_untouched();
}

/// A debugger stops the holder before it is asked, or while it ends, so that it never finishes.
#[test]
fn a_holder_that_cannot_be_continued_is_ended_from_outside() {
    let bystanders = Bystanders::start(User::Current);
    let mut cells = Vec::new();
    for options in [&[][..], &MANAGED] {
        for which in [Part::Front, Part::Spare, Part::Guard, Part::Keepers, Part::Everything] {
            cells.push((which, When::Before, options));
        }
        cells.push((Part::Keepers, When::After, options));
    }
    // All cells at once: they spend nearly all their time waiting for the holder's deadline.
    std::thread::scope(|scope| {
        for cell in cells {
            scope.spawn(move || told(cell, |&(which, when, options)| held_by_a_debugger(which, when, options)));
        }
        for options in [&[][..], &MANAGED] {
            scope.spawn(move || told(options, |options| stopped_over_and_over(options)));
        }
    });
    bystanders.expect_untouched();
}

/// Stops the keepers again and again, as fast as possible, so that they hardly run.
fn stopped_over_and_over(options: &[&str]) {
    let ring = Ring::new();
    let (mut holder, old) = holder_with_tree(&ring, options);
    let keepers = ring.keepers(&holder);
    let stop = || keepers.iter().for_each(|found| found.send(Signal::STOP));
    stop();
    let mut newcomer = ring.run(&REPLACE, &[]);
    newcomer.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    let came = comes_true(badchild::PATIENCE, &mut || {
        stop();
        newcomer.line_within(Duration::ZERO).is_some()
    });
    assert!(came, "{}\n{}", newcomer.errors(), ring.stage.journal());
    assert!(old.iter().all(|found| !found.is_alive()), "{old:?}");
    ring.expect_one_at_a_time();
    // A pending stop may reach the keepers only now, so continue them until they end.
    wait_until("the holder has ended", || {
        keepers.iter().for_each(|found| found.send(Signal::CONT));
        holder.process.try_wait().expect("look").is_some()
    });
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

fn held_by_a_debugger(which: Part, when: When, options: &[&str]) {
    let ring = Ring::new();
    // Long enough for the test to see the holder while it ends.
    let graces = if when == When::After { &LONG_GRACES } else { &GRACES };
    let (mut holder, old) = holder_with_tree_and(&ring, graces, options);
    let victims = part(&ring, &holder, which);
    let mut debugger = Debugger::start(&ring.stage.scene);
    if when == When::Before {
        debugger.attach(&victims);
    }
    let mut newcomer = ring.run(&REPLACE, &[]);
    if when == When::After {
        wait_until("the holder is stopping", || ring.state() == "stopping");
        debugger.attach(&victims);
    }
    expect_handed_over(&ring, &mut newcomer, &old, &format!("{which:?}"));
    if which == Part::Keepers && when == When::Before {
        let said = newcomer.errors();
        assert!(said.contains("which does not answer, and is ended from outside"), "{said}");
        assert!(ring.stage.journal().contains("is ended from outside"), "{}", ring.stage.journal());
    }
    drop(debugger);
    ended(&mut holder);
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    While,
    After,
}

/// One or two keepers are killed. The remaining keepers end the tree, and the slot is free when it is empty.
#[test]
fn a_holder_whose_keepers_are_killed_is_replaced_when_its_tree_is_gone() {
    let bystanders = Bystanders::start(User::Current);
    let mut cells = Vec::new();
    for options in [&[][..], &MANAGED] {
        for which in [Part::Front, Part::Spare, Part::Guard] {
            for when in [When::Before, When::While, When::After] {
                cells.push((which, when, options));
            }
        }
    }
    in_parallel(cells, |cell| {
        told(cell, |&(which, when, options)| {
            let ring = Ring::new();
            let (mut holder, old) = holder_with_tree(&ring, options);
            let victims = part(&ring, &holder, which);
            let kill = || victims.iter().for_each(|found| found.send(Signal::KILL));
            if let When::Before = when {
                kill();
            }
            let mut newcomer = ring.run(&REPLACE, &[]);
            match when {
                When::Before => {}
                When::While => kill(),
                When::After => {
                    // If the handover finished between two looks, the newcomer is ready, and the victims have ended
                    // already.
                    wait_until("the holder was asked to hand over", || {
                        ring.state() != "ready" || ring.history().len() > 1
                    });
                    kill();
                }
            }
            expect_handed_over(&ring, &mut newcomer, &old, "killed");
            ended(&mut holder);
            assert_eq!(end(newcomer), 0);
            ring.expect_over();
        });
    });
    bystanders.expect_untouched();
}

/// With `wait` and `fail` a newcomer neither asks the holder to hand over nor continues it.
#[test]
fn newcomers_with_wait_or_fail_leave_a_stopped_holder_alone() {
    let ring = Ring::new();
    let (mut holder, old) = holder_with_tree(&ring, &[]);
    let everything = part(&ring, &holder, Part::Everything);
    everything.iter().for_each(|found| found.send(Signal::STOP));
    let mut refused = ring.run(&["--if-taken", "fail"], &[]);
    assert_eq!(refused.code(), 75, "{}", refused.errors());
    let mut waiter = ring.run(&["--wait-timeout", "1s"], &[]);
    assert_eq!(waiter.code(), 75, "{}", waiter.errors());
    assert!(everything.iter().all(Found::is_stopped), "a process of the holder was continued");
    // An operator can still release the slot.
    let released = ring.stage.nostray(&["slot", "release", SLOT]);
    assert!(released.status.success(), "{released:?}");
    assert!(old.iter().all(|found| !found.is_alive()));
    holder.code();
    ring.expect_over();
}

/// The front of a pen is stopped when its tree is empty and no other keeper is left that could continue it. It has the lock, and is not on
/// record any more.
#[test]
fn a_keeper_that_is_stopped_as_the_last_one_of_all_does_not_keep_the_slot() {
    const TRIES: usize = 100;
    in_parallel(vec!["wait", "replace"], |policy| {
        let found = (0..TRIES).find_map(|_| stopped_as_the_last());
        let (ring, mut holder, last) = found.expect("one of so many fronts is stopped before it has ended");
        let mut newcomer = ring.run(&["--if-taken", policy], &[]);
        expect_handed_over(&ring, &mut newcomer, &[last], policy);
        ended(&mut holder);
        assert_eq!(end(newcomer), 0);
        ring.expect_over();
    });
}

/// A supervised holder of which nothing is left but the stopped front of its pen. `None` if that has ended as well: the kernel continues it when
/// the others end.
fn stopped_as_the_last() -> Option<(Ring, Caller, Found)> {
    let ring = Ring::new();
    let mut holder = ring.holder(&[&MANAGED[..], &["--eof-grace", "0s"]].concat());
    let (mut fronts, others): (Vec<_>, Vec<_>) =
        ring.keepers(&holder).into_iter().partition(|found| found.stat.name == "nostray-front");
    let front = fronts.pop().expect("the front of a pen");
    others.iter().filter(|found| found.stat.name == "nostray").for_each(|found| found.send(Signal::KILL));
    while others.iter().any(Found::is_alive) {
        front.send(Signal::STOP);
    }
    wait_until("the front is stopped or has ended", || front.is_stopped() || !front.is_alive());
    if front.is_alive() {
        return Some((ring, holder, front));
    }
    ended(&mut holder);
    ring.expect_over();
    None
}

#[test]
fn a_stopped_waiter_at_the_head_of_the_queue_does_not_keep_the_others_waiting() {
    in_parallel(vec!["wait", "replace"], |policy| {
        let ring = Ring::new();
        let mut holder = ring.holder(&["--eof-grace", "200ms", "--term-grace", "10m"]);
        if policy == "replace" {
            holder.result("fork", json!({ "kind": "term-ignoring" })); // so that a newcomer that replaces it has to wait
        }
        let mut stopped = ring.waiter(&["--if-taken", policy], 0);
        let front = front_of(&stopped);
        front.send(Signal::STOP);
        let mut next = ring.waiter(&[], 1);
        let mut third = ring.waiter(&MANAGED, 2);
        assert!(ring.stage.nostray(&["slot", "release", "--now", SLOT]).status.success());
        holder.code();
        ring.expect_holder(&mut next);
        front.send(Signal::CONT);
        if policy == "wait" {
            // The waiter runs again, and keeps its place at the head of the queue.
            assert_eq!(end(next), 0);
            ring.expect_holder(&mut stopped);
        } else {
            ring.expect_holder(&mut stopped);
            next.code();
        }
        assert_eq!(end(stopped), 0);
        ring.expect_holder(&mut third);
        assert_eq!(end(third), 0);
        ring.expect_over();
    });
}

/// A newcomer that is killed after it got the lock, and before it is on record, leaves a free slot.
#[test]
fn a_newcomer_that_is_killed_in_its_first_moments_leaves_a_free_slot() {
    in_parallel((0..24u64).collect(), |seed| {
        let ring = Ring::new();
        let mut newcomer = ring.run(if seed % 2 == 0 { &[] } else { &MANAGED }, &[]);
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(seed * 700) {
            std::thread::yield_now();
        }
        kill_at_once(&ring.keepers(&newcomer));
        // In its first moment the newcomer has no environment yet, by which the test would find it.
        newcomer.process.kill().expect("kill");
        newcomer.process.wait().expect("reap");
        let mut next = ring.run(&[], &[]);
        ring.expect_holder(&mut next);
        assert_eq!(end(next), 0);
        ring.expect_over();
    });
}
