//! A slot whose holder several sessions share. The child holds the slot, not a session. Whichever processes are killed,
//! there is never a second holder.

use std::time::{Duration, Instant};

use badchild::{Bystanders, Found, PATIENCE, User, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::many::initialize_with;
use testkit::sharing::{BROKER, PEN, STEWARD, is_long};
use testkit::slots::{MANAGED, NOT_NOW, Ring, SLOT, end, ended, kill_at_once};
use testkit::stage::Caller;

const SHARE: [&str; 2] = ["--if-taken", "share"];
const REPLACE: [&str; 2] = ["--if-taken", "replace"];
/// How long a shared child that holds a slot is kept after its last session.
const LINGER: Duration = Duration::from_secs(10);

/// This many sessions, after their handshakes.
fn sessions(ring: &Ring, count: usize) -> Vec<Caller> {
    let begin = |_| {
        let mut caller = ring.run(&SHARE, &[]);
        caller.initialize();
        caller
    };
    let callers = (0..count).map(begin).collect();
    wait_until("the slot is held", || ring.state() == "ready");
    callers
}

/// Releases the slot of a child that lingers.
fn release(ring: &Ring) {
    let released = ring.stage.nostray(&["slot", "release", SLOT]);
    assert!(released.status.success(), "{released:?}");
}

fn is_over(caller: &mut Caller) -> bool {
    caller.process.try_wait().expect("look").is_some()
}

#[test]
fn sessions_that_share_a_slot_have_one_child_and_it_holds_the_slot_until_it_has_lingered() {
    let ring = Ring::new();
    let mut callers = sessions(&ring, 2);
    let pids: Vec<i64> = callers.iter_mut().map(Caller::pid).collect();
    assert_eq!(pids[0], pids[1]);
    assert_eq!(ring.stage.lives().len(), 1);
    ring.stage.wait_for_leases(&[2]);
    let holder = ring.show()["holder"].clone();
    let mut refused = ring.run(&["--if-taken", "fail"], &[]);
    assert_eq!(refused.code(), NOT_NOW);
    assert!(refused.errors().contains(holder["id"].as_str().expect("an id")), "{}", refused.errors());
    // The child holds the slot, not the session that came first.
    assert_eq!(end(callers.remove(0)), 0);
    ring.stage.wait_for_leases(&[1]);
    assert_eq!(ring.show()["holder"]["id"], holder["id"]);
    assert_eq!(callers[0].pid(), pids[0]);
    assert_eq!(end(callers.remove(0)), 0);
    let since = Instant::now();
    // A session that comes in time finds the child.
    let mut back = ring.run(&SHARE, &[]);
    back.initialize();
    assert_eq!(back.pid(), pids[0]);
    assert!(since.elapsed() < LINGER);
    let since = Instant::now();
    assert_eq!(end(back), 0);
    let mut waiter = ring.waiter(&[], 0);
    waiter.initialize();
    let took = since.elapsed();
    assert!(took >= LINGER - Duration::from_secs(1) && took < LINGER + Duration::from_secs(10), "{took:?}");
    ring.expect_one_at_a_time();
    assert_eq!(end(waiter), 0);
    ring.expect_over();
}

/// A host gives up before the holder has started, and tries again after more than the linger. It finds the start that
/// it began.
#[test]
fn a_holder_that_is_starting_is_kept_for_the_next_session_of_an_impatient_host() {
    in_parallel(vec![&[][..], &["--hibernate", "300ms"]], |options| {
        let ring = Ring::new();
        let options = [&SHARE[..], &["--term-grace", "100ms", "--eof-grace", "100ms"], options].concat();
        let server = ["--start-delay", "14000"];
        let mut impatient = ring.run(&options, &server);
        impatient.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
        wait_until("the child is starting", || ring.stage.lives().len() == 1 && ring.state() == "starting");
        assert_eq!(impatient.line_within(Duration::from_secs(1)), None);
        drop(impatient);
        // Time is the subject: longer than the linger, and shorter than the start.
        std::thread::sleep(LINGER + Duration::from_secs(1));
        let mut served = ring.run(&options, &server);
        served.initialize();
        assert_eq!(ring.stage.lives().len(), 1, "{options:?}: {:#?}", ring.stage.lives());
        ring.expect_one_at_a_time();
        assert_eq!(end(served), 0);
        release(&ring);
        ring.expect_over();
    });
}

#[test]
fn a_newcomer_that_replaces_a_shared_holder_gets_the_slot_and_the_sessions_end() {
    in_parallel(vec![&[][..], &MANAGED], |options| {
        let ring = Ring::new();
        let mut callers = sessions(&ring, 3);
        callers[0].result("fork", json!({ "kind": "daemon" }));
        let old = ring.stage.trees();
        let hanging = callers[1].ask("hang", json!({}));
        callers[1].who();
        let mut newcomer = ring.run(&[&REPLACE[..], options].concat(), &[]);
        newcomer.initialize();
        assert!(old.iter().all(|found| !found.is_alive()), "{old:?}");
        ring.expect_one_at_a_time();
        let answer = callers[1].answer(hanging);
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        // No session starts another child beside the newcomer's.
        for caller in &mut callers {
            caller.code();
        }
        newcomer.who();
        assert_eq!(ring.stage.lives().len(), 2);
        assert_eq!(end(newcomer), 0);
        ring.expect_over();
    });
}

#[test]
fn sessions_wait_for_a_holder_that_is_not_shared_and_then_share() {
    in_parallel(vec![&[][..], &MANAGED], |options| {
        let ring = Ring::new();
        let holder = ring.holder(options);
        let mut callers: Vec<Caller> = (0..2).map(|_| ring.run(&SHARE, &[])).collect();
        wait_until("the shared child is in the queue", || ring.waiting().len() == 1);
        let asked: Vec<u64> = callers
            .iter_mut()
            .map(|caller| caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} })))
            .collect();
        assert_eq!(ring.stage.lives().len(), 1);
        assert_eq!(end(holder), 0);
        for (caller, id) in callers.iter_mut().zip(asked) {
            let answer = caller.answer(id);
            assert!(answer.get("result").is_some(), "{answer}");
            caller.tell("notifications/initialized", None);
        }
        let pids: Vec<i64> = callers.iter_mut().map(Caller::pid).collect();
        assert_eq!(pids[0], pids[1]);
        assert_eq!(ring.stage.lives().len(), 2);
        for caller in callers {
            assert_eq!(end(caller), 0);
        }
        release(&ring);
        ring.expect_over();
    });
}

