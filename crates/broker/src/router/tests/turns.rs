//! Which session may call next.

use super::*;

fn with_window(window: usize) -> Stage {
    let mut stage = Stage::new(Routing { window, ..routing() });
    stage.shake_hands(&[A, B]);
    stage
}

fn say_calls(stage: &mut Stage, session_id: SessionId, ids: std::ops::Range<u64>) {
    for id in ids {
        stage.says(session_id, &call(&id.to_string(), "tools/call", &format!(r#"{{"of":{}}}"#, session_id.0)));
    }
}

/// Whose calls have reached the child, and how it knows them.
fn arrived(stage: &mut Stage) -> Vec<(u64, Value)> {
    stage
        .child()
        .into_iter()
        .map(|line| (line["params"]["of"].as_u64().expect("a call"), line["id"].clone()))
        .collect()
}

fn whose(arrived: &[(u64, Value)]) -> Vec<u64> {
    arrived.iter().map(|(of, _)| *of).collect()
}

#[test]
fn a_session_alone_may_have_a_window_of_calls_and_the_rest_waits() {
    let mut stage = with_window(100);
    say_calls(&mut stage, A, 0..150);
    let there = arrived(&mut stage);
    assert_eq!(there.len(), 100);
    assert_eq!(stage.router.in_flight(A), 100);
    for (_, id) in &there[..60] {
        stage.child_answers(id, json!({}));
    }
    assert_eq!(arrived(&mut stage).len(), 50);
    assert_eq!(stage.hears(A).len(), 60);
}

#[test]
fn several_share_and_take_turns_in_what_becomes_free() {
    let mut stage = with_window(1024);
    say_calls(&mut stage, A, 0..100);
    let there = arrived(&mut stage);
    assert_eq!(there.len(), 100);
    say_calls(&mut stage, B, 0..100);
    let of_b = arrived(&mut stage);
    assert_eq!(of_b.len(), 64);
    say_calls(&mut stage, A, 100..120);
    assert!(arrived(&mut stage).is_empty());
    // A has more than its share, so what becomes free is B's.
    for (_, id) in &of_b[..10] {
        stage.child_answers(id, json!({}));
    }
    assert_eq!(whose(&arrived(&mut stage)), [2; 10]);
    for (_, id) in &there[..36] {
        stage.child_answers(id, json!({}));
    }
    assert!(arrived(&mut stage).is_empty());
    stage.child_answers(&there[36].1, json!({}));
    assert_eq!(whose(&arrived(&mut stage)), [1]);
}

#[test]
fn a_full_queue_is_not_filled_further() {
    let mut stage = with_window(1);
    say_calls(&mut stage, A, 0..1024);
    assert!(stage.router.has_room(A));
    say_calls(&mut stage, A, 1024..1025);
    assert!(!stage.router.has_room(A) && stage.router.has_room(B));
    let there = arrived(&mut stage);
    stage.child_answers(&there[0].1, json!({}));
    assert!(stage.router.has_room(A));
}

#[test]
fn what_waits_can_be_cancelled_before_the_child_has_seen_it() {
    let mut stage = with_window(1);
    say_calls(&mut stage, A, 0..3);
    let there = arrived(&mut stage);
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":1}"#));
    stage.child_answers(&there[0].1, json!({}));
    let there = arrived(&mut stage);
    assert_eq!(there.len(), 1);
    stage.child_answers(&there[0].1, json!({}));
    let heard = stage.hears(A);
    assert_eq!(heard.iter().map(|line| line["id"].clone()).collect::<Vec<_>>(), [json!(0), json!(2)]);
    assert!(!stage.router.is_busy(stage.now));
}

#[test]
fn notifications_keep_their_order_but_answers_and_progress_do_not_wait() {
    let mut stage = with_window(1);
    say_calls(&mut stage, A, 0..2);
    let there = arrived(&mut stage);
    stage.child_says(&call("5", "sampling/createMessage", r#"{"_meta":{"progressToken":1}}"#));
    stage.says(A, &notify("notifications/roots/list_changed", "{}"));
    assert!(stage.child().is_empty());
    stage.says(A, &notify("notifications/progress", r#"{"progressToken":1}"#));
    stage.says(A, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    assert_eq!(stage.child().len(), 2);
    stage.child_answers(&there[0].1, json!({}));
    let told = stage.child();
    assert_eq!(
        (&told[0]["method"], &told[1]["method"]),
        (&json!("tools/call"), &json!("notifications/roots/list_changed"))
    );
}

fn taking_turns() -> Stage {
    let mut stage = with_window(1024);
    let ids = [A, B].map(|session_id| stage.calls(session_id, "\"x\"", "tools/call"));
    stage.child_says(&call("0", "sampling/createMessage", "{}"));
    assert!(stage.router.takes_turns());
    stage.child();
    for id in ids {
        stage.child_answers(&id, json!({}));
    }
    for session_id in [A, B] {
        stage.hears(session_id);
    }
    stage
}

#[test]
fn in_turns_only_one_calls_at_a_time_and_a_turn_is_what_one_had_when_it_came() {
    let mut stage = taking_turns();
    say_calls(&mut stage, A, 0..3);
    let of_a = arrived(&mut stage);
    assert_eq!(whose(&of_a), [1, 1, 1]);
    say_calls(&mut stage, B, 0..2);
    say_calls(&mut stage, A, 3..5);
    assert!(arrived(&mut stage).is_empty());
    for (_, id) in &of_a[..2] {
        stage.child_answers(id, json!({}));
        assert!(arrived(&mut stage).is_empty());
    }
    stage.child_answers(&of_a[2].1, json!({}));
    let of_b = arrived(&mut stage);
    assert_eq!(whose(&of_b), [2, 2]);
    say_calls(&mut stage, B, 2..3);
    for (_, id) in &of_b {
        stage.child_answers(id, json!({}));
    }
    let of_a = arrived(&mut stage);
    assert_eq!(whose(&of_a), [1, 1]);
    for (_, id) in &of_a {
        stage.child_answers(id, json!({}));
    }
    assert_eq!(whose(&arrived(&mut stage)), [2]);
}

#[test]
fn a_turn_ends_by_cancelling_or_leaving_too() {
    let mut stage = taking_turns();
    stage.join(C);
    say_calls(&mut stage, A, 0..1);
    say_calls(&mut stage, B, 0..1);
    say_calls(&mut stage, C, 0..1);
    assert_eq!(whose(&arrived(&mut stage)), [1]);
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":0}"#));
    let told = stage.child();
    assert_eq!(told.len(), 2);
    assert!(told.iter().any(|line| line["params"]["of"] == 2));
    stage.leave(B);
    let told = stage.child();
    assert_eq!(told[0]["method"], "notifications/cancelled");
    assert_eq!(told[1]["params"]["of"], 3);
}

#[test]
fn what_is_answered_here_and_streams_need_no_turn() {
    let mut stage = taking_turns();
    say_calls(&mut stage, A, 0..1);
    stage.child();
    stage.says(B, &initialize("again", "2025-06-18", "{}"));
    assert_eq!(stage.hears(B).len(), 1);
    stage.says(B, &call("\"s\"", "subscriptions/listen", "{}"));
    assert_eq!(stage.child().len(), 1);
}

#[test]
fn sessions_come_round_one_after_the_other() {
    let mut stage = taking_turns();
    stage.join(C);
    let mut order = Vec::new();
    let mut there = Vec::new();
    for round in 0..4 {
        for session_id in [A, B, C] {
            say_calls(&mut stage, session_id, round..round + 1);
            there.extend(arrived(&mut stage));
        }
        while let Some((of, id)) = there.pop() {
            assert!(there.is_empty());
            order.push(of);
            stage.child_answers(&id, json!({}));
            there.extend(arrived(&mut stage));
        }
    }
    assert_eq!(order, [1, 2, 3].repeat(4));
}
