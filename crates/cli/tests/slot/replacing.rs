//! `--if-taken replace`: a newcomer takes over when nothing is left of the old tree, and no two of them fight.

use badchild::{badchild, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::json;
use std::time::{Duration, Instant};
use testkit::in_parallel;
use testkit::slots::{MANAGED, NOT_NOW, Ring, SLOT, end, front_of};
use testkit::stage::Caller;

use super::policies::REPLACE;

/// The holder ends its tree as usual: end of input, then SIGTERM to all processes, then SIGKILL. A daemon counts as
/// part of the tree.
#[test]
fn replace_waits_for_the_last_of_the_old_tree_with_the_graces_of_the_holder() {
    let mut cells = Vec::new();
    for old in [&[][..], &MANAGED] {
        for new in [&[][..], &MANAGED] {
            for kind in ["daemon", "term-ignoring", "setsid"] {
                cells.push((old, new, kind));
            }
        }
    }
    in_parallel(cells, |(old, new, kind)| {
        let ring = Ring::new();
        let mut holder = ring.holder(&[&["--eof-grace", "300ms", "--term-grace", "1200ms"], old].concat());
        holder.result("fork", json!({ "kind": kind }));
        let before = ring.stage.trees();
        assert!(before.len() >= 2, "{before:?}");
        let began = Instant::now();
        // The graces of the newcomer do not count.
        let graces = ["--eof-grace", "0s", "--term-grace", "0s"];
        let mut newcomer = ring.run(&[&graces, &REPLACE[..], new].concat(), &[]);
        newcomer.initialize();
        assert!(before.iter().all(|found| !found.is_alive()), "processes of the old tree are left: {before:?}");
        if kind == "term-ignoring" {
            // The server ended by itself, but one descendant had to be killed, after the whole grace.
            assert!(began.elapsed() >= Duration::from_millis(1200), "{:?}", began.elapsed());
        }
        wait_until("the newcomer reports it", || newcomer.errors().contains("was asked to hand over"));
        holder.code();
        ring.expect_one_at_a_time();
        let why = ring.history()[0]["why"].as_str().unwrap_or_default().to_owned();
        assert!(why.starts_with("it was asked to hand over its slot"), "{why}");
        end(newcomer); // without a grace there may be no time for a code of its own
        ring.expect_over();
    });
}

#[test]
fn a_holder_gets_its_whole_grace_to_flush_and_no_newcomer_shortens_it() {
    let ring = Ring::new();
    let [flushed, go] = ["flushed", "go"].map(|name| ring.stage.file(name));
    // The holder flushes when the test lets it, however long the newcomers take to come.
    let script = format!(
        "trap 'until [ -e {go} ]; do sleep 0.05; done; printf flushed > {flushed}; exit 0' TERM; \
         echo ready; while :; do sleep 0.05; done"
    );
    let options = ["--slot", SLOT, "--eof-grace", "100ms", "--term-grace", "10m"];
    let mut holder = ring.stage.start_command(&options, &["sh", "-c", &script]);
    assert_eq!(holder.next_line(), b"ready\n");
    // Several newcomers ask, one after the other. The first three, which lose, have no graces.
    let mut newcomers = Vec::new();
    for at in 0..4 {
        let graces: &[&str] = if at < 3 { &["--eof-grace", "0s", "--term-grace", "0s"] } else { &[] };
        let newcomer = ring.run(&[&REPLACE[..], graces].concat(), &[]);
        // Wait until it is in the queue, and the newcomer before it has lost: two that start at once could come in any
        // order.
        wait_until("the newcomer is in the queue", || {
            ring.waiting().iter().any(|who| who["pid"] == newcomer.process.id())
        });
        newcomers.push(newcomer);
    }
    let mut last = newcomers.pop().expect("the last one");
    wait_until("the holder is asked to hand over", || ring.state() == "stopping");
    // Time is what is tested: longer than the term grace of any newcomer.
    std::thread::sleep(Duration::from_secs(1));
    assert!(!std::fs::exists(&flushed).expect("look") && ring.state() == "stopping", "{:#}", ring.show());
    std::fs::write(&go, "").expect("write");
    last.initialize();
    assert_eq!(std::fs::read_to_string(&flushed).expect("the holder had the time to write"), "flushed");
    assert_eq!(holder.code(), 0);
    for mut other in newcomers {
        assert_eq!(other.code(), NOT_NOW, "{}", other.errors());
    }
    assert_eq!(end(last), 0);
    ring.expect_over();
}

#[test]
fn of_several_newcomers_that_replace_the_last_one_stays_and_the_others_are_refused() {
    in_parallel(vec![&[][..], &MANAGED], |options| {
        let ring = Ring::new();
        // A holder that takes long to end, so that all newcomers wait at the same time, however long they take to come.
        let mut holder = ring.holder(&["--eof-grace", "200ms", "--term-grace", "10m"]);
        holder.result("fork", json!({ "kind": "term-ignoring" }));
        let mut all: Vec<Caller> = Vec::new();
        for number in 0..3 {
            let session = format!("s{number}");
            all.push(ring.run(&[&REPLACE[..], &["--session", &session], options].concat(), &[]));
            wait_until("the newcomer is in the queue", || {
                ring.waiting().iter().any(|who| who["session"] == *session && who["for"] == "replace")
            });
        }
        let mut last = all.pop().expect("the last one");
        for mut other in all {
            assert_eq!(other.code(), NOT_NOW, "{}", other.errors());
            let said = other.errors();
            assert!(said.contains("somebody who came later replaces it instead"), "{said}");
        }
        assert!(ring.stage.nostray(&["slot", "release", "--now", SLOT]).status.success());
        ring.expect_holder(&mut last);
        holder.code();
        assert_eq!(ring.stage.lives().len(), 2, "a third child was started");
        assert_eq!(ring.history().len(), 2);
        assert_eq!(end(last), 0);
        ring.expect_over();
    });
}

#[test]
fn a_newcomer_that_replaces_comes_before_waiters() {
    let ring = Ring::new();
    let mut holder = ring.holder(&[]);
    let mut patient = ring.waiter(&[], 0);
    let mut second = ring.waiter(&MANAGED, 1);
    let mut newcomer = ring.run(&REPLACE, &[]);
    ring.expect_holder(&mut newcomer);
    holder.code();
    assert_eq!(ring.waiting().len(), 2, "a waiter has lost its place");
    // The same again: another newcomer that replaces comes before the waiters.
    let mut another = ring.run(&[&REPLACE[..], &MANAGED].concat(), &[]);
    ring.expect_holder(&mut another);
    newcomer.code();
    assert_eq!(end(another), 0);
    ring.expect_holder(&mut patient);
    assert_eq!(end(patient), 0);
    ring.expect_holder(&mut second);
    assert_eq!(end(second), 0);
    ring.expect_over();
}

/// The host of the replaced holder gets an error for its call, no half message, and the end of output.
#[test]
fn the_session_of_a_managed_holder_that_is_replaced_ends_properly() {
    let ring = Ring::new();
    let mut holder = ring.holder(&MANAGED);
    let hanging = holder.ask("hang", json!({}));
    holder.who();
    let mut newcomer = ring.run(&[&REPLACE[..], &MANAGED].concat(), &[]);
    let answer = holder.answer(hanging);
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    let journal = ring.stage.journal();
    assert!(journal.contains("it was asked to hand over its slot"), "{journal}");
    ring.expect_holder(&mut newcomer);
    // The front does not restart its child.
    assert_eq!(
        holder.code(),
        0,
        "the front must exit as its child did, by the end of its input: {}",
        holder.errors()
    );
    assert!(holder.unasked().is_empty());
    assert_eq!(ring.stage.lives().len(), 2);
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// As with every other end, the exit code tells how the child ended.
#[test]
fn a_direct_holder_that_is_replaced_ends_with_the_code_of_its_child() {
    let badchild = badchild().display().to_string();
    for (manner, code) in [(&["tree", "cooperative", "plain"][..], 143), (&["tree", "stubborn", "daemon"], 137)] {
        let ring = Ring::new();
        let options = ["--slot", SLOT, "--eof-grace", "100ms", "--term-grace", "300ms"];
        let mut holder = ring.stage.start_command(&options, &[&[badchild.as_str()], manner].concat());
        assert_eq!(holder.next_line(), b"ready\n");
        let mut newcomer = ring.run(&REPLACE, &[]);
        newcomer.initialize();
        assert_eq!(holder.code(), code, "{manner:?}: {}", holder.errors());
        assert_eq!(end(newcomer), 0);
        ring.expect_over();
    }
}

#[test]
fn a_holder_asleep_or_given_up_holds_its_slot_and_hands_it_over() {
    in_parallel(vec!["asleep", "tripped"], |state| {
        let ring = Ring::new();
        let options = match state {
            "asleep" => &["--hibernate", "100ms"][..],
            _ => &["--respawn", "--backoff", "1ms..2ms", "--max-failures", "1/1m"],
        };
        // Not `ring.holder`: a child that falls asleep so soon may never be seen ready.
        let mut holder = ring.run(options, &[]);
        holder.initialize();
        if state == "tripped" {
            ring.stage.facts(&json!({}));
            for _ in 0..2 {
                holder.call("die", json!({}));
            }
        }
        wait_until(state, || ring.state() == state);
        let mut refused = ring.run(&["--if-taken", "fail"], &[]);
        assert_eq!(refused.code(), NOT_NOW);
        assert!(refused.errors().contains(state), "{}", refused.errors());
        let mut newcomer = ring.run(&REPLACE, &[]);
        ring.expect_holder(&mut newcomer);
        holder.code();
        assert_eq!(end(newcomer), 0);
        ring.expect_over();
    });
}

/// When a slot has changed hands too often without a ready holder, newcomers leave it to the current holder.
#[test]
fn in_a_replacement_loop_replace_becomes_wait_until_a_holder_is_ready() {
    let ring = Ring::new();
    let limit = ["--max-handovers", "2/1m"];
    // Three holders that end before they are ready, and do not see the end of their input.
    for _ in 0..3 {
        let mut caller = ring.run(&[&MANAGED[..], &["--eof-grace", "1s"]].concat(), &["--start-delay", "60000"]);
        let lives = ring.stage.lives().len();
        wait_until("the child has started", || {
            ring.stage.lives().len() > lives || !ring.stage.servers_here().is_empty()
        });
        caller.close();
        caller.code();
    }
    assert!(ring.history().iter().all(|tenure| tenure["ready"].is_null()), "{:#?}", ring.history());
    ring.stage.facts(&json!({}));
    let mut holder = ring.run(&MANAGED, &["--start-delay", "1500"]);
    wait_until("the holder has the slot", || ring.state() == "starting");
    let mut newcomer = ring.run(&[&REPLACE[..], &limit].concat(), &[]);
    wait_until("the newcomer says why it waits", || newcomer.errors().contains("waiting instead"));
    let said = newcomer.errors();
    assert!(said.contains("3 times") && said.contains("limit 2/1m"), "{said}");
    assert!(ring.stage.journal().contains("so the holder is not asked to hand over"), "{}", ring.stage.journal());
    let shown = ring.stage.nostray(&["slot", "show", SLOT]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.matches("never").count(), 4, "the history: {shown}");
    holder.initialize();
    let pid = holder.pid();
    let asked = comes_true(Duration::from_millis(1500), &mut || holder.process.try_wait().expect("look").is_some());
    assert!(!asked, "a newcomer that waits replaced the holder");
    assert_eq!(holder.pid(), pid);
    // The holder is ready, so the loop is over, and the next newcomer may ask it to hand over.
    wait_until("the holder is on record", || ring.state() == "ready");
    let mut next = ring.run(&[&REPLACE[..], &limit].concat(), &[]);
    ring.expect_holder(&mut next);
    holder.code();
    assert_eq!(end(next), 0);
    ring.expect_holder(&mut newcomer);
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// A newcomer is stopped while it waits for the holder to end. It then finds another holder, which no newcomer has
/// asked yet.
#[test]
fn a_newcomer_asks_the_next_holder_before_it_ends_it_from_outside() {
    let ring = Ring::new();
    let mut holder = ring.holder(&["--eof-grace", "200ms", "--term-grace", "10m"]);
    holder.result("fork", json!({ "kind": "term-ignoring" }));
    let mut newcomer = ring.run(&REPLACE, &[]);
    wait_until("the newcomer has asked", || newcomer.errors().contains("was asked to hand over"));
    let front = front_of(&newcomer);
    front.send(Signal::STOP);
    let mut other = ring.run(&["--eof-grace", "10s", "--term-grace", "10s"], &[]);
    assert!(ring.stage.nostray(&["slot", "release", "--now", SLOT]).status.success());
    ring.expect_holder(&mut other);
    holder.code();
    wait_until("the holder is on record", || ring.state() == "ready");
    let id = ring.show()["holder"]["id"].as_str().expect("an id").to_owned();
    // Longer than a holder may take to answer.
    std::thread::sleep(Duration::from_secs(6));
    front.send(Signal::CONT);
    ring.expect_holder(&mut newcomer);
    let log = ring.stage.journal();
    assert!(
        log.lines().any(|line| line.contains(&id) && line.contains("it was asked to hand over its slot")),
        "the next holder was not asked, but ended from outside: {}\n{log}",
        newcomer.errors()
    );
    other.code();
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// Two live hosts, each of which restarts its child whenever it ends.
#[test]
fn a_host_that_was_replaced_waits_for_its_replacer_and_names_it() {
    in_parallel(vec![&[][..], &MANAGED], |options| {
        // A high limit, so that only the rule for hosts applies.
        let options = [options, &["--max-handovers", "100/1h"]].concat();
        let ring = Ring::new();
        let mut first = ring.restarting_host(&options, false);
        ring.wait_for_child_of(&mut first);
        let mut second = ring.restarting_host(&options, false);
        let holder = ring.wait_for_child_of(&mut second);
        let said = format!("slot {SLOT} is taken by {holder} ");
        let why = "this host was replaced and does not replace in turn; waiting";
        wait_until("the first host is told", || {
            first.errors().lines().any(|line| line.contains(&said) && line.contains(why))
        });
        // Time is what is tested: two hosts that replace each other would do so several times a second.
        std::thread::sleep(Duration::from_secs(4));
        assert_eq!(ring.history().len(), 2, "{:#}\n{}\n{}", ring.show(), first.errors(), second.errors());
        assert_eq!(ring.show()["holder"]["id"], holder.as_str());
        // An operator releases the slot. Now the second host waits.
        assert!(ring.stage.nostray(&["slot", "release", SLOT]).status.success());
        let holder = ring.wait_for_child_of(&mut first);
        let said = format!("slot {SLOT} is taken by {holder} ");
        wait_until("the second host is told", || {
            second.errors().lines().any(|line| line.contains(&said) && line.contains(why))
        });
        // Another host may replace.
        let mut third = ring.restarting_host(&options, false);
        ring.wait_for_child_of(&mut third);
        // The holder ends with its host, and the first waiter gets the slot.
        third.process.kill().expect("kill");
        third.process.wait().expect("reap");
        ring.wait_for_child_of(&mut second);
        for host in [&mut first, &mut second] {
            host.process.kill().expect("kill");
            host.process.wait().expect("reap");
        }
        ring.expect_over();
    });
}

/// Each start has a new host, so nostray cannot recognise a host that was replaced.
#[test]
fn more_handovers_than_the_limit_end_replacing_also_when_each_holder_was_ready() {
    let ring = Ring::new();
    let mut hosts: Vec<_> = (0..2).map(|_| ring.restarting_host(&["--max-handovers", "2/1h"], true)).collect();
    let is_told = |host: &Caller| host.errors().contains("it changed hands 3 times (limit 2/1h)");
    wait_until("one of the hosts is told", || hosts.iter().any(is_told));
    let count = || ring.history().iter().filter(|tenure| tenure["handed_over"] == true).count();
    assert_eq!(count(), 3, "{:#}", ring.show());
    // Time is what is tested: a host that restarts its child tries many times in it.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(count(), 3, "{:#}", ring.show());
    let mut newcomer = ring.run(&[&REPLACE[..], &["--max-handovers", "2/1h"]].concat(), &[]);
    wait_until("a newcomer is told", || is_told(&newcomer));
    newcomer.process.kill().expect("kill");
    newcomer.process.wait().expect("reap");
    for host in &mut hosts {
        host.process.kill().expect("kill");
        host.process.wait().expect("reap");
        host.close(); // the child of its wrapper ends with its input
    }
    ring.expect_over();
}
