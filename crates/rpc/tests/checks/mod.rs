//! What must hold for any input. The tests check it with generated input, and the programs under `fuzz/` with a
//! fuzzer's.

#![allow(dead_code, reason = "each user needs a part of it")]

use std::borrow::Cow;

use nostray_rpc::{
    Agreed, Agreement, Envelope, Found, Id, Kind, Line, LineSummary, Lines, LongLineReader, Message, NotAMessage,
    Outcome, Places, QuickEnvelope, QuickSpans, find, quick_read, quick_read_spans, read, with_id,
};
use nostray_sys::random::Random;
use serde_json::Value;

/// Choices that are the same with the same seed, so that a failure is the same failure the next time.
pub(crate) struct Dice(Random);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// The next number below this one.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.index(bound)
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A line, taken out of its buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    Whole { text: Vec<u8>, raw: Vec<u8> },
    TooLong { length: u64, summary: LineSummary },
}

impl From<Line<'_>> for Owned {
    fn from(line: Line<'_>) -> Self {
        match line {
            Line::Whole { text, raw } => Self::Whole { text: text.into(), raw: raw.into() },
            Line::TooLong { length, summary } => Self::TooLong { length, summary },
        }
    }
}

/// The lines of a stream, cut with nothing but a split.
pub(crate) fn naive_lines(stream: &[u8], max_line: usize) -> Vec<Owned> {
    stream
        .split_inclusive(|byte| *byte == b'\n')
        .map(|raw| {
            let text = raw.strip_suffix(b"\n").unwrap_or(raw);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if text.len() > max_line {
                Owned::TooLong { length: text.len() as u64, summary: summarize(text, usize::MAX) }
            } else {
                Owned::Whole { text: text.into(), raw: raw.into() }
            }
        })
        .collect()
}

/// The lines of a stream that comes in pieces of such sizes.
pub(crate) fn lines(
    stream: &[u8],
    max_line: usize,
    mut size: impl FnMut() -> usize,
    mut take_all: impl FnMut() -> bool,
) -> Vec<Owned> {
    let mut lines = Lines::new(max_line);
    let mut cut = Vec::new();
    let mut rest = stream;
    let mut dice = Dice::new(stream.len() as u64);
    let mut other_buffer = Vec::new();
    while !rest.is_empty() {
        let space = lines.space();
        assert!(space.len() >= 16 << 10, "too little room: {}", space.len());
        let count = size().clamp(1, rest.len().min(space.len()));
        space[..count].copy_from_slice(&rest[..count]);
        lines.filled(count);
        rest = &rest[count..];
        while let Some(line) = lines.next_line() {
            cut.push(line.into());
            if !take_all() {
                break;
            }
        }
        // Neither may lose or change what is held.
        match dice.below(8) {
            0 => lines.tidy(),
            1 => other_buffer = lines.hand_over(std::mem::take(&mut other_buffer)),
            _ => {}
        }
    }
    while let Some(line) = lines.next_line() {
        cut.push(line.into());
    }
    if let Some(line) = lines.rest() {
        cut.push(line.into());
    }
    assert!(lines.is_empty() && lines.next_found().is_none() && lines.rest_found().is_none());
    cut
}

/// Any chunking gives the lines that a naive split gives, whether they are taken at once or late.
pub(crate) fn framing(stream: &[u8], max_line: usize, seed: u64) {
    let expected = naive_lines(stream, max_line);
    let mut dice = Dice::new(seed);
    let biggest = *dice.pick(&[1, 3, 64, 5000, 70_000, usize::MAX]);
    // A byte at a time through a stream that is a megabyte long is only slow.
    let biggest = biggest.max(stream.len() / 2000);
    let patient = dice.below(2) == 0;
    let mut late = Dice::new(seed ^ 1);
    let cut = lines(stream, max_line, || dice.below(biggest) + 1, || patient || late.below(3) > 0);
    assert!(cut == expected, "max_line {max_line}, seed {seed}: {} lines, not {}", cut.len(), expected.len());
    runs(stream, max_line);
}

