//! Any other JSON-RPC.

use super::*;

fn stage(route_by: &[&[&str]], reverse: ReverseTo) -> Stage {
    let route_by = route_by.iter().map(|path| path.iter().map(|name| (*name).to_owned()).collect()).collect();
    let mut stage = Stage::new(Routing { protocol: Protocol::JsonRpc, route_by, reverse, window: 1024 });
    stage.join(C);
    stage
}

fn heard(stage: &mut Stage) -> [usize; 3] {
    [A, B, C].map(|session_id| stage.hears(session_id).len())
}

#[test]
fn nothing_of_mcp_is_known() {
    let mut stage = stage(&[], ReverseTo::Certain);
    let params = r#"{"_meta":{"progressToken":5},"level":"debug","uri":"a://x"}"#;
    for method in ["initialize", "logging/setLevel", "resources/subscribe", "subscriptions/listen", "tools/call"] {
        for session_id in [A, B] {
            stage.says(session_id, &call("1", method, params));
            let told = stage.child();
            assert_eq!(told.len(), 1);
            assert_eq!(told[0]["params"]["_meta"]["progressToken"], 5);
            stage.child_answers(&told[0]["id"], json!({}));
        }
    }
    heard(&mut stage);
    for method in ["notifications/initialized", "notifications/progress"] {
        let line = notify(method, r#"{"requestId":1,"progressToken":1}"#);
        stage.says(A, &line);
        stage.says(A, &line);
        assert_eq!(stage.child, [line.clone(), line.clone()]);
        stage.child();
        stage.child_says(&line);
        assert_eq!(heard(&mut stage), [1, 1, 1]);
    }
    // Also a request of the child.
    stage.leave(B);
    stage.leave(C);
    stage.child_says(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(stage.hears(A).len(), 1);
}

#[test]
fn messages_go_to_the_session_that_they_name() {
    let mut stage = stage(&[&["params", "sessionId"]], ReverseTo::Certain);
    stage.calls(A, "1", "x");
    stage.says(A, &call("2", "x", r#"{"sessionId":"one"}"#));
    stage.says(B, &notify("x", r#"{"sessionId":2.0}"#));
    for (params, expected) in [
        (r#"{"sessionId":"one"}"#, [1, 0, 0]),
        (r#"{"sessionId":2}"#, [0, 1, 0]),
        (r#"{"sessionId":"2"}"#, [1, 1, 1]),
        (r#"{"sessionId":null}"#, [1, 1, 1]),
        (r#"{"other":{"sessionId":"one"}}"#, [1, 1, 1]),
        ("[]", [1, 1, 1]),
    ] {
        stage.child_says(&notify("y", params));
        assert_eq!(heard(&mut stage), expected, "{params}");
    }
    stage.child();
    stage.child_says(&call("9", "y", r#"{"sessionId":2}"#));
    assert_eq!(heard(&mut stage), [0, 1, 0]);
    // The session that used it first; when that has left, the next session that used it.
    stage.says(C, &notify("x", r#"{"sessionId":"one"}"#));
    stage.child();
    stage.child_says(&notify("y", r#"{"sessionId":"one"}"#));
    assert_eq!(heard(&mut stage), [1, 0, 0]);
    stage.leave(A);
    stage.child_says(&notify("y", r#"{"sessionId":"one"}"#));
    assert_eq!((stage.hears(B).len(), stage.hears(C).len()), (0, 1));
    stage.leave(C);
    stage.child_says(&notify("y", r#"{"sessionId":"one"}"#));
    assert!(stage.hears(B).is_empty());
    stage.child_says(&call("10", "y", r#"{"sessionId":"one"}"#));
    assert_eq!(stage.child().last().expect("an answer")["error"]["code"], -32000);
}

#[test]
fn a_handler_falls_through_to_the_sessions_that_are_left() {
    let mut stage = stage(&[&["params", "sessionId"]], ReverseTo::Newest);
    for session_id in [A, B, C] {
        stage.says(session_id, &notify("x", &format!(r#"{{"sessionId":{}}}"#, session_id.0)));
    }
    stage.child();
    // Also where it is known whose it was.
    stage.child_says(&call("1", "llm.complete", r#"{"sessionId":1}"#));
    assert_eq!(heard(&mut stage), [1, 0, 0]);
    stage.child_says(&call("2", "llm.complete", "{}"));
    assert_eq!(heard(&mut stage), [0, 0, 1]);
    stage.leave(C);
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 1));
    stage.leave(A);
    assert_eq!(stage.hears(B)[0]["id"], 1);
    stage.child_says(&call("3", "llm.complete", r#"{"sessionId":1}"#));
    assert_eq!(stage.hears(B)[0]["id"], 3);
    stage.leave(B);
    let told = stage.child();
    assert_eq!(
        told.iter().map(|line| line["error"]["code"].clone()).collect::<Vec<_>>(),
        [-32000; 3].map(|n| json!(n))
    );
}

#[test]
fn a_session_that_leaves_leaves_its_calls_to_the_child() {
    let mut stage = stage(&[], ReverseTo::Certain);
    let ours = stage.calls(A, "1", "x");
    stage.calls(B, "1", "x");
    stage.leave(A);
    assert!(stage.child().is_empty());
    // It was not called off, so it may ask as long as it goes on.
    stage.later(1000);
    stage.child_says(&call("1", "y", "{}"));
    assert_eq!(stage.child()[0]["error"]["code"], -32603);
    stage.child_answers(&ours, json!({}));
    assert!(stage.logged.is_empty() && stage.hears(B).is_empty());
    stage.child_says(&call("2", "y", "{}"));
    assert_eq!(stage.hears(B).len(), 1);
}

#[test]
fn a_cancel_of_language_servers_means_the_right_call_and_is_answered() {
    let mut stage = Stage::new(Routing { protocol: Protocol::JsonRpc, window: 1, ..routing() });
    let ours = stage.calls(A, "\"q\"", "x");
    stage.says(A, &call("2", "x", "{}"));
    stage.says(A, &notify("$/cancelRequest", r#"{"id":"q"}"#));
    assert_eq!(stage.child()[0]["params"]["id"], ours);
    stage.says(A, &notify("$/cancelRequest", r#"{"id":2}"#));
    assert_eq!(stage.hears(A)[0]["error"]["code"], -32800);
    stage.says(B, &notify("$/cancelRequest", r#"{"id":"q"}"#));
    assert!(stage.child().is_empty());
    assert!(stage.router.is_busy(stage.now), "the child still answers");
    stage.child_refuses(&ours, -32800);
    assert!(!stage.router.is_busy(stage.now));
}

/// A and B have spoken to a child that has died since, and C has left.
fn after_a_death(route_by: &[&[&str]], reverse: ReverseTo) -> Stage {
    let mut stage = stage(route_by, reverse);
    for (session_id, of) in [(A, "a"), (B, "b")] {
        stage.says(session_id, &call("1", "session.open", &format!(r#"{{"sessionId":"{of}"}}"#)));
        let told = stage.child();
        stage.child_answers(&told[0]["id"], json!({}));
        stage.hears(session_id);
    }
    stage.leave(C);
    stage.router.child_gone();
    stage
}

/// The front of a session replays what the new child must know; what the child asks meanwhile, with B's text, is refused.
fn replays(stage: &mut Stage, session_id: SessionId) {
    stage.router.rejoin(session_id);
    let ours = stage.calls(session_id, "1", "session.open");
    stage.child_says(&call("\"recovered\"", "llm.complete", r#"{"text":"of B"}"#));
    assert!(
        stage.child().pop().expect("an answer")["error"]["message"].as_str().expect("why").contains("started anew")
    );
    stage.child_answers(&ours, json!({}));
    assert_eq!(stage.hears(session_id).len(), 1, "only its answer");
    stage.router.told(session_id);
}

#[test]
fn after_a_death_nothing_is_certain_until_every_session_has_replayed() {
    let mut stage = after_a_death(&[], ReverseTo::Certain);
    replays(&mut stage, A);
    replays(&mut stage, B);
    // From now on what is in flight says whose it is.
    stage.calls(A, "2", "x");
    stage.child_says(&call("1", "llm.complete", "{}"));
    assert_eq!(stage.hears(A).len(), 1);
    assert!(!stage.router.takes_turns());
}

#[test]
fn a_session_that_leaves_is_not_waited_for_after_a_death() {
    let mut stage = after_a_death(&[], ReverseTo::Certain);
    replays(&mut stage, A);
    stage.leave(B);
    stage.child_says(&call("1", "llm.complete", "{}"));
    assert_eq!(stage.hears(A).len(), 1);
}

#[test]
fn a_session_that_says_nothing_to_the_new_child_is_there_all_the_same() {
    let mut stage = after_a_death(&[], ReverseTo::Certain);
    for session_id in [A, B] {
        stage.router.rejoin(session_id);
        stage.router.told(session_id);
    }
    let ours = stage.calls(A, "2", "x");
    stage.child_answers(&ours, json!({}));
    stage.hears(A);
    stage.child_says(&call("1", "llm.complete", r#"{"text":"of B"}"#));
    assert!(stage.hears(A).is_empty());
    assert_eq!(stage.child()[0]["error"]["code"], -32603);
}

#[test]
fn what_a_session_is_called_outlives_the_child() {
    let mut stage = after_a_death(&[&["params", "sessionId"]], ReverseTo::Certain);
    stage.router.rejoin(A);
    // It cannot take what is B's meanwhile.
    stage.says(A, &notify("x", r#"{"sessionId":"b"}"#));
    stage.child();
    let asks = call("1", "llm.complete", r#"{"sessionId":"b"}"#);
    let tells = notify("y", r#"{"sessionId":"b"}"#);
    stage.child_says(&asks);
    stage.child_says(&tells);
    assert_eq!(stage.child()[0]["error"]["code"], -32000);
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 0));
    stage.router.rejoin(B);
    stage.child_says(&asks);
    stage.child_says(&tells);
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 2));
}

#[test]
fn with_nothing_in_flight_the_child_is_refused_every_time_and_told_what_helps() {
    let mut stage = stage(&[], ReverseTo::Certain);
    for session_id in [A, B] {
        let ours = stage.calls(session_id, "1", "x");
        stage.child_answers(&ours, json!({}));
        stage.hears(session_id);
    }
    for id in ["1", "2", "3"] {
        stage.child_says(&call(id, "llm.complete", "{}"));
        let refusal = stage.child().pop().expect("an answer");
        let why = refusal["error"]["message"].as_str().expect("why");
        assert!(why.contains("--route-by") && why.contains("--reverse newest") && !why.contains("turns"), "{why}");
    }
    assert_eq!(heard(&mut stage), [0, 0, 0]);
    assert!(!stage.router.takes_turns(), "that would not help");
}

#[test]
fn the_newest_is_asked_only_where_it_is_not_certain() {
    let mut stage = stage(&[], ReverseTo::Newest);
    for session_id in [A, B, C] {
        let ours = stage.calls(session_id, "1", "x");
        stage.child_answers(&ours, json!({}));
        stage.hears(session_id);
    }
    stage.child_says(&call("1", "llm.complete", "{}"));
    assert_eq!(heard(&mut stage), [0, 0, 1], "nothing is in flight");
    stage.calls(A, "2", "x");
    stage.child_says(&call("2", "llm.complete", "{}"));
    assert_eq!(heard(&mut stage), [1, 0, 0], "only A has a call in flight");
    stage.calls(B, "2", "x");
    stage.child_says(&call("3", "llm.complete", "{}"));
    assert_eq!(heard(&mut stage), [0, 0, 1], "two have");
    assert!(!stage.router.takes_turns());
}

#[test]
fn a_handler_falls_through_to_a_session_that_has_said_nothing_since_the_last_death() {
    let mut stage = after_a_death(&[], ReverseTo::Newest);
    for session_id in [A, B] {
        stage.router.rejoin(session_id);
        stage.router.told(session_id);
    }
    stage.calls(A, "2", "x");
    stage.child_says(&call("1", "llm.complete", "{}"));
    assert_eq!(stage.hears(A).len(), 1);
    stage.leave(A);
    assert_eq!(stage.hears(B).len(), 1);
    stage.child_says(&call("2", "llm.complete", "{}"));
    assert_eq!(stage.hears(B).len(), 1);
}

#[test]
fn a_session_is_named_under_any_of_several_paths() {
    let mut stage = stage(&[&["params", "sessionId"], &["params", "payload", "sessionId"]], ReverseTo::Certain);
    stage.says(A, &notify("x", r#"{"sessionId":"a"}"#));
    stage.says(B, &notify("x", r#"{"payload":{"sessionId":"b"}}"#));
    stage.says(C, &notify("x", r#"{"sessionId":"c","payload":{"sessionId":"c2"}}"#));
    stage.child();
    for (params, expected) in [
        (r#"{"sessionId":"b"}"#, [0, 1, 0]),
        (r#"{"payload":{"sessionId":"a"}}"#, [1, 0, 0]),
        (r#"{"payload":{"sessionId":"c2"}}"#, [0, 0, 1]),
        // The first path that names a session decides.
        (r#"{"sessionId":"a","payload":{"sessionId":"b"}}"#, [1, 0, 0]),
        (r#"{"sessionId":"unknown","payload":{"sessionId":"b"}}"#, [0, 1, 0]),
    ] {
        stage.child_says(&notify("y", params));
        assert_eq!(heard(&mut stage), expected, "{params}");
        stage.child_says(&call("1", "y", params));
        assert_eq!(heard(&mut stage), expected, "{params}");
    }
    assert_eq!(stage.router.never_matched(), None);
}

#[test]
fn that_no_message_of_the_child_named_a_session_is_said_once() {
    let mut stage = stage(&[&["params", "a"], &["params", "b", "c"]], ReverseTo::Certain);
    stage.says(A, &notify("x", r#"{"a":1}"#));
    assert_eq!(stage.router.never_matched(), None, "the child has said nothing");
    stage.child_says(&notify("y", r#"{"b":1}"#));
    assert_eq!(stage.router.never_matched().as_deref(), Some("params.a,params.b.c"));
    assert_eq!(stage.router.never_matched(), None);
}

#[test]
fn every_path_of_a_route_must_be_the_same_for_every_reader() {
    let mut stage = stage(&[&["params", "sessionId"], &["params", "payload", "sessionId"]], ReverseTo::Certain);
    stage.says(A, &call("1", "x", r#"{"payload":{"sessionId":"a","sessionId":"b"}}"#));
    assert!(stage.child().is_empty());
    assert_eq!(stage.hears(A)[0]["error"]["code"], -32600);
}
