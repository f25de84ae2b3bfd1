//! A child without calls is put to sleep. The next call wakes it, and the host notices no difference.

use std::time::{Duration, Instant};

use badchild::{PATIENCE, User, comes_true, wait_until};
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::stage::{Caller, Life, Stage, modern};

/// How long a test watches to conclude that nothing changes. No event tells that, so it takes time.
const A_WHILE: Duration = Duration::from_millis(700);

fn begun(stage: &Stage, options: &[&str], server: &[&str]) -> Caller {
    let mut caller = stage.start(options, server);
    caller.initialize();
    caller
}

#[test]
fn after_its_time_without_a_call_only_the_front_is_left_and_the_next_call_is_answered() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let mut caller = begun(&stage, &["--hibernate", "2s"], &[]);
        // A call in flight keeps the child awake until the test has set it up.
        let awake = caller.ask("hang", json!({}));
        caller.result("logging/setLevel", json!({ "level": "info" }));
        caller.result("resources/subscribe", json!({ "uri": "test://a" }));
        for kind in ["plain", "term-ignoring", "setsid", "daemon", "holding-stdout"] {
            caller.result("fork", json!({ "kind": kind }));
        }
        wait_until("the descendants run", || stage.trees().len() >= 6);
        let before = stage.lives().len();
        let cancelled = Instant::now();
        caller.tell("notifications/cancelled", Some(json!({ "requestId": awake })));
        stage.wait_until_asleep();
        assert!(cancelled.elapsed() >= Duration::from_secs(2), "asleep after {:?}", cancelled.elapsed());
        assert!(stage.lives()[before - 1].saw_the_end, "the child must see the end of its input");
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
fn a_call_that_takes_long_keeps_the_child_awake() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "100ms"], &[]);
    // On a busy machine the child may have slept before.
    let slow = caller.result("slow", json!({ "ms": 1200 }));
    let last = stage.lives().pop().expect("one");
    assert_eq!(slow["pid"], last.pid);
    assert!(last.methods().contains(&"slow".to_owned()), "{last:?}");
    stage.wait_until_asleep();
    assert_ne!(caller.who()["pid"], slow["pid"]);
    caller.end(&stage);
}

/// The front answers pings for a child that sleeps. Notifications and settings wait for the next call.
#[test]
fn pings_notifications_and_log_levels_do_not_wake_the_child() {
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
    assert!(!comes_true(A_WHILE, &mut || stage.lives().len() > lives), "the child was woken");
    assert_eq!(stage.states(), ["asleep"]);
    assert_eq!(caller.who()["level"], "debug");
    let expected = ["initialize", "notifications/initialized", "logging/setLevel", "who"];
    assert_eq!(stage.lives()[lives].methods(), expected);
    caller.end(&stage);
}

/// Hosts ping all the time and set the log level at any time. Neither is work for the child.
#[test]
fn pings_and_log_levels_do_not_keep_the_child_awake() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "1s"], &[]);
    let is_asleep = |stage: &Stage| stage.states() == ["asleep"];
    let sleeps = comes_true(PATIENCE, &mut || {
        assert_eq!(caller.result("ping", json!({})), json!({}));
        assert_eq!(caller.result("logging/setLevel", json!({ "level": "debug" })), json!({}));
        is_asleep(&stage)
    });
    assert!(sleeps, "the child is {:?}", stage.states());
    // Pings do not wake the child either.
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

/// The front passes a ping on to a child that is awake. The child may not have answered when it is put to sleep.
#[test]
fn a_ping_in_flight_when_the_child_falls_asleep_is_answered_and_does_not_wake_it() {
    // A child that reads the ping and does not answer, and a child that does not read.
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
        let starts = std::fs::read_to_string(stage.file("starts")).expect("the child has started");
        assert_eq!(starts.lines().count(), 1, "{}", stage.journal());
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        caller.end(&stage);
    }
}

#[test]
fn a_cancelled_call_does_not_keep_the_child_awake() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--hibernate", "100ms"], &[]);
    let call = caller.ask("hang", json!({}));
    wait_until("the call is in flight", || {
        stage.lives().last().is_some_and(|life| life.methods().contains(&"hang".to_owned()))
    });
    assert!(!comes_true(A_WHILE, &mut || stage.trees().is_empty()), "asleep with a call in flight");
    caller.tell("notifications/cancelled", Some(json!({ "requestId": call })));
    stage.wait_until_asleep();
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

#[test]
fn a_front_whose_child_sleeps_can_be_stopped_and_ends_with_its_host() {
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
    assert_eq!(stage.lives().len(), lives, "the end of the session must not wake the child");
}

/// For a server that is slow to end: waits until the server has got its handshake and the end of its input. Returns the
/// index of that life; on a busy machine the server may have slept before its handshake.
fn goes_to_sleep(stage: &Stage) -> usize {
    let is_going =
        |life: &Life| life.saw_the_end && life.methods().first().is_some_and(|method| method == "initialize");
    wait_until("the child has seen the end of its input", || stage.lives().last().is_some_and(is_going));
    stage.lives().len() - 1
}

