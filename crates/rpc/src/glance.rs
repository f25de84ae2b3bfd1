//! What a line is, by how it begins and ends. The SDKs write their messages in a handful of layouts, in which everything that has
//! to be known stands before or behind the long part; then the long part need not be looked at.

use crate::id::Id;

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glimpse<'a> {
    /// A request.
    Request {
        /// Its id.
        id: Id,
        /// Its method, as it came: there are no escapes in it.
        method: &'a [u8],
    },
    /// An answer that is a result.
    Result {
        /// The id of what it answers.
        id: Id,
    },
}

/// An id that is longer is not looked for.
const LONGEST_ID: usize = 256;

/// Takes a glance at a line, given without its ending. `None` if it is laid out in another way: then it has to be
/// [read](crate::read). Otherwise it is what `read` would say, if it is JSON at all and no member stands in it that no SDK writes;
/// what stands in the middle is neither looked at nor vouched for.
#[must_use]
pub fn glance(line: &[u8]) -> Option<Glimpse<'_>> {
    let line = line.strip_suffix(b"}")?;
    // {"jsonrpc":"2.0","id":1,"method":"m","params":...} and {"jsonrpc":"2.0","id":1,"result":...}
    if let Some(rest) = line.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":") {
        let (id, rest) = id_at_the_head(rest)?;
        if rest.starts_with(b",\"result\":") {
            return Some(Glimpse::Result { id });
        }
        return Some(Glimpse::Request { id, method: method(rest.strip_prefix(b",\"method\":")?)? });
    }
    // {"result":...,"jsonrpc":"2.0","id":1} and {"method":"m","params":...,"jsonrpc":"2.0","id":1}. No value can end like that and
    // be followed by the end of the message: inside a text the quotes would be escaped, inside an object its own end would follow.
    if line.starts_with(b"{\"result\":") {
        return Some(Glimpse::Result { id: id_at_the_tail(line)? });
    }
    let method = method(line.strip_prefix(b"{\"method\":")?)?;
    Some(Glimpse::Request { id: id_at_the_tail(line)?, method })
}

/// A text without escapes, behind which the member ends.
fn method(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.strip_prefix(b"\"")?;
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    let is_whole = rest[end] == b'"' && matches!(rest.get(end + 1), None | Some(b','));
    (is_whole && rest[..end].is_ascii()).then_some(&rest[..end])
}

fn id_at_the_head(rest: &[u8]) -> Option<(Id, &[u8])> {
    let end = match rest.first()? {
        b'"' => 2 + rest[1..].iter().take(LONGEST_ID).position(|byte| *byte == b'"')?,
        _ => rest.iter().take(LONGEST_ID).position(|byte| *byte == b',')?,
    };
    Some((plain_id(&rest[..end])?, &rest[end..]))
}

fn id_at_the_tail(line: &[u8]) -> Option<Id> {
    const BEFORE: &[u8] = b",\"jsonrpc\":\"2.0\",\"id\":";
    let start = match line.last()? {
        b'"' => line[..line.len() - 1].iter().rev().take(LONGEST_ID).position(|byte| *byte == b'"').map(|n| n + 2)?,
        _ => line.iter().rev().take(LONGEST_ID).position(|byte| *byte == b':')?,
    };
    let (before, id) = line.split_at(line.len() - start);
    before.ends_with(BEFORE).then(|| plain_id(id))?
}

/// A whole number, or a text without escapes.
fn plain_id(token: &[u8]) -> Option<Id> {
    match token {
        [b'0'] => Some(Id::Int(0)),
        [b'1'..=b'9', rest @ ..] if rest.len() < 18 && rest.iter().all(u8::is_ascii_digit) => {
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
    use super::*;
    use crate::{Envelope, Kind, Message, read};

    /// What `read` says, in the words of a glance.
    fn read_as_glimpse(line: &[u8]) -> Option<(Id, Option<String>)> {
        match read(line) {
            Ok(Message::One(Envelope { kind: Kind::Request { id, method, .. }, .. })) => {
                Some((id.id(), Some(method.into_owned())))
            }
            Ok(Message::One(Envelope { kind: Kind::Response { id: Some(id), .. }, .. })) => Some((id.id(), None)),
            _ => None,
        }
    }

    fn seen(line: &[u8]) -> Option<(Id, Option<String>)> {
        match glance(line)? {
            Glimpse::Request { id, method } => Some((id, Some(String::from_utf8_lossy(method).into_owned()))),
            Glimpse::Result { id } => Some((id, None)),
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
    fn in_the_layouts_of_the_sdks_a_glance_says_what_reading_says() {
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
                    assert_eq!(seen, read_as_glimpse(line.as_bytes()), "{line}");
                }
            }
        }
    }

    #[test]
    fn whatever_else_has_to_be_read() {
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
            assert_eq!(glance(line.as_bytes()), None, "{line}");
        }
    }
}
