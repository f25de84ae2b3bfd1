//! What the child asks.

use super::*;

fn asks(stage: &mut Stage, id: &str, method: &str) {
    stage.child_says(&call(id, method, r#"{"elicitationId":"e1"}"#));
}

/// What the child was answered, as an error code.
fn refused(stage: &mut Stage) -> Option<i64> {
    stage.child().pop().and_then(|line| line["error"]["code"].as_i64())
}

#[test]
fn the_router_answers_a_ping() {
    let mut stage = Stage::shared();
    stage.child_says(r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#);
    assert_eq!(stage.child, [r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#]);
}

#[test]
fn the_only_calling_session_is_asked_and_only_it_may_answer() {
    let mut stage = Stage::shared();
    stage.calls(B, "1", "tools/call");
    asks(&mut stage, "0", "sampling/createMessage");
    assert_eq!(stage.hears(B)[0]["id"], 0);
    assert!(stage.hears(A).is_empty());
    stage.says(A, r#"{"jsonrpc":"2.0","id":0,"result":{"by":"A"}}"#);
    assert!(stage.child().is_empty());
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"by":"B"}}"#;
    stage.says(B, answer);
    assert_eq!(std::mem::take(&mut stage.child), [answer]);
    // Once.
    stage.says(B, answer);
    assert!(stage.child().is_empty());
    assert!(!stage.router.takes_turns());
}

#[test]
fn the_only_session_is_asked() {
    let mut stage = Stage::new(routing());
    stage.shake_hands(&[A]);
    asks(&mut stage, "0", "elicitation/create");
    assert_eq!(stage.hears(A).len(), 1);
    assert!(stage.router.is_busy(stage.now));
    stage.says(A, r#"{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}"#);
    assert!(!stage.router.is_busy(stage.now));
}

#[test]
fn no_session_is_asked_if_none_is_there() {
    let mut stage = Stage::new(routing());
    asks(&mut stage, "0", "roots/list");
    assert_eq!(refused(&mut stage), Some(-32000));
    assert!(!stage.router.takes_turns());
}

#[test]
fn if_it_is_not_certain_the_child_gets_an_error_and_turns_are_taken() {
    let mut stage = Stage::shared();
    let of_a = stage.calls(A, "1", "tools/call");
    let of_b = stage.calls(B, "1", "tools/call");
    asks(&mut stage, "0", "sampling/createMessage");
    assert_eq!(refused(&mut stage), Some(-32603));
    assert!(stage.hears(A).is_empty() && stage.hears(B).is_empty());
    assert!(stage.router.takes_turns());
    stage.child_answers(&of_a, json!({}));
    stage.child_answers(&of_b, json!({}));
    let of_a = stage.calls(A, "2", "tools/call");
    stage.says(B, &call("2", "tools/call", "{}"));
    assert!(stage.child().is_empty());
    asks(&mut stage, "1", "sampling/createMessage");
    assert_eq!(stage.hears(A).len(), 2);
    stage.child_answers(&of_a, json!({}));
    assert_eq!(stage.child().len(), 1);
    // For good.
    stage.router.child_gone();
    assert!(stage.router.takes_turns());
}

#[test]
fn right_after_a_handshake_the_session_that_made_it_is_asked() {
    // Before another session has come.
    let mut stage = Stage::new(routing());
    stage.shake_hands(&[A]);
    asks(&mut stage, "0", "sampling/createMessage");
    assert_eq!(stage.hears(A).len(), 1);
    // Another session has come, but none has called anything.
    stage.shake_hands(&[B]);
    asks(&mut stage, "1", "roots/list");
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (1, 0));
    asks(&mut stage, "2", "sampling/createMessage");
    assert_eq!(refused(&mut stage), Some(-32603));
    // No call is in flight, but a session has made one.
    let ours = stage.calls(B, "1", "tools/list");
    stage.child_answers(&ours, json!({}));
    asks(&mut stage, "3", "roots/list");
    assert_eq!(refused(&mut stage), Some(-32603));
    // Turns would not have helped.
    assert!(!stage.router.takes_turns());
}

#[test]
fn a_call_that_was_cancelled_may_still_ask_for_a_while() {
    let mut stage = Stage::shared();
    stage.calls(A, "1", "tools/call");
    stage.calls(B, "1", "tools/call");
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":1}"#));
    stage.child();
    asks(&mut stage, "0", "sampling/createMessage");
    assert_eq!(refused(&mut stage), Some(-32603));
    assert!(!stage.router.takes_turns());
    stage.later(10);
    asks(&mut stage, "1", "sampling/createMessage");
    assert_eq!(stage.hears(B).len(), 1);
}

#[test]
fn what_the_child_takes_back_is_told_to_the_session_that_was_asked() {
    let mut stage = Stage::shared();
    stage.calls(B, "1", "tools/call");
    asks(&mut stage, "\"q\"", "sampling/createMessage");
    stage.hears(B);
    stage.child_says(&notify("notifications/cancelled", r#"{"requestId":"q"}"#));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 1));
    stage.says(B, r#"{"jsonrpc":"2.0","id":"q","result":{}}"#);
    assert!(stage.child().is_empty());
    stage.child_says(&notify("notifications/cancelled", r#"{"requestId":"other"}"#));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 0));
}

#[test]
fn that_an_elicitation_is_complete_is_told_to_the_session_that_had_it() {
    let mut stage = Stage::shared();
    stage.calls(B, "1", "tools/call");
    asks(&mut stage, "1", "elicitation/create");
    stage.hears(B);
    stage.child_says(&notify("notifications/elicitation/complete", r#"{"elicitationId":"e1"}"#));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 1));
    stage.child_says(&notify("notifications/elicitation/complete", r#"{"elicitationId":"e2"}"#));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (1, 1));
}

#[test]
fn if_the_session_that_was_asked_leaves_the_child_is_told() {
    let mut stage = Stage::shared();
    stage.calls(B, "1", "tools/call");
    asks(&mut stage, "1.0", "sampling/createMessage");
    stage.leave(B);
    let told = stage.child();
    assert_eq!(told[0]["method"], "notifications/cancelled");
    assert_eq!((&told[1]["id"], &told[1]["error"]["code"]), (&json!(1.0), &json!(-32000)));
    assert!(stage.hears(A).is_empty() && !stage.router.is_busy(stage.now));
}

#[test]
fn the_newest_session_is_asked_if_that_is_wanted_and_the_next_one_if_it_leaves() {
    let mut stage = Stage::new(Routing { reverse: ReverseTo::Newest, ..routing() });
    stage.join(C);
    stage.shake_hands(&[A, B]);
    asks(&mut stage, "5", "sampling/createMessage");
    let asked = stage.hears(B);
    assert_eq!(asked.len(), 1, "C has not said anything yet");
    stage.leave(B);
    assert_eq!(stage.hears(A), asked);
    stage.says(A, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    assert_eq!(stage.child().len(), 1);
    asks(&mut stage, "6", "sampling/createMessage");
    stage.leave(A);
    let told = stage.child();
    assert_eq!(told.last().expect("two lines")["error"]["code"], -32000);
    assert!(!stage.router.takes_turns());
}

#[test]
fn an_answer_that_is_too_long_or_no_text_is_an_error_for_the_child() {
    let mut stage = Stage::shared();
    stage.calls(B, "1", "tools/call");
    asks(&mut stage, "5", "sampling/createMessage");
    asks(&mut stage, "6", "sampling/createMessage");
    let summary = nostray_rpc::LineSummary { id: Some(nostray_rpc::Id::Int(5)), method: None, is_response: true };
    stage.router.session_said_too_much(A, 9, 8, &summary);
    stage.perform();
    assert!(stage.child().is_empty(), "it is not A who was asked");
    stage.router.session_said_too_much(B, 9, 8, &summary);
    stage.perform();
    assert_eq!(refused(&mut stage), Some(-32603));
    stage.router.session_says(B, b"{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":\"\xFF\"}", stage.now);
    stage.perform();
    assert_eq!(refused(&mut stage), Some(-32603));
}

#[test]
fn after_a_death_the_first_session_that_is_back_is_not_alone() {
    let mut stage = Stage::shared();
    stage.router.child_gone();
    stage.router.rejoin(A);
    stage.shake_hands(&[A]);
    asks(&mut stage, "0", "sampling/createMessage");
    assert_eq!(refused(&mut stage), Some(-32603));
    assert!(stage.hears(A).is_empty());
    // Servers ask for it because of the handshake itself.
    asks(&mut stage, "1", "roots/list");
    assert_eq!(stage.hears(A).len(), 1);
    // MCP ties what a server asks to a call.
    stage.calls(A, "1", "tools/call");
    asks(&mut stage, "2", "sampling/createMessage");
    assert_eq!(stage.hears(A).len(), 1);
}
