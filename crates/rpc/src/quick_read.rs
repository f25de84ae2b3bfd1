//! Classifies a line by its first and last bytes. The SDKs write their messages in a handful of layouts. In these, the id and the
//! method stand before or after the long part, so the long part need not be read.

use std::ops::Range;

use crate::id::Id;
use crate::scan::{ONES, zero_bytes};

/// A message in a usual layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuickEnvelope<'a> {
    /// A request.
    Request {
        /// Its id.
        id: Id,
        /// Its method, as it came: there are no escapes in it.
        method: &'a [u8],
        /// What was not looked at: all that comes after the method, up to the end or to the members at the end. It begins with a comma,
        /// or is empty.
        middle: &'a [u8],
    },
    /// A response with a result.
    Result {
        /// The id of the request.
        id: Id,
    },
}

/// The search for the end of an id stops after so many bytes.
const MAX_ID_LENGTH: usize = 256;
/// A number with more digits may be too large for an integer.
const MAX_DIGITS: usize = 18;
/// What is longer is read a byte at a time.
const LONGEST_METHOD: usize = 64;

/// Classifies a line, given without its ending, by its layout alone. Returns `None` for any other layout; the caller then has to
/// [`read`](crate::read) the line. The answer equals that of `read` if the line is valid JSON and has only the members that SDKs
/// write. The middle of the line is not checked.
#[must_use]
pub fn quick_read(line: &[u8]) -> Option<QuickEnvelope<'_>> {
    let line = line.strip_suffix(b"}")?;
    // {"jsonrpc":"2.0","id":1,"method":"m","params":...} and {"jsonrpc":"2.0","id":1,"result":...}
    if let Some(rest) = line.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":") {
        let (id, rest) = id_at_the_head(rest)?;
        if rest.starts_with(b",\"result\":") {
            return Some(QuickEnvelope::Result { id });
        }
        let (method, middle) = method(rest.strip_prefix(b",\"method\":")?)?;
        return Some(QuickEnvelope::Request { id, method, middle });
    }
    // {"result":...,"jsonrpc":"2.0","id":1} and {"method":"m","params":...,"jsonrpc":"2.0","id":1}. The id at
    // the end is always the message's own: within a string its quotes would be escaped, and within an object one more `}` would follow.
    if line.starts_with(b"{\"result\":") {
        return Some(QuickEnvelope::Result { id: id_at_the_tail(line)?.0 });
    }
    let rest = line.strip_prefix(b"{\"method\":")?;
    let (id, at_the_tail) = id_at_the_tail(line)?;
    let (method, middle) = method(&rest[..rest.len().checked_sub(at_the_tail)?])?;
    Some(QuickEnvelope::Request { id, method, middle })
}

/// A message in a usual layout, and where its parts are. A router uses it to replace the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuickSpans<'a> {
    /// A request.
    Request {
        /// Where its id is.
        id: Range<usize>,
        /// Its method, as it came: there are no escapes in it.
        method: &'a [u8],
        /// Where its params are, if it has any.
        params: Option<Range<usize>>,
    },
    /// A response with a result.
    Result {
        /// Where the id of the request is.
        id: Range<usize>,
        /// Where the result is.
        result: Range<usize>,
    },
}

/// Like [`quick_read`], and also returns where the parts are. It also returns `None` if another member stands between the method
/// and the params.
#[must_use]
pub fn quick_read_spans(line: &[u8]) -> Option<QuickSpans<'_>> {
    const ID: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
    const RESULT: &[u8] = b"{\"result\":";
    let end = line.len().checked_sub(1)?;
    let line = line.strip_suffix(b"}")?;
    if let Some(rest) = line.strip_prefix(ID) {
        let id = ID.len()..ID.len() + plain_id_length(rest)?;
        let rest = &line[id.end..];
        if let Some(result) = rest.strip_prefix(b",\"result\":") {
            return Some(QuickSpans::Result { id, result: end - result.len()..end });
        }
        let (method, params) = call(rest.strip_prefix(b",\"method\":")?)?;
        return Some(QuickSpans::Request { id, method, params: params.map(|params| end - params.len()..end) });
    }
    let id = end - id_length_at_the_tail(line)?..end;
    let body = &line[..id.start - BEFORE_LAST_ID.len()];
    if body.starts_with(RESULT) {
        return Some(QuickSpans::Result { id, result: RESULT.len()..body.len() });
    }
    let (method, params) = call(body.strip_prefix(b"{\"method\":")?)?;
    Some(QuickSpans::Request { id, method, params: params.map(|params| body.len() - params.len()..body.len()) })
}

/// Splits the rest of a request into the method and the params. The params, if there are any, extend to the end.
fn call(rest: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    match method(rest)? {
        (method, []) => Some((method, None)),
        (method, more) => Some((method, Some(more.strip_prefix(b",\"params\":")?))),
    }
}

