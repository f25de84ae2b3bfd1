//! A shared child that crashes comes back once for all who hold it, and is told everything once; or it does not, and all of them are
//! told why. What else ends and starts a supervised child holds for a shared one, with all its sessions in the count.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use badchild::{PATIENCE, comes_true, wait_until};
use common::in_parallel;
use common::sharing::{Random, Watch, release};
use common::stage::{Caller, Stage};
use nostray_sys::Signal;
use serde_json::{Value, json};

const QUICK: [&str; 2] = ["--backoff", "1ms..20ms"];
const NOT_LONG: Duration = Duration::from_millis(300);

fn sessions(stage: &Stage, count: usize, options: &[&str], server: &[&str]) -> Vec<Caller> {
    (0..count).map(|_| stage.shared(options, server)).collect()
}

fn times(methods: &[String], method: &str) -> usize {
    methods.iter().filter(|told| *told == method).count()
}

#[test]
fn a_crash_with_five_holders_is_one_start_and_the_new_child_is_told_everything_once() {
    let stage = Arc::new(Stage::new());
    let watch = Watch::over(&stage);
    let mut callers = sessions(&stage, 5, &QUICK, &[]);
    for (n, caller) in callers.iter_mut().enumerate() {
        caller.result("logging/setLevel", json!({ "level": if n == 3 { "info" } else { "error" } }));
        for uri in ["test://a".to_owned(), format!("test://{}", n % 2)] {
            caller.result("resources/subscribe", json!({ "uri": uri }));
        }
    }
    for round in 2..=3 {
        let hanging: Vec<_> = callers.iter_mut().map(|caller| caller.ask("hang", json!({}))).collect();
        wait_until("they are in flight", || {
            times(&stage.lives().pop().expect("is there").methods(), "hang") == callers.len()
        });
        stage.child().send(Signal::KILL);
        for (caller, id) in callers.iter_mut().zip(hanging) {
            let answer = caller.answer(id);
            assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("SIGKILL")), "{answer}");
        }
        // Each one's call comes after what it has to tell.
        callers.iter_mut().for_each(|caller| drop(caller.who()));
        let told = callers[0].who();
        assert_eq!(told["level"], "info");
        let mut subscriptions = told["subscriptions"].as_array().expect("a list").clone();
        subscriptions.sort_by_key(Value::to_string);
        assert_eq!(subscriptions, ["test://0", "test://1", "test://a"]);
        stage.wait_for_life(round);
        let methods = stage.lives()[round - 1].methods();
        assert_eq!(times(&methods, "initialize"), 1, "{methods:?}");
        assert_eq!(times(&methods, "notifications/initialized"), 1, "{methods:?}");
        assert_eq!(times(&methods, "resources/subscribe"), 3, "{methods:?}");
        for caller in &mut callers {
            assert_eq!(caller.unasked(), Vec::<Value>::new());
        }
    }
    callers.into_iter().for_each(release);
    stage.expect_over(3, NOT_LONG);
    watch.expect_one();
}

/// What one of them does not want any more is not told on its behalf.
#[test]
fn a_new_child_is_told_only_what_those_want_who_are_still_there() {
    let stage = Stage::new();
    let mut callers = sessions(&stage, 3, &QUICK, &[]);
    for (caller, uri) in callers.iter_mut().zip(["test://a", "test://b", "test://b"]) {
        caller.result("resources/subscribe", json!({ "uri": uri }));
    }
    callers[0].result("logging/setLevel", json!({ "level": "debug" }));
    callers[1].result("logging/setLevel", json!({ "level": "error" }));
    release(callers.remove(0));
    stage.wait_for_leases(&[2]);
    wait_until("it is unsubscribed", || callers[0].who()["subscriptions"] == json!(["test://b"]));
    stage.child().send(Signal::KILL);
    stage.wait_for_life(2);
    callers.iter_mut().for_each(|caller| drop(caller.who()));
    let told = callers[1].who();
    assert_eq!((&told["level"], &told["subscriptions"]), (&json!("error"), &json!(["test://b"])));
    callers.into_iter().for_each(release);
    stage.expect_over(2, NOT_LONG);
}

#[test]
fn without_respawn_all_sessions_end_with_the_childs_code() {
    let endings = vec![(json!({ "code": 3 }), 3), (json!({ "signal": 9 }), 137), (json!({ "code": 0 }), 0)];
    in_parallel(endings, |(ending, code)| {
        let stage = Stage::new();
        let mut callers = sessions(&stage, 3, &["--no-respawn"], &[]);
        let hanging: Vec<_> = callers.iter_mut().map(|caller| caller.ask("hang", json!({}))).collect();
        wait_until("they are in flight", || times(&stage.lives()[0].methods(), "hang") == 3);
        callers[0].ask("die", ending.clone());
        for (caller, id) in callers.iter_mut().zip(hanging) {
            assert_eq!(caller.answer(id)["error"]["code"], -32000);
            assert_eq!(caller.code(), code, "{ending}: {}", caller.errors());
        }
        stage.expect_over(1, NOT_LONG);
    });
}

