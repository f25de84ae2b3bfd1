//! A child that nobody calls is put to sleep, and the next call finds it as if it had never gone.

use std::time::{Duration, Instant};

use badchild::{PATIENCE, User, comes_true, wait_until};
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::stage::{Caller, Life, Stage, modern};

/// How long something must stay as it is for a test to believe that it does. Time itself is what is tested.
const A_WHILE: Duration = Duration::from_millis(700);

fn begun(stage: &Stage, options: &[&str], server: &[&str]) -> Caller {
    let mut caller = stage.start(options, server);
    caller.initialize();
    caller
}

#[test]
fn after_its_time_without_a_call_nothing_is_left_but_the_front_and_the_next_call_is_answered() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let mut caller = begun(&stage, &["--hibernate", "2s"], &[]);
        // Keeps it awake until it has all that is to be seen.
        let awake = caller.ask("hang", json!({}));
        caller.result("logging/setLevel", json!({ "level": "info" }));
        caller.result("resources/subscribe", json!({ "uri": "test://a" }));
        for kind in ["plain", "term-ignoring", "setsid", "daemon", "holding-stdout"] {
            caller.result("fork", json!({ "kind": kind }));
        }
        wait_until("they are there", || stage.trees().len() >= 6);
        let before = stage.lives().len();
        let cancelled = Instant::now();
        caller.tell("notifications/cancelled", Some(json!({ "requestId": awake })));
        stage.wait_until_asleep();
        assert!(cancelled.elapsed() >= Duration::from_secs(2), "asleep after {:?}", cancelled.elapsed());
        assert!(stage.lives()[before - 1].saw_the_end, "it was asked politely");
        let table = String::from_utf8_lossy(&stage.nostray(&["ps"]).stdout).into_owned();
        assert!(table.contains("asleep"), "{table}");

        let told = caller.who();
        assert_eq!(told["level"], "info");
        assert_eq!(told["subscriptions"], json!(["test://a"]));
        let lives = stage.lives();
        assert_eq!(lives.len(), before + 1);
        assert_eq!(
            lives[before].methods(),
            ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe", "who"]
        );
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        let journal = stage.journal();
        assert!(journal.contains("asleep"), "{journal}");
        caller.end(&stage);
    }
}

#[test]
fn a_call_that_takes_long_keeps_it_awake() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "100ms"], &[]);
    // (It may have slept before, on a machine that is busy.)
    let slow = caller.result("slow", json!({ "ms": 1200 }));
    let last = stage.lives().pop().expect("one");
    assert_eq!(slow["pid"], last.pid);
    assert!(last.methods().contains(&"slow".to_owned()), "{last:?}");
    stage.wait_until_asleep();
    assert_ne!(caller.who()["pid"], slow["pid"]);
    caller.end(&stage);
}

/// Whether the connection is alive can be said without waking anybody, and what is only told or set wakes nobody either.
#[test]
fn pings_notifications_and_log_levels_wake_nobody() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "50ms"], &[]);
    stage.wait_until_asleep();
    let lives = stage.lives().len();
    for _ in 0..3 {
        assert_eq!(caller.result("ping", json!({})), json!({}));
    }
    caller.tell("notifications/roots/list_changed", None);
    caller.tell("notifications/cancelled", Some(json!({ "requestId": 77 })));
    caller.send(&json!({ "jsonrpc": "2.0", "id": "unknown", "result": {} }));
    assert_eq!(caller.result("logging/setLevel", json!({ "level": "debug" })), json!({}));
    assert_eq!(caller.result("ping", json!({})), json!({}));
    assert!(!comes_true(A_WHILE, &mut || stage.lives().len() > lives), "it was woken");
    assert_eq!(stage.states(), ["asleep"]);
    assert_eq!(caller.who()["level"], "debug");
    let expected = ["initialize", "notifications/initialized", "logging/setLevel", "who"];
    assert_eq!(stage.lives()[lives].methods(), expected);
    caller.end(&stage);
}

/// Hosts ping all the time, and set the log level whenever they like: no work is done for that.
#[test]
fn pings_and_log_levels_do_not_keep_it_awake() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "1s"], &[]);
    let is_asleep = |stage: &Stage| stage.states() == ["asleep"];
    let sleeps = comes_true(PATIENCE, &mut || {
        assert_eq!(caller.result("ping", json!({})), json!({}));
        assert_eq!(caller.result("logging/setLevel", json!({ "level": "debug" })), json!({}));
        is_asleep(&stage)
    });
    assert!(sleeps, "it is {:?}", stage.states());
    // And they do not wake it.
    let is_woken = comes_true(A_WHILE, &mut || {
        assert_eq!(caller.result("ping", json!({})), json!({}));
        stage.lives().len() > 1
    });
    assert!(!is_woken, "{}", stage.journal());
    assert_eq!(caller.who()["level"], "debug");
    assert_eq!(stage.lives().len(), 2);
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

