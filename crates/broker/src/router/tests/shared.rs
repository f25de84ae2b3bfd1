//! What a child has one of, and each session its own: a log level, subscriptions.

use super::*;

fn set_level(stage: &mut Stage, session_id: SessionId, level: &str) {
    stage.says(session_id, &call("\"l\"", "logging/setLevel", &format!(r#"{{"level":"{level}"}}"#)));
}

/// The level that the child is told, which it agrees to.
fn told_level(stage: &mut Stage) -> Option<String> {
    let told = stage.child().pop()?;
    assert_eq!(told["method"], "logging/setLevel");
    stage.child_answers(&told["id"], json!({}));
    told["params"]["level"].as_str().map(str::to_owned)
}

#[test]
fn the_child_has_the_most_verbose_level_that_any_session_wants() {
    let mut stage = Stage::shared();
    set_level(&mut stage, A, "warning");
    assert_eq!(told_level(&mut stage).as_deref(), Some("warning"));
    set_level(&mut stage, B, "error");
    assert_eq!(told_level(&mut stage), None);
    assert_eq!(stage.hears(B), [json!({ "jsonrpc": "2.0", "id": "l", "result": {} })]);
    set_level(&mut stage, B, "debug");
    assert_eq!(told_level(&mut stage).as_deref(), Some("debug"));
    // It is not what B asks for, but what A needs.
    set_level(&mut stage, B, "emergency");
    assert_eq!(told_level(&mut stage).as_deref(), Some("warning"));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (1, 2));
    stage.leave(A);
    assert_eq!(told_level(&mut stage).as_deref(), Some("emergency"));
    assert!(stage.hears(B).is_empty() && !stage.router.is_busy(stage.now));
}

#[test]
fn each_session_sees_of_the_log_what_it_wants() {
    let mut stage = Stage::shared();
    stage.join(C);
    stage.shake_hands(&[C]);
    set_level(&mut stage, A, "debug");
    told_level(&mut stage);
    set_level(&mut stage, B, "error");
    for session_id in [A, B, C] {
        stage.hears(session_id);
    }
    for (level, expected) in [("info", [1, 0, 1]), ("error", [1, 1, 1]), ("alert", [1, 1, 1]), ("odd", [1, 1, 1])] {
        stage.child_says(&notify("notifications/message", &format!(r#"{{"level":"{level}","data":1}}"#)));
        assert_eq!([A, B, C].map(|session_id| stage.hears(session_id).len()), expected, "{level}");
    }
}

#[test]
fn an_unknown_level_is_for_the_child_to_judge() {
    let mut stage = Stage::shared();
    set_level(&mut stage, A, "loud");
    let told = stage.child();
    assert_eq!(told[0]["params"]["level"], "loud");
    set_level(&mut stage, B, "info");
    assert_eq!(told_level(&mut stage).as_deref(), Some("info"));
}

#[test]
fn a_level_that_the_child_refuses_is_set_for_no_session() {
    let mut stage = Stage::shared();
    set_level(&mut stage, A, "debug");
    set_level(&mut stage, B, "info");
    let told = stage.child();
    assert_eq!(told.len(), 1);
    stage.child_refuses(&told[0]["id"], -32601);
    assert!(stage.hears(A)[0]["error"].is_object());
    // B's wish is looked at now that it is known what the child has.
    let told = stage.child();
    assert_eq!(told[0]["params"]["level"], "info");
    stage.child_refuses(&told[0]["id"], -32601);
    assert!(stage.hears(B)[0]["error"].is_object());
    stage.leave(A);
    assert!(stage.child().is_empty());
}

#[test]
fn a_level_whose_change_was_cancelled_is_told_again() {
    let mut stage = Stage::shared();
    set_level(&mut stage, A, "debug");
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":"l"}"#));
    stage.child();
    set_level(&mut stage, B, "debug");
    assert_eq!(told_level(&mut stage).as_deref(), Some("debug"));
}

fn subscribe(stage: &mut Stage, session_id: SessionId, uri: &str) {
    stage.says(session_id, &call("\"s\"", "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#)));
}

fn unsubscribe(stage: &mut Stage, session_id: SessionId, uri: &str) {
    stage.says(session_id, &call("\"u\"", "resources/unsubscribe", &format!(r#"{{"uri":"{uri}"}}"#)));
}

fn told_one(stage: &mut Stage, method: &str) -> Value {
    let told = stage.child();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["method"], method);
    told[0]["id"].clone()
}

fn updated(stage: &mut Stage, uri: &str) -> [usize; 2] {
    stage.child_says(&notify("notifications/resources/updated", &format!(r#"{{"uri":"{uri}"}}"#)));
    [A, B].map(|session_id| stage.hears(session_id).len())
}

#[test]
fn a_subscription_is_made_once_and_given_up_by_the_last_one() {
    let mut stage = Stage::shared();
    subscribe(&mut stage, A, "a://x");
    let id = told_one(&mut stage, "resources/subscribe");
    subscribe(&mut stage, B, "a://x");
    assert!(stage.child().is_empty() && stage.hears(B).is_empty());
    // News before the answer is for the session that has asked for it.
    assert_eq!(updated(&mut stage, "a://x"), [1, 0]);
    stage.child_answers(&id, json!({}));
    assert_eq!(stage.hears(A).len(), 1);
    assert_eq!(stage.hears(B), [json!({ "jsonrpc": "2.0", "id": "s", "result": {} })]);
    assert_eq!(updated(&mut stage, "a://x"), [1, 1]);
    assert_eq!(updated(&mut stage, "a://x/y"), [1, 1]);
    unsubscribe(&mut stage, A, "a://x");
    assert!(stage.child().is_empty());
    assert_eq!(stage.hears(A).len(), 1);
    assert_eq!(updated(&mut stage, "a://x"), [0, 1]);
    unsubscribe(&mut stage, A, "a://x");
    assert!(stage.child().is_empty(), "it is still B's");
    assert_eq!(stage.hears(A).len(), 1);
    unsubscribe(&mut stage, B, "a://x");
    let id = told_one(&mut stage, "resources/unsubscribe");
    stage.child_answers(&id, json!({}));
    assert_eq!(stage.hears(B).len(), 1);
    assert_eq!(updated(&mut stage, "a://x"), [0, 0]);
}

#[test]
fn a_subscription_that_was_refused_is_none() {
    let mut stage = Stage::shared();
    subscribe(&mut stage, A, "a://x");
    subscribe(&mut stage, B, "a://x");
    let id = told_one(&mut stage, "resources/subscribe");
    stage.child_refuses(&id, -32002);
    assert!(stage.hears(A)[0]["error"].is_object());
    let id = told_one(&mut stage, "resources/subscribe");
    stage.child_refuses(&id, -32002);
    assert!(stage.hears(B)[0]["error"].is_object());
    assert_eq!(updated(&mut stage, "a://x"), [0, 0]);
}

#[test]
fn a_session_that_leaves_gives_up_what_no_other_has() {
    let mut stage = Stage::shared();
    for uri in ["a://mine", "a://ours"] {
        subscribe(&mut stage, A, uri);
        let id = told_one(&mut stage, "resources/subscribe");
        stage.child_answers(&id, json!({}));
    }
    subscribe(&mut stage, B, "a://ours");
    stage.leave(A);
    let told = stage.child();
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0]["method"], &told[0]["params"]["uri"]),
        (&json!("resources/unsubscribe"), &json!("a://mine"))
    );
    // Until the child has answered, it is not known what it does.
    subscribe(&mut stage, B, "a://mine");
    assert!(stage.child().is_empty());
    stage.child_answers(&told[0]["id"], json!({}));
    told_one(&mut stage, "resources/subscribe");
}

#[test]
fn a_session_that_leaves_before_its_subscription_is_made_gives_it_up_when_it_is() {
    let mut stage = Stage::shared();
    subscribe(&mut stage, A, "a://x");
    let id = told_one(&mut stage, "resources/subscribe");
    stage.leave(A);
    assert!(stage.child().is_empty());
    stage.child_answers(&id, json!({}));
    let id = told_one(&mut stage, "resources/unsubscribe");
    stage.child_answers(&id, json!({}));
    assert!(stage.hears(B).is_empty());
}

#[test]
fn news_that_no_session_has_asked_for_by_name_goes_to_all_sessions_with_a_subscription() {
    let mut stage = Stage::shared();
    assert_eq!(updated(&mut stage, "a://other"), [0, 0]);
    subscribe(&mut stage, B, "a://x");
    let id = told_one(&mut stage, "resources/subscribe");
    stage.child_answers(&id, json!({}));
    stage.hears(B);
    assert_eq!(updated(&mut stage, "b://other"), [0, 1]);
}