/// Lines that follow each other in the buffer are one range of bytes.
fn runs(stream: &[u8], max_line: usize) {
    let mut lines = Lines::new(max_line);
    for piece in stream.chunks(10_000) {
        lines.space()[..piece.len()].copy_from_slice(piece);
        lines.filled(piece.len());
        let mut run: Option<(std::ops::Range<usize>, Vec<u8>)> = None;
        while let Some(found) = lines.next_found() {
            match (found, &mut run) {
                (Found::Whole(span), Some((range, bytes))) => {
                    assert_eq!(range.end, span.raw.start);
                    bytes.extend_from_slice(lines.bytes(span.raw.clone()));
                    range.end = span.raw.end;
                }
                (Found::Whole(span), None) => run = Some((span.raw.clone(), lines.bytes(span.raw).to_vec())),
                (Found::TooLong { .. }, _) => run = None,
            }
            if let Some((range, bytes)) = &run {
                assert_eq!(lines.bytes(range.clone()), bytes);
            }
        }
    }
}

/// Feeds a line to a `LongLineReader` in pieces of this size.
pub(crate) fn summarize(line: &[u8], size: usize) -> LineSummary {
    let mut reader = LongLineReader::new();
    line.chunks(size).for_each(|piece| reader.feed(piece));
    reader.finish()
}

/// For what is JSON, with no member twice and none that no SDK writes.
fn a_quick_read_says_what_read_says(line: &[u8]) {
    let Some(seen) = quick_read(line) else { return };
    let Ok(Value::Object(members)) = serde_json::from_slice::<Value>(line) else { return };
    let known = ["jsonrpc", "id", "method", "params", "result"];
    let is_usual = members.keys().all(|key| known.contains(&key.as_str()))
        && !(members.contains_key("result") && ["method", "params"].iter().any(|key| members.contains_key(*key)));
    // With a member that stands there twice it would be longer than it is written anew.
    if !is_usual || Value::Object(members).to_string().len() != line.len() {
        return;
    }
    match (seen, read(line)) {
        (
            QuickEnvelope::Request { id, method, .. },
            Ok(Message::One(Envelope { kind: Kind::Request { id: read, method: m, .. }, .. })),
        ) => {
            assert_eq!((id, method), (read.id(), m.as_bytes()));
        }
        (
            QuickEnvelope::Result { id },
            Ok(Message::One(Envelope { kind: Kind::Response { id: Some(read), .. }, .. })),
        ) => {
            assert_eq!(id, read.id());
        }
        (seen, read) => panic!("{seen:?}, but {read:?}"),
    }
    match (quick_read_spans(line), read(line)) {
        (
            Some(QuickSpans::Request { id, method, params }),
            Ok(Message::One(Envelope { kind: Kind::Request { id: read, method: m, params: p }, .. })),
        ) => {
            assert_eq!((&line[id], method, params.map(|at| &line[at])), (read.raw(), m.as_bytes(), p));
        }
        (
            Some(QuickSpans::Result { id, result }),
            Ok(Message::One(Envelope {
                kind: Kind::Response { id: Some(read), outcome: Outcome::Result(outcome) },
                ..
            })),
        ) => {
            assert_eq!((&line[id], &line[result]), (read.raw(), outcome));
        }
        (None, _) => {}
        (seen, read) => panic!("{seen:?}, but {read:?}"),
    }
}

