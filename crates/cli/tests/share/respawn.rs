//! A shared child that crashes is restarted once for all its sessions, and gets each of their settings once. If it is
//! not restarted, all sessions are told why. Hibernation and limits apply as for a supervised child, and count the
//! calls of all sessions.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use badchild::{PATIENCE, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::sharing::{Random, Watch, is_long, release};
use testkit::stage::{Caller, Stage};

const QUICK: [&str; 2] = ["--backoff", "1ms..20ms"];
const NOT_LONG: Duration = Duration::from_millis(300);

fn sessions(stage: &Stage, count: usize, options: &[&str], server: &[&str]) -> Vec<Caller> {
    (0..count).map(|_| stage.shared(options, server)).collect()
}

fn times(methods: &[String], method: &str) -> usize {
    methods.iter().filter(|told| *told == method).count()
}

#[test]
fn a_crash_with_five_sessions_leads_to_one_start_and_the_next_child_gets_every_setting_once() {
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
        wait_until("the calls are in flight", || {
            times(&stage.lives().pop().expect("is there").methods(), "hang") == callers.len()
        });
        stage.child().send(Signal::KILL);
        for (caller, id) in callers.iter_mut().zip(hanging) {
            let answer = caller.answer(id);
            assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("SIGKILL")), "{answer}");
        }
        // Each front replays its session before it passes this call on.
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

/// The steward returns to each front the calls that the dead child has not read. The front makes them with the next
/// child.
#[test]
fn calls_that_a_dead_shared_child_never_read_are_made_with_the_next_child_once() {
    let stage = Stage::new();
    let mut callers = sessions(&stage, 3, &QUICK, &[]);
    // One session also has a call that the child has read.
    let read = callers[0].ask("hang", json!({ "n": 0 }));
    wait_until("the call is read", || times(&stage.lives()[0].methods(), "hang") == 1);
    callers[2].result("stop-reading", json!({ "file": stage.file("never") }));
    let child = stage.child();
    let mut calls = Vec::new();
    for n in 1..=4 {
        for (who, caller) in callers.iter_mut().enumerate() {
            let meta = json!({ "progressToken": "its own" });
            calls.push((who, n, caller.ask("echo", json!({ "who": who, "n": n, "_meta": meta }))));
        }
        // Wait, so that the calls reach the pipe in this order.
        wait_until("the calls are in the pipe", || child.unread_input() > n * 250);
    }
    let cancelled = callers[1].ask("echo", json!({ "n": 77 }));
    callers[1].tell("notifications/cancelled", Some(json!({ "requestId": cancelled })));
    child.send(Signal::KILL);
    let cut_off = callers[0].answer(read);
    assert!(cut_off["error"]["message"].as_str().is_some_and(|text| text.contains("SIGKILL")), "{cut_off}");
    for (who, n, id) in calls {
        let answer = callers[who].answer(id);
        assert_eq!((&answer["result"]["who"], &answer["result"]["n"]), (&json!(who), &json!(n)), "{answer}");
    }
    let methods = stage.lives()[1].methods();
    assert_eq!(times(&methods, "echo"), 12, "{methods:?}");
    assert!(!stage.lives()[1].heard.iter().any(|line| line.contains("\"n\":77")), "{methods:?}");
    for caller in &mut callers {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    callers.into_iter().for_each(release);
    stage.expect_over(2, NOT_LONG);
}

/// The child is killed at any moment while three sessions call. Each call is answered once, and made at most once.
#[test]
fn at_any_kill_of_a_shared_child_each_call_is_answered_once_and_no_unread_call_is_lost() {
    let rounds = if is_long() { 1500 } else { 15 };
    let stage = Stage::new();
    let options = ["--backoff", "1ms..2ms", "--max-failures", "1000/1s"];
    let mut callers = sessions(&stage, 3, &options, &["--byte-by-byte"]);
    let (mut random, mut n, mut failed) = (Random::new(11), 0, HashSet::new());
    for _ in 0..rounds {
        let mut victim = None;
        wait_until("a child", || {
            victim = stage.servers().pop();
            victim.is_some()
        });
        let (victim, delay) = (victim.expect("found"), Duration::from_micros(random.below(600)));
        let killer = std::thread::spawn(move || {
            // The test varies the moment of the kill.
            std::thread::sleep(delay);
            victim.send(Signal::KILL);
        });
        let mut ids = Vec::new();
        for _ in 0..1 + random.below(5) {
            for (who, caller) in callers.iter_mut().enumerate() {
                ids.push((who, n, caller.ask("echo", json!({ "n": n }))));
                n += 1;
            }
        }
        killer.join().expect("no panic");
        for (who, n, id) in ids {
            let answer = callers[who].answer(id);
            if answer.get("error").is_some() {
                failed.insert(n);
            } else {
                assert_eq!(answer["result"], json!({ "n": n }), "{answer}");
            }
        }
    }
    stage.expect_made_once(&failed);
    for caller in &mut callers {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    callers.into_iter().for_each(release);
    stage.scene.expect_empty();
}

/// The settings of a session that has ended are not replayed.
#[test]
fn the_next_child_gets_only_the_settings_of_live_sessions() {
    let stage = Stage::new();
    let mut callers = sessions(&stage, 3, &QUICK, &[]);
    for (caller, uri) in callers.iter_mut().zip(["test://a", "test://b", "test://b"]) {
        caller.result("resources/subscribe", json!({ "uri": uri }));
    }
    callers[0].result("logging/setLevel", json!({ "level": "debug" }));
    callers[1].result("logging/setLevel", json!({ "level": "error" }));
    release(callers.remove(0));
    stage.wait_for_leases(&[2]);
    wait_until("the child is unsubscribed", || callers[0].who()["subscriptions"] == json!(["test://b"]));
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
        wait_until("the calls are in flight", || times(&stage.lives()[0].methods(), "hang") == 3);
        callers[0].ask("die", ending.clone());
        for (caller, id) in callers.iter_mut().zip(hanging) {
            assert_eq!(caller.answer(id)["error"]["code"], -32000);
            assert_eq!(caller.code(), code, "{ending}: {}", caller.errors());
        }
        stage.expect_over(1, NOT_LONG);
    });
}

