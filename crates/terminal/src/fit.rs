//! Text that has to fit a number of terminal columns.

use std::borrow::Cow;

/// Stands for what was cut out.
const CUT: char = '…';

/// Ranges of characters that take two columns: Hangul, CJK, full-width forms, pictographs. Coarse, and rather too wide than too narrow: a
/// line that is too short looks uneven, one that is too long is broken.
const WIDE: [std::ops::RangeInclusive<char>; 10] = [
    '\u{1100}'..='\u{115f}',
    '\u{2e80}'..='\u{303e}',
    '\u{3041}'..='\u{a4cf}',
    '\u{a960}'..='\u{a97f}',
    '\u{ac00}'..='\u{d7a3}',
    '\u{f900}'..='\u{faff}',
    '\u{fe30}'..='\u{fe6f}',
    '\u{ff00}'..='\u{ffe6}',
    '\u{1f000}'..='\u{1faff}',
    '\u{20000}'..='\u{3fffd}',
];
/// Ranges of characters that are drawn onto the one before them.
const COMBINING: [std::ops::RangeInclusive<char>; 5] = [
    '\u{300}'..='\u{36f}',
    '\u{1ab0}'..='\u{1aff}',
    '\u{1dc0}'..='\u{1dff}',
    '\u{20d0}'..='\u{20ff}',
    '\u{fe00}'..='\u{fe0f}',
];

fn columns_of(c: char) -> usize {
    let is_in = |ranges: &[std::ops::RangeInclusive<char>]| ranges.iter().any(|range| range.contains(&c));
    match c {
        ..'\u{300}' => 1,
        _ if is_in(&COMBINING) => 0,
        _ if is_in(&WIDE) => 2,
        _ => 1,
    }
}

/// How many columns a text takes that has no control characters in it.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// The text, with its end cut off where it is wider.
#[must_use]
pub fn cut_end(text: &str, width: usize) -> Cow<'_, str> {
    match width {
        _ if columns(text) <= width => Cow::Borrowed(text),
        0 => Cow::Borrowed(""),
        _ => Cow::Owned(beginning(text, width - 1).chars().chain([CUT]).collect()),
    }
}

/// The text, with its middle cut out where it is wider. Beginning and end of a command, a name or a list tell most.
#[must_use]
pub fn cut_middle(text: &str, width: usize) -> Cow<'_, str> {
    match width {
        _ if columns(text) <= width => Cow::Borrowed(text),
        0 => Cow::Borrowed(""),
        _ => {
            let behind = (width - 1) / 2;
            let (before, behind) = (beginning(text, width - 1 - behind), end(text, behind));
            Cow::Owned(format!("{before}{CUT}{behind}"))
        }
    }
}

/// As much of the beginning as fits.
fn beginning(text: &str, width: usize) -> &str {
    let mut room = width;
    let cut = text.char_indices().find(|(_, c)| {
        let left = room.checked_sub(columns_of(*c));
        room = left.unwrap_or(room);
        left.is_none()
    });
    cut.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// As much of the end as fits. It does not begin with a character that is drawn onto the one before it.
fn end(text: &str, width: usize) -> &str {
    let mut room = width;
    let mut from = text.len();
    for (at, c) in text.char_indices().rev() {
        let columns = columns_of(c);
        let Some(left) = room.checked_sub(columns) else { break };
        room = left;
        if columns > 0 {
            from = at;
        }
    }
    text.get(from..).unwrap_or_default()
}

/// The text as a paragraph of lines that are no wider, all but the first with this indent. A word that is wider has a line of its own.
#[must_use]
pub fn wrapped(text: &str, width: Option<usize>, indent: usize) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        if used > 0 && width.is_some_and(|width| used + 1 + columns(word) > width) {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += columns(word);
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_cut_out_so_that_both_ends_show() {
        let command = "npx -y @scope/server-everything";
        assert_eq!(cut_middle(command, 31), command);
        assert_eq!(cut_middle(command, 22), "npx -y @sco…everything");
        assert_eq!(cut_middle("claude-desktop ×3", 10), "claud…p ×3");
        assert_eq!(["", "…", "n…", "n…g"], [0, 1, 2, 3].map(|width| cut_middle(command, width)));
        assert_eq!(cut_end(command, 7), "npx -y…");
        assert_eq!(["", "…"], [0, 1].map(|width| cut_end(command, width)));
    }

    #[test]
    fn no_cut_is_wider_than_its_width_and_none_splits_a_character() {
        for text in
            ["日本語のサーバー", "a日b本c語", "e\u{301}e\u{301}e\u{301}e\u{301}", "ä×…✓🦀🦀", "plain text", ""]
        {
            for width in 0..24 {
                for cut in [cut_middle(text, width), cut_end(text, width)] {
                    assert!(columns(&cut) <= width, "{cut} is wider than {width}");
                    assert!(columns(text) > width || cut == text, "{text} fits {width}, and became {cut}");
                }
            }
        }
        assert_eq!(columns("日本 e\u{301} ×3 …"), 4 + 1 + 1 + 1 + 2 + 1 + 1);
        assert_eq!(cut_middle("日本語のサーバー", 8), "日本…ー");
    }

    #[test]
    fn a_paragraph_is_no_wider_than_asked() {
        assert_eq!(wrapped("one two three four", Some(9), 2), "one two\n  three\n  four\n");
        assert_eq!(wrapped("one two three four", None, 2), "one two three four\n");
        assert_eq!(wrapped("extraordinary word", Some(9), 2), "extraordinary\n  word\n");
    }
}