const SLOW_TO_LEAVE: [&str; 4] = ["--hibernate", "200ms", "--eof-grace", "3s"];

/// The front waits for a server that is slow to end. Calls that come meanwhile wait for the next child.
#[test]
fn a_call_that_comes_while_the_child_goes_to_sleep_is_answered_by_the_next_child() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &SLOW_TO_LEAVE, &["--ignore-eof"]);
    let at = goes_to_sleep(&stage);
    let (echo, who) = (caller.ask("echo", json!([1])), caller.ask("who", json!({})));
    assert_eq!(stage.lives().len(), at + 1, "the next child was started before this one had ended");
    assert_eq!(caller.answer(echo)["result"], json!([1]));
    assert_ne!(caller.answer(who)["result"]["pid"], stage.lives()[at].pid);
    assert_eq!(stage.lives().len(), at + 2);
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// With `--ignore-eof` the server lives until its grace is over.
#[test]
fn a_ping_that_comes_while_the_child_goes_to_sleep_is_answered_at_once_and_does_not_wake_it() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &SLOW_TO_LEAVE, &["--ignore-eof"]);
    let at = goes_to_sleep(&stage);
    assert_eq!(caller.result("ping", json!({})), json!({}));
    assert_eq!(caller.result("logging/setLevel", json!({ "level": "error" })), json!({}));
    assert!(!stage.trees().is_empty(), "the server ended too soon, so this test proves nothing");
    stage.wait_until_asleep();
    assert_eq!(stage.lives().len(), at + 1, "{}", stage.journal());
    assert_eq!(caller.who()["level"], "error");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// The host sends `notifications/initialized` late. The next child gets it once: from the front's replay, and not from
/// the host as well.
#[test]
fn a_notification_that_comes_while_the_child_goes_to_sleep_reaches_the_next_child_once() {
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

/// Makes calls around the moment when the child goes to sleep, many times. No call is lost or cut off.
#[test]
fn no_call_is_cut_off_by_sleep_at_any_moment() {
    in_parallel((0..4).collect(), |seed: u64| {
        let stage = Stage::new();
        let mut caller = begun(&stage, &["--hibernate", "10ms"], &[]);
        let mut random = badchild::random::Random::new(seed);
        for round in 0..60 {
            // From before the child is asked to end until after it has ended.
            std::thread::sleep(Duration::from_micros(8_000 + random.below(8_000)));
            assert_eq!(caller.result("echo", json!({ "round": round })), json!({ "round": round }));
        }
        assert!(stage.lives().len() > 10, "the child slept {} times", stage.lives().len() - 1);
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        caller.end(&stage);
    });
}

/// In the newer era a client keeps a stream open for as long as it wants notifications. An open stream must not keep a
/// process alive, and the client must not notice that. One SDK's server ends all its streams when it exits.
#[test]
fn a_stream_does_not_keep_the_child_awake_and_is_reopened_unseen_by_the_client() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--hibernate", "200ms"], &["--modern", "--end-streams"]);
    // A stream that is not acknowledged yet does not keep the child awake, so a call in flight does.
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
        assert_eq!(caller.unasked(), Vec::<Value>::new(), "the streams must stay open");
        let told = caller.result("who", modern(json!({})));
        assert_eq!(told["listens"], json!(streams));
        assert_eq!(stage.lives().len(), lives + 1);
    }
    let id = "io.modelcontextprotocol/subscriptionId";
    let params = json!({ "_meta": { id: streams[0] } });
    caller.result("notify", modern(json!({ "method": "notifications/tools/list_changed", "params": params })));
    assert_eq!(caller.notified("notifications/tools/list_changed")["params"], params);
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    // A third stream, in a later life, is acknowledged as the first two were.
    caller.ask("hang", modern(json!({})));
    let third = caller.ask("subscriptions/listen", modern(json!({ "notifications": {} })));
    let acknowledged = caller.notified("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][id], third);
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// Between the two halves of such a call no request is in flight, but the server may keep state for the second half.
#[test]
fn a_question_that_the_client_has_not_answered_keeps_the_child_awake() {
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

/// In the older era the child sends a request of its own. If it slept, the host's answer would find no child.
#[test]
fn a_request_of_the_child_that_the_host_has_not_answered_keeps_the_child_awake() {
    let stage = Stage::new();
    // Long enough that the child gets `notifications/initialized` before it falls asleep.
    let mut caller = begun(&stage, &["--hibernate", "700ms"], &["--ask-when-ready"]);
    // This call wakes the child if it is asleep. The child sends its request before it answers.
    caller.who();
    caller.notified("roots/list");
    assert!(
        !comes_true(2 * A_WHILE, &mut || stage.trees().is_empty()),
        "the child was put to sleep while it waits for an answer"
    );
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
