//! Any other JSON-RPC.

use super::*;

fn stage(route_by: Option<&[&str]>, reverse: ReverseTo) -> Stage {
    let route_by = route_by.map(|path| path.iter().map(|name| (*name).to_owned()).collect());
    let mut stage = Stage::new(Routing { protocol: Protocol::JsonRpc, route_by, reverse, window: 1024 });
    stage.join(C);
    stage
}

fn heard(stage: &mut Stage) -> [usize; 3] {
    [A, B, C].map(|seat| stage.hears(seat).len())
}

#[test]
fn nothing_of_mcp_is_known() {
    let mut stage = stage(None, ReverseTo::Certain);
    let params = r#"{"_meta":{"progressToken":5},"level":"debug","uri":"a://x"}"#;
    for method in ["initialize", "logging/setLevel", "resources/subscribe", "subscriptions/listen", "tools/call"] {
        for seat in [A, B] {
            stage.says(seat, &call("1", method, params));
            let told = stage.child();
            assert_eq!(told.len(), 1);
            assert_eq!(told[0]["params"]["_meta"]["progressToken"], 5);
            stage.child_answers(&told[0]["id"], json!({}));
        }
    }
    heard(&mut stage);
    for method in ["notifications/initialized", "notifications/cancelled", "notifications/progress"] {
        let line = notify(method, r#"{"requestId":1,"progressToken":1}"#);
        stage.says(A, &line);
        stage.says(A, &line);
        assert_eq!(stage.child, [line.clone(), line.clone()]);
        stage.child();
        stage.child_says(&line);
        assert_eq!(heard(&mut stage), [1, 1, 1]);
    }
    // Also that somebody is asked.
    stage.leave(B);
    stage.leave(C);
    stage.child_says(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(stage.hears(A).len(), 1);
}

#[test]
fn messages_go_to_the_session_that_they_name() {
    let mut stage = stage(Some(&["params", "sessionId"]), ReverseTo::Certain);
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
    // Who used it last.
    stage.says(C, &notify("x", r#"{"sessionId":"one"}"#));
    stage.child();
    stage.child_says(&notify("y", r#"{"sessionId":"one"}"#));
    assert_eq!(heard(&mut stage), [0, 0, 1]);
    stage.leave(C);
    stage.child_says(&notify("y", r#"{"sessionId":"one"}"#));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 0));
    stage.child_says(&call("10", "y", r#"{"sessionId":"one"}"#));
    assert_eq!(stage.child().last().expect("an answer")["error"]["code"], -32000);
}

#[test]
fn a_handler_falls_through_to_whoever_is_left() {
    let mut stage = stage(Some(&["params", "sessionId"]), ReverseTo::Newest);
    for seat in [A, B, C] {
        stage.says(seat, &notify("x", &format!(r#"{{"sessionId":{}}}"#, seat.0)));
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
fn who_leaves_leaves_its_calls_to_the_child() {
    let mut stage = stage(None, ReverseTo::Certain);
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
