//! One session cannot speak with another's voice: nothing that it says names what is another's, for any reader.

use super::*;

/// What the worst reader is told: it takes the last of two equal members, and ends a line at each character at which
/// any reader does.
fn as_read(lines: Vec<String>) -> Vec<Value> {
    let ends = ['\r', '\n', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    let pieces = lines.iter().flat_map(|line| line.split(ends)).filter(|piece| !piece.trim().is_empty());
    pieces.map(|piece| serde_json::from_str(piece).expect("what the child is told is JSON")).collect()
}

fn padding() -> String {
    format!(r#""arguments":{{"text":"{}"}}"#, "x".repeat(2000))
}

/// A says something while a call of B's is in flight. Returns what A is told.
#[track_caller]
fn attack(line: &str) -> Vec<Value> {
    let mut stage = Stage::shared();
    let of_b = stage.calls(B, "7", "tools/call");
    stage.says(A, &line.replace("{B}", &of_b.to_string()));
    let told = as_read(std::mem::take(&mut stage.child));
    for message in &told {
        assert_ne!(message["id"], of_b, "the child hears {message}");
        assert_ne!(message["params"]["requestId"], of_b, "the child hears {message}");
        assert_ne!(message["params"]["id"], of_b, "the child hears {message}");
        assert_ne!(message["params"]["progressToken"], of_b, "the child hears {message}");
        assert_ne!(message["params"]["_meta"]["progressToken"], of_b, "the child hears {message}");
    }
    assert!(told.len() <= 1, "one line is one message: {told:?}");
    stage.child_answers(&of_b, json!("for B"));
    assert_eq!(stage.hears(B), [json!({ "jsonrpc": "2.0", "id": 7, "result": "for B" })]);
    stage.hears(A)
}

/// The error by which A is told that nothing of its message was passed on.
#[track_caller]
fn refused(line: &str, id: Value, code: i64) {
    let heard = attack(line);
    assert_eq!(heard.len(), 1, "{line}: {heard:?}");
    assert_eq!((&heard[0]["id"], &heard[0]["error"]["code"]), (&id, &json!(code)), "{line}: {heard:?}");
}

#[test]
fn a_second_member_of_the_same_name_is_refused() {
    let long = padding();
    for (line, id) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{},"id":{B}}"#.to_owned(), None),
        (r#"{"jsonrpc":"2.0","id":{B},"method":"tools/call","params":{},"id":1}"#.to_owned(), Some(1)),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{long}}},"id":{{B}}}}"#), None),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{long}}},"\u0069d":{{B}}}}"#), None),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{long}}},"ID":{{B}}}}"#), Some(1)),
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{long}}},"method":"notifications/cancelled","params":{{"requestId":{{B}}}}}}"#
            ),
            Some(1),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":{B},"progressToken":1}}}"#.to_owned(), Some(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":1},"_meta":{"progressToken":{B}}}}"#.to_owned(), Some(1)),
    ] {
        // A request that ends in B's id is answered under that number, which to A is a number like any other.
        let heard = attack(&line);
        assert_eq!(heard.len(), 1, "{line}: {heard:?}");
        assert_eq!(heard[0]["error"]["code"], -32600, "{line}: {heard:?}");
        if let Some(id) = id {
            assert_eq!(heard[0]["id"], id, "{line}: {heard:?}");
        }
    }
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{B},"requestId":5}}"#;
    refused(cancel, Value::Null, -32600);
}

#[test]
fn what_ends_a_line_for_another_reader_ends_nothing() {
    let smuggled = r#"{"jsonrpc":"2.0","id":{B},"method":"tools/call","params":{"name":"evil"}}"#;
    for end in ["\r", "\u{b}", "\u{c}", "\u{1c}", "\u{1d}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}", "\0"] {
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{}}}}{end}{smuggled}{end}{{}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":"{end}{smuggled}{end}"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"x":{end}{smuggled}{end}}}}}"#),
            format!(r#"[{{"jsonrpc":"2.0","id":1,"method":"x"}},{end}{smuggled}{end},{{}}]"#),
            format!(r#"{end}{smuggled}{end}"#),
        ] {
            attack(&line);
        }
    }
    // The meaning stays.
    let mut stage = Stage::shared();
    stage.says(A, "{\"jsonrpc\":\"2.0\",\r\"id\":1,\"method\":\"x\",\"params\":{\"text\":\"a\u{2028}b\u{85}c\"}}");
    let told = std::mem::take(&mut stage.child);
    assert!(told.len() == 1 && told[0].is_ascii() && !told[0].contains('\r'), "{told:?}");
    assert_eq!(values(told)[0]["params"]["text"], "a\u{2028}b\u{85}c");
}

