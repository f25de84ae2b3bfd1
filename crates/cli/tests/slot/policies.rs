//! What a newcomer gets that finds a slot taken: its turn, a clear refusal, or the slot of the holder, which is asked
//! to hand it over.

use std::time::{Duration, Instant};

use badchild::{Bystanders, Found, Host, Scene, User, badchild, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::json;
use testkit::slots::{MANAGED, NOT_NOW, Ring, SLOT, end, front_of};
use testkit::stage::Caller;
use testkit::{in_parallel, nostray};

const REPLACE: [&str; 2] = ["--if-taken", "replace"];
/// "At once" on a machine that is busy with other tests. A wait for a grace would take much longer.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    in_parallel(vec![false, true], |mixed| {
        let ring = Ring::new();
        let first = ring.holder(&[]);
        let options = |at: usize| if mixed && at % 2 == 1 { &MANAGED[..] } else { &[] };
        let waiters: Vec<Caller> = (0..5).map(|at| ring.waiter(options(at), at)).collect();
        let shown: Vec<_> = ring.waiting().iter().map(|who| who["pid"].as_u64().expect("a number")).collect();
        let came: Vec<_> = waiters.iter().map(|waiter| u64::from(waiter.process.id())).collect();
        assert_eq!(shown, came, "the waiters are shown in another order");
        let mut last = first;
        for (at, mut waiter) in waiters.into_iter().enumerate() {
            assert_eq!(end(last), 0);
            ring.expect_holder(&mut waiter);
            assert_eq!(ring.waiting().len(), 4 - at, "{:#}", ring.show());
            last = waiter;
        }
        assert_eq!(end(last), 0);
        assert_eq!(ring.stage.lives().len(), 6);
        ring.expect_over();
    });
}

#[test]
fn fail_exits_with_75_and_names_the_holder_its_state_and_since_when() {
    for options in [&[][..], &MANAGED] {
        let ring = Ring::new();
        let holder = ring.holder(&[&["--session", "the-first"], options].concat());
        let began = Instant::now();
        let mut other = ring.run(&["--if-taken", "fail"], &[]);
        assert_eq!(other.code(), NOT_NOW);
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        let said = other.errors();
        let id = ring.show()["holder"]["id"].as_str().expect("an id").to_owned();
        for part in [SLOT, &id, "the-first", "ready for ", "sh -c exec", "nostray slot show db"] {
            assert!(said.contains(part), "'{part}' is not in: {said}");
        }
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(other.unasked().is_empty(), "the front wrote to stdout");
        assert_eq!(ring.stage.lives().len(), 1, "a child was started");
        assert_eq!(end(holder), 0);
        ring.expect_over();
        // The refusal does not affect the next contender.
        let mut next = ring.run(&["--if-taken", "fail"], &[]);
        ring.expect_holder(&mut next);
        assert_eq!(end(next), 0);
        ring.expect_over();
    }
}

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

#[test]
fn a_waiter_with_a_timeout_leaves_with_75_and_its_place_is_free() {
    in_parallel(vec![(&[][..], "wait"), (&MANAGED, "wait"), (&[], "replace")], |(options, policy)| {
        let ring = Ring::new();
        // A holder that does not end soon, so that a newcomer that replaces it waits, too.
        let mut holder = ring.holder(&["--eof-grace", "10m", "--term-grace", "10m"]);
        holder.result("fork", json!({ "kind": "term-ignoring" }));
        let began = Instant::now();
        let words = ["--if-taken", policy, "--wait-timeout", "700ms"];
        let mut waiter = ring.run(&[&words[..], options].concat(), &[]);
        let mut after = ring.run(&[], &[]);
        assert_eq!(waiter.code(), NOT_NOW);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(700) && took < SOON, "{took:?}");
        let said = waiter.errors();
        assert!(said.contains("was not free after 700ms"), "{said}");
        assert!(after.process.try_wait().expect("look").is_none());
        assert_eq!(ring.stage.lives().len(), 1);
        // The contender behind it does not time out, and gets the slot.
        assert!(ring.stage.nostray(&["slot", "release", "--now", SLOT]).status.success());
        ring.expect_holder(&mut after);
        holder.code();
        assert_eq!(end(after), 0);
        ring.expect_over();
    });
}