/// Reads a method: an ASCII string without escapes and control characters, followed by a comma or by the end. Returns it, and what follows.
#[inline]
fn method(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = rest.strip_prefix(b"\"")?;
    let end = method_length(rest)?;
    let (method, rest) = rest.split_at(end);
    let rest = rest.strip_prefix(b"\"")?;
    matches!(rest.first(), None | Some(b',')).then_some((method, rest))
}

/// Where the first byte is that cannot be a part of a method as it is.
#[inline]
fn method_length(rest: &[u8]) -> Option<usize> {
    let (words, _) = rest.as_chunks::<8>();
    for (index, word) in words.iter().take(LONGEST_METHOD / 8).enumerate() {
        let ends = ends_method(u64::from_le_bytes(*word));
        if ends != 0 {
            return Some(index * 8 + ends.trailing_zeros() as usize / 8);
        }
    }
    let from = words.len().min(LONGEST_METHOD / 8) * 8;
    let end = rest[from..].iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20 | 0x80..))?;
    Some(from + end)
}

/// Of the bytes that are a quote, a backslash, a control character or not ASCII, marks the first one by its top bit. Marks behind it may be
/// wrong.
#[inline]
fn ends_method(word: u64) -> u64 {
    let equals = |byte: u8| zero_bytes(word ^ (ONES * u64::from(byte)));
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    equals(b'"') | equals(b'\\') | (controls | word) & (ONES << 7)
}

fn id_at_the_head(rest: &[u8]) -> Option<(Id, &[u8])> {
    if let Some((number, rest)) = number_at_the_head(rest) {
        return Some((Id::Int(number), rest));
    }
    let end = id_end(rest)?;
    Some((plain_id(&rest[..end])?, &rest[end..]))
}

/// Reads a number that a comma follows, in one go: nearly all ids are such.
#[inline]
fn number_at_the_head(rest: &[u8]) -> Option<(i64, &[u8])> {
    let (mut number, mut at) = (0, 0);
    while let Some(digit @ b'0'..=b'9') = rest.get(at) {
        number = number * 10 + i64::from(digit - b'0');
        at += 1;
        if at > MAX_DIGITS {
            return None;
        }
    }
    let is_whole = at > 0 && (rest[0] != b'0' || at == 1) && rest.get(at) == Some(&b',');
    is_whole.then(|| (number, &rest[at..]))
}

fn id_end(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' => rest[1..].iter().take(MAX_ID_LENGTH).position(|byte| *byte == b'"').map(|n| n + 2),
        _ => rest.iter().take(MAX_ID_LENGTH).position(|byte| *byte == b','),
    }
}

/// The length of the plain id at the start of `rest`.
fn plain_id_length(rest: &[u8]) -> Option<usize> {
    id_end(rest).filter(|end| is_plain_id(&rest[..*end]))
}

/// Precedes an id that is the last member.
const BEFORE_LAST_ID: &[u8] = b",\"jsonrpc\":\"2.0\",\"id\":";

/// The id that is the last member, and the length of the members at the end.
fn id_at_the_tail(line: &[u8]) -> Option<(Id, usize)> {
    let (before, id) = line.split_at(line.len() - id_start(line)?);
    let is_last = before.ends_with(BEFORE_LAST_ID);
    is_last.then(|| plain_id(id))?.map(|read| (read, BEFORE_LAST_ID.len() + id.len()))
}

/// The length of the token at the end of `line`.
fn id_start(line: &[u8]) -> Option<usize> {
    match line.last()? {
        b'"' => line[..line.len() - 1].iter().rev().take(MAX_ID_LENGTH).position(|byte| *byte == b'"').map(|n| n + 2),
        _ => line.iter().rev().take(MAX_ID_LENGTH).position(|byte| *byte == b':'),
    }
}

/// The length of the plain id at the end of `line`, if that is the message's last member.
fn id_length_at_the_tail(line: &[u8]) -> Option<usize> {
    let length = id_start(line)?;
    let (before, id) = line.split_at(line.len() - length);
    (before.ends_with(BEFORE_LAST_ID) && is_plain_id(id)).then_some(length)
}

fn is_plain_id(token: &[u8]) -> bool {
    match token {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.len() < MAX_DIGITS && rest.iter().all(u8::is_ascii_digit),
        [b'"', text @ .., b'"'] => text.iter().all(|byte| (b' '..=b'~').contains(byte) && *byte != b'\\'),
        _ => false,
    }
}