/// A session that waits in silence looks as if it hung.
#[test]
fn a_session_is_told_which_holder_its_shared_child_waits_for() {
    let ring = Ring::new();
    let holder = ring.holder(&[]);
    let caller = ring.run(&SHARE, &[]);
    wait_until("the shared child is in the queue", || ring.waiting().len() == 1);
    let told = comes_true(PATIENCE, &mut || caller.errors().contains("slot db is taken by"));
    assert!(told, "stderr: {:?}", caller.errors());
    drop(caller);
    assert_eq!(end(holder), 0);
    ring.expect_over();
}

#[test]
fn a_session_that_leaves_while_its_shared_child_waits_leaves_no_place_in_the_queue() {
    let mut cells = vec![None];
    cells.extend([Signal::TERM, Signal::KILL].map(Some));
    in_parallel(cells, |signal| {
        let ring = Ring::new();
        let holder = ring.holder(&[]);
        let mut caller = ring.run(&SHARE, &[]);
        wait_until("the shared child is in the queue", || ring.waiting().len() == 1);
        match signal {
            Some(signal) => testkit::slots::front_of(&caller).send(signal),
            None => caller.close(),
        }
        ended(&mut caller);
        wait_until("the queue is empty", || ring.waiting().is_empty());
        assert_eq!(end(holder), 0);
        ring.expect_over();
        assert_eq!(ring.stage.lives().len(), 1, "{signal:?}: the child was started without a session");
    });
}

#[test]
fn a_session_waits_for_the_slot_no_longer_than_its_timeout() {
    let ring = Ring::new();
    let holder = ring.holder(&[]);
    let began = Instant::now();
    let mut caller = ring.run(&[&SHARE[..], &["--wait-timeout", "700ms"]].concat(), &[]);
    assert_eq!(caller.code(), NOT_NOW, "{}", caller.errors());
    assert!(caller.errors().contains("was not free after 700ms"), "{}", caller.errors());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(ring.stage.lives().len(), 1);
    assert_eq!(end(holder), 0);
    ring.expect_over();
}