#[test]
fn a_program_that_cannot_be_executed_is_said_so_to_each_session() {
    let stage = Stage::new();
    let plain = stage.file("plain");
    std::fs::write(&plain, "no program").expect("write");
    for (program, code) in [("no-such-program-here", 127), (plain.as_str(), 126)] {
        // The first one, and those that come while it is known, and after.
        let mut callers: Vec<_> = (0..3).map(|_| stage.share_command(&QUICK, &[program])).collect();
        callers.push(stage.share_command(&QUICK, &[program]));
        for caller in &mut callers {
            // It may have ended before it hears that; if it has not, it answers.
            // (Not by a ping, which whoever is there answers.)
            let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
            caller.try_send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
        }
        for caller in &mut callers {
            for answer in caller.unasked() {
                assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains(program)), "{answer}");
            }
            assert_eq!(caller.code(), code, "{}", caller.errors());
            assert!(caller.errors().contains(program), "{}", caller.errors());
        }
        stage.scene.expect_empty();
    }
}

#[test]
fn a_child_that_fails_too_often_is_given_up_for_all_and_restart_tries_again() {
    let stage = Stage::new();
    let options = ["--backoff", "1ms..5ms", "--max-failures", "3/1m", "--key", "k"];
    stage.facts(&json!({}));
    let mut callers = sessions(&stage, 2, &options, &[]);
    stage.facts(&json!({ "exit": 7 }));
    stage.child().send(Signal::KILL);
    wait_until("it is given up", || stage.states() == ["tripped"]);
    let lives = stage.lives().len();
    for caller in &mut callers {
        let error = caller.error("who", json!({}));
        assert!(error["message"].as_str().is_some_and(|text| text.contains('7')), "{error}");
    }
    assert_eq!(stage.lives().len(), lives, "no call tries again so soon");
    stage.facts(&json!({}));
    let restarted = stage.nostray(&["restart", "k"]);
    assert!(restarted.status.success(), "{restarted:?}");
    for caller in &mut callers {
        caller.who();
    }
    callers.into_iter().for_each(release);
    stage.expect_over(lives + 1, NOT_LONG);
}

