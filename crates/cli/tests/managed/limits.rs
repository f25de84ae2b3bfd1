//! Limits that a user may set: memory, age, the time of a start, and the time of a call.

use std::time::{Duration, Instant};

use badchild::{User, comes_true, wait_until};
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::stage::{Caller, Stage};

fn begun(stage: &Stage, options: &[&str], server: &[&str]) -> Caller {
    let mut caller = stage.start(options, server);
    caller.initialize();
    caller
}

#[test]
fn a_tree_that_is_too_large_is_restarted_between_calls_and_the_host_does_not_notice() {
    in_parallel(User::all(), |user| {
        let stage = Stage::for_user(user);
        let mut caller = begun(&stage, &["--max-memory", "100M"], &[]);
        caller.result("logging/setLevel", json!({ "level": "info" }));
        let first = caller.pid();
        // The front measures the memory twice while this call is in flight.
        let slow = caller.ask("slow", json!({ "ms": 2500 }));
        caller.result("grow", json!({ "mb": 150 }));
        assert_eq!(caller.answer(slow)["result"]["pid"], first, "the call was cut off: {user:?}");
        wait_until("the next child has started", || stage.lives().len() == 2);
        let told = caller.who();
        assert_ne!(told["pid"], first);
        assert_eq!(told["level"], "info");
        assert!(stage.lives()[0].saw_the_end, "the child must see the end of its input");
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        assert!(stage.journal().contains("memory"), "{}", stage.journal());
        caller.end(&stage);
        assert_eq!(stage.lives().len(), 2);
    });
}

#[test]
fn a_tree_that_is_twice_too_large_is_ended_at_once_and_calls_in_flight_are_told_why() {
    in_parallel(User::all(), |user| {
        let stage = Stage::for_user(user);
        let mut caller = begun(&stage, &["--max-memory", "60M"], &[]);
        let hang = caller.ask("hang", json!({}));
        caller.ask("grow", json!({ "mb": 180 }));
        let error = caller.answer(hang)["error"].clone();
        assert!(error["message"].as_str().is_some_and(|text| text.contains("--max-memory")), "{error}");
        caller.who();
        assert_eq!(stage.lives().len(), 2);
        caller.end(&stage);
    });
}

/// The limit is for the whole tree, not only for the child.
#[test]
fn memory_of_descendants_counts() {
    in_parallel(User::all(), |user| {
        let stage = Stage::for_user(user);
        let (record, badchild) = (stage.file("record"), badchild::badchild().display().to_string());
        let words = [&badchild, "wrap", "2", "--", &badchild, "server", "--record", &record];
        let mut caller = stage.start_command(&["--max-memory", "100M"], &words);
        caller.initialize();
        caller.result("grow", json!({ "mb": 150 }));
        wait_until("the next child has started", || stage.lives().len() == 2);
        caller.who();
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    });
}

#[test]
fn a_child_within_its_limit_is_left_alone() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--max-memory", "200M", "--max-age", "1h", "--start-timeout", "20s"], &[]);
    let first = caller.pid();
    caller.result("grow", json!({ "mb": 50 }));
    assert!(!comes_true(Duration::from_millis(2500), &mut || stage.lives().len() > 1), "the child was restarted");
    assert_eq!(caller.pid(), first);
    caller.end(&stage);
}

#[test]
fn an_old_child_is_restarted_between_calls() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--max-age", "400ms"], &[]);
    // An error means that the call was cut off. On a busy machine the first child may be too old before it gets the
    // call.
    let slow = caller.result("slow", json!({ "ms": 1200 }));
    let asked: Vec<_> =
        stage.lives().into_iter().filter(|life| life.methods().contains(&"slow".to_owned())).collect();
    assert_eq!((asked.len(), &slow["pid"]), (1, &json!(asked[0].pid)), "the call was made twice");
    wait_until("the next child has started", || stage.lives().last().is_some_and(|life| life.pid != asked[0].pid));
    caller.who();
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

