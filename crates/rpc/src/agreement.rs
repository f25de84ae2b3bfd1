//! Checks that every JSON reader understands a line as the same message.
//!
//! Between sessions that share a child, the router passes a line on byte for byte only if no reader can disagree with ours about
//! it. Readers differ in four ways. Of two members with one name, some take the first and some the last. Some take `ID` or
//! `"\u0069d"` for `id`, or end a name at a NUL. Some end a line at CR, U+0085, U+2028 or U+2029. Some read a stream of values
//! instead of lines, and never recover from an invalid value. So the whole line is checked against the grammar of RFC 8259, and each
//! name that decides where a message goes must occur once at most, in plain letters.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use nostray_sys::masks::is_ascii;

use crate::envelope::{self, Envelope, Kind, Message, NotAMessage, Top, read};
use crate::id::Id;
use crate::quick_read::{QuickEnvelope, quick_read};
use crate::reply::{error, error_to, errors};
use crate::scan::{NotAString, StrictString, StringEnds, number_length, strict_string};
use crate::shapes::{Shapes, Values};
use crate::text::unescape;

/// Deeper than any real message, and less deep than the limits of readers (serde_json: 128, jiter: 200).
const MAX_DEPTH: usize = 120;
/// Only objects at a smaller depth can hold a deciding name.
const DECIDING_DEPTH: usize = 16;

/// The first two bytes of U+2028 and U+2029.
static SEPARATOR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\xE2\x80"));
static NEXT_LINE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\u{85}"));

/// The names that decide where a message goes, by the objects in which they stand.
#[derive(Debug, Clone)]
pub struct Agreement {
    /// The first entry is the message itself.
    objects: Vec<Object>,
    /// Accepts NaN and the infinities. They are not JSON, but Python writes and reads them.
    allows_nan: bool,
    /// What the lines that were checked last are like.
    shapes: Shapes,
    /// The members, as indices of `objects`, whose values are a part of what a line is like.
    constant: [Option<usize>; 2],
}

/// The deciding names of one object.
#[derive(Debug, Clone, Default)]
struct Object {
    names: Vec<Name>,
    /// The [outline] of each, by which nearly all other names are told from them.
    outlines: Vec<u64>,
}

/// The first bytes of a name that is `length` bytes long, without the bit by which capital and small letters differ, and its length.
/// `text` begins with the name. Names that are equal but for case have one outline; few others have.
#[inline]
fn outline(text: &[u8], length: usize) -> u64 {
    const CASE: u64 = 0x20_2020_2020_2020;
    const BYTES: usize = 7;
    let first = match text.first_chunk::<8>() {
        Some(first) => u64::from_le_bytes(*first),
        None => text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    let unused = u64::BITS - 8 * length.min(BYTES) as u32;
    let first = first.checked_shl(unused).map_or(0, |first| first >> unused);
    (first | CASE) ^ (length as u64) << 56
}

/// A deciding member: see [`Agreement::member`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member(usize);

/// Where the deciding members of a line are. A check finds all of them on its way, so the router need not look for any of them again.
#[derive(Debug, Default)]
pub struct Places {
    /// Start and end for each of [`Agreement::objects`]; both are zero if the line has no such member.
    places: Vec<(usize, usize)>,
    is_batch: bool,
}

impl Places {
    /// Where the value of a member is in the line that was checked last. `None` if the line has no such member, or is a batch.
    #[must_use]
    #[inline]
    pub fn of(&self, Member(index): Member) -> Option<Range<usize>> {
        let (start, end) = *self.places.get(index)?;
        (end > 0 && !self.is_batch).then_some(start..end)
    }

    fn begin(&mut self, objects: usize, is_batch: bool) {
        self.places.resize(objects, (0, 0));
        self.places.fill((0, 0));
        self.is_batch = is_batch;
    }
}

#[derive(Debug, Clone)]
struct Name {
    name: Box<str>,
    folded: Box<str>,
    /// The deciding names in its value, if that is an object: an index into [`Agreement::objects`].
    object: usize,
    /// What it means in a message.
    means: Option<envelope::Name>,
}

/// How the router can pass a line on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agreed {
    /// As it came.
    AsItCame,
    /// As these bytes: the same JSON without the characters at which some readers end a line.
    Rewritten(Vec<u8>),
}