#[test]
fn another_command_for_a_shared_slot_is_refused_and_both_are_shown() {
    let ring = Ring::new();
    let mut callers = sessions(&ring, 1);
    let mut other = ring.run(&SHARE, &["--exit", "7"]);
    assert_eq!(other.code(), 125, "{}", other.errors());
    let said = other.errors();
    assert!(said.contains("slot db is in use for another command") && said.contains("--exit 7"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    callers[0].who();
    assert_eq!(ring.stage.lives().len(), 1);
    assert_eq!(end(callers.remove(0)), 0);
    release(&ring);
    ring.expect_over();
}

/// A client that the child cannot serve beside the others needs another child, and there is only one slot.
#[test]
fn sessions_that_cannot_share_wait_for_each_other_and_never_have_two_children() {
    let ring = Ring::new();
    let first = sessions(&ring, 1);
    let mut other = ring.run(&[&SHARE[..], &["--wait-timeout", "2s"]].concat(), &[]);
    let id = other.ask("initialize", json!({ "protocolVersion": "2025-03-26", "capabilities": { "sampling": {} } }));
    // The session gets an error or ends; it does not hang for ever.
    let mut answer = None;
    let came = comes_true(PATIENCE, &mut || {
        answer = answer.take().or_else(|| other.line_within(Duration::ZERO));
        answer.is_some() || is_over(&mut other)
    });
    assert!(came, "the session hangs: {}", ring.stage.journal());
    if let Some(line) = answer {
        let answer: Value = serde_json::from_slice(&line).expect("JSON");
        assert!(answer["id"] == id && answer.get("error").is_some(), "{answer}");
    }
    ring.expect_one_at_a_time();
    assert_eq!(ring.stage.servers_here().len(), 1);
    drop(other);
    for caller in first {
        assert_eq!(end(caller), 0);
    }
    release(&ring);
    ring.expect_over();
}

/// Sessions that share a slot find each other by a key. A session with the same `--key` must not get that key without
/// the slot.
#[test]
fn a_key_that_looks_like_a_slot_is_not_one() {
    let ring = Ring::new();
    let words = ring.words(&[]);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let key = format!("slot:{SLOT}");
    let mut keyed = ring.stage.launch("share", &["--key", &key, "--linger", "0s"], &words, |_| {});
    keyed.try_send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    let mut is_served = false;
    wait_until("the session with the key is served or refused", || {
        is_served = keyed.line_within(Duration::ZERO).is_some();
        is_served || is_over(&mut keyed)
    });
    if is_served {
        // Its child does not hold the slot. A session that shares the slot needs a child that does.
        let mut caller = ring.run(&SHARE, &[]);
        caller.try_send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        let held = comes_true(PATIENCE, &mut || ring.state() == "ready" || is_over(&mut caller));
        assert!(held, "a session of slot db has a child that does not hold it: {:#}", ring.show());
    }
}

/// Whichever background processes are killed, the slot never has two holders, and the sessions that go on have one
/// child.
#[test]
fn whichever_processes_around_a_shared_holder_are_killed_there_are_never_two_holders() {
    let bystanders = Bystanders::start(User::Current);
    let mut cells: Vec<Vec<&str>> = [BROKER, STEWARD, PEN[0], PEN[1], PEN[2]].map(|name| vec![name]).to_vec();
    cells.extend([vec![BROKER, STEWARD], vec![STEWARD, PEN[0], PEN[1], PEN[2]], vec![BROKER, PEN[2]]]);
    if is_long() {
        cells = cells.iter().cycle().take(cells.len() * 6).cloned().collect();
    }
    in_parallel(cells, |names| {
        let ring = Ring::new();
        let mut callers = sessions(&ring, 2);
        callers[0].result("fork", json!({ "kind": "daemon" }));
        let victims: Vec<Found> = names.iter().map(|name| ring.stage.the(name)).collect();
        kill_at_once(&victims);
        // Beside the old sessions come a new session and a contender that does not share.
        let (mut newest, mut alone) = (ring.run(&SHARE, &[]), ring.run(&[], &[]));
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
        let hello = json!({ "jsonrpc": "2.0", "id": 77, "method": "initialize", "params": hello });
        newest.try_send(&hello);
        alone.try_send(&hello);
        for caller in &mut callers {
            caller.try_send(&json!({ "jsonrpc": "2.0", "id": 77, "method": "who", "params": {} }));
        }
        // One of them gets the slot, and answers.
        let mut alone_has_it = false;
        let answers = comes_true(PATIENCE, &mut || {
            alone_has_it |= alone.line_within(Duration::ZERO).is_some();
            alone_has_it
                || callers.iter_mut().chain([&mut newest]).any(|caller| caller.line_within(Duration::ZERO).is_some())
        });
        assert!(answers, "{names:?}: no child answers\n{}", ring.stage.journal());
        ring.expect_one_at_a_time();
        assert!(ring.stage.servers_here().len() <= 1, "{names:?}: {:?}", ring.stage.servers_here());
        // All sessions end, so the contender gets the slot.
        for mut caller in callers.into_iter().chain([newest]) {
            caller.close();
            ended(&mut caller);
        }
        // Stop the child that lingers, by its id, and again if another child has been started. A release by the name of
        // the slot could hit the contender.
        let came = comes_true(PATIENCE, &mut || {
            let holder = ring.show()["holder"].clone();
            if let Some(id) = holder["id"].as_str().filter(|_| holder["front"]["pid"] != alone.process.id()) {
                ring.stage.nostray(&["stop", id]);
            }
            alone_has_it |= alone.line_within(Duration::from_millis(50)).is_some();
            alone_has_it
        });
        assert!(came, "{names:?}: the contender does not get the slot: {:#}\n{}", ring.show(), ring.stage.journal());
        ring.expect_one_at_a_time();
        assert_eq!(end(alone), 0);
        ring.expect_over();
    });
    bystanders.expect_untouched();
}

/// All nostray processes are killed at once, and the tree lives. The next contender sweeps, with every policy.
#[test]
fn after_a_crash_of_everything_the_next_contender_sweeps_what_the_shared_child_has_left() {
    in_parallel(vec!["wait", "fail", "replace", "share"], |policy| {
        let ring = Ring::new();
        let mut callers = sessions(&ring, 2);
        callers[0].result("fork", json!({ "kind": "daemon" }));
        callers[0].result("fork", json!({ "kind": "term-ignoring" }));
        kill_at_once(&ring.stage.own());
        callers.iter_mut().for_each(ended);
        let left = ring.stage.trees();
        assert!(left.len() >= 2, "{left:?}");
        let mut newcomer = ring.run(&["--if-taken", policy], &[]);
        newcomer.initialize();
        assert!(left.iter().all(|found| !found.is_alive()), "{policy}: {left:?}");
        ring.expect_one_at_a_time();
        assert_eq!(end(newcomer), 0);
        if policy == "share" {
            release(&ring);
        }
        ring.expect_over();
    });
}

/// The steward restarts a child that crashes, and keeps the slot.
#[test]
fn a_shared_child_that_crashes_is_restarted_and_keeps_the_slot() {
    let ring = Ring::new();
    let mut callers = sessions(&ring, 2);
    let waiter = ring.waiter(&[], 0);
    let id = ring.show()["holder"]["id"].clone();
    for _ in 0..3 {
        let before = callers[0].pid();
        callers[0].error("die", json!({}));
        wait_until("the next child answers", || callers[1].pid() != before);
        assert_eq!(ring.show()["holder"]["id"], id);
        assert_eq!(ring.waiting().len(), 1, "the waiter got the slot in between");
    }
    ring.expect_one_at_a_time();
    drop(waiter);
    for caller in callers {
        assert_eq!(end(caller), 0);
    }
    release(&ring);
    ring.expect_over();
}

/// Ten equal sessions begin at once. Whichever is first, they share one child.
#[test]
fn ten_sessions_at_once_have_one_child() {
    let ring = Ring::new();
    let mut callers: Vec<Caller> = (0..10).map(|_| ring.run(&SHARE, &[])).collect();
    for caller in &mut callers {
        initialize_with(caller, "2025-06-18", &json!({}));
    }
    let mut pids: Vec<i64> = callers.iter_mut().map(Caller::pid).collect();
    pids.dedup();
    assert_eq!(pids.len(), 1, "{pids:?}");
    assert_eq!(ring.stage.lives().len(), 1);
    assert_eq!(ring.history().len(), 1, "{:#?}", ring.history());
    for caller in callers {
        assert_eq!(end(caller), 0);
    }
    release(&ring);
    ring.expect_over();
}
