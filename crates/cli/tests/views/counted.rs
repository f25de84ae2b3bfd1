//! What passes is counted, and what sharing and sleeping save is known: `nostray ps --json` says it.

use badchild::{PATIENCE, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::sharing::{kill, release};
use testkit::stage::Stage;

/// The only child.
fn pen(stage: &Stage) -> Value {
    let said = stage.nostray(&["ps", "--json"]);
    let object: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let pens = object["pens"].as_array().expect("a list");
    assert_eq!(pens.len(), 1, "{object:#}");
    pens[0].clone()
}

fn method<'a>(pen: &'a Value, name: &str) -> &'a Value {
    let methods = pen["traffic"]["methods"].as_array().expect("a list");
    methods.iter().find(|method| method["name"] == name).unwrap_or(&Value::Null)
}

/// Waits until `ps` says so, and returns what it says.
fn pen_where(stage: &Stage, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut said = Value::Null;
    comes_true(PATIENCE, &mut || {
        said = pen(stage);
        is_it(&said)
    });
    assert!(is_it(&said), "{what}: {said:#}");
    said
}

#[test]
fn calls_of_a_supervised_child_are_counted_by_method_with_their_errors() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn", "--backoff", "1ms..5ms"], &[]);
    caller.initialize();
    for _ in 0..5 {
        caller.who();
    }
    caller.error("no/such/method", json!({}));
    let seen = pen_where(&stage, "seven calls", |pen| pen["traffic"]["calls"] == 7);
    assert_eq!(seen["traffic"]["errors"], 1);
    // Seven calls, their answers, and the end of the handshake.
    assert!(seen["traffic"]["messages"].as_u64() >= Some(15), "{seen:#}");
    assert_eq!((&method(&seen, "who")["calls"], &method(&seen, "who")["errors"]), (&json!(5), &json!(0)));
    assert_eq!(method(&seen, "no/such/method")["errors"], 1);
    assert_eq!(method(&seen, "initialize")["calls"], 1);
    assert!(method(&seen, "who")["milliseconds"].as_f64() > Some(0.0), "{seen:#}");
    assert_eq!(seen["last_exit"], Value::Null);

    let hangs = caller.ask("hang", json!({}));
    wait_until("the call is in flight", || stage.lives()[0].methods().contains(&"hang".to_owned()));
    kill(&[stage.child()]);
    assert!(caller.answer(hangs).get("error").is_some());
    caller.who();
    // The counters are those of the front, so they go on over a restart.
    let seen = pen_where(&stage, "nine calls", |pen| pen["traffic"]["calls"] == 9);
    assert_eq!(seen["traffic"]["errors"], 2);
    assert_eq!(method(&seen, "hang"), &json!({ "name": "hang", "calls": 1, "errors": 1, "milliseconds": 0.0 }));
    assert_eq!(seen["restarts"], 1);
    assert!(seen["last_exit"]["how"].as_str().is_some_and(|how| how.contains("SIGKILL")), "{seen:#}");
    caller.end(&stage);
}

#[test]
fn a_child_that_speaks_with_its_host_itself_is_not_counted() {
    let stage = Stage::new();
    let mut caller = stage.start(&[], &[]);
    caller.initialize();
    assert_eq!(pen(&stage)["traffic"], Value::Null);
    caller.end(&stage);
}

#[test]
fn methods_that_a_host_makes_up_are_counted_together_once_there_are_too_many() {
    let stage = Stage::new();
    let mut caller = stage.shared(&[], &[]);
    for number in 0..100 {
        caller.error(&format!("made/up/{number}\u{1b}[31m\"\n"), json!({}));
    }
    let seen = pen_where(&stage, "all errors", |pen| pen["traffic"]["errors"] == 100);
    let methods = seen["traffic"]["methods"].as_array().expect("a list");
    let calls: u64 = methods.iter().map(|method| method["calls"].as_u64().expect("a number")).sum();
    assert_eq!(json!(calls), seen["traffic"]["calls"]);
    assert!(methods.len() < 45 && method(&seen, "other")["calls"].as_u64() > Some(50), "{seen:#}");
    release(caller);
}

#[test]
fn sessions_of_a_shared_child_are_counted_together_and_each_beyond_the_first_saves_a_child() {
    let stage = Stage::new();
    let mut callers: Vec<_> = (0..3).map(|_| stage.shared(&["--linger", "1m"], &[])).collect();
    for caller in &mut callers {
        caller.who();
        caller.who();
    }
    stage.wait_for_leases(&[3]);
    let seen = pen_where(&stage, "six calls", |pen| method(pen, "who")["calls"] == 6);
    assert_eq!(seen["traffic"]["errors"], 0);
    let (memory, saved) = (seen["memory"].as_u64().expect("bytes"), &seen["saved"]);
    assert!(memory > 0);
    assert_eq!(saved, &json!({ "sharing": 2 * memory, "sleeping": 0 }));
    callers.drain(1..).for_each(release);
    stage.wait_for_leases(&[1]);
    assert_eq!(pen(&stage)["saved"]["sharing"], 0);
    callers.into_iter().for_each(release);
    stage.nostray(&["stop", "--all"]);
    stage.expect_no_tree();
}

#[test]
fn a_child_that_sleeps_saves_what_it_had() {
    for shared in [false, true] {
        let stage = Stage::new();
        let options = ["--hibernate", "300ms"];
        let mut caller = if shared { stage.shared(&options, &[]) } else { stage.start(&options, &[]) };
        if !shared {
            caller.initialize();
        }
        caller.who();
        let asleep = pen_where(&stage, "it sleeps", |pen| pen["state"] == "asleep");
        assert!(asleep["saved"]["sleeping"].as_u64() > Some(100_000), "{asleep:#}");
        assert_eq!((&asleep["memory"], &asleep["saved"]["sharing"]), (&json!(0), &json!(0)));
        // A call in flight keeps it awake.
        caller.ask("hang", json!({}));
        let awake = pen_where(&stage, "it is awake", |pen| pen["state"] == "ready");
        assert_eq!(awake["saved"]["sleeping"], 0, "{awake:#}");
        drop(caller);
        stage.expect_no_tree();
    }
}

/// The record of a dead front names a file descriptor of a process that is not there, or that is another process by now.
#[test]
fn the_counters_of_a_killed_keeper_are_not_there() {
    let stage = Stage::new();
    let mut caller = stage.shared(&["--linger", "1m"], &[]);
    caller.who();
    let steward = stage.the("nostray-steward");
    steward.send(Signal::STOP);
    // A stopped steward answers nothing, and its counters can be read.
    assert_eq!(method(&pen(&stage), "who")["calls"], 1);
    steward.send(Signal::CONT);
    kill(&[steward]);
    comes_true(PATIENCE, &mut || stage.nostray(&["ps", "--json"]).status.success());
    release(caller);
    stage.nostray(&["stop", "--all"]);
    stage.expect_no_tree();
}