/// Where a check passes, what it has noted is what those find who read the line once more.
fn a_check_notes_what_read_and_find_see(line: &[u8]) {
    const PATHS: [&[&str]; 9] = [
        &["jsonrpc"],
        &["id"],
        &["method"],
        &["params"],
        &["result"],
        &["error"],
        &["params", "_meta", "progressToken"],
        &["params", "uri"],
        &["result", "_meta"],
    ];
    let mut agreement = Agreement::new(PATHS).with_nan();
    let mut places = Places::default();
    let checked = agreement.check_and_note(line, &mut places);
    assert_eq!(agreement.check(line), checked);
    if checked != Ok(Agreed::AsItCame) {
        return;
    }
    lines_like_it_are_checked_alike(&mut agreement.clone(), line, &PATHS);
    match (agreement.envelope(line, &places), read(line)) {
        (Some(Ok(seen)), Ok(Message::One(envelope))) => assert_eq!(seen, envelope),
        (Some(Err(seen)), Err(why)) => assert_eq!(seen, why),
        (None, Ok(Message::Batch(_)) | Err(_)) => return,
        (seen, read) => panic!("{seen:?}, but {read:?}"),
    }
    for path in PATHS {
        let member = agreement.member(path).expect("a path that it was made with");
        assert_eq!(places.of(member), find(line, path), "{path:?}");
    }
    assert_eq!(agreement.member(&["params", "name"]), None);
}

/// An agreement that knows a line finds in lines that differ little from it what one finds that knows none.
fn lines_like_it_are_checked_alike(knows: &mut Agreement, line: &[u8], paths: &[&[&str]]) {
    const BYTES: &[u8] = b"\"\\{}[]:,0123456789.eE+-dinul \r\t\x00\x1f\x7f\x80\xc2\x85\xe2";
    let knows_none = Agreement::new(paths.iter().copied()).with_nan();
    let mut random =
        Random::new(line.iter().fold(line.len() as u64, |seed, byte| seed * 31 % 0xffff_fffb + u64::from(*byte)));
    for _ in 0..12 {
        let mut like = line.to_vec();
        for _ in 0..1 + random.index(2) {
            let at = random.index(like.len());
            match random.index(4) {
                0 => like.insert(at, random.pick(BYTES)),
                1 if like.len() > 1 => drop(like.remove(at)),
                2 => like.splice(at..at, *b"\\u00e4").for_each(drop),
                _ => like[at] = random.pick(BYTES),
            }
        }
        let (mut seen, mut places) = (Places::default(), Places::default());
        let (verdict, expected) =
            (knows.check_and_note(&like, &mut seen), knows_none.clone().check_and_note(&like, &mut places));
        assert_eq!(verdict, expected, "{}", like.escape_ascii());
        for path in paths.iter().filter(|_| verdict.is_ok()) {
            let member = knows.member(path).expect("a path that it was made with");
            assert_eq!(seen.of(member), places.of(member), "{path:?} {}", like.escape_ascii());
        }
    }
}

