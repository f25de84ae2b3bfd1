//! Walks through one line by the grammar of RFC 8259, and looks at each name that may decide where the message goes.

use super::{Agreement, DECIDING_DEPTH, Disagreement, MAX_DEPTH, Object, Places, fold, outline};
use crate::scan::{NotAString, StrictString, StringEnds, number_length, strict_string};
use crate::shapes::Values;
use crate::text::unescape;

/// The state of a check of one line. Where the check has come to is handed from call to call, so that it stays in a register.
pub(super) struct Check<'a> {
    pub(super) agreement: &'a Agreement,
    pub(super) line: &'a [u8],
    pub(super) is_ascii: bool,
    pub(super) strings: StringEnds<'a>,
    pub(super) stack: Stack,
    pub(super) places: &'a mut Places,
    pub(super) values: &'a mut Values,
    /// A CR or LF stood outside of the strings.
    pub(super) has_return: bool,
}

/// The objects and lists that are open.
pub(super) struct Stack {
    depth: usize,
    /// One bit a level, the innermost first: whether it is an object.
    is_object: u128,
    /// The deciding names of the outermost objects, and which of them have occurred. A list has them for its place alone.
    names: [Option<(usize, u64)>; DECIDING_DEPTH],
}

impl Default for Stack {
    fn default() -> Self {
        Self { depth: 0, is_object: 0, names: [None; DECIDING_DEPTH] }
    }
}

impl Stack {
    #[inline]
    fn push(&mut self, is_object: bool, names: Option<usize>) -> Checked {
        const { assert!(MAX_DEPTH <= u128::BITS as usize, "one bit a level") };
        if self.depth == MAX_DEPTH {
            return Err(Box::new(Disagreement::TooDeep));
        }
        self.is_object = self.is_object << 1 | u128::from(is_object);
        if let Some(slot) = self.names.get_mut(self.depth) {
            *slot = names.map(|object| (object, 0));
        }
        self.depth += 1;
        Ok(())
    }

    #[inline]
    fn top_is_object(&self) -> bool {
        self.is_object & 1 == 1
    }

    /// Closes the innermost object or list. Returns its index in [`Agreement::objects`], if it is the value of a deciding name.
    #[inline]
    fn pop(&mut self) -> Option<usize> {
        self.depth -= 1;
        self.is_object >>= 1;
        self.names.get(self.depth).copied().flatten().map(|(object, _)| object)
    }

    /// The deciding names of the innermost object.
    #[inline]
    fn names(&mut self) -> Option<&mut (usize, u64)> {
        self.names.get_mut(self.depth - 1)?.as_mut()
    }
}

/// Boxed, so that what nearly all lines return is small.
pub(super) type Checked<T = ()> = Result<T, Box<Disagreement>>;

#[cold]
fn not_json<T>(why: &'static str) -> Checked<T> {
    Err(Box::new(Disagreement::NotJson(why)))
}

