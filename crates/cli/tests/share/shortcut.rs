//! A busy session goes by the shortcut: its steward reads and writes the host's streams itself. The host notices nothing of it, whichever
//! process is killed or stopped meanwhile.

use std::time::{Duration, Instant};

use badchild::{Found, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::sharing::{BROKER, STEWARD, is_long, release};
use testkit::stage::{Caller, Stage};

const SOON: [&str; 8] =
    ["--eof-grace", "150ms", "--term-grace", "400ms", "--backoff", "1ms..20ms", "--max-failures", "1000/1m"];

/// A session that goes by the shortcut whenever it can.
fn eager(stage: &Stage) -> Caller {
    started(stage, "always")
}

fn started(stage: &Stage, shortcut: &str) -> Caller {
    let command = stage.server(&[]);
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let options = [&SOON[..], &["--linger", "0s"]].concat();
    let mut caller = stage.launch("share", &options, &command, |command| {
        command.env("NOSTRAY_SHORTCUT", shortcut);
    });
    caller.initialize();
    caller
}

/// Whether a process has the memory that front and steward have in common.
fn has_shortcut(found: &Found) -> bool {
    let folder = std::fs::read_dir(format!("/proc/{}/fd", found.stat.pid));
    let links = folder.into_iter().flatten().flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.into_iter().any(|link| link.to_string_lossy().starts_with("/memfd:nostray-shortcut"))
}

fn front(caller: &Caller) -> Found {
    Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small"))).expect("is there")
}

fn is_open(stage: &Stage) -> bool {
    has_shortcut(&stage.the(STEWARD))
}

/// Calls until the shortcut is open.
fn make_busy(stage: &Stage, caller: &mut Caller) {
    wait_until("the shortcut is open", || {
        (0..50).for_each(|_| drop(caller.result("echo", json!({}))));
        is_open(stage)
    });
}

#[test]
fn a_busy_session_goes_by_the_shortcut_and_an_idle_one_does_not() {
    let stage = Stage::new();
    let mut caller = started(&stage, "when-busy");
    caller.who();
    assert!(!is_open(&stage), "one call is not much");
    for _ in 0..2 {
        make_busy(&stage, &mut caller);
        // An idle one is not looked after: nothing stays of it in front and steward.
        wait_until("the shortcut is given up", || !is_open(&stage) && !has_shortcut(&front(&caller)));
        caller.who();
    }
    release(caller);
    stage.expect_over(1, Duration::ZERO);
}

#[test]
fn what_is_not_usual_passes_too_and_in_its_order() {
    let stage = Stage::new();
    let mut caller = eager(&stage);
    for round in 0..20 {
        let ids: Vec<_> = (0..10).map(|_| caller.ask("who", json!({}))).collect();
        let tools = caller.ask("tools/list", json!({}));
        let hanging = caller.ask("hang", json!({}));
        caller.tell("notifications/cancelled", Some(json!({ "requestId": hanging })));
        let level = ["error", "notice"][round % 2];
        caller.result("logging/setLevel", json!({ "level": level }));
        for id in ids {
            assert!(caller.answer(id).get("result").is_some());
        }
        assert!(caller.answer(tools).get("result").is_some());
        let told = caller.who();
        assert_eq!(told["level"], level);
        let heard: Vec<_> = told["heard"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        let last: Vec<_> = heard.iter().rev().take(5).rev().copied().collect();
        assert_eq!(last[..], ["tools/list", "hang", "notifications/cancelled", "logging/setLevel", "who"]);
    }
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    release(caller);
    stage.expect_over(1, Duration::ZERO);
}

#[test]
fn each_call_is_answered_once_whenever_the_steward_is_killed() {
    let stage = Stage::new();
    let mut caller = eager(&stage);
    let rounds = if is_long() { 1000 } else { 40 };
    let (mut results, mut errors) = (0, 0);
    for round in 0..rounds {
        caller.who();
        let steward = stage.the(STEWARD);
        // Another moment each time, from before the first call to after the last.
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(round * 7919 % 6000));
            steward.send(Signal::KILL);
        });
        let ids: Vec<_> = (0..200).map(|_| caller.ask("echo", json!({ "round": round }))).collect();
        for id in ids {
            let answer = caller.answer(id);
            match answer["error"]["code"].as_i64() {
                None => results += 1,
                Some(-32000) => errors += 1,
                Some(_) => panic!("{answer}"),
            }
        }
        killer.join().expect("it killed");
        // Nothing came twice.
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    assert!(results > 0 && errors > 0, "{results} results, {errors} errors: the kills came too early or too late");
    release(caller);
    stage.scene.expect_empty();
}