/// Why the router cannot pass a line on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// It breaks the grammar.
    #[error("it is not JSON: {0}")]
    NotJson(&'static str),
    /// A deciding name occurs twice.
    #[error("its member {0:?} stands twice")]
    Twice(Box<str>),
    /// Some readers take a name for a deciding name.
    #[error("some readers take its member {found:?} for {name:?}")]
    LookAlike {
        /// The name in the line, without its quotes.
        found: Box<str>,
        /// The deciding name.
        name: Box<str>,
    },
    /// It is nested too deep.
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// What the router does with a line that it does not pass on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Answers with this line, which has one error for each request, under the id that [`read`] finds.
    Answer(Vec<u8>),
    /// The line is the response to this id, and is lost.
    LostAnswer(Id),
    /// The line is not a message.
    NoMessage(NotAMessage),
}

impl Disagreement {
    /// The JSON-RPC error code.
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Self::NotJson(_) => -32700,
            Self::Twice(_) | Self::LookAlike { .. } | Self::TooDeep => -32600,
        }
    }

    /// The reply to the sender of the line.
    #[must_use]
    pub fn refuse(&self, line: &[u8]) -> Refusal {
        let message = format!("this message was not passed on: {self}");
        let requests: Vec<Id> = match read(line) {
            Ok(Message::One(Envelope { kind: Kind::Response { id: Some(id), .. }, .. })) => {
                return Refusal::LostAnswer(id.id());
            }
            Ok(Message::Batch(envelopes)) => {
                let ids: Vec<_> = envelopes.iter().filter_map(Envelope::request_id).collect();
                if !ids.is_empty() {
                    return Refusal::Answer(errors(&ids, self.code(), &message, None));
                }
                ids
            }
            Ok(Message::One(envelope)) => envelope.request_id().into_iter().collect(),
            // The line is not valid JSON, but it begins or ends like a request.
            Err(not) => match quick_read(line) {
                Some(QuickEnvelope::Request { id, .. }) => vec![id],
                _ => return Refusal::NoMessage(not),
            },
        };
        Refusal::Answer(match requests.first() {
            Some(id) => error(id, self.code(), &message, None),
            None => error_to(b"null", self.code(), &message),
        })
    }
}

impl Agreement {
    /// Each path leads from the message to a member that decides where the message goes.
    ///
    /// # Panics
    /// If a path is longer than fourteen names.
    #[must_use]
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        let mut agreement = Self {
            objects: vec![Object::default()],
            allows_nan: false,
            shapes: Shapes::default(),
            constant: [None; 2],
        };
        for path in paths {
            assert!(path.len() < DECIDING_DEPTH - 1, "no member of a message is so deep");
            let mut object = 0;
            for name in path {
                let known = agreement.objects[object].names.iter().find(|known| *known.name == **name);
                object = match known {
                    Some(known) => known.object,
                    None => {
                        let new = agreement.objects.len();
                        agreement.objects.push(Object::default());
                        let means = envelope::Name::plain(name.as_bytes());
                        let outline = outline(name.as_bytes(), name.len());
                        let name = Name { name: (*name).into(), folded: fold(name).into(), object: new, means };
                        agreement.objects[object].names.push(name);
                        agreement.objects[object].outlines.push(outline);
                        new
                    }
                };
            }
        }
        agreement.constant = ["jsonrpc", "method"].map(|name| agreement.member(&[name]).map(|Member(object)| object));
        agreement
    }

    /// Also accepts NaN and the infinities as numbers.
    #[must_use]
    pub fn with_nan(self) -> Self {
        Self { allows_nan: true, shapes: Shapes::default(), ..self }
    }

    /// The member that a path leads to. `None` if no path with which this was made leads there.
    #[must_use]
    pub fn member(&self, path: &[&str]) -> Option<Member> {
        let mut object = 0;
        for name in path {
            object = self.objects[object].names.iter().find(|known| *known.name == **name)?.object;
        }
        Some(Member(object))
    }

    /// Checks a line, given without its ending: one message, or a list of them.
    pub fn check(&self, line: &[u8]) -> Result<Agreed, Disagreement> {
        self.check_fully(line, is_utf8(line)?, &mut Places::default(), &mut Values::new())
    }

    /// Reads a line that was checked as one message, by the places that the check has noted. The same as [`read`], which has to read
    /// it once more. `None` if it is a batch or no object.
    #[must_use]
    pub fn envelope<'a>(&self, line: &'a [u8], places: &Places) -> Option<Result<Envelope<'a>, NotAMessage>> {
        let whole = places.of(Member(0)).filter(|whole| line.get(whole.start) == Some(&b'{'))?;
        let mut top = Top::default();
        for name in &self.objects[0].names {
            if let Some(place) = places.of(Member(name.object)) {
                top.note(name.means, line, place);
            }
        }
        Some(Envelope::of(line, whole, top))
    }

    /// Like [`Agreement::check`], and notes where the deciding members are. What the line is like is remembered, so that the next one that
    /// is like it is checked in less time.
    pub fn check_and_note(&mut self, line: &[u8], places: &mut Places) -> Result<Agreed, Disagreement> {
        let text = is_utf8(line)?;
        places.begin(self.objects.len(), false);
        if self.shapes.know(line, &mut StringEnds::of(line), &mut places.places) {
            return Ok(agreed(line, text.has_separators));
        }
        let mut values = Values::new();
        let agreed = self.check_fully(line, text, places, &mut values)?;
        if agreed == Agreed::AsItCame && !places.is_batch {
            self.shapes.learn(line, &values, &places.places);
        }
        Ok(agreed)
    }

    fn check_fully(
        &self,
        line: &[u8],
        text: Utf8,
        places: &mut Places,
        values: &mut Values,
    ) -> Result<Agreed, Disagreement> {
        let (strings, stack) = (StringEnds::of(line), Stack::default());
        let is_ascii = text.is_ascii;
        let mut check = Check { agreement: self, line, is_ascii, strings, stack, places, values, has_return: false };
        check.document().map_err(|disagreement| *disagreement)?;
        let has_return = check.has_return;
        Ok(agreed(line, text.has_separators || has_return))
    }
}