/// A line is read as serde_json reads it where that accepts it, as `LongLineReader` sees it, and with another id it is the same
/// message otherwise.
pub(crate) fn envelope(line: &[u8]) {
    a_quick_read_says_what_read_says(line);
    a_check_notes_what_read_and_find_see(line);
    let seen = read(line);
    if let Err(error) = &seen {
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(matches!(seen, Err(NotAMessage::NotUtf8 { .. })), std::str::from_utf8(line).is_err());
    if let Ok(value) = serde_json::from_slice::<Value>(line) {
        agrees_with(&seen, &value);
    }
    long_line_reader_agrees(line, &seen);
    let envelopes = match &seen {
        Ok(Message::One(envelope)) => std::slice::from_ref(envelope),
        Ok(Message::Batch(envelopes)) => envelopes,
        Err(_) => return,
    };
    for envelope in envelopes {
        assert_eq!(read(envelope.text), Ok(Message::One(envelope.clone())));
        only_the_id_changes(envelope);
    }
}

fn agrees_with(seen: &Result<Message<'_>, NotAMessage>, value: &Value) {
    match (value, seen) {
        (Value::Object(_), Ok(Message::One(envelope))) => {
            assert!(is_message(value), "taken for a message: {value}");
            same(envelope, value);
        }
        (Value::Object(_), Err(error)) => {
            assert_eq!(*error, NotAMessage::NotJsonRpc, "{value}");
            assert!(!is_message(value), "not taken for a message: {value}");
        }
        (Value::Array(values), Ok(Message::Batch(envelopes))) => {
            assert!(!values.is_empty() && values.len() == envelopes.len());
            for (value, envelope) in values.iter().zip(envelopes) {
                assert!(is_message(value), "taken for a message: {value}");
                same(envelope, value);
            }
        }
        (Value::Array(values), Err(error)) => {
            let expected = match values.iter().find(|value| !is_message(value)) {
                Some(Value::Object(_)) => NotAMessage::NotJsonRpc,
                _ => NotAMessage::NotAnObject,
            };
            assert_eq!(*error, expected);
            assert!(values.is_empty() || !values.iter().all(is_message));
        }
        (Value::Object(_) | Value::Array(_), Ok(_)) => panic!("one is not several: {value}"),
        (_, seen) => assert_eq!(*seen, Err(NotAMessage::NotAnObject)),
    }
}

fn is_message(value: &Value) -> bool {
    let has = |name| value.get(name).is_some();
    let id_is_possible = matches!(value.get("id"), None | Some(Value::Null | Value::Number(_) | Value::String(_)));
    let is_answer = has("id") && (has("result") || has("error"));
    value.is_object()
        && value.get("jsonrpc") == Some(&Value::from("2.0"))
        && id_is_possible
        && (value["method"].is_string() || is_answer)
}

fn same(envelope: &Envelope<'_>, value: &Value) {
    let parsed = |raw| serde_json::from_slice::<Value>(raw).ok();
    assert_eq!(parsed(envelope.text).as_ref(), Some(value));
    let id = value.get("id").filter(|id| !id.is_null());
    match &envelope.kind {
        Kind::Request { method, params, .. } | Kind::Notification { method, params } => {
            assert_eq!(value["method"], method.as_ref());
            assert_eq!(params.map(parsed), value.get("params").map(|params| Some(params.clone())));
        }
        Kind::Response { outcome, .. } => {
            assert!(!value["method"].is_string());
            match outcome {
                Outcome::Result(raw) => {
                    assert_eq!(parsed(raw).as_ref(), value.get("result"));
                    assert!(value["error"].is_null());
                }
                Outcome::Error(raw) => {
                    assert_eq!(parsed(raw).as_ref(), value.get("error"));
                    assert!(!value["error"].is_null() || value.get("result").is_none());
                }
            }
        }
    }
    match (&envelope.kind, id) {
        (Kind::Request { id: token, .. } | Kind::Response { id: Some(token), .. }, Some(id)) => {
            assert_eq!(parsed(token.raw()).as_ref(), Some(id));
            same_id(&token.id(), id);
        }
        (Kind::Notification { .. } | Kind::Response { id: None, .. }, None) => {}
        (kind, id) => panic!("{kind:?} is not {id:?}"),
    }
}

fn same_id(id: &Id, value: &Value) {
    match (id, value) {
        (Id::Text(text), Value::String(value)) => assert_eq!(text.as_ref(), value),
        (Id::Int(number), Value::Number(value)) if value.is_i64() => assert_eq!(Some(*number), value.as_i64()),
        (Id::Int(number), Value::Number(value)) => close(*number as f64, value),
        (Id::Number(text), Value::Number(value)) => {
            assert_eq!(value.as_i64(), None);
            close(text.parse().unwrap_or(f64::NAN), value);
        }
        _ => panic!("{id:?} is not {value}"),
    }
    assert_eq!(Id::from_json(id.to_json().as_bytes()).as_ref(), Some(id));
}

fn close(number: f64, value: &serde_json::Number) {
    let value = value.as_f64().unwrap_or(f64::NAN);
    // serde_json may be off by the last digit.
    assert!((number - value).abs() <= value.abs() * 1e-14, "{number} is not {value}");
}

fn long_line_reader_agrees(line: &[u8], seen: &Result<Message<'_>, NotAMessage>) {
    let summary = summarize(line, usize::MAX);
    for size in [1, 7, 64, 1000] {
        assert_eq!(summarize(line, size), summary, "in pieces of {size}");
    }
    match seen {
        Ok(Message::One(envelope)) => {
            let (id, method) = match &envelope.kind {
                Kind::Request { id, method, .. } => (Some(id), Some(method)),
                Kind::Notification { method, .. } => (None, Some(method)),
                Kind::Response { id, .. } => (id.as_ref(), None),
            };
            let raw_method = find(envelope.text, &["method"]).map_or(0, |place| place.len());
            let id = id.filter(|id| id.raw().len() <= 4096).map(|id| id.id());
            let method = method.filter(|_| raw_method <= 4096).map(Cow::to_string);
            let is_response = matches!(envelope.kind, Kind::Response { .. });
            assert_eq!(summary, LineSummary { id, method, is_response });
        }
        Err(NotAMessage::NotUtf8 { id, is_response }) => {
            let short = |id: &&Id| id.to_json().len() <= 600;
            assert_eq!(summary.id.as_ref().filter(short), id.as_ref().filter(short));
            assert_eq!(summary.is_response, *is_response);
        }
        Ok(Message::Batch(_)) | Err(NotAMessage::Empty | NotAMessage::NotAnObject) => {
            assert_eq!(summary, LineSummary::default());
        }
        // A whole line is dropped for an id or a method that cannot be understood; of a line that is lost anyway, what can be
        // understood is told.
        Err(NotAMessage::Broken | NotAMessage::NotJsonRpc) => {}
    }
}

fn only_the_id_changes(envelope: &Envelope<'_>) {
    let other = Id::Text("another \"one\"".into());
    let mut line = with_id(envelope, &other);
    assert_eq!(line.pop(), Some(b'\n'));
    let Some((before, after)) = envelope.around_id() else {
        assert!(matches!(envelope.kind, Kind::Notification { .. }));
        assert_eq!(line, envelope.text);
        return;
    };
    assert_eq!(line, [before, other.to_json().as_bytes(), after].concat());
    let Ok(Message::One(changed)) = read(&line) else { panic!("no message any more") };
    let (old, new) = match (&envelope.kind, &changed.kind) {
        (Kind::Request { id, method, params }, Kind::Request { id: new, method: method_now, params: params_now }) => {
            assert_eq!((method, params), (method_now, params_now));
            (id.raw(), new)
        }
        (Kind::Response { id, outcome }, Kind::Response { id: Some(new), outcome: outcome_now }) => {
            assert_eq!(outcome, outcome_now);
            (id.as_ref().map_or(&b"null"[..], |id| id.raw()), new)
        }
        (old, new) => panic!("{old:?} became {new:?}"),
    };
    assert_eq!(new.id(), other);
    assert_eq!([before, old, after].concat(), envelope.text);
}

/// Lines of all kinds: what hosts and servers write, and what they should not.
pub(crate) const CORPUS: &[&[u8]] = &[
    br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"x","version":"1"}}}"#,
    br#"{"method":"notifications/initialized","jsonrpc":"2.0"}"#,
    br#"{"result":{"content":[{"type":"text","text":"a \"quoted\" \\ text\n{[}]"}],"isError":false},"jsonrpc":"2.0","id":3}"#,
    br#"{"jsonrpc":"2.0","id":"a-b-c","error":{"code":-32601,"message":"no such method","data":null}}"#,
    br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"broken"}}"#,
    br#"  { "jsonrpc" : "2.0" , "id" : 1.0 , "method" : "tools/list" }  "#,
    br#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"result":[]}]"#,
    br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"first","method":"last"}"#,
    br#"{"\u006asonrpc":"2\u002e0","\u0069d":"\u0041","m\u0065thod":"tools\/call"}"#,
    br#"{"jsonrpc":"2.0","id":1e3,"result":null}"#,
    br#"{"jsonrpc":"2.0","id":-0.0,"result":1}"#,
    br#"{"jsonrpc":"2.0","id":12345678901234567890,"result":"x"}"#,
    br#"{"jsonrpc":"2.0","id":15e-1,"error":null,"result":true}"#,
    br#"{"jsonrpc":"2.0","id":true,"method":"a"}"#,
    br#"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
    br#"{"jsonrpc":"2.0","id":1}"#,
    br#"{"jsonrpc":"2.0","method":7,"id":1,"result":0}"#,
    br#"{"id":1,"method":"a"}"#,
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\u{2028} \u{1F980} \\ud83e\\udd80 \\ud800\"}".as_bytes(),
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xFF\"}",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"\xC0\",\"id\":\"x\"}",
    b"[2026-01-01T00:00:00Z] INFO listening",
    b"Traceback (most recent call last):",
    br#"{"level":"info","msg":"started"}"#,
    b"{not json}",
    b"null",
    b"[]",
    b"[1,2,3]",
    b"[{}]",
    b"{}",
    b"{",
    b"",
    b" \t ",
    b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"method\":\"a\"}",
    br#"{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"b"}"#,
    br#"{"jsonrpc":"2.0","method":"a","params":[[[[[[{"a":{"b":[{}]}}]]]]]]}"#,
    br#"{"jsonrpc":"2.0","method":"a","params":{"x":"\\\\\\\"]}"},"y":"\\"}"#,
];