/// Reads a whole number, or a string without escapes.
fn plain_id(token: &[u8]) -> Option<Id> {
    match token {
        [b'0'] => Some(Id::Int(0)),
        [b'1'..=b'9', rest @ ..] if rest.len() < MAX_DIGITS && rest.iter().all(u8::is_ascii_digit) => {
            Some(Id::Int(token.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))))
        }
        [b'"', text @ .., b'"'] if text.iter().all(|byte| (b' '..=b'~').contains(byte) && *byte != b'\\') => {
            std::str::from_utf8(text).ok().map(Id::from)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::{Envelope, Kind, Message, Outcome, read};

    /// The result of `read`, in the form that `seen` returns.
    fn fully_read(line: &[u8]) -> Option<(Id, Option<String>)> {
        match read(line) {
            Ok(Message::One(Envelope { kind: Kind::Request { id, method, .. }, .. })) => {
                Some((id.id(), Some(method.into_owned())))
            }
            Ok(Message::One(Envelope { kind: Kind::Response { id: Some(id), .. }, .. })) => Some((id.id(), None)),
            _ => None,
        }
    }

    fn seen(line: &[u8]) -> Option<(Id, Option<String>)> {
        match quick_read(line)? {
            QuickEnvelope::Request { id, method, .. } => {
                Some((id, Some(String::from_utf8_lossy(method).into_owned())))
            }
            QuickEnvelope::Result { id } => Some((id, None)),
        }
    }

    /// The id, the method, and the params or the result, sliced by the spans of a quick read.
    fn places_seen(line: &str) -> Option<(&str, Option<&str>, Option<&str>)> {
        match quick_read_spans(line.as_bytes())? {
            QuickSpans::Request { id, method, params } => {
                Some((&line[id], std::str::from_utf8(method).ok(), params.map(|at| &line[at])))
            }
            QuickSpans::Result { id, result } => Some((&line[id], None, Some(&line[result]))),
        }
    }

    /// The same parts, from `read`.
    fn places_read(line: &str) -> Option<(&str, Option<&str>, Option<&str>)> {
        let text = |raw| std::str::from_utf8(raw).ok();
        match read(line.as_bytes()) {
            Ok(Message::One(Envelope { kind: Kind::Request { id, method, params }, .. })) => {
                let Cow::Borrowed(method) = method else { return None };
                Some((text(id.raw())?, Some(method), params.and_then(text)))
            }
            Ok(Message::One(Envelope {
                kind: Kind::Response { id: Some(id), outcome: Outcome::Result(result) },
                ..
            })) => Some((text(id.raw())?, None, text(result))),
            _ => None,
        }
    }

    const IDS: [&str; 7] = ["0", "7", "123456789012345678", r#""a""#, r#""listen:0""#, r#""""#, r#""1""#];
    const BODIES: [&str; 8] = [
        "{}",
        "1",
        "null",
        r#""text""#,
        r#"{"jsonrpc":"2.0","id":5}"#,
        r#"[{"id":1},{"method":"x"}]"#,
        r#""\",\"jsonrpc\":\"2.0\",\"id\":5}""#,
        r#"{"a":{"b":"}}"},"id":9}"#,
    ];

    #[test]
    fn in_the_layouts_of_the_sdks_a_quick_read_says_what_read_says() {
        for id in IDS {
            for body in BODIES {
                for line in [
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{body}}}"#),
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{body}}}"#),
                    format!(r#"{{"method":"tools/call","params":{body},"jsonrpc":"2.0","id":{id}}}"#),
                    format!(r#"{{"method":"ping","jsonrpc":"2.0","id":{id}}}"#),
                    format!(r#"{{"result":{body},"jsonrpc":"2.0","id":{id}}}"#),
                ] {
                    let seen = seen(line.as_bytes());
                    assert!(seen.is_some(), "{line}");
                    assert_eq!(seen, fully_read(line.as_bytes()), "{line}");
                    assert_eq!(places_seen(&line), places_read(&line), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_method_ends_where_it_does_a_byte_at_a_time() {
        for before in 0..80 {
            for end in 0..=u8::MAX {
                let text = [&b"m/".repeat(40)[..before], &[end], b"\"\x01\xff/abcdef"].concat();
                let expected = text.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20 | 0x80..));
                assert_eq!(method_length(&text), expected, "{}", text.escape_ascii());
            }
        }
        assert_eq!(method_length(&b"m".repeat(100)), None);
    }

    #[test]
    fn any_other_line_is_left_to_the_full_reader() {
        for line in [
            "",
            "}",
            "{}",
            "null",
            r#"{"jsonrpc":"2.0","method":"m","params":{}}"#,
            r#"{"method":"m","params":{},"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":-1,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":01,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":1234567890123456789,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":"\u0041","result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":[1]"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"\u0041"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a" ,"params":{}}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":1}"#,
            r#"{ "jsonrpc":"2.0","id":1,"result":1}"#,
            r#"{"result":1,"id":1,"jsonrpc":"2.0"}"#,
            r#"{"result":{"jsonrpc":"2.0","id":1}}"#,
            r#"{"result":1,"x":{},"jsonrpc":"2.0","id":{"a":1}}"#,
        ] {
            assert_eq!(quick_read(line.as_bytes()), None, "{line}");
            assert_eq!(quick_read_spans(line.as_bytes()), None, "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"m","x":1,"params":{}}"#,
            r#"{"method":"m","x":1,"params":{},"jsonrpc":"2.0","id":1}"#,
        ] {
            assert_eq!(quick_read_spans(line.as_bytes()), None, "{line}");
        }
    }
}