/// The exit code is 128 and the number of the signal, as if the signal had ended a child.
#[test]
fn a_waiter_ends_at_once_on_a_signal_or_the_end_of_its_input_and_starts_no_child() {
    let mut cells = Vec::new();
    for options in [&[][..], &MANAGED] {
        for policy in ["wait", "replace"] {
            for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
                cells.push((options, policy, Some(signal)));
            }
            cells.push((options, policy, None));
        }
    }
    in_parallel(cells, |(options, policy, signal)| {
        let ring = Ring::new();
        let mut holder = ring.holder(&["--eof-grace", "10m", "--term-grace", "10m"]);
        if policy == "replace" {
            holder.result("fork", json!({ "kind": "term-ignoring" }));
        }
        let mut waiter = ring.waiter(&[&["--if-taken", policy], options].concat(), 0);
        // Wait until the waiter has reported that it waits.
        wait_until("the waiter has reported", || !waiter.errors().is_empty());
        let began = Instant::now();
        let expected = match signal {
            Some(signal) => {
                front_of(&waiter).send(signal);
                128 + signal.as_raw()
            }
            None => {
                waiter.close();
                NOT_NOW
            }
        };
        assert_eq!(waiter.code(), expected, "{signal:?}: {}", waiter.errors());
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        if signal.is_none() {
            assert!(waiter.errors().contains("stdin was closed"), "{}", waiter.errors());
        }
        assert_eq!(ring.waiting().len(), 0, "{:#}", ring.show());
        assert_eq!(ring.stage.lives().len(), 1, "a child was started");
        assert!(ring.stage.nostray(&["slot", "release", "--now", SLOT]).status.success());
        holder.code();
        ring.expect_over();
    });
}

#[test]
fn a_waiter_leaves_when_its_host_dies_and_the_next_waiter_gets_the_slot() {
    in_parallel(vec![(&[][..], false), (&MANAGED, false), (&[], true)], |(options, hold)| {
        let ring = Ring::new();
        let holder = ring.holder(&[]);
        let words = ring.words(&[]);
        let mut run = vec![nostray().display().to_string()];
        run.extend(["run", "--slot", SLOT].into_iter().chain(options.iter().copied()).map(str::to_owned));
        run.push("--".to_owned());
        run.extend(words);
        let run: Vec<_> = run.iter().map(String::as_str).collect();
        // With `--hold`, another process keeps the waiter's stdin open, so the waiter can only see the end of its host.
        let mut host = Host::start(&ring.stage.scene, if hold { &["--hold"] } else { &[] }, &run);
        wait_until("the waiter is in the queue", || ring.waiting().len() == 1);
        let number = ring.waiting()[0]["pid"].as_i64().expect("a number");
        let waiter = Found::by_pid(badchild::pid(i32::try_from(number).expect("small"))).expect("is there");
        let mut after = ring.waiter(&[], 1);
        host.kill();
        wait_until("the waiter has left", || !waiter.is_alive());
        assert_eq!(ring.waiting().len(), 1, "{:#}", ring.show());
        assert_eq!(end(holder), 0);
        ring.expect_holder(&mut after);
        assert_eq!(end(after), 0);
        assert_eq!(ring.stage.lives().len(), 2, "a child was started for a host that was gone");
        drop(host);
        ring.expect_over();
    });
}

