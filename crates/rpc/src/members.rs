//! The members of one object, without parsing their values.

use std::ops::Range;

use crate::scan::{Nest, Text, after_space, is_bare};
use crate::text::unescape;

/// Visits each member of the object that opens at `open`: its key, with its quotes, and where its value is. Returns where the
/// object ends. `None` if the object is broken.
#[inline]
pub(crate) fn visit<'a>(text: &'a [u8], open: usize, mut each: impl FnMut(&'a [u8], Range<usize>)) -> Option<usize> {
    let mut at = after_space(text, open + 1);
    if text.get(at) == Some(&b'}') {
        return Some(at + 1);
    }
    loop {
        if text.get(at) != Some(&b'"') {
            return None;
        }
        let key_end = at + 1 + Text::default().skip(&text[at + 1..])?;
        let key = &text[at..key_end];
        at = after_space(text, key_end);
        if text.get(at) != Some(&b':') {
            return None;
        }
        at = after_space(text, at + 1);
        let end = value_end(text, at)?;
        each(key, at..end);
        at = after_space(text, end);
        match text.get(at)? {
            b',' => at = after_space(text, at + 1),
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// The end of the value that begins at `at`.
#[inline]
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    let length = match text.get(at)? {
        b'"' => 1 + Text::default().skip(&text[at + 1..])?,
        b'{' | b'[' => Nest::default().skip(&text[at..])?,
        _ => {
            let bare = text[at..].iter().take_while(|byte| is_bare(**byte)).count();
            (bare > 0).then_some(bare)?
        }
    };
    Some(at + length)
}

/// Whether a key, given with its quotes, is this name. Some clients escape more characters than they must.
#[inline]
pub(crate) fn key_is(key: &[u8], name: &str) -> bool {
    let inside = &key[1..key.len() - 1];
    inside == name.as_bytes() || (inside.contains(&b'\\') && unescape(key).is_some_and(|key| key == name))
}

/// Finds the value of a nested member: `find(params, &["_meta", "progressToken"])`. The caller can slice the value out of the JSON
/// text, or replace it. `None` when there is no such member, or when an object on the path is broken.
#[must_use]
pub fn find(json: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let start = after_space(json, 0);
    // With a path, visiting the members finds the end.
    let end = if path.is_empty() { value_end(json, start)? } else { start };
    let mut place = start..end;
    for name in path {
        if json.get(place.start) != Some(&b'{') {
            return None;
        }
        let mut found = None;
        visit(json, place.start, |key, value| {
            if key_is(key, name) {
                found = Some(value);
            }
        })?;
        place = found?;
    }
    Some(place)
}

/// Visits each member of a JSON object, given as its text: its key, with its quotes, and where its value is. `None` when the text
/// is not an object, or is broken.
pub fn members<'a>(json: &'a [u8], each: impl FnMut(&'a [u8], Range<usize>)) -> Option<()> {
    let start = after_space(json, 0);
    if json.get(start) != Some(&b'{') {
        return None;
    }
    visit(json, start, each).map(|_| ())
}