/// A line that is likely to be a message, with members of all kinds in any order.
pub(crate) fn compose(dice: &mut Dice) -> Vec<u8> {
    const SPACE: &[&str] = &["", "", "", " ", "\t", " \r "];
    const KEYS: &[&str] =
        &["id", "id", "method", "params", "result", "error", "\\u0069d", "x", "", "meth\\u006fd", "Id", "\\\""];
    const VALUES: &[&str] = &[
        "1",
        "-0",
        "1.50",
        "2e2",
        "123456789012345678901",
        "\"a\"",
        "\"1\"",
        "\"\\u0041\\n\"",
        "\"\"",
        "null",
        "true",
        "{}",
        "[]",
        "[1,[2,{\"id\":3}],\"]\"]",
        "{\"a\":{\"b\":\"}\"},\"c\":\"\\\\\"}",
        "\"tools/call\"",
        "\"\u{2028}\u{e9}\"",
        "\"2.0\"",
    ];
    let mut members = vec![(*dice.pick(&["jsonrpc", "jsonrpc", "jsonrp\\u0063"]), "\"2.0\"")];
    for _ in 0..=dice.below(5) {
        members.insert(dice.below(members.len() + 1), (*dice.pick(KEYS), *dice.pick(VALUES)));
    }
    let mut line = String::new();
    for (index, (key, value)) in members.into_iter().enumerate() {
        let mut space = || *dice.pick(SPACE);
        let before = if index == 0 { "{" } else { "," };
        line.extend([space(), before, space(), "\"", key, "\"", space(), ":", space(), value]);
    }
    line.extend([*dice.pick(SPACE), "}", *dice.pick(SPACE)]);
    line.into_bytes()
}

