//! What a newcomer gets that finds a slot taken: its turn, a clear refusal, or the slot of the holder, which is asked
//! to hand it over.

use std::time::{Duration, Instant};

use badchild::{Bystanders, Found, Host, Scene, User, badchild, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::json;
use testkit::slots::{MANAGED, NOT_NOW, Ring, SLOT, end, front_of};
use testkit::stage::Caller;
use testkit::{in_parallel, nostray};

pub(crate) const REPLACE: [&str; 2] = ["--if-taken", "replace"];
/// "At once" on a machine that is busy with other tests. A wait for a grace would take much longer.
pub(crate) const SOON: Duration = Duration::from_secs(20);

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
