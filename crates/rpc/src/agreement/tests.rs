//! Which lines pass, which are rewritten, and which are refused.

use super::check::{decides, decides_slowly};
use super::*;

fn agreement() -> Agreement {
    let paths: [&[&str]; 6] = [
        &["jsonrpc"],
        &["id"],
        &["method"],
        &["params", "requestId"],
        &["params", "_meta", "progressToken"],
        &["error", "code"],
    ];
    Agreement::new(paths)
}

#[track_caller]
fn passes(line: &str) {
    assert_eq!(agreement().check(line.as_bytes()), Ok(Agreed::AsItCame), "{line}");
    assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
}

#[test]
fn ordinary_messages_pass_as_they_came() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"id":1,"ID":2,"id":3}}}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"x","params":{"_meta":{"progressToken":1},"x":{"_meta":1,"_meta":2}}}"#,
        "{\"method\": \"x\",\t\"id\" : -0.5e+10 , \"params\": [1, [], {}, true, false, null, \"\\ud83d\\ude00\\n\\\"/\"]}",
        r#"[{"id":1},{"id":1},{"params":{"requestId":1}}]"#,
        r#"{"größe":1,"gr\u00f6\u00dfe":2,"ids":3,"ParamsX":{}}"#,
        "{}",
        "[]",
        "0",
        r#""\u2028 as an escape, and a tab outside""#,
        r#"{"params":{"Id":1,"method":2,"progressToken":3}}"#,
        "\"\u{a0}\u{2027}\u{202a}\u{84}\u{86}漢字\u{7f}\"",
    ] {
        passes(line);
    }
    let deep = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert_eq!(agreement().check(deep.as_bytes()), Ok(Agreed::AsItCame));
}

