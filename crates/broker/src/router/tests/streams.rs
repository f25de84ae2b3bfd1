//! The newer era: streams, and calls in two halves.

use super::*;

const STAMP: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(stage: &mut Stage, session_id: SessionId, id: &str) -> Value {
    stage.says(session_id, &modern(id, "subscriptions/listen", r#","notifications":{"toolsListChanged":true}"#));
    let told = stage.child();
    assert_eq!(told.len(), 1);
    told[0]["id"].clone()
}

fn stamped(method: &str, ours: &Value) -> String {
    notify(method, &json!({ "_meta": { STAMP: ours } }).to_string())
}

#[test]
fn what_comes_on_a_stream_goes_to_the_session_that_opened_it_under_its_own_name() {
    let mut stage = Stage::new(routing());
    let of_a = listen(&mut stage, A, "\"listen-1\"");
    let of_b = listen(&mut stage, B, "\"listen-1\"");
    assert!(!stage.router.is_busy(stage.now));
    assert!(!stage.router.has_answered());
    for method in [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ] {
        for (session_id, ours) in [(A, &of_a), (B, &of_b)] {
            stage.child_says(&stamped(method, ours));
            let heard = stage.hears(session_id);
            assert_eq!(heard.len(), 1);
            assert_eq!(heard[0]["params"]["_meta"][STAMP], "listen-1");
        }
    }
    assert!(stage.router.has_answered());
    stage.child_says(&stamped("notifications/tools/list_changed", &json!(999)));
    assert!(stage.hears(A).is_empty() && stage.hears(B).is_empty());
}

#[test]
fn a_stream_ends_by_an_answer_by_the_child_or_by_its_session() {
    let mut stage = Stage::new(routing());
    let ours = listen(&mut stage, A, "7");
    stage.child_answers(&ours, json!({ "resultType": "complete", "_meta": { STAMP: ours } }));
    let heard = stage.hears(A);
    assert_eq!((&heard[0]["id"], &heard[0]["result"]["_meta"][STAMP]), (&json!(7), &json!(7)));

    let ours = listen(&mut stage, A, "8");
    stage.child_says(&notify("notifications/cancelled", &format!(r#"{{"requestId":{ours}}}"#)));
    assert_eq!(stage.hears(A)[0]["params"]["requestId"], 8);

    let ours = listen(&mut stage, A, "9");
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":9}"#));
    assert_eq!(stage.child()[0]["params"]["requestId"], ours);

    let ours = listen(&mut stage, B, "9");
    stage.leave(B);
    assert_eq!(stage.child()[0]["params"]["requestId"], ours);
    stage.child_says(&stamped("notifications/tools/list_changed", &ours));
    assert!(stage.hears(A).is_empty());
}

#[test]
fn a_stream_may_be_the_first_thing_that_a_child_hears() {
    for ended_by_child in [true, false] {
        let mut stage = Stage::new(routing());
        let ours = listen(&mut stage, A, "1");
        stage.says(B, &initialize("b", "2025-06-18", "{}"));
        assert!(stage.child().is_empty() && stage.elsewhere.is_empty());
        if ended_by_child {
            stage.child_says(&notify("notifications/cancelled", &format!(r#"{{"requestId":{ours}}}"#)));
        } else {
            stage.child_says(&stamped("notifications/subscriptions/acknowledged", &ours));
        }
        assert_eq!(stage.elsewhere.len(), 1);
    }
}

#[test]
fn streams_have_an_end() {
    let mut stage = Stage::new(routing());
    for id in 0..256 {
        listen(&mut stage, A, &id.to_string());
    }
    stage.says(A, &modern("256", "subscriptions/listen", ""));
    assert!(stage.child().is_empty());
    assert!(stage.hears(A)[0]["error"].is_object());
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":3}"#));
    stage.child();
    listen(&mut stage, A, "256");
}

#[test]
fn a_child_that_asks_back_is_kept_awake_until_the_second_half_has_come() {
    let mut stage = Stage::new(routing());
    let first = |stage: &mut Stage, id: &str| {
        stage.says(A, &modern(id, "tools/call", r#","name":"x""#));
        let ours = stage.child()[0]["id"].clone();
        stage.child_answers(&ours, json!({ "resultType": "input_required", "requestState": "s" }));
        assert_eq!(stage.hears(A).len(), 1);
    };
    first(&mut stage, "1");
    assert!(stage.router.is_busy(stage.now));
    assert_eq!(stage.router.next_deadline(), Some(Moment::from_secs(600)));
    stage.says(A, &modern("2", "tools/call", r#","name":"x","requestState":"s""#));
    let ours = stage.child()[0]["id"].clone();
    assert_eq!(stage.router.next_deadline(), None);
    stage.child_answers(&ours, json!({ "resultType": "complete" }));
    assert_eq!(stage.hears(A).len(), 1);
    assert!(!stage.router.is_busy(stage.now));
    // But not for ever.
    first(&mut stage, "3");
    stage.later(599);
    assert!(stage.router.is_busy(stage.now));
    stage.later(1);
    assert!(!stage.router.is_busy(stage.now));
    first(&mut stage, "4");
    stage.leave(A);
    assert!(!stage.router.is_busy(stage.now));
}

#[test]
fn a_log_message_of_the_newer_era_goes_to_sessions_whose_calls_want_it() {
    let mut stage = Stage::new(routing());
    stage.join(C);
    let call = |log: &str| {
        let log = format!(r#","io.modelcontextprotocol/logLevel":"{log}"}}"#);
        modern("1", "tools/call", "").replacen('}', &log, 1)
    };
    stage.says(A, &call("info"));
    stage.says(B, &call("error"));
    stage.says(C, &modern("1", "tools/call", ""));
    let told = stage.child();
    let heard = |stage: &mut Stage, level: &str| {
        stage.child_says(&notify("notifications/message", &format!(r#"{{"level":"{level}"}}"#)));
        [A, B, C].map(|session_id| stage.hears(session_id).len())
    };
    assert_eq!(heard(&mut stage, "info"), [1, 0, 0]);
    assert_eq!(heard(&mut stage, "error"), [1, 1, 0]);
    assert_eq!(heard(&mut stage, "debug"), [0, 0, 0], "no call has asked for it, and it may belong to any");
    for told in &told[..2] {
        stage.child_answers(&told["id"], json!({}));
    }
    assert_eq!([A, B].map(|session_id| stage.hears(session_id).len()), [1, 1]);
    assert_eq!(heard(&mut stage, "debug"), [0, 0, 1], "only one calls");
}