/// A killed waiter cannot give up its place. The kernel releases its lock.
#[test]
fn the_place_of_a_killed_waiter_is_free() {
    let ring = Ring::new();
    let mut holder = ring.holder(&["--eof-grace", "200ms", "--term-grace", "10m"]);
    holder.result("fork", json!({ "kind": "term-ignoring" }));
    let mut killed: Vec<_> = (0..3).map(|at| ring.waiter(if at == 1 { &REPLACE } else { &[] }, at)).collect();
    // The waiter that replaces has asked the holder, and would be next.
    killed.iter_mut().for_each(|waiter| waiter.process.kill().expect("kill"));
    let mut next = ring.run(&[], &[]);
    assert!(ring.stage.nostray(&["slot", "release", "--now", SLOT]).status.success());
    holder.code();
    ring.expect_holder(&mut next);
    assert_eq!(ring.waiting().len(), 0, "{:#}", ring.show());
    for waiter in &mut killed {
        waiter.process.wait().expect("reap");
    }
    let left = std::fs::read_dir(ring.place()).expect("read").flatten().map(|entry| entry.file_name());
    let mut left: Vec<_> = left.map(|name| name.to_string_lossy().into_owned()).collect();
    left.sort();
    assert_eq!(left, ["alive", "history.json", "lock"]);
    assert_eq!(end(next), 0);
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

/// A case from practice: one interactive host with the slot, and two headless ones without.
#[test]
fn pens_without_a_slot_coexist_with_the_holder_and_no_handover_touches_them() {
    for user in User::all() {
        let (ring, bystanders) = (Ring::for_user(user), Bystanders::start(User::Current));
        let mut holder = ring.holder(&[]);
        let headless: Vec<Caller> = (0..2)
            .map(|number| {
                let options: &[&str] = if number == 0 { &[] } else { &MANAGED };
                let record = ring.stage.file("headless");
                let badchild = badchild().display().to_string();
                let mut caller = ring.stage.start_command(
                    &[&["--session", &format!("headless-{number}")], options].concat(),
                    &[&badchild, "server", "--record", &record],
                );
                caller.initialize();
                caller
            })
            .collect();
        let mut headless = headless;
        let pids: Vec<i64> = headless.iter_mut().map(Caller::pid).collect();
        let mut newcomer = ring.run(&REPLACE, &[]);
        newcomer.initialize();
        holder.code();
        let mut newest = ring.run(&[&REPLACE[..], &MANAGED].concat(), &[]);
        newest.initialize();
        newcomer.code();
        for (caller, pid) in headless.iter_mut().zip(&pids) {
            assert_eq!(caller.pid(), *pid, "the handover touched a pen without a slot");
        }
        // `stop` of one pen leaves the others alone, with and without a slot.
        let stopped = ring.stage.nostray(&["stop", "--session", "headless-0"]);
        assert!(stopped.status.success(), "{stopped:?}");
        headless.remove(0).code();
        assert_eq!(headless[0].pid(), pids[1]);
        newest.who();
        let id = ring.show()["holder"]["id"].as_str().expect("an id").to_owned();
        let stopped = ring.stage.nostray(&["stop", &id]);
        assert!(stopped.status.success(), "{stopped:?}");
        newest.code();
        assert_eq!(headless[0].pid(), pids[1]);
        assert_eq!(end(headless.remove(0)), 0);
        bystanders.expect_untouched();
        ring.expect_over();
    }
}

/// Two names are two slots.
#[test]
fn the_holder_of_another_slot_is_not_touched() {
    let ring = Ring::new();
    let mut other = ring.stage.start(&["--slot", "another"], &[]);
    other.initialize();
    let pid = other.pid();
    let mut holder = ring.holder(&[]);
    let mut newcomer = ring.run(&REPLACE, &[]);
    newcomer.initialize();
    holder.code();
    assert_eq!(other.pid(), pid);
    assert_eq!(end(newcomer), 0);
    assert_eq!(end(other), 0);
    ring.expect_over();
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

/// `slot list` must not block a contender.
#[test]
fn slot_list_in_a_loop_does_not_block_a_free_slot() {
    let ring = Ring::new();
    let scene = Scene::new(User::Current);
    let mut lookers: Vec<_> = (0..2)
        .map(|_| {
            let mut command = scene.command("sh".as_ref());
            command.env("XDG_RUNTIME_DIR", ring.stage.scene.runtime());
            command.env("XDG_STATE_HOME", ring.stage.scene.runtime().join("state"));
            command.args(["-c", "while :; do \"$0\" slot list --all >/dev/null; done"]).arg(nostray());
            command.spawn().expect("start")
        })
        .collect();
    for round in 0..25 {
        let mut caller = ring.stage.start_command(&["--slot", SLOT, "--if-taken", "fail"], &["true"]);
        assert_eq!(caller.code(), 0, "round {round}: {}", caller.errors());
    }
    for looker in &mut lookers {
        looker.kill().expect("kill");
        looker.wait().expect("reap");
    }
    scene.expect_empty();
    ring.expect_over();
}

/// A process that runs `slot list` may be descheduled while it holds the lock. Contenders must not take it for a
/// holder.
#[test]
fn a_slow_look_at_the_lock_does_not_block_a_free_slot() {
    in_parallel(vec![&[][..], &MANAGED], |options| {
        let ring = Ring::new();
        assert_eq!(end(ring.holder(&[])), 0);
        let looker = std::fs::File::open(ring.place().join("lock")).expect("open");
        looker.lock_shared().expect("lock");
        let mut caller = ring.run(&[&["--if-taken", "fail"], options].concat(), &[]);
        // Time is what is tested: longer than a look at the lock normally takes.
        let refused = comes_true(Duration::from_secs(1), &mut || caller.process.try_wait().expect("look").is_some());
        assert!(!refused, "{}", caller.errors());
        drop(looker);
        ring.expect_holder(&mut caller);
        assert_eq!(end(caller), 0);
        ring.expect_over();
    });
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