#[test]
fn a_cancel_is_a_notification_and_names_a_call_of_its_own_session() {
    for method in ["notifications/cancelled", "$/cancelRequest"] {
        for params in
            [r#"{"requestId":{B}}"#, r#"{"id":{B}}"#, r#"{"requestId":7,"id":{B}}"#, r#"{"requestId":{B},"id":7}"#]
        {
            assert!(attack(&notify(method, params)).is_empty());
            refused(&call("1", method, params), json!(1), -32600);
        }
    }
    refused(&call("1", "notifications/progress", r#"{"progressToken":{B}}"#), json!(1), -32600);
    assert!(attack(&notify("notifications/progress", r#"{"progressToken":{B}}"#)).is_empty());
    // The language servers' way works in a server of MCP that knows it, for calls of one's own.
    let mut stage = Stage::shared();
    let ours = stage.calls(A, "7", "tools/call");
    stage.says(A, &notify("$/cancelRequest", r#"{"id":7}"#));
    assert_eq!(stage.child()[0]["params"]["id"], ours);
    stage.child_refuses(&ours, -32800);
    assert_eq!(stage.hears(A).len(), 1);
}

#[test]
fn a_request_without_an_id_changes_nothing_that_sessions_share() {
    for (method, params) in [
        ("resources/unsubscribe", r#"{"uri":"a://b"}"#),
        ("logging/setLevel", r#"{"level":"emergency"}"#),
        ("initialize", "{}"),
        ("tasks/cancel", r#"{"taskId":"x"}"#),
    ] {
        refused(&notify(method, params), Value::Null, -32600);
    }
}

#[test]
fn what_is_not_json_for_every_reader_is_refused() {
    for (line, id) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[NaN]}"#, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[}]}}"#, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{'a':1}}"#, json!(1)),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\u{7}\"}}", json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\x"}}"#, json!(1)),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":tru}}]"#, json!(null)),
    ] {
        let heard = attack(line);
        let answer = heard[0].get(0).unwrap_or(&heard[0]);
        assert_eq!(answer["error"]["code"], -32700, "{line}: {heard:?}");
        assert!(id.is_null() || answer["id"] == id, "{line}: {heard:?}");
    }
}

#[test]
fn an_answer_that_could_be_read_in_two_ways_reaches_no_session() {
    let mut stage = Stage::shared();
    let of_a = stage.calls(A, "1", "tools/call");
    let of_b = stage.calls(B, "1", "tools/call");
    stage.child_says(&format!(r#"{{"jsonrpc":"2.0","id":{of_b},"result":{{}},"id":{of_a}}}"#));
    assert_eq!(stage.hears(A)[0]["error"]["code"], -32603);
    assert!(stage.hears(B).is_empty() && stage.logged.len() == 1);
    stage.child_says("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"data\":\"\u{2028}{\\\"id\\\":1}\u{2028}\"}}");
    for session_id in [A, B] {
        let heard = stage.hears_raw(session_id);
        assert!(heard.len() == 1 && heard[0].is_ascii(), "{heard:?}");
    }
    let question = r#"{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{},"id":6}"#;
    stage.child_says(question);
    let told = stage.child();
    assert_eq!((&told[0]["id"], &told[0]["error"]["code"]), (&json!(6), &json!(-32600)));
    // What Python writes and reads passes.
    stage.child_says(&format!(r#"{{"jsonrpc":"2.0","id":{of_b},"result":[NaN]}}"#));
    assert_eq!(stage.hears_raw(B), [r#"{"jsonrpc":"2.0","id":1,"result":[NaN]}"#]);
}

#[test]
fn progress_on_a_question_comes_from_the_session_that_was_asked() {
    let mut stage = Stage::shared();
    stage.calls(B, "1", "tools/call");
    stage.child_says(&call("5", "sampling/createMessage", r#"{"_meta":{"progressToken":"t"}}"#));
    assert_eq!(stage.hears(B).len(), 1);
    let progress = notify("notifications/progress", r#"{"progressToken":"t","progress":1}"#);
    stage.says(A, &progress);
    assert!(stage.child().is_empty());
    stage.says(B, &progress);
    assert_eq!(stage.child().len(), 1);
    stage.says(B, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    stage.child();
    stage.says(B, &progress);
    assert!(stage.child().is_empty());
}

#[test]
fn a_task_is_its_session_s_alone() {
    let mut stage = Stage::shared();
    let ours = stage.calls(B, "1", "tools/call");
    stage.child_answers(&ours, json!({ "task": { "taskId": "t-b", "status": "working" } }));
    let ours = stage.calls(A, "1", "tools/call");
    stage.child_answers(&ours, json!({ "task": { "taskId": "t-a", "status": "working" } }));
    stage.hears(A);
    stage.hears(B);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        stage.says(A, &call("2", method, r#"{"taskId":"t-b"}"#));
        assert_eq!(stage.hears(A)[0]["error"]["code"], -32602);
        stage.says(B, &call("2", method, r#"{"taskId":"t-b"}"#));
        let told = stage.child();
        assert_eq!(told.len(), 1);
        // That an answer names a task does not make it another's.
        stage.child_answers(&told[0]["id"], json!({ "taskId": "t-b" }));
        assert_eq!(stage.hears(B).len(), 1);
    }
    stage.says(A, &call("3", "tools/call", r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-b"}}}"#));
    assert_eq!(stage.hears(A)[0]["error"]["code"], -32602);
    let related = r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-b"}}}"#;
    stage.says(A, &notify("notifications/roots/list_changed", related));
    stage.says(A, &notify("notifications/tasks/status", r#"{"taskId":"t-b"}"#));
    assert!(stage.child().is_empty());
    let ours = stage.calls(A, "3", "tools/call");
    stage.child_says(&call("8", "roots/list", "{}"));
    stage.says(A, &format!(r#"{{"jsonrpc":"2.0","id":8,"result":{related}}}"#));
    assert_eq!(stage.child()[0]["error"]["code"], -32603);
    stage.child_answers(&ours, json!({}));
    stage.hears(A);
    for (session_id, own) in [(A, "t-a"), (B, "t-b")] {
        let ours = stage.calls(session_id, "4", "tasks/list");
        stage.child_answers(&ours, json!({ "tasks": [{ "taskId": "t-a" }, { "taskId": "t-b" }], "nextCursor": "c" }));
        assert_eq!(stage.hears(session_id)[0]["result"], json!({ "tasks": [{ "taskId": own }], "nextCursor": "c" }));
    }
}

#[test]
fn the_child_reads_the_handshake_that_others_are_compared_with() {
    let mut stage = Stage::new(routing());
    stage.says(A, &call("1", "initialize", r#"{"protocolVersion":"2025-06-18","protocolVersion":"2024-11-05"}"#));
    assert!(stage.child().is_empty());
    assert_eq!(stage.hears(A)[0]["error"]["code"], -32600);
    stage.says(A, &initialize("1", "2025-06-18", r#"{"sampling":{"a":1,"a":2},"roots":{"a":1},"roots":{}}"#));
    let told = std::mem::take(&mut stage.child);
    assert!(told[0].contains(r#""capabilities":{"roots":{},"sampling":{"a":2}}}"#), "{told:?}");
}

#[test]
fn a_route_that_a_session_has_named_is_not_taken_over_while_it_is_there() {
    let routing = Routing {
        protocol: Protocol::JsonRpc,
        route_by: vec![vec!["params".to_owned(), "of".to_owned()]],
        ..routing()
    };
    let mut stage = Stage::new(routing);
    stage.says(B, &notify("hello", r#"{"of":"b"}"#));
    stage.says(A, &notify("hello", r#"{"of":"b"}"#));
    stage.child_says(&notify("news", r#"{"of":"b"}"#));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 1));
    stage.leave(B);
    stage.says(A, &notify("hello", r#"{"of":"b"}"#));
    stage.child_says(&notify("news", r#"{"of":"b"}"#));
    assert_eq!(stage.hears(A).len(), 1);
}