/// A child that is awake is asked whether it lives, so that it may not have answered when its time comes.
#[test]
fn a_ping_that_is_in_flight_when_it_falls_asleep_is_answered_and_does_not_wake_it() {
    // A child that has read the ping and says nothing, and a child that reads nothing.
    for reads in [true, false] {
        let stage = Stage::new();
        let go_on = if reads { "cat >/dev/null" } else { "exec 0<&-; sleep 60" };
        let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
        let script = format!("echo start >>{}; read line; echo '{hello}'; read line; {go_on}", stage.file("starts"));
        let mut caller = stage.start_command(&["--hibernate", "1s", "--eof-grace", "1s"], &["sh", "-c", &script]);
        caller.initialize();
        let ping = caller.ask("ping", json!({}));
        let answer = caller.answer(ping);
        assert_eq!(answer["result"], json!({}), "{answer}");
        stage.wait_until_asleep();
        let starts = std::fs::read_to_string(stage.file("starts")).expect("it has started");
        assert_eq!(starts.lines().count(), 1, "{}", stage.journal());
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        caller.end(&stage);
    }
}

#[test]
fn what_was_cancelled_keeps_nobody_awake() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "100ms"], &[]);
    let call = caller.ask("hang", json!({}));
    wait_until("it is in flight", || {
        stage.lives().last().is_some_and(|life| life.methods().contains(&"hang".to_owned()))
    });
    assert!(!comes_true(A_WHILE, &mut || stage.trees().is_empty()), "asleep with a call in flight");
    caller.tell("notifications/cancelled", Some(json!({ "requestId": call })));
    stage.wait_until_asleep();
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

#[test]
fn a_sleeping_one_can_be_stopped_and_ends_with_its_host() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "50ms"], &[]);
    stage.wait_until_asleep();
    let stopped = stage.nostray(&["stop", "--all"]);
    assert!(stopped.status.success(), "{stopped:?}");
    assert_eq!(caller.code(), 0);
    stage.scene.expect_empty();
    assert_eq!(stage.states(), Vec::<String>::new());

    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "50ms"], &[]);
    stage.wait_until_asleep();
    caller.process.kill().expect("kill");
    stage.scene.expect_empty();
    let caller = begun(&stage, &["--hibernate", "50ms"], &[]);
    stage.wait_until_asleep();
    let lives = stage.lives().len();
    caller.end(&stage);
    assert_eq!(stage.lives().len(), lives, "leaving is no reason to wake");
}

/// With a server that is slow to leave, waits until it has been greeted and is asked to go. Returns which of its lives that is: if it
/// was not greeted soon, it has slept before.
fn goes_to_sleep(stage: &Stage) -> usize {
    let is_going =
        |life: &Life| life.saw_the_end && life.methods().first().is_some_and(|method| method == "initialize");
    wait_until("it is asked to go", || stage.lives().last().is_some_and(is_going));
    stage.lives().len() - 1
}

const SLOW_TO_LEAVE: [&str; 4] = ["--hibernate", "200ms", "--eof-grace", "3s"];

/// A server that is slow to leave is waited for, and what comes meanwhile waits with it.
#[test]
fn a_call_that_comes_while_it_goes_to_sleep_is_answered_by_the_next_one() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &SLOW_TO_LEAVE, &["--ignore-eof"]);
    let at = goes_to_sleep(&stage);
    let (echo, who) = (caller.ask("echo", json!([1])), caller.ask("who", json!({})));
    assert_eq!(stage.lives().len(), at + 1, "it is not gone yet");
    assert_eq!(caller.answer(echo)["result"], json!([1]));
    assert_ne!(caller.answer(who)["result"]["pid"], stage.lives()[at].pid);
    assert_eq!(stage.lives().len(), at + 2);
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// `--ignore-eof` has a server that is awake for as long as it is waited for.
#[test]
fn a_ping_that_comes_while_it_goes_to_sleep_is_answered_at_once_and_does_not_wake_it() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &SLOW_TO_LEAVE, &["--ignore-eof"]);
    let at = goes_to_sleep(&stage);
    assert_eq!(caller.result("ping", json!({})), json!({}));
    assert_eq!(caller.result("logging/setLevel", json!({ "level": "error" })), json!({}));
    assert!(!stage.trees().is_empty(), "it has gone too soon to see anything");
    stage.wait_until_asleep();
    assert_eq!(stage.lives().len(), at + 1, "{}", stage.journal());
    assert_eq!(caller.who()["level"], "error");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// A host that is slow to say that it has understood: whoever comes next is told so once, and not by the host as well.
