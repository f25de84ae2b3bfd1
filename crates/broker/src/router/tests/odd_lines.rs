//! Batches, lines that are too long, and lines that are no messages.

use nostray_rpc::{Id, LineSummary};

use super::*;

#[test]
fn the_messages_of_a_batch_go_one_by_one_and_the_answers_come_together() {
    let mut stage = Stage::shared();
    let batch = [
        call("1", "tools/call", "{}"),
        notify("notifications/roots/list_changed", "{}"),
        call("1.0", "tools/list", r#"{"_meta":{"progressToken":9}}"#),
        initialize("again", "2025-06-18", "{}"),
    ];
    stage.says(A, &format!("[{}]", batch.join(" , ")));
    let told = stage.child();
    let methods: Vec<_> = told.iter().map(|line| line["method"].clone()).collect();
    assert_eq!(methods, ["tools/call", "notifications/roots/list_changed", "tools/list"]);
    assert_eq!(told[2]["params"]["_meta"]["progressToken"], told[2]["id"]);
    stage.child_answers(&told[2]["id"], json!({ "x": 1 }));
    assert!(stage.hears(A).is_empty());
    stage.child_refuses(&told[0]["id"], 5);
    let heard = stage.hears_raw(A);
    let parts: Vec<Value> = serde_json::from_str(&heard[0]).expect("a list");
    assert_eq!((heard.len(), parts.len()), (1, 3));
    assert_eq!(parts[0]["id"], "again");
    assert!(heard[0].contains(r#""id":1.0,"#) && parts[2]["error"]["code"] == 5);
}

#[test]
fn what_is_cancelled_is_not_waited_for_in_a_batch() {
    let mut stage = Stage::new(Routing { window: 1, ..routing() });
    stage.shake_hands(&[A]);
    let calls: Vec<_> = (1..=3).map(|id| call(&id.to_string(), "tools/call", "{}")).collect();
    stage.says(A, &format!("[{}]", calls.join(",")));
    let told = stage.child();
    assert_eq!(told.len(), 1);
    // A queued call, and a call in flight.
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":2}"#));
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":1}"#));
    let third = stage.child().into_iter().find(|line| line["method"] == "tools/call").expect("the third goes");
    stage.child_answers(&third["id"], json!({}));
    let heard = stage.hears(A);
    assert_eq!(heard, [json!([{ "jsonrpc": "2.0", "id": 3, "result": {} }])]);
    // And what comes all the same comes alone.
    stage.child_answers(&told[0]["id"], json!({}));
    assert_eq!(stage.hears(A)[0]["id"], 1);
}

#[test]
fn a_stream_in_a_batch_keeps_no_call_waiting() {
    let mut stage = Stage::new(routing());
    let batch = [modern("1", "subscriptions/listen", ""), modern("2", "tools/list", "")];
    stage.says(A, &format!("[{}]", batch.join(",")));
    let told = stage.child();
    stage.child_answers(&told[1]["id"], json!({}));
    assert_eq!(stage.hears(A), [json!([{ "jsonrpc": "2.0", "id": 2, "result": {} }])]);
    stage.child_answers(&told[0]["id"], json!({}));
    assert_eq!(stage.hears(A)[0]["id"], 1);
}

#[test]
fn what_needs_another_child_is_refused_in_a_batch() {
    let mut stage = Stage::shared();
    stage.says(A, &format!("[{}]", [modern("1", "tools/list", ""), call("2", "tools/list", "{}")].join(",")));
    let told = stage.child();
    assert_eq!(told.len(), 1);
    stage.child_answers(&told[0]["id"], json!({}));
    let heard = stage.hears(A);
    assert_eq!((&heard[0][0]["id"], &heard[0][0]["error"]["code"]), (&json!(1), &json!(-32600)));
    assert_eq!(heard[0][1]["id"], 2);
    assert!(stage.elsewhere.is_empty());
    stage.calls(A, "3", "tools/call");
}

#[test]
fn a_batch_of_the_child_is_taken_apart() {
    let mut stage = Stage::shared();
    let of_a = stage.calls(A, "1", "tools/call");
    let of_b = stage.calls(B, "1", "tools/call");
    let batch = json!([
        { "jsonrpc": "2.0", "id": of_a, "result": "a" },
        { "jsonrpc": "2.0", "method": "notifications/tools/list_changed" },
        { "jsonrpc": "2.0", "id": of_b, "result": "b" },
        { "jsonrpc": "2.0", "id": 999, "result": "?" },
        { "jsonrpc": "2.0", "id": 1, "method": "ping" },
    ]);
    stage.child_says(&batch.to_string());
    assert_eq!((stage.hears(A)[0]["result"].clone(), stage.hears(B)[1]["result"].clone()), (json!("a"), json!("b")));
    assert_eq!(stage.child().len(), 1);
    assert_eq!(stage.logged.len(), 1);
}

#[test]
fn what_is_no_message_is_answered_here_and_the_child_does_not_see_it() {
    let mut stage = Stage::shared();
    for (line, code) in [
        ("hello", Some(-32700)),
        ("{\"jsonrpc\":\"2.0\"", Some(-32700)),
        ("{\"id\":1,\"method\":\"x\"}", Some(-32600)),
        ("[]", Some(-32700)),
        ("null", Some(-32700)),
        ("", None),
        ("   ", None),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","id":4,"result":{}}"#, None),
    ] {
        stage.says(A, line);
        let heard = stage.hears(A);
        assert_eq!(heard.first().and_then(|line| line["error"]["code"].as_i64()), code, "{line}");
        assert!(heard.iter().all(|line| line["id"].is_null()));
        assert!(stage.child().is_empty(), "{line}");
    }
    stage.router.session_says(A, b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"\xFF\"}", stage.now);
    stage.perform();
    assert_eq!(stage.hears(A)[0]["id"], "x");
}

#[test]
fn a_long_line_that_is_broken_inside_is_answered_at_once() {
    let mut stage = Stage::new(Routing { window: 1, ..routing() });
    stage.shake_hands(&[A]);
    let ours = stage.calls(A, "1", "tools/call");
    stage.says(A, &call("2", "tools/call", &format!(r#"{{"x":"{}"]]}}"#, "x".repeat(2000))));
    let heard = stage.hears(A);
    assert_eq!((&heard[0]["id"], &heard[0]["error"]["code"]), (&json!(2), &json!(-32700)));
    stage.child_answers(&ours, json!({}));
    assert!(stage.child().is_empty() && !stage.router.is_busy(stage.now));
}

#[test]
fn what_the_child_prints_is_for_its_log() {
    let mut stage = Stage::shared();
    for line in ["starting", "{\"a\":1}", "{", r#"{"jsonrpc":"2.0","id":null,"result":1}"#] {
        stage.child_says(line);
    }
    assert_eq!(stage.logged.len(), 4);
    stage.child_says("");
    assert_eq!(stage.logged.len(), 4);
    assert!(stage.hears(A).is_empty() && stage.child().is_empty());
}

#[test]
fn a_session_that_waits_for_an_answer_that_cannot_be_given_is_told() {
    let mut stage = Stage::shared();
    let ours = stage.calls(A, "1.0", "tools/call");
    let id = Id::Int(ours.as_i64().expect("ours"));
    let seen = LineSummary { id: Some(id), method: None, is_response: true };
    stage.router.child_said_too_much(9, 8, &seen, stage.now);
    stage.perform();
    let heard = stage.hears_raw(A);
    assert!(heard[0].contains(r#""id":1.0,"error":{"code":-32603"#), "{heard:?}");
    let ours = stage.calls(A, "2", "tools/call");
    let line = [b"{\"jsonrpc\":\"2.0\",\"id\":", ours.to_string().as_bytes(), b",\"result\":\"\xFF\"}"].concat();
    assert!(matches!(stage.router.child_says(&line, stage.now), FromChild::Log(_)));
    stage.perform();
    assert_eq!(stage.hears(A)[0]["error"]["code"], -32603);
    assert!(!stage.router.is_busy(stage.now));
    // A question that is too long.
    let seen = LineSummary { id: Some(Id::Int(3)), method: Some("x".to_owned()), is_response: false };
    stage.router.child_said_too_much(9, 8, &seen, stage.now);
    stage.perform();
    assert_eq!(stage.child()[0]["error"]["code"], -32600);
}

#[test]
fn a_call_that_is_too_long_is_answered() {
    let mut stage = Stage::shared();
    let seen = LineSummary { id: Some(Id::Int(3)), method: Some("x".to_owned()), is_response: false };
    stage.router.session_said_too_much(A, 9, 8, &seen);
    stage.perform();
    assert_eq!((stage.hears(A)[0]["error"]["code"].clone(), stage.hears(B).len()), (json!(-32600), 0));
    assert!(stage.child().is_empty());
}
