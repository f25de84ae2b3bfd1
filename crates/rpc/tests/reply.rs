//! Lines that are written here are read again as what was meant.

use nostray_rpc::{Id, Kind, Message, Outcome, error, errors, notification, read, request, result, with_id};
use serde_json::{Value, json};

fn parsed(line: &[u8]) -> Value {
    let (text, ending) = line.split_at(line.len() - 1);
    assert_eq!(ending, b"\n");
    assert!(!text.contains(&b'\n'), "more than one line");
    read(text).expect("a message");
    serde_json::from_slice(text).expect("JSON")
}

#[test]
fn an_error_is_an_answer() {
    let data = json!({"why": "gone"});
    let line = error(&Id::from("a\n\"b\""), -32001, "the child\u{2028} \"x\" \u{1} is gone", Some(&data));
    let expected = json!({"jsonrpc": "2.0", "id": "a\n\"b\"",
        "error": {"code": -32001, "message": "the child\u{2028} \"x\" \u{1} is gone", "data": {"why": "gone"}}});
    assert_eq!(parsed(&line), expected);
    assert!(!line.windows(3).any(|bytes| bytes == "\u{2028}".as_bytes()), "some readers end a line there");
    let line = error(&Id::Number("0.5".into()), 1, "", None);
    assert_eq!(parsed(&line), json!({"jsonrpc": "2.0", "id": 0.5, "error": {"code": 1, "message": ""}}));
}

#[test]
fn errors_are_a_batch() {
    let line = errors(&[Id::Int(1), Id::from("2")], 5, "no", None);
    let refusal = |id: Value| json!({"jsonrpc": "2.0", "id": id, "error": {"code": 5, "message": "no"}});
    assert_eq!(parsed(&line), json!([refusal(json!(1)), refusal(json!("2"))]));
}

#[test]
fn json_over_several_lines_becomes_one_line() {
    let raw = b"{\n  \"a\": [\r\n1\n]}\n";
    assert_eq!(parsed(&result(&Id::Int(1), raw)), json!({"jsonrpc": "2.0", "id": 1, "result": {"a": [1]}}));
    let line = request(&Id::Int(1), "tools/call", Some(raw));
    assert!(!line.contains(&b'\r'), "some readers end a line there, too");
    assert_eq!(parsed(&line), json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"a": [1]}}));
    assert_eq!(parsed(&request(&Id::Int(1), "ping", None)), json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let line = notification("a/\"b\"", Some(raw));
    assert_eq!(parsed(&line), json!({"jsonrpc": "2.0", "method": "a/\"b\"", "params": {"a": [1]}}));
    assert_eq!(parsed(&notification("a", None)), json!({"jsonrpc": "2.0", "method": "a"}));
}

#[test]
fn with_another_id_everything_else_is_as_it_was() {
    let same = |line: &str, id: &Id| {
        let Ok(Message::One(envelope)) = read(line.as_bytes()) else { panic!("no message") };
        String::from_utf8(with_id(&envelope, id)).expect("UTF-8")
    };
    let seven = Id::Int(7);
    assert_eq!(
        same(r#"{ "jsonrpc":"2.0", "id" : "x" ,"method":"a", "id2":1, "params":{"id":"x"}}"#, &seven),
        "{ \"jsonrpc\":\"2.0\", \"id\" : 7 ,\"method\":\"a\", \"id2\":1, \"params\":{\"id\":\"x\"}}\n"
    );
    assert_eq!(
        same(r#"{"jsonrpc":"2.0","result":1.0,"id":1}"#, &"a".into()),
        "{\"jsonrpc\":\"2.0\",\"result\":1.0,\"id\":\"a\"}\n"
    );
    assert_eq!(
        same(r#"{"jsonrpc":"2.0","error":1,"id":null}"#, &seven),
        "{\"jsonrpc\":\"2.0\",\"error\":1,\"id\":7}\n"
    );
    // Of two ids the last counts, so the last changes.
    assert_eq!(
        same(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, &seven),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":7,\"method\":\"a\"}\n"
    );
    let notification = r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#;
    assert_eq!(same(notification, &seven), format!("{notification}\n"));
}

#[test]
fn what_was_written_is_read_back() {
    let line = result(&Id::Int(i64::MIN), b"[]");
    let Ok(Message::One(envelope)) = read(line.trim_ascii_end()) else { panic!("no message") };
    let Kind::Response { id: Some(id), outcome: Outcome::Result(b"[]") } = envelope.kind else {
        panic!("{envelope:?}")
    };
    assert_eq!(id.id(), Id::Int(i64::MIN));
}
