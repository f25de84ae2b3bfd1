//! The outermost members of a line tell what it is; the contents do not matter.

mod checks;

use checks::{CORPUS, Dice, compose, envelope, mutate};
use nostray_rpc::{Envelope, Id, Kind, LineSummary, LongLineReader, Message, NotAMessage, Outcome, find, read};

fn one(line: &[u8]) -> Envelope<'_> {
    match read(line) {
        Ok(Message::One(envelope)) => envelope,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(line)),
    }
}

fn id_of(token: &str) -> Option<Id> {
    let line = format!(r#"{{"jsonrpc":"2.0","id":{token},"method":"a"}}"#);
    match one(line.as_bytes()).kind {
        Kind::Request { id, .. } => {
            assert_eq!(id.raw(), token.as_bytes());
            Some(id.id())
        }
        _ => None,
    }
}

fn why_not(line: impl AsRef<[u8]>) -> NotAMessage {
    match read(line.as_ref()) {
        Err(why) => why,
        Ok(message) => panic!("{message:?}"),
    }
}

#[test]
fn a_request_a_notification_and_both_kinds_of_answer_are_told_apart() {
    let request = one(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":[1]}}"#);
    let Kind::Request { id, method, params } = request.kind else { panic!("{request:?}") };
    assert_eq!((id.id(), method.as_ref(), params), (Id::Int(1), "tools/call", Some(&br#"{"a":[1]}"#[..])));

    let notification = one(br#"{"params":[ ],"method":"x","jsonrpc":"2.0"}"#);
    assert_eq!(notification.kind, Kind::Notification { method: "x".into(), params: Some(b"[ ]") });

    let answer = one(br#"{"jsonrpc":"2.0","result":"yes","id":"q"}"#);
    let Kind::Response { id: Some(id), outcome: Outcome::Result(b"\"yes\"") } = answer.kind else {
        panic!("{answer:?}")
    };
    assert_eq!(id.id(), Id::from("q"));

    let refusal = one(br#"{"jsonrpc":"2.0","error":{"code":1},"id":null}"#);
    assert_eq!(refusal.kind, Kind::Response { id: None, outcome: Outcome::Error(br#"{"code":1}"#) });
}

#[test]
fn of_two_members_with_one_name_the_last_counts() {
    let line =
        one(br#"{"jsonrpc":"1.0","id":1,"method":"a","jsonrpc":"2.0","method":"b","id":2,"params":1,"params":{}}"#);
    let Kind::Request { id, method, params } = line.kind else { panic!("{line:?}") };
    assert_eq!((id.id(), method.as_ref(), params), (Id::Int(2), "b", Some(&b"{}"[..])));
    assert_eq!(why_not(r#"{"jsonrpc":"2.0","jsonrpc":"1.0","method":"a"}"#), NotAMessage::NotJsonRpc);
    assert_eq!(why_not(r#"{"jsonrpc":"2.0","method":"a","method":null}"#), NotAMessage::NotJsonRpc);
    let no_longer_a_request = one(br#"{"jsonrpc":"2.0","id":1,"method":"a","id":null}"#);
    assert!(matches!(no_longer_a_request.kind, Kind::Notification { .. }));
}

#[test]
fn escapes_in_keys_methods_and_ids_are_understood() {
    let line = one(br#"{"json\u0072pc":"\u0032.0","\u0069\u0064":"\ud83e\udd80","meth\u006fd":"tools\/list"}"#);
    let Kind::Request { id, method, .. } = line.kind else { panic!("{line:?}") };
    assert_eq!((id.id(), method.as_ref()), (Id::from("🦀"), "tools/list"));
}

#[test]
fn ids_keep_their_type_and_equal_ones_are_equal() {
    for token in ["1", "1.0", "1e0", "10e-1", "0.1E1", "1.000", "0.01e+2"] {
        assert_eq!(id_of(token), Some(Id::Int(1)), "{token}");
    }
    for token in ["0", "-0", "0.0", "-0.0e7", "0e999999999999999999999"] {
        assert_eq!(id_of(token), Some(Id::Int(0)), "{token}");
    }
    assert_eq!(id_of("\"1\""), Some(Id::from("1")));
    assert_eq!(id_of("\"\""), Some(Id::from("")));
    assert_eq!(id_of(r#""\u0041""#), Some(Id::from("A")));
    assert_eq!(id_of("null"), None);
    assert_eq!(id_of("9223372036854775807"), Some(Id::Int(i64::MAX)));
    assert_eq!(id_of("-9223372036854775808"), Some(Id::Int(i64::MIN)));
    assert_eq!(id_of("-12e3"), Some(Id::Int(-12_000)));
    assert_eq!(id_of("9223372036854775808"), Some(Id::Number("9223372036854775808".into())));
    assert_eq!(id_of("1e20"), Some(Id::Number("100000000000000000000".into())));
    assert_eq!(id_of("1e21"), Some(Id::Number("1e21".into())));
    assert_eq!(id_of("12.5e30"), Some(Id::Number("1.25e31".into())));
    assert_eq!(id_of("0.50"), Some(Id::Number("0.5".into())));
    assert_eq!(id_of("5e-1"), id_of("0.5"));
    assert_eq!(id_of("-0.0000001"), Some(Id::Number("-1e-7".into())));
    assert_eq!(id_of("123.4560"), Some(Id::Number("123.456".into())));
    assert_eq!(id_of("1e400"), id_of("10e399"));
    assert_eq!(id_of("1e99999999999999999999"), Some(Id::Number("1e99999999999999999999".into())));
    assert_eq!(Id::from("a\"\u{2028}\n").to_json(), r#""a\"\u2028\n""#);
    assert_eq!(Id::Int(-5).to_string(), "-5");
}

#[test]
fn what_is_no_id_makes_no_message() {
    for token in
        ["true", "{}", "[1]", "01", "1.", ".5", "+1", "1e", "1e+", "--1", "-", "0x1", "NaN", "nul", "1e5.0", "1_0"]
    {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{token},"method":"a"}}"#);
        assert_eq!(why_not(line), NotAMessage::NotJsonRpc, "{token}");
        let line = format!(r#"{{"jsonrpc":"2.0","id":{token},"result":1}}"#);
        assert_eq!(why_not(line), NotAMessage::NotJsonRpc, "{token}");
    }
    // Half a surrogate pair is no text, so that it cannot be known whose the answer would be.
    assert_eq!(why_not(r#"{"jsonrpc":"2.0","id":"\ud83e","method":"a"}"#), NotAMessage::NotJsonRpc);
    assert_eq!(why_not(r#"{"jsonrpc":"2.0","id":1,"method":"\ud83e"}"#), NotAMessage::Broken);
}

#[test]
fn both_a_result_and_an_error_is_what_version_1_wrote() {
    let outcome = |members: &str| match one(format!(r#"{{"jsonrpc":"2.0","id":1,{members}}}"#).as_bytes()).kind {
        Kind::Response { outcome: Outcome::Result(json), .. } => format!("result {}", String::from_utf8_lossy(json)),
        Kind::Response { outcome: Outcome::Error(json), .. } => format!("error {}", String::from_utf8_lossy(json)),
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome(r#""result":5,"error":null"#), "result 5");
    assert_eq!(outcome(r#""result":null,"error":{}"#), "error {}");
    assert_eq!(outcome(r#""result":null"#), "result null");
    assert_eq!(outcome(r#""error":null"#), "error null");
}

#[test]
fn a_batch_is_a_list_of_messages_and_of_nothing_else() {
    let line = br#" [ {"jsonrpc":"2.0","id":1,"method":"a"} , {"jsonrpc":"2.0","method":"b"} ] "#;
    let Ok(Message::Batch(batch)) = read(line) else { panic!("{:?}", read(line)) };
    let texts: Vec<_> = batch.iter().map(|envelope| std::str::from_utf8(envelope.text)).collect();
    assert_eq!(texts, [Ok(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#), Ok(r#"{"jsonrpc":"2.0","method":"b"}"#)]);
    let (before, after) = batch[0].around_id().expect("it has an id");
    assert_eq!((before, after), (&br#"{"jsonrpc":"2.0","id":"#[..], &br#","method":"a"}"#[..]));

    let message = r#"{"jsonrpc":"2.0","method":"b"}"#;
    assert_eq!(why_not("[]"), NotAMessage::NotAnObject);
    assert_eq!(why_not(format!("[{message},1]")), NotAMessage::NotAnObject);
    assert_eq!(why_not(format!("[[{message}]]")), NotAMessage::NotAnObject);
    assert_eq!(why_not(format!("[{message},{{}}]")), NotAMessage::NotJsonRpc);
    for broken in
        [format!("[{message}"), format!("[{message},"), format!("[{message}}}"), format!("[{message}]]"), "[".into()]
    {
        assert_eq!(why_not(&broken), NotAMessage::Broken, "{broken}");
    }
}

#[test]
fn garbage_is_named_and_never_ends_a_reader() {
    for blank in ["", " ", "\t \r"] {
        assert_eq!(why_not(blank), NotAMessage::Empty);
    }
    for text in ["hello", "null", "42", "\"x\"", "[2026-01-01] INFO up", "}", ": ", "-", "\u{2028}"] {
        assert_eq!(why_not(text), NotAMessage::NotAnObject, "{text}");
    }
    for broken in [
        "{",
        "{\"",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\":[1}",
        "{\"a\":\"\\\"}",
        "{\"a\":{}",
        "{\"a\":1}}",
        "{}{}",
        "{} x",
        "{\"a\":1 2}",
        "{\"a\":\"b\"\"c\"}",
        "{1:2}",
        "{\"a\"::1}",
    ] {
        assert_eq!(why_not(broken), NotAMessage::Broken, "{broken}");
    }
    for other in [
        "{}",
        r#"{"level":"info"}"#,
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":2.0,"method":"a"}"#,
        r#"{"jsonrpc":"2.0","result":1}"#,
    ] {
        assert_eq!(why_not(other), NotAMessage::NotJsonRpc, "{other}");
    }
}

#[test]
fn a_byte_order_mark_is_no_json() {
    assert_eq!(why_not("\u{FEFF}{\"jsonrpc\":\"2.0\",\"method\":\"a\"}"), NotAMessage::NotAnObject);
}

#[test]
fn of_a_line_that_is_not_utf_8_the_id_is_told_where_it_can_be_read() {
    let not_utf8 = |id, is_response| NotAMessage::NotUtf8 { id, is_response };
    assert_eq!(why_not(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xFF\"}"), not_utf8(Some(Id::Int(7)), true));
    assert_eq!(why_not(b"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"\xE9\"}"), not_utf8(Some("q".into()), false));
    assert_eq!(why_not(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xE9\",\"result\":1}"), not_utf8(None, true));
    assert_eq!(why_not(b"caf\xE9"), not_utf8(None, false));
    assert_eq!(why_not(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xFF\"} \xFF"), not_utf8(None, false));
    // A surrogate in UTF-8, and a sequence that is cut off.
    assert_eq!(why_not(b"\xED\xA0\x80"), not_utf8(None, false));
    assert_eq!(why_not(b"\xE2\x80"), not_utf8(None, false));
    assert_eq!(not_utf8(Some(Id::Int(7)), true).to_string(), "not UTF-8 (id 7)");
}

#[test]
fn what_python_writes_for_infinity_passes() {
    let line = one(br#"{"jsonrpc":"2.0","id":1,"result":NaN}"#);
    assert!(matches!(line.kind, Kind::Response { outcome: Outcome::Result(b"NaN"), .. }));
    assert!(read(br#"{"jsonrpc":"2.0","id":1,"result":[-Infinity]}"#).is_ok());
}

#[test]
fn a_million_levels_of_nesting_cost_a_counter() {
    let depth = 1_000_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = [open.repeat(depth), "1".to_owned(), close.repeat(depth)].concat();
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{nested}}}"#);
        let Kind::Response { outcome: Outcome::Result(result), .. } = one(line.as_bytes()).kind else {
            panic!("no answer")
        };
        assert_eq!(result.len(), nested.len());
        let mut reader = LongLineReader::new();
        line.as_bytes().chunks(1000).for_each(|piece| reader.feed(piece));
        assert_eq!(reader.finish(), LineSummary { id: Some(Id::Int(1)), method: None, is_response: true });
        assert_eq!(why_not(&line[..line.len() - 2]), NotAMessage::Broken);
        assert_eq!(why_not(nested), if open == "[" { NotAMessage::NotAnObject } else { NotAMessage::NotJsonRpc });
    }
}

#[test]
fn a_member_of_a_member_is_found_where_it_is() {
    let params = br#" {"a":{"token":1},"_m\u0065ta":{"x":[{"token":2}],"token" : "\"}" },"n":3}"#;
    let found = |path: &[&str]| find(params, path).map(|place| String::from_utf8_lossy(&params[place]).into_owned());
    assert_eq!(found(&["_meta", "token"]).as_deref(), Some(r#""\"}""#));
    assert_eq!(found(&["a", "token"]).as_deref(), Some("1"));
    assert_eq!(found(&["n"]).as_deref(), Some("3"));
    assert_eq!(found(&["n", "token"]), None);
    assert_eq!(found(&["b"]), None);
    assert_eq!(find(b"[1]", &["a"]), None);
    assert_eq!(find(b"", &["a"]), None);
    assert_eq!(find(b"[1] ", &[]), Some(0..3));
}

#[test]
fn an_id_or_a_method_that_is_very_long_is_not_kept_by_a_long_line_reader() {
    let long = "x".repeat(5000);
    let line = format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"a","{long}":1}}"#);
    assert_eq!(
        checks::summarize(line.as_bytes(), 100),
        LineSummary { id: None, method: Some("a".into()), is_response: false }
    );
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{long}"}}"#);
    assert_eq!(
        checks::summarize(line.as_bytes(), 100),
        LineSummary { id: Some(Id::Int(1)), method: None, is_response: false }
    );
    let line = format!(r#"{{"jsonrpc":"2.0","id":1{},"method":"a"}}"#, "0".repeat(5000));
    assert_eq!(checks::summarize(line.as_bytes(), 100).id, None);
}

#[test]
fn the_corpus_is_read_as_serde_json_reads_it() {
    for line in CORPUS {
        envelope(line);
        for end in 0..line.len() {
            envelope(&line[..end]);
        }
    }
}

#[test]
fn composed_and_changed_lines_are_read_as_serde_json_reads_them() {
    let mut dice = Dice::new(4711);
    let mut messages = 0;
    let mut check = |line: &[u8]| {
        envelope(line);
        messages += usize::from(read(line).is_ok());
    };
    for _ in 0..10_000 {
        let mut line = compose(&mut dice);
        check(&line);
        mutate(&mut line, &mut dice);
        check(&line);
        let mut line = dice.pick(CORPUS).to_vec();
        mutate(&mut line, &mut dice);
        check(&line);
    }
    assert!(messages > 2000, "only {messages} of them were messages");
}