#[test]
fn a_word_that_comes_while_it_goes_to_sleep_is_told_to_the_next_one_once() {
    let stage = Stage::new();
    let mut caller = stage.start(&SLOW_TO_LEAVE, &["--ignore-eof"]);
    caller.result("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    let at = goes_to_sleep(&stage);
    caller.tell("notifications/initialized", None);
    caller.who();
    assert_eq!(stage.lives()[at + 1].methods(), ["initialize", "notifications/initialized", "who"]);
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// Calls at just the moment when it goes to sleep, over and over: none is ever lost or cut off.
#[test]
fn no_call_is_cut_off_by_sleep_at_whatever_moment_it_comes() {
    in_parallel((0..4).collect(), |seed: u64| {
        let stage = Stage::new();
        let mut caller = begun(&stage, &["--hibernate", "10ms"], &[]);
        let mut luck = seed;
        for round in 0..60 {
            luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // From before it is asked to go until after it has gone.
            std::thread::sleep(Duration::from_micros(8_000 + (luck >> 33) % 8_000));
            assert_eq!(caller.result("echo", json!({ "round": round })), json!({ "round": round }));
        }
        assert!(stage.lives().len() > 10, "it slept {} times", stage.lives().len() - 1);
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        caller.end(&stage);
    });
}

/// In the newer era a stream is open for as long as its client wants to know; it must cost no process, and the client must not
/// notice. One SDK's server answers all its streams when it leaves.
#[test]
fn a_stream_keeps_nobody_awake_and_is_opened_again_unseen() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--hibernate", "200ms"], &["--modern", "--end-streams"]);
    // A stream that is not acknowledged yet keeps nobody awake either.
    let awake = caller.ask("hang", modern(json!({})));
    let streams: Vec<_> = ["toolsListChanged", "promptsListChanged"]
        .iter()
        .map(|kind| {
            let stream = caller.ask("subscriptions/listen", modern(json!({ "notifications": { *kind: true } })));
            caller.notified("notifications/subscriptions/acknowledged");
            stream
        })
        .collect();
    caller.tell("notifications/cancelled", Some(json!({ "requestId": awake })));
    for _ in 1..=2 {
        stage.wait_until_asleep();
        let lives = stage.lives().len();
        assert_eq!(caller.unasked(), Vec::<Value>::new(), "its streams are still open");
        let told = caller.result("who", modern(json!({})));
        assert_eq!(told["listens"], json!(streams));
        assert_eq!(stage.lives().len(), lives + 1);
    }
    let id = "io.modelcontextprotocol/subscriptionId";
    let params = json!({ "_meta": { id: streams[0] } });
    caller.result("notify", modern(json!({ "method": "notifications/tools/list_changed", "params": params })));
    assert_eq!(caller.notified("notifications/tools/list_changed")["params"], params);
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    // A third one in a later life is acknowledged as the first two were.
    caller.ask("hang", modern(json!({})));
    let third = caller.ask("subscriptions/listen", modern(json!({ "notifications": {} })));
    let acknowledged = caller.notified("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][id], third);
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// Between the two halves of such a call nothing is in flight, and yet the server may keep what it needs for the second.
#[test]
fn a_question_that_the_client_has_not_answered_keeps_it_awake() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--hibernate", "100ms"], &["--modern"]);
    let first = caller.result("tools/call", modern(json!({ "name": "quiz" })));
    assert_eq!(first["resultType"], "input_required");
    let lives = stage.lives().len();
    assert!(!comes_true(A_WHILE, &mut || stage.trees().is_empty()), "asleep between the halves");
    let second = json!({ "name": "quiz", "inputResponses": { "k": {} }, "requestState": first["requestState"] });
    let second = caller.result("tools/call", modern(second));
    assert_eq!(
        second["structuredContent"]["pid"].to_string(),
        second["structuredContent"]["state"].as_str().expect("text")
    );
    stage.wait_until_asleep();
    assert_eq!(stage.lives().len(), lives);
    caller.end(&stage);
}

/// The older era's way to ask back. The answer would find nobody.
#[test]
fn a_question_of_the_childs_that_the_host_has_not_answered_keeps_it_awake() {
    let stage = Stage::new();
    // Not so soon that it is asleep before it is told that it may ask.
    let mut caller = begun(&stage, &["--hibernate", "700ms"], &["--ask-when-ready"]);
    // Which wakes it, if it is asleep all the same; it asks before it answers.
    caller.who();
    caller.notified("roots/list");
    assert!(!comes_true(2 * A_WHILE, &mut || stage.trees().is_empty()), "asleep while it waits for an answer");
    caller.send(&json!({ "jsonrpc": "2.0", "id": 0, "result": { "roots": [] } }));
    stage.wait_until_asleep();
    assert!(stage.lives().last().is_some_and(|life| life.methods().contains(&"answer 0".to_owned())));
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

/// Asleep, a session is one small process.
#[test]
fn many_sleeping_sessions_are_one_small_process_each() {
    let stage = Stage::new();
    let mut callers: Vec<_> = (0..8).map(|_| stage.start(&["--hibernate", "100ms"], &[])).collect();
    for caller in &mut callers {
        caller.initialize();
    }
    wait_until("all sleep", || stage.scene.processes().len() == callers.len());
    for front in stage.own() {
        let memory = nostray_sys::proc::memory_of(front.stat.pid).expect("can be read");
        assert!(memory < 8 << 20, "{memory} bytes");
    }
    for mut caller in callers {
        caller.close();
        caller.code();
    }
    stage.scene.expect_empty();
}