impl Check<'_> {
    pub(super) fn document(&mut self) -> Checked {
        let mut at = self.after_space(0);
        // An outermost list is a batch, and each of its items is a message.
        let is_batch = self.line.get(at) == Some(&b'[');
        let (mut object, mut has_name) = (Some(0), false);
        self.places.begin(self.agreement.objects.len(), is_batch);
        loop {
            // A value begins here, or the name before it.
            if has_name {
                (at, object) = self.key(at)?;
            }
            if let Some(object) = object {
                self.places.places[object].0 = at;
            }
            match self.line.get(at) {
                Some(b'"') => {
                    let end = self.string(at)?.end;
                    // Lines with another method are seldom alike.
                    if !object.is_some_and(|object| self.agreement.constant.contains(&Some(object))) {
                        self.values.add(at + 1, end, true);
                    }
                    at = end;
                }
                Some(opening @ (b'{' | b'[')) => {
                    let is_object = *opening == b'{';
                    self.stack.push(is_object, object)?;
                    at = self.after_space(at + 1);
                    if self.line.get(at) != Some(if is_object { &b'}' } else { &b']' }) {
                        (object, has_name) = self.next_item(is_batch);
                        continue;
                    }
                    at += 1;
                    self.stack.pop();
                }
                Some(_) => at += self.bare_length(at)?,
                None => return not_json("it ends too early"),
            }
            // A value has ended here.
            loop {
                if let Some(object) = object {
                    self.places.places[object].1 = at;
                }
                at = self.after_space(at);
                if self.stack.depth == 0 {
                    return if at == self.line.len() { Ok(()) } else { not_json("something comes after it") };
                }
                match (self.line.get(at), self.stack.top_is_object()) {
                    (Some(b','), _) => {
                        at = self.after_space(at + 1);
                        (object, has_name) = self.next_item(is_batch);
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        at += 1;
                        object = self.stack.pop();
                    }
                    (None, _) => return not_json("it ends too early"),
                    _ => return not_json("a comma or a bracket is missing"),
                }
            }
        }
    }

    /// The deciding names of the next item of what is open, as far as they are known before its name, and whether it has one.
    #[inline]
    fn next_item(&self, is_batch: bool) -> (Option<usize>, bool) {
        ((is_batch && self.stack.depth == 1).then_some(0), self.stack.top_is_object())
    }

    #[inline]
    fn after_space(&mut self, at: usize) -> usize {
        // Most lines have none.
        match self.line.get(at) {
            Some(byte) if *byte > b' ' => at,
            _ => self.skip_space(at),
        }
    }

    #[inline(never)]
    fn skip_space(&mut self, mut at: usize) -> usize {
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.line.get(at) {
            self.has_return |= matches!(byte, b'\r' | b'\n');
            at += 1;
        }
        at
    }

    /// Reads a name and its colon. Returns where its value begins, and the deciding names of that.
    #[inline]
    fn key(&mut self, start: usize) -> Checked<(usize, Option<usize>)> {
        if self.line.get(start) != Some(&b'"') {
            return not_json("a member has no name");
        }
        let StrictString { end, has_escapes } = self.string(start)?;
        let colon = self.after_space(end);
        if self.line.get(colon) != Some(&b':') {
            return not_json("a member has no value");
        }
        let at = self.after_space(colon + 1);
        let Some((object, seen)) = self.stack.names() else { return Ok((at, None)) };
        let object = &self.agreement.objects[*object];
        Ok((at, decides(object, &self.line[start..], end - start, !has_escapes, self.is_ascii, seen)?))
    }

    /// Reads a string, from its opening quote.
    #[inline]
    fn string(&mut self, at: usize) -> Checked<StrictString> {
        match self.strings.plain_end(at + 1) {
            Some(end) => Ok(StrictString { end, has_escapes: false }),
            None => self.string_with_escapes(at),
        }
    }

    #[inline(never)]
    fn string_with_escapes(&mut self, at: usize) -> Checked<StrictString> {
        match strict_string(self.line, at + 1) {
            Ok(string) => Ok(string),
            Err(NotAString::NoEnd) => not_json("a string has no end"),
            Err(NotAString::ControlCharacter) => not_json("a string has a control character"),
            Err(NotAString::UnknownEscape) => not_json("a string has an unknown escape"),
        }
    }

    /// Reads a number, or a word. Returns its length.
    #[inline]
    fn bare_length(&mut self, at: usize) -> Checked<usize> {
        let rest = &self.line[at..];
        if let Some(length) = number_length(rest) {
            self.values.add(at, at + length, false);
            return Ok(length);
        }
        let words: &[&[u8]] = match self.agreement.allows_nan {
            true => &[b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity"],
            false => &[b"true", b"false", b"null"],
        };
        match words.iter().find(|word| rest.starts_with(word)) {
            Some(word) => Ok(word.len()),
            None => not_json("a value is none"),
        }
    }
}

/// Checks one name in an object with deciding names. Returns the deciding names of its value. `text` begins with the name and its
/// quotes, which are `length` bytes long.
#[inline]
pub(super) fn decides(
    object: &Object,
    text: &[u8],
    length: usize,
    is_plain: bool,
    is_ascii: bool,
    seen: &mut u64,
) -> Checked<Option<usize>> {
    let inside = &text[1..length - 1];
    if is_plain && (is_ascii || inside.is_ascii()) {
        let outline = outline(&text[1..], inside.len());
        let Some(index) = object.outlines.iter().position(|other| *other == outline) else {
            // No reader takes it for a name with another outline.
            return Ok(None);
        };
        if *object.names[index].name.as_bytes() == *inside && *seen >> index & 1 == 0 {
            *seen |= 1 << index;
            return Ok(Some(object.names[index].object));
        }
    }
    decides_slowly(object, &text[..length], is_plain, seen)
}

/// The same for a name that occurs twice, or may be taken for another one.
#[cold]
pub(super) fn decides_slowly(
    Object { names, .. }: &Object,
    key: &[u8],
    is_plain: bool,
    seen: &mut u64,
) -> Checked<Option<usize>> {
    let inside = &key[1..key.len() - 1];
    if let Some(index) = names.iter().position(|name| name.name.as_bytes() == inside) {
        if *seen >> index & 1 == 1 {
            return Err(Box::new(Disagreement::Twice(names[index].name.clone())));
        }
        *seen |= 1 << index;
        return Ok(Some(names[index].object));
    }
    let is_simple = is_plain && inside.is_ascii();
    if is_simple && names.iter().all(|name| !name.name.as_bytes().eq_ignore_ascii_case(inside)) {
        return Ok(None);
    }
    let Some(text) = unescape(key) else { return not_json("a name has half a surrogate pair") };
    let folded = fold(&text);
    match names.iter().find(|name| *name.folded == *folded) {
        Some(name) => Err(Box::new(Disagreement::LookAlike {
            found: String::from_utf8_lossy(inside).into(),
            name: name.name.clone(),
        })),
        None => Ok(None),
    }
}
