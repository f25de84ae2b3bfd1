//! A session leaves; a child is gone.

use super::*;

#[test]
fn a_session_that_leaves_has_its_calls_cancelled_and_hears_no_more() {
    let mut stage = Stage::shared();
    let one = stage.calls(A, "1", "tools/call");
    let two = stage.calls(A, "2", "tools/call");
    let other = stage.calls(B, "1", "tools/call");
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":1}"#));
    stage.child();
    stage.leave(A);
    let told = stage.child();
    assert_eq!(told.len(), 1, "what was cancelled is not cancelled again");
    assert_eq!(told[0]["params"], json!({ "requestId": two, "reason": "the session has ended" }));
    for id in [one, two] {
        stage.child_answers(&id, json!({}));
    }
    stage.child_answers(&other, json!({}));
    assert_eq!(stage.hears(B).len(), 1);
    assert!(stage.logged.is_empty() && !stage.router.is_busy(stage.now));
}

#[test]
fn what_a_session_had_waiting_leaves_with_it() {
    let mut stage = Stage::new(Routing { window: 1, ..routing() });
    stage.shake_hands(&[A, B]);
    stage.calls(A, "1", "tools/call");
    stage.says(A, &call("2", "tools/call", "{}"));
    stage.leave(A);
    assert_eq!(stage.child().len(), 1);
    assert!(!stage.router.is_busy(stage.now));
}

#[test]
fn nothing_of_an_old_child_is_left_and_no_session_is_heard_until_it_rejoins() {
    let mut stage = Stage::shared();
    stage.calls(A, "1", "tools/call");
    stage.child_says(&call("5", "sampling/createMessage", "{}"));
    stage.hears(A);
    stage.says(B, &call("1", "resources/subscribe", r#"{"uri":"a://x"}"#));
    stage.child();
    stage.router.child_gone();
    assert!(!stage.router.is_busy(stage.now));
    assert_eq!(stage.router.footprint(), 2);
    stage.says(A, &call("2", "tools/call", "{}"));
    assert!(stage.child().is_empty() && stage.hears(A).is_empty());
    stage.child_says(&notify("notifications/tools/list_changed", "{}"));
    assert!(stage.hears(A).is_empty() && stage.hears(B).is_empty());
    for session_id in [B, A] {
        stage.router.rejoin(session_id);
    }
    // An answer to the old child is dropped.
    stage.says(A, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    assert!(stage.child().is_empty());
    // The first session that comes makes the handshake anew.
    stage.shake_hands(&[B, A]);
    stage.calls(A, "1", "tools/call");
}

#[test]
fn when_all_have_left_and_the_child_is_gone_nothing_is_remembered() {
    let mut stage = Stage::shared();
    stage.calls(A, "1", "tools/call");
    stage.says(A, &call("1", "resources/subscribe", r#"{"uri":"a://x"}"#));
    stage.says(B, &call("1", "logging/setLevel", r#"{"level":"info"}"#));
    stage.leave(A);
    stage.leave(B);
    stage.router.child_gone();
    assert_eq!(stage.router.footprint(), 0);
}