#[test]
fn a_start_that_takes_too_long_has_failed_and_says_so() {
    let stage = Stage::new();
    let options =
        ["--start-timeout", "2s", "--backoff", "1ms..5ms", "--max-failures", "3/1m", "--eof-grace", "100ms"];
    let mut caller = stage.start(&options, &["--start-delay", "3600000"]);
    let began = Instant::now();
    let error = caller.error("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("--start-timeout")), "{error}");
    assert!(began.elapsed() >= Duration::from_millis(1900), "told after {:?}", began.elapsed());
    while stage.lives().len() < 3 {
        caller.error("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    }
    wait_until("the server is given up", || stage.states() == ["tripped"]);
    assert_eq!(stage.lives().len(), 3);
    stage.expect_no_tree();
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// A server that got no request has nothing to answer, so `--start-timeout` does not apply.
#[test]
fn a_child_that_got_no_request_is_not_taken_for_a_failed_start() {
    let options = ["--start-timeout", "3s", "--respawn", "--backoff", "1ms..5ms"];
    let time = Duration::from_secs(4);
    in_parallel(vec![true, false], |has_handshake| {
        let stage = Stage::new();
        if has_handshake {
            let mut caller = stage.start(&options, &[]);
            assert!(!comes_true(time, &mut || stage.lives().len() > 1), "the child was ended");
            caller.initialize();
            assert_eq!(stage.lives().len(), 1);
            caller.end(&stage);
        } else {
            // The next child of a protocol without a handshake.
            let mut caller = stage.start(&[&options[..], &["--protocol", "jsonrpc"]].concat(), &["--plain"]);
            caller.error("die", json!({}));
            assert!(!comes_true(time, &mut || stage.lives().len() > 2), "the child was ended");
            caller.who();
            assert_eq!(stage.lives().len(), 2);
            caller.end(&stage);
        }
    });
}

/// Without a limit a slow start is not a crash, and waiting calls do not start a second child.
#[test]
fn a_start_that_takes_long_is_waited_for_and_happens_once() {
    let stage = Stage::new();
    // In long runs, longer than any host waits.
    let is_long = std::env::var_os("NOSTRAY_LONG").is_some_and(|value| value == "1");
    let delay = Duration::from_secs(if is_long { 45 } else { 12 });
    let began = Instant::now();
    let options = ["--respawn", "--hibernate", "3s", "--max-age", "1s", "--max-memory", "100M"];
    stage.facts(&json!({ "startDelay": delay.as_millis() as u64 }));
    let mut caller = stage.start(&options, &[]);
    let hello = caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    caller.tell("notifications/initialized", None);
    let calls: Vec<_> = (0..20).map(|n| caller.ask("echo", json!({ "n": n }))).collect();
    wait_until("the child has started", || stage.lives().len() == 1);
    // The child is too old as soon as it is ready. The next child starts fast, so that it is ready when the host ends.
    stage.facts(&json!({}));
    assert!(
        !comes_true(delay * 2 / 3, &mut || stage.lives().len() != 1 || stage.trees().len() != 1),
        "the start was interrupted: {:?}",
        stage.lives()
    );
    assert!(caller.answer(hello).get("result").is_some());
    for (n, id) in calls.into_iter().enumerate() {
        assert_eq!(caller.answer(id)["result"], json!({ "n": n }));
    }
    assert!(began.elapsed() >= delay);
    let told = stage.lives()[0].methods();
    assert_eq!(told.iter().filter(|method| *method == "echo").count(), 20, "{told:?}");
    caller.end(&stage);
}

#[test]
fn a_call_that_takes_too_long_is_answered_and_cancelled_and_the_child_lives() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--call-timeout", "2s"], &[]);
    let began = Instant::now();
    let slow = caller.ask("slow", json!({ "ms": 6000 }));
    let error = caller.answer(slow)["error"].clone();
    assert!(began.elapsed() >= Duration::from_secs(2), "answered after {:?}", began.elapsed());
    assert_eq!(error["code"], -32001);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("--call-timeout")), "{error}");
    wait_until("the child got the cancellation", || {
        stage.lives()[0].methods().contains(&"notifications/cancelled".to_owned())
    });
    let cancel: Value = serde_json::from_str(stage.lives()[0].heard.last().expect("a line")).expect("JSON");
    assert_eq!(cancel["params"]["requestId"], slow);
    // No call waits for the late answer, so the front keeps it in the log.
    wait_until("the late answer came", || stage.printed().contains("an answer to nothing"));
    caller.who();
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    // Calls that never end do not delay quick ones.
    let hanging: Vec<_> = (0..5).map(|_| caller.ask("hang", json!({}))).collect();
    caller.who();
    for id in hanging {
        assert_eq!(caller.answer(id)["error"]["code"], -32001);
    }
    assert_eq!(stage.lives().len(), 1);
    caller.end(&stage);
}

/// `--call-timeout` also counts the time that a call waits for a start. Only the handshake has no timeout.
#[test]
fn calls_that_wait_for_a_start_have_the_same_timeout() {
    let stage = Stage::new();
    stage.facts(&json!({}));
    let mut caller = begun(&stage, &["--respawn", "--backoff", "1ms..2ms", "--call-timeout", "2s"], &[]);
    stage.facts(&json!({ "startDelay": 6000 }));
    caller.error("die", json!({}));
    let (first, second) = (caller.ask("echo", json!([1])), caller.ask("echo", json!([2])));
    for id in [first, second] {
        assert_eq!(caller.answer(id)["error"]["code"], -32001);
    }
    wait_until("the next child has its handshake", || {
        stage.lives().len() == 2 && stage.lives()[1].methods().len() >= 2
    });
    caller.who();
    assert!(
        !format!("{:?}", stage.lives()[1].methods()).contains("echo"),
        "calls that have timed out must not be made"
    );
    caller.end(&stage);

    let stage = Stage::new();
    let mut caller = begun(&stage, &["--call-timeout", "2s"], &["--start-delay", "5000"]);
    caller.who();
    caller.end(&stage);
}