#[test]
fn a_front_that_is_killed_closes_the_hosts_streams_at_once() {
    let stage = Stage::new();
    let mut caller = eager(&stage);
    make_busy(&stage, &mut caller);
    front(&caller).send(Signal::KILL);
    caller.expect_end();
    stage.expect_over(1, Duration::ZERO);
}

/// A broker that is stopped as well sees nothing of its steward, so the front alone can notice.
#[test]
fn a_call_is_answered_also_if_the_steward_is_stopped_on_the_shortcut() {
    in_parallel(vec![&[STEWARD][..], &[BROKER, STEWARD]], |whom| {
        let stage = Stage::new();
        let mut caller = eager(&stage);
        // After the front's own start is over, which would wake it up.
        let since = Instant::now();
        wait_until("the front has no other reason to wake up", || {
            make_busy(&stage, &mut caller);
            since.elapsed() > Duration::from_secs(4)
        });
        let victims: Vec<_> = whom.iter().map(|name| stage.the(name)).collect();
        victims.iter().for_each(|victim| victim.send(Signal::STOP));
        let ids: Vec<_> = (0..3).map(|_| caller.ask("who", json!({}))).collect();
        for id in ids {
            // No process had read it.
            assert!(caller.answer(id).get("result").is_some(), "{whom:?}");
        }
        assert!(victims.iter().all(|victim| victim.stat.name != STEWARD || !victim.is_alive()), "{whom:?}");
        assert_eq!(caller.unasked(), Vec::<Value>::new(), "{whom:?}");
        release(caller);
        stage.scene.expect_empty();
    });
}

/// What ends a session comes over the front, which has to take the way back first.
#[test]
fn a_signal_to_the_front_ends_the_session_and_answers_what_is_in_flight() {
    let stage = Stage::new();
    let mut caller = eager(&stage);
    make_busy(&stage, &mut caller);
    let ids: Vec<_> = (0..3).map(|_| caller.ask("hang", json!({}))).collect();
    wait_until("the calls are in flight", || {
        stage.lives().pop().is_some_and(|life| life.methods().iter().filter(|method| *method == "hang").count() == 3)
    });
    front(&caller).send(Signal::TERM);
    for id in ids {
        assert_eq!(caller.answer(id)["error"]["code"], -32000);
    }
    caller.code();
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    stage.expect_over(1, Duration::ZERO);
}

#[test]
fn a_host_that_does_not_read_for_a_while_gets_all_of_it() {
    let stage = Stage::new();
    let mut caller = eager(&stage);
    make_busy(&stage, &mut caller);
    caller.pause(true);
    let ids: Vec<_> = (0..3000).map(|_| caller.ask("echo", json!({ "text": "x".repeat(300) }))).collect();
    caller.pause(false);
    for id in ids {
        assert!(caller.answer(id).get("result").is_some());
    }
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    release(caller);
    stage.expect_over(1, Duration::ZERO);
}

#[test]
fn the_end_of_the_hosts_input_on_the_shortcut_is_the_end_after_what_was_asked() {
    let stage = Stage::new();
    let mut caller = eager(&stage);
    make_busy(&stage, &mut caller);
    let ids: Vec<_> = (0..5).map(|_| caller.ask("who", json!({}))).collect();
    caller.close();
    for id in ids {
        assert!(caller.answer(id).get("result").is_some());
    }
    assert_eq!(caller.code(), 0);
    stage.expect_over(1, Duration::ZERO);
}

#[test]
fn two_busy_sessions_hear_their_own_answers_alone() {
    let stage = Stage::new();
    let mut callers = [eager(&stage), eager(&stage)];
    for _ in 0..20 {
        let asked: Vec<Vec<_>> = callers
            .iter_mut()
            .enumerate()
            .map(|(who, caller)| (0..50).map(|n| (n, caller.ask("echo", json!({ "who": who, "n": n })))).collect())
            .collect();
        for (who, (caller, ids)) in callers.iter_mut().zip(asked).enumerate() {
            for (n, id) in ids {
                let answer = caller.answer(id);
                assert!(answer.to_string().contains(&format!("\"n\":{n}")), "{answer}");
                assert!(answer.to_string().contains(&format!("\"who\":{who}")), "{answer}");
            }
        }
    }
    assert!(callers.iter_mut().all(|caller| caller.unasked().is_empty()));
    callers.into_iter().for_each(release);
    stage.expect_over(1, Duration::ZERO);
}