#[test]
fn it_sleeps_only_when_all_are_quiet_and_a_call_of_any_one_wakes_it() {
    let stage = Arc::new(Stage::new());
    let watch = Watch::over(&stage);
    let mut callers = sessions(&stage, 3, &["--hibernate", "700ms"], &[]);
    callers[1].result("logging/setLevel", json!({ "level": "notice" }));
    // One is busy for longer than that.
    let slow = callers[2].result("slow", json!({ "ms": 1800 }));
    // (On a machine that is busy, it may have slept between two sessions.)
    let lives = stage.lives();
    let last = lives.last().expect("one");
    assert_eq!(slow["pid"], last.pid);
    assert_eq!(times(&last.methods(), "slow"), 1, "{}", stage.journal());
    wait_until("it sleeps", || stage.states() == ["asleep"] && stage.servers().is_empty());
    stage.wait_for_leases(&[3]);
    for (number, who) in [(1, 1), (2, 0), (3, 2)] {
        // It stays awake for as long as it is looked at.
        let hanging = callers[who].ask("hang", json!({}));
        // Who has not called takes it up, too.
        wait_until("it knows the level", || callers[who].who()["level"] == "notice");
        assert_eq!(stage.lives().len(), lives.len() + number);
        callers[who].tell("notifications/cancelled", Some(json!({ "requestId": hanging })));
        wait_until("it sleeps", || stage.states() == ["asleep"] && stage.servers().is_empty());
    }
    for caller in &mut callers {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    // Those who leave wake nobody.
    callers.into_iter().for_each(release);
    stage.expect_over(lives.len() + 3, NOT_LONG);
    watch.expect_one();
}

/// The calls of three, each just when it may fall asleep, hundreds of times: none is lost, and none gets an error.
#[test]
fn calls_that_cross_the_falling_asleep_are_not_lost() {
    let stage = Stage::new();
    let callers = sessions(&stage, 3, &["--hibernate", "20ms"], &[]);
    std::thread::scope(|scope| {
        for (seed, mut caller) in callers.into_iter().enumerate() {
            let stage = &stage;
            scope.spawn(move || {
                let (mut random, until) = (Random::new(seed as u64), Instant::now() + Duration::from_secs(3));
                let (mut count, deadline) = (0, until + PATIENCE);
                // How often it finds the time to sleep, and to answer, depends on how busy the machine is.
                let is_enough = |count: u64| stage.lives().len() > 5 && count > 10;
                while Instant::now() < until || (!is_enough(count) && Instant::now() < deadline) {
                    // Until about the moment when it falls asleep, if the others let it.
                    std::thread::sleep(Duration::from_micros(18_000 + random.below(8_000)));
                    let id = caller.ask("echo", json!({ "n": count }));
                    let answer = caller.answer(id);
                    let lives = stage.lives().len();
                    assert_eq!(answer["result"]["n"], count, "life {lives}: {answer}\n{}", stage.journal());
                    let unasked = caller.unasked();
                    assert!(unasked.is_empty(), "{unasked:?}\n{}", stage.journal());
                    count += 1;
                }
                assert!(count > 10, "{count}");
                release(caller);
            });
        }
    });
    let lives = stage.lives().len();
    assert!(lives > 5, "it has slept {lives} times");
    stage.expect_over(lives, NOT_LONG);
}

#[test]
fn one_that_grows_too_large_is_started_anew_when_no_session_waits_for_it() {
    let stage = Stage::new();
    let mut callers = sessions(&stage, 3, &["--max-memory", "60M"], &[]);
    let first = callers[0].pid();
    let slow = callers[1].ask("slow", json!({ "ms": 1800 }));
    wait_until("it is in flight", || times(&stage.lives()[0].methods(), "slow") == 1);
    callers[0].result("grow", json!({ "mb": 80 }));
    let answer = callers[1].answer(slow);
    assert_eq!(answer["result"]["pid"], first, "it is waited for: {answer}");
    stage.wait_for_life(2);
    for caller in &mut callers {
        assert_ne!(caller.pid(), first);
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    assert!(stage.lives()[0].saw_the_end, "politely");
    callers.into_iter().for_each(release);
    stage.expect_over(2, NOT_LONG);
}

#[test]
fn lazy_sessions_start_no_child_until_one_of_them_calls() {
    let stage = Stage::new();
    // Somebody has asked before.
    let mut caller = stage.shared(&["--lazy"], &[]);
    caller.result("tools/list", json!({}));
    release(caller);
    stage.scene.expect_empty();
    assert_eq!(stage.lives().len(), 1);

    let mut callers = sessions(&stage, 3, &["--lazy"], &[]);
    for caller in &mut callers {
        assert_eq!(caller.result("tools/list", json!({}))["tools"][0]["name"], "who");
    }
    let starts =
        comes_true(Duration::from_millis(500), &mut || stage.lives().len() > 1 || !stage.servers().is_empty());
    assert!(!starts, "{}", stage.journal());
    let told = callers[1].who();
    assert_eq!(told["initialized"], true);
    let pid = told["pid"].as_i64();
    for caller in &mut callers {
        assert_eq!(Some(caller.pid()), pid);
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    callers.into_iter().for_each(release);
    stage.expect_over(2, NOT_LONG);
    assert_eq!(times(&stage.lives()[1].methods(), "initialize"), 1);
}

/// Nobody is told anything but that its own call was cut off, whatever the moment.
#[test]
fn a_crash_while_sessions_begin_costs_errors_and_no_session() {
    in_parallel((0..6).collect(), |seed| {
        let (stage, mut random) = (Stage::new(), Random::new(seed));
        let options = ["--backoff", "1ms..5ms", "--max-failures", "100/1s"];
        let mut callers: Vec<_> = (0..4).map(|_| stage.share(&options, &["--start-delay", "20"])).collect();
        let hello = |caller: &mut Caller| {
            caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }))
        };
        let hellos: Vec<_> = callers.iter_mut().map(hello).collect();
        for kill in 1..=3 {
            wait_until("it is there", || stage.lives().len() >= kill);
            // Somewhere in its handshakes.
            std::thread::sleep(Duration::from_micros(random.below(40_000)));
            stage.servers().iter().for_each(|found| found.send(Signal::KILL));
        }
        for (caller, id) in callers.iter_mut().zip(hellos) {
            let mut answer = caller.answer(id);
            // Each of the kills cuts off one greeting at most; the last may be noticed only now.
            for _ in 0..3 {
                assert!(answer.get("result").is_some() || answer["error"]["code"] == -32000, "seed {seed}: {answer}");
                if answer.get("result").is_some() {
                    break;
                }
                let again = hello(caller);
                answer = caller.answer(again);
            }
            assert!(answer.get("result").is_some(), "seed {seed}: {answer}");
            caller.tell("notifications/initialized", None);
            caller.call("who", json!({}));
            caller.who();
            assert_eq!(caller.unasked(), Vec::<Value>::new(), "seed {seed}");
        }
        callers.into_iter().for_each(release);
        let lives = stage.lives().len();
        stage.expect_over(lives, NOT_LONG);
    });
}