#[test]
fn each_session_is_told_that_a_program_cannot_be_executed() {
    let stage = Stage::new();
    let plain = stage.file("plain");
    std::fs::write(&plain, "no program").expect("write");
    for (program, code) in [("no-such-program-here", 127), (plain.as_str(), 126)] {
        // The first session, and later ones that come while or after the steward knows.
        let mut callers: Vec<_> = (0..3).map(|_| stage.share_command(&QUICK, &[program])).collect();
        callers.push(stage.share_command(&QUICK, &[program]));
        for caller in &mut callers {
            // The front may have ended before it reads this; otherwise it answers. A ping would not do: the front
            // answers it without a child.
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
    wait_until("the child is given up", || stage.states() == ["tripped"]);
    let lives = stage.lives().len();
    for caller in &mut callers {
        let error = caller.error("who", json!({}));
        assert!(error["message"].as_str().is_some_and(|text| text.contains('7')), "{error}");
    }
    assert_eq!(stage.lives().len(), lives, "a call started the child too soon");
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
fn a_shared_child_sleeps_only_without_calls_of_any_session_and_a_call_of_any_session_wakes_it() {
    let stage = Arc::new(Stage::new());
    let watch = Watch::over(&stage);
    let mut callers = sessions(&stage, 3, &["--hibernate", "700ms"], &[]);
    callers[1].result("logging/setLevel", json!({ "level": "notice" }));
    // One session is busy for longer than the time of `--hibernate`.
    let slow = callers[2].result("slow", json!({ "ms": 1800 }));
    // On a busy machine the child may have slept between two sessions.
    let lives = stage.lives();
    let last = lives.last().expect("one");
    assert_eq!(slow["pid"], last.pid);
    assert_eq!(times(&last.methods(), "slow"), 1, "{}", stage.journal());
    wait_until("the child is asleep", || stage.states() == ["asleep"] && stage.servers().is_empty());
    stage.wait_for_leases(&[3]);
    for (number, who) in [(1, 1), (2, 0), (3, 2)] {
        // A call in flight keeps the child awake while the test looks at it.
        let hanging = callers[who].ask("hang", json!({}));
        // A session that has not called replays its settings, too.
        wait_until("the child has the level", || callers[who].who()["level"] == "notice");
        assert_eq!(stage.lives().len(), lives.len() + number);
        callers[who].tell("notifications/cancelled", Some(json!({ "requestId": hanging })));
        wait_until("the child is asleep", || stage.states() == ["asleep"] && stage.servers().is_empty());
    }
    for caller in &mut callers {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    // Sessions that end do not wake the child.
    callers.into_iter().for_each(release);
    stage.expect_over(lives.len() + 3, NOT_LONG);
    watch.expect_one();
}

/// Hosts ping all the time, whether the child is awake or not.
#[test]
fn pings_of_any_session_neither_keep_a_shared_child_awake_nor_wake_it() {
    let stage = Stage::new();
    let mut callers = sessions(&stage, 2, &["--hibernate", "1s"], &[]);
    callers[0].who();
    let mut ping = |stage: &Stage| {
        for caller in &mut callers {
            assert_eq!(caller.result("ping", json!({})), json!({}), "{}", stage.journal());
            assert_eq!(caller.result("logging/setLevel", json!({ "level": "debug" })), json!({}));
        }
    };
    // On a busy machine the child may have slept between two sessions.
    let lives = stage.lives().len();
    let sleeps = comes_true(PATIENCE, &mut || {
        ping(&stage);
        stage.states() == ["asleep"] && stage.servers().is_empty()
    });
    assert!(sleeps, "the child is {:?}", stage.states());
    let is_woken = comes_true(NOT_LONG, &mut || {
        ping(&stage);
        stage.lives().len() > lives
    });
    assert!(!is_woken, "{}", stage.journal());
    assert_eq!(callers[1].who()["level"], "debug");
    callers.into_iter().for_each(release);
    stage.expect_over(lives + 1, NOT_LONG);
}

/// A ping that the child has read and not answered, and a ping that it has not read.
#[test]
fn a_ping_in_flight_when_a_shared_child_falls_asleep_is_answered() {
    for file in ["there", "never"] {
        let stage = Stage::new();
        let mut callers = sessions(&stage, 2, &["--hibernate", "1s", "--eof-grace", "1s"], &["--deaf-to-pings"]);
        let lives = stage.lives().len();
        if file == "never" {
            callers[1].result("stop-reading", json!({ "file": stage.file(file) }));
        }
        let ping = callers[0].ask("ping", json!({}));
        let answer = callers[0].answer(ping);
        assert_eq!(answer["result"], json!({}), "{answer}");
        wait_until("the child is asleep", || stage.states() == ["asleep"] && stage.servers().is_empty());
        assert_eq!(stage.lives().len(), lives, "{}", stage.journal());
        for mut caller in callers {
            assert_eq!(caller.unasked(), Vec::<Value>::new());
            caller.close();
            caller.code();
        }
        stage.scene.expect_empty();
    }
}

/// Three sessions call around the moment when the child may fall asleep, hundreds of times. No call is lost, and none
/// gets an error.
#[test]
fn calls_that_come_while_a_shared_child_falls_asleep_are_not_lost() {
    let stage = Stage::new();
    let callers = sessions(&stage, 3, &["--hibernate", "20ms"], &[]);
    std::thread::scope(|scope| {
        for (seed, mut caller) in callers.into_iter().enumerate() {
            let stage = &stage;
            scope.spawn(move || {
                let (mut random, until) = (Random::new(seed as u64), Instant::now() + Duration::from_secs(3));
                let (mut count, deadline) = (0, until + PATIENCE);
                // How often the child sleeps and answers depends on the load of the machine.
                let is_enough = |count: u64| stage.lives().len() > 5 && count > 10;
                while Instant::now() < until || (!is_enough(count) && Instant::now() < deadline) {
                    // Until about the moment when the child falls asleep, unless another session calls.
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
    assert!(lives > 5, "the child has slept {lives} times");
    stage.expect_over(lives, NOT_LONG);
}

#[test]
fn a_shared_child_that_grows_too_large_is_restarted_when_no_call_is_in_flight() {
    let stage = Stage::new();
    let mut callers = sessions(&stage, 3, &["--max-memory", "60M"], &[]);
    let first = callers[0].pid();
    let slow = callers[1].ask("slow", json!({ "ms": 1800 }));
    wait_until("the call is in flight", || times(&stage.lives()[0].methods(), "slow") == 1);
    callers[0].result("grow", json!({ "mb": 80 }));
    let answer = callers[1].answer(slow);
    assert_eq!(answer["result"]["pid"], first, "the call was cut off: {answer}");
    stage.wait_for_life(2);
    for caller in &mut callers {
        assert_ne!(caller.pid(), first);
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    assert!(stage.lives()[0].saw_the_end, "the child must see the end of its input");
    callers.into_iter().for_each(release);
    stage.expect_over(2, NOT_LONG);
}

#[test]
fn lazy_sessions_start_no_child_until_one_of_them_calls() {
    let stage = Stage::new();
    // An earlier session fills the cache.
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

/// At any moment of a crash, a session gets nothing but errors for its own calls.
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
            wait_until("the child has started", || stage.lives().len() >= kill);
            // At a random moment of the handshakes.
            std::thread::sleep(Duration::from_micros(random.below(40_000)));
            stage.servers().iter().for_each(|found| found.send(Signal::KILL));
        }
        for (caller, id) in callers.iter_mut().zip(hellos) {
            let mut answer = caller.answer(id);
            // Each kill cuts off at most one handshake, and the front may notice the last kill only now.
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
