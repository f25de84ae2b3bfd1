//! Reads and writes JSON strings.

use std::borrow::Cow;

/// The content of a JSON string, given with its quotes. `None` when readers may understand it differently: it has a control
/// character, an unknown escape, or half a surrogate pair.
pub(crate) fn unescape(token: &[u8]) -> Option<Cow<'_, str>> {
    let inside = token.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inside.contains(&b'\\') {
        return serde_json::from_slice::<String>(token).ok().map(Cow::Owned);
    }
    if inside.iter().any(|byte| *byte < 0x20) {
        return None;
    }
    std::str::from_utf8(inside).ok().map(Cow::Borrowed)
}

/// Writes a JSON string, with its quotes.
///
/// The line and paragraph separators are escaped too. JSON does not require it, but some readers end a line there.
pub(crate) fn escape(text: &str, into: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    into.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\' | 0xE2)) {
        let (plain, special) = rest.split_at(at);
        into.extend_from_slice(plain);
        let length = match special {
            [0xE2, 0x80, last @ (0xA8 | 0xA9), ..] => {
                into.extend_from_slice(if *last == 0xA8 { b"\\u2028" } else { b"\\u2029" });
                3
            }
            [byte @ (b'"' | b'\\'), ..] => {
                into.extend_from_slice(&[b'\\', *byte]);
                1
            }
            [b'\n', ..] => {
                into.extend_from_slice(b"\\n");
                1
            }
            [byte @ 0..0x20, ..] => {
                into.extend_from_slice(b"\\u00");
                into.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                1
            }
            _ => {
                into.extend_from_slice(&special[..1]);
                1
            }
        };
        rest = &special[length..];
    }
    into.extend_from_slice(rest);
    into.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_is_understood_again() {
        let all: String = (0..0x3000).filter_map(char::from_u32).chain("🦀\u{10FFFF}".chars()).collect();
        let mut json = Vec::new();
        escape(&all, &mut json);
        assert_eq!(serde_json::from_slice::<String>(&json).ok().as_ref(), Some(&all));
        assert_eq!(unescape(&json).as_deref(), Some(&*all));
        assert!(!json.contains(&b'\n'));
    }

    #[test]
    fn what_not_every_reader_understands_is_no_text() {
        for token in ["\"\t\"", r#""\x""#, r#""\ud800""#, r#""\u12""#, "\"", "", "x", "1"] {
            assert_eq!(unescape(token.as_bytes()), None, "{token}");
        }
        assert_eq!(unescape(b"\"\xFF\""), None);
    }
}