#[test]
fn a_name_that_decides_stands_once_and_in_plain_letters() {
    let twice = |name: &str| Disagreement::Twice(name.into());
    for (line, expected) in [
        (r#"{"id":1,"id":2}"#, twice("id")),
        (r#"{"id":1,"params":{},"id":1}"#, twice("id")),
        (r#"[{"id":1},{"id":1,"id":2}]"#, twice("id")),
        (r#"{"params":{"requestId":1,"requestId":2}}"#, twice("requestId")),
        (r#"{"params":{"_meta":{"progressToken":1}},"params":{}}"#, twice("params")),
        (r#"{"params":{"_meta":{"progressToken":1,"progressToken":2}}}"#, twice("progressToken")),
    ] {
        assert_eq!(agreement().check(line.as_bytes()), Err(expected), "{line}");
    }
    for (line, expected) in [
        (r#"{"\u0069d":2}"#, "id"),
        (r#"{"id":1,"ID":2}"#, "id"),
        (r#"{"Method":"x"}"#, "method"),
        (r#"{"id\u0000x":2}"#, "id"),
        (r#"{"param\u017f":{}}"#, "params"),
        ("{\"paramſ\":{}}", "params"),
        ("{\"ıd\":{}}", "id"),
        ("{\"params\":{\"_meta\":{\"progressTo\u{212a}en\":1}}}", "progressToken"),
        (r#"{"params":{"_Meta":{}}}"#, "_meta"),
        (r#"{"error":{"Code":{}}}"#, "code"),
    ] {
        match agreement().check(line.as_bytes()) {
            Err(Disagreement::LookAlike { name, .. }) => assert_eq!(&*name, expected, "{line}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn what_ends_a_line_for_some_readers_is_written_anew() {
    for (line, expected) in [
        ("{\"a\":1,\r\"id\":2}", "{\"a\":1, \"id\":2}"),
        ("\r{}\r", " {} "),
        ("[\"\u{2028}x\u{2029}\u{85}\"]", r#"["\u2028x\u2029\u0085"]"#),
        ("{\"\u{2028}\":\"\u{a0}é—\"}", "{\"\\u2028\":\"\u{a0}é—\"}"),
    ] {
        let rewritten = Agreed::Rewritten(expected.into());
        assert_eq!(agreement().check(line.as_bytes()), Ok(rewritten), "{line:?}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(line), value(expected));
    }
}

#[test]
fn what_is_not_json_for_every_reader_does_not_pass() {
    for line in [
        "",
        " ",
        "{",
        "[",
        "\"",
        "\"\\\"",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "[1,]",
        "[1 2]",
        "{1:2}",
        "{,}",
        "[}",
        "{]",
        "[{]}",
        "{}{}",
        "{} x",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "0x1",
        "1.e5",
        "NaN",
        "-Infinity",
        "nul",
        "tru",
        "truex",
        "'a'",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"a\tb\"",
        "\"a\rb\"",
        "\"a\u{0}b\"",
        "\u{feff}{}",
        "{}\u{a0}",
        "/**/{}",
        "{\"a\":1}//",
        "\u{2028}",
        "\u{85}{}",
        "\u{b}1",
        "1\u{c}",
    ] {
        let verdict = agreement().check(line.as_bytes());
        assert!(matches!(verdict, Err(Disagreement::NotJson(_))), "{line:?}: {verdict:?}");
        assert!(serde_json::from_str::<serde_json::Value>(line).is_err(), "{line:?}");
    }
    assert!(agreement().check(b"\"\xFF\"").is_err());
    let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
    assert_eq!(agreement().check(deep.as_bytes()), Err(Disagreement::TooDeep));
}

#[test]
fn python_s_numbers_pass_where_they_are_allowed() {
    for line in ["NaN", "[Infinity,-Infinity, NaN]"] {
        assert!(agreement().check(line.as_bytes()).is_err());
        assert_eq!(agreement().with_nan().check(line.as_bytes()), Ok(Agreed::AsItCame));
    }
    assert!(agreement().with_nan().check(b"NaNs").is_err());
}

#[test]
fn a_name_is_told_by_its_outline_as_it_is_letter_by_letter() {
    let names = ["", "i", "id", "params", "requestId", "requestState", "io.modelcontextprotocol/logLevel"];
    let paths = names.map(|name| [name]);
    let agreement = Agreement::new(paths.iter().map(<[&str; 1]>::as_slice));
    let object = &agreement.objects[0];
    let mut random = nostray_sys::random::Random::new(11);
    let (mut decided, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut name = names[random.index(names.len())].as_bytes().to_vec();
        match random.index(8) {
            0 => name.push(b"xI\x7f"[random.index(3)]),
            1 => drop(name.pop()),
            2 | 3 if !name.is_empty() => {
                let at = random.index(name.len());
                name[at] ^= [0x20, 0x01, 0x40][random.index(3)];
            }
            _ => {}
        }
        if name.iter().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
            continue;
        }
        let key = [b"\"", &name[..], b"\""].concat();
        let text = [&key[..], &b":1,\"id\":2}"[..random.index(11)]].concat();
        let before = random.index(1 << names.len()) as u64;
        let (mut seen, mut seen_slowly) = (before, before);
        let found = decides(object, &text, key.len(), true, true, &mut seen);
        assert_eq!(found, decides_slowly(object, &key, true, &mut seen_slowly), "{}", key.escape_ascii());
        assert_eq!(seen, seen_slowly);
        decided += usize::from(matches!(found, Ok(Some(_))));
        refused += usize::from(found.is_err());
    }
    assert!(decided > 1_000 && refused > 1_000, "{decided} {refused}");
}

#[test]
fn a_line_that_is_like_another_is_known_by_its_shape() {
    let call = |id: &str, name: &str, text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","x":{{"text":"{text}"}}}}}}"#
        )
    };
    let mut agreement = agreement();
    let id = agreement.member(&["id"]).expect("a path of it");
    let mut places = Places::default();
    let mut checked = |line: &str, expected| {
        assert_eq!(agreement.check_and_note(line.as_bytes(), &mut places), Ok(Agreed::AsItCame), "{line}");
        assert_eq!(agreement.shapes.was_known(), expected, "{line}");
        places.of(id).map(|place| line[place].to_owned())
    };
    checked(&call("1", "echo", "one"), false);
    for (id, text) in [("2", ""), ("9007199254740993", r#"a \"longer\" \u00e4 text"#), ("-1.5e3", &"é".repeat(300))]
    {
        assert_eq!(checked(&call(id, "another", text), true).as_deref(), Some(id));
    }
    // An id of another kind, another member, and another method.
    assert_eq!(checked(&call("\"a\"", "echo", "x"), false).as_deref(), Some("\"a\""));
    checked(&call("1", "echo", "x").replace("text", "texts"), false);
    checked(&call("1", "echo", "x").replace("tools/call", "prompts/get"), false);
    // Four are known at a time.
    checked(&call("3", "echo", "x"), true);
    checked(&call("\"b\"", "echo", "x"), true);
}

/// What a shape leaves out is checked all the same: whatever differs from a line that is known is judged as if none were.
#[test]
fn a_shape_lets_nothing_pass_that_a_check_would_not() {
    let lines = [
        r#"{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":5},"n":[1.5,"x"]}}"#,
        r#"{"jsonrpc":"2.0","id":"abc","result":{"content":[{"type":"text","text":"abc"}],"id":1,"isError":false}}"#,
        r#"{ "id" : 1 , "error" : { "code" : -32600 , "message" : "\u00e4 é" } , "jsonrpc" : "2.0" }"#,
        r#"{"method":"notifications/cancelled","params":{"requestId":3,"größe":"x"},"jsonrpc":"2.0"}"#,
    ];
    let pieces: [&[u8]; 30] = [
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"0",
        b"1",
        b"9",
        b"-",
        b".",
        b"e5",
        b" ",
        b"\r",
        b"\t",
        b"\x00",
        b"\x7f",
        b"\xff",
        b"\\n",
        b"\\u00e4",
        b"\\u00",
        "\u{2028}".as_bytes(),
        "é".as_bytes(),
        b"id",
        b"\"id\":1,",
        b"null",
        b"NaN",
        b"x",
    ];
    let paths: [&[&str]; 6] = [
        &["jsonrpc"],
        &["id"],
        &["method"],
        &["params", "requestId"],
        &["params", "_meta", "progressToken"],
        &["error", "code"],
    ];
    let mut random = nostray_sys::random::Random::new(5);
    let (mut knows, mut known, mut refused) = (agreement(), 0, 0);
    for round in 0..60_000 {
        let mut line = lines[random.index(lines.len())].as_bytes().to_vec();
        for _ in 0..random.index(3) {
            let from = random.index(line.len());
            let to = (from + random.index(3)).min(line.len());
            let piece = if round % 2 == 0 { &b"1234567890"[..random.index(4)] } else { random.pick(&pieces) };
            line.splice(from..to, piece.iter().copied());
        }
        let (mut seen, mut places) = (Places::default(), Places::default());
        let verdict = knows.check_and_note(&line, &mut seen);
        let expected = agreement().check_and_note(&line, &mut places);
        assert_eq!(verdict, expected, "{}", line.escape_ascii());
        if verdict.is_ok() {
            for path in paths {
                let member = knows.member(path).expect("a path of it");
                assert_eq!(seen.of(member), places.of(member), "{path:?} {}", line.escape_ascii());
            }
            known += usize::from(knows.shapes.was_known());
        } else {
            refused += 1;
        }
    }
    assert!(known > 5_000 && refused > 5_000, "{known} {refused}");
}