/// What is known of a line that is UTF-8.
#[derive(Clone, Copy)]
struct Utf8 {
    is_ascii: bool,
    has_separators: bool,
}

fn is_utf8(line: &[u8]) -> Result<Utf8, Disagreement> {
    let is_ascii = is_ascii(line);
    let has_separators = !is_ascii && {
        std::str::from_utf8(line).map_err(|_| Disagreement::NotJson("it is not UTF-8"))?;
        has_separators(line)
    };
    Ok(Utf8 { is_ascii, has_separators })
}

fn agreed(line: &[u8], has_line_ends: bool) -> Agreed {
    if has_line_ends { Agreed::Rewritten(without_line_ends(line)) } else { Agreed::AsItCame }
}

fn has_separators(line: &[u8]) -> bool {
    let separates = |at: usize| matches!(line.get(at + 2), Some(0xA8 | 0xA9));
    SEPARATOR.find_iter(line).any(separates) || NEXT_LINE.find(line).is_some()
}

/// A CR occurs only outside of strings, where it is whitespace. The other line ends occur only inside of strings, and are escaped.
fn without_line_ends(line: &[u8]) -> Vec<u8> {
    let mut new = Vec::with_capacity(line.len() + 16);
    let mut rest = line;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | 0xC2 | 0xE2)) {
        new.extend_from_slice(&rest[..at]);
        let (instead, length): (&[u8], usize) = match &rest[at..] {
            [b'\r', ..] => (b" ", 1),
            [0xC2, 0x85, ..] => (b"\\u0085", 2),
            [0xE2, 0x80, 0xA8, ..] => (b"\\u2028", 3),
            [0xE2, 0x80, 0xA9, ..] => (b"\\u2029", 3),
            other => (&other[..1], 1),
        };
        new.extend_from_slice(instead);
        rest = &rest[at + length..];
    }
    new.extend_from_slice(rest);
    new
}

/// Maps a name as the most lenient readers do: they ignore case, also beyond ASCII, and end a name at a NUL.
fn fold(name: &str) -> String {
    let before_nul = name.split('\0').next().unwrap_or_default();
    before_nul.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The state of a check of one line. Where the check has come to is handed from call to call, so that it stays in a register.
struct Check<'a> {
    agreement: &'a Agreement,
    line: &'a [u8],
    is_ascii: bool,
    strings: StringEnds<'a>,
    stack: Stack,
    places: &'a mut Places,
    values: &'a mut Values,
    has_return: bool,
}

/// The objects and lists that are open.
struct Stack {
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
type Checked<T = ()> = Result<T, Box<Disagreement>>;

#[cold]
fn not_json<T>(why: &'static str) -> Checked<T> {
    Err(Box::new(Disagreement::NotJson(why)))
}

impl Check<'_> {
    fn document(&mut self) -> Checked {
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
fn decides(
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
fn decides_slowly(
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

#[cfg(test)]
mod tests;
