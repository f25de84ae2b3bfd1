//! Text of others on its way to a terminal. A process, a host or a user may put anything into a name, an argument or a message: a line's
//! end forges a line of ours, an escape sequence steers the terminal, a bidirectional control turns a line around.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character is shown as itself, and does nothing else.
fn is_harmless(c: char) -> bool {
    // Invisible ones: zero widths and directions, line and paragraph separators, further directions, the byte order mark, tags.
    const INVISIBLE: [std::ops::RangeInclusive<char>; 7] = [
        '\u{ad}'..='\u{ad}',
        '\u{61c}'..='\u{61c}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{206f}',
        '\u{feff}'..='\u{feff}',
        '\u{e0000}'..='\u{e007f}',
    ];
    !c.is_control() && !INVISIBLE.iter().any(|range| range.contains(&c))
}

/// The text in one line, for a terminal: control and invisible characters are written as in Rust, like `\n` and
/// `\u{1b}`.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_harmless(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
    }
    Cow::Owned(shown)
}

/// JSON with the same meaning that is safe to show. Such characters can be in its strings only, where JSON has a way to spell them; but
/// the ends of its own lines stay.
#[must_use]
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    let stays = |c: char| is_harmless(c) || c == '\n';
    if json.chars().all(stays) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if stays(c) {
            shown.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(shown, "\\u{unit:04x}").ok();
            }
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_do_something_else_is_spelled_out() {
        for (text, shown) in [
            ("npx -y 'a b' ä 日本 ✓ C:\\n", "npx -y 'a b' ä 日本 ✓ C:\\n"),
            ("x\n2026-01-01 nothing is left", "x\\n2026-01-01 nothing is left"),
            ("a\r\tb\0\x07", "a\\r\\tb\\u{0}\\u{7}"),
            ("\x1b[2J\x1b]0;title\x07", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("\u{7f}\u{85}\u{9b}31m", "\\u{7f}\\u{85}\\u{9b}31m"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
            ("\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}", "\\u{202e}gpj.exe\\u{2066}\\u{200f}\\u{61c}"),
            ("a\u{200b}\u{feff}\u{e0041}", "a\\u{200b}\\u{feff}\\u{e0041}"),
        ] {
            assert_eq!(escaped(text), shown);
        }
        assert_eq!(
            escaped_json("{\n\"a\": \"\u{9b}\u{202e}\u{e0041}ä\"}"),
            "{\n\"a\": \"\\u009b\\u202e\\udb40\\udc41ä\"}"
        );
    }
}