/// What lines are made of.
const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b":",
    b",",
    b" ",
    b"\r",
    b"\t",
    b"null",
    b"true",
    b"1",
    b"-",
    b"0",
    b".",
    b"e9",
    b"\"id\":",
    b"\"id\":\"",
    b"\"jsonrpc\":\"2.0\"",
    b"\"method\":\"",
    b"\"params\":{",
    b"\"result\":",
    b"\"error\":",
    b"\\u0069",
    b"\\ud83e",
    b"\xFF",
    b"\xE2\x80\xA8",
    b"\\\"",
    b"\\\\",
    b"{\"a\":",
    b"\"\":",
];

/// Changes a line a little, in a few places.
pub(crate) fn mutate(line: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(line.len() + 1);
        let to = (at + dice.below(12)).min(line.len());
        match dice.below(7) {
            0 => {
                line.drain(at..to);
            }
            1 => {
                let part = line[at..to].to_vec();
                let there = dice.below(line.len() + 1);
                line.splice(there..there, part);
            }
            2 if at < line.len() => line[at] ^= 1 << dice.below(8),
            3 => line.truncate(at),
            4 => {
                let other = dice.pick(CORPUS);
                let from = dice.below(other.len() + 1);
                line.splice(at..to, other[from..].iter().copied());
            }
            _ => {
                line.splice(at..at, dice.pick(WORDS).iter().copied());
            }
        }
    }
}
