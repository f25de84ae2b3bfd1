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

use crate::envelope::{self, Envelope, Kind, Message, NotAMessage, Top, read};
use crate::id::Id;
use crate::quick_read::{QuickEnvelope, quick_read};
use crate::reply::{error, error_to, errors};
use crate::scan::{NotAString, strict_string};
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
}

/// The deciding names of one object.
#[derive(Debug, Clone, Default)]
struct Object {
    names: Vec<Name>,
    /// One bit for each length of a name, so that most other names need not be compared.
    lengths: u64,
}

/// The bit of a length in [`Object::lengths`]. All long names have the same.
fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
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
        self.places.clear();
        self.places.resize(objects, (0, 0));
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
        let mut agreement = Self { objects: vec![Object::default()], allows_nan: false };
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
                        let name = Name { name: (*name).into(), folded: fold(name).into(), object: new, means };
                        agreement.objects[object].lengths |= length_bit(name.name.len());
                        agreement.objects[object].names.push(name);
                        new
                    }
                };
            }
        }
        agreement
    }

    /// Also accepts NaN and the infinities as numbers.
    #[must_use]
    pub fn with_nan(self) -> Self {
        Self { allows_nan: true, ..self }
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
        self.check_and_note(line, &mut Places::default())
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

    /// Like [`Agreement::check`], and notes where the deciding members are.
    pub fn check_and_note(&self, line: &[u8], places: &mut Places) -> Result<Agreed, Disagreement> {
        let has_separators = !line.is_ascii() && {
            std::str::from_utf8(line).map_err(|_| Disagreement::NotJson("it is not UTF-8"))?;
            has_separators(line)
        };
        let mut check = Check { agreement: self, line, at: 0, stack: Stack::default(), places, has_return: false };
        check.document()?;
        if has_separators || check.has_return {
            return Ok(Agreed::Rewritten(without_line_ends(line)));
        }
        Ok(Agreed::AsItCame)
    }
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

/// The state of a check of one line.
struct Check<'a> {
    agreement: &'a Agreement,
    line: &'a [u8],
    at: usize,
    stack: Stack,
    places: &'a mut Places,
    has_return: bool,
}

/// The objects and lists that are open.
struct Stack {
    depth: usize,
    /// One bit a level: whether it is an object.
    is_object: [u64; MAX_DEPTH.div_ceil(64)],
    /// The deciding names of the outermost objects, and which of them have occurred. A list has them for its place alone.
    names: [Option<(usize, u64)>; DECIDING_DEPTH],
}

impl Default for Stack {
    fn default() -> Self {
        Self { depth: 0, is_object: [0; MAX_DEPTH.div_ceil(64)], names: [None; DECIDING_DEPTH] }
    }
}

impl Stack {
    fn push(&mut self, is_object: bool, names: Option<usize>) -> Result<(), Disagreement> {
        if self.depth == MAX_DEPTH {
            return Err(Disagreement::TooDeep);
        }
        let bit = 1 << (self.depth % 64);
        let word = &mut self.is_object[self.depth / 64];
        *word = if is_object { *word | bit } else { *word & !bit };
        if let Some(slot) = self.names.get_mut(self.depth) {
            *slot = names.map(|object| (object, 0));
        }
        self.depth += 1;
        Ok(())
    }

    fn top_is_object(&self) -> bool {
        let at = self.depth - 1;
        self.is_object[at / 64] >> (at % 64) & 1 == 1
    }

    /// Closes the innermost object or list. Returns its index in [`Agreement::objects`], if it is the value of a deciding name.
    #[inline]
    fn pop(&mut self) -> Option<usize> {
        self.depth -= 1;
        self.names.get(self.depth).copied().flatten().map(|(object, _)| object)
    }

    /// The deciding names of the innermost object.
    fn names(&mut self) -> Option<&mut (usize, u64)> {
        self.names.get_mut(self.depth - 1)?.as_mut()
    }
}

type Checked<T = ()> = Result<T, Disagreement>;

impl Check<'_> {
    fn document(&mut self) -> Checked {
        self.space();
        // An outermost list is a batch, and each of its items is a message.
        let is_batch = self.peek() == Some(b'[');
        let mut object = Some(0);
        self.places.begin(self.agreement.objects.len(), is_batch);
        loop {
            // A value begins here.
            if let Some(object) = object {
                self.places.places[object].0 = self.at;
            }
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    self.stack.push(true, object)?;
                    self.space();
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                        self.stack.pop();
                    } else {
                        object = self.key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    self.stack.push(false, object)?;
                    self.space();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                        self.stack.pop();
                    } else {
                        object = (is_batch && self.stack.depth == 1).then_some(0);
                        continue;
                    }
                }
                Some(b'"') => {
                    self.string()?;
                }
                Some(_) => self.bare()?,
                None => return Err(Disagreement::NotJson("it ends too early")),
            }
            // A value has ended here.
            loop {
                if let Some(object) = object {
                    self.places.places[object].1 = self.at;
                }
                self.space();
                if self.stack.depth == 0 {
                    let is_all = self.at == self.line.len();
                    return if is_all { Ok(()) } else { Err(Disagreement::NotJson("something comes after it")) };
                }
                let is_object = self.stack.top_is_object();
                match (self.peek(), is_object) {
                    (Some(b','), _) => {
                        self.at += 1;
                        self.space();
                        object = match is_object {
                            true => self.key()?,
                            false => (is_batch && self.stack.depth == 1).then_some(0),
                        };
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        object = self.stack.pop();
                    }
                    (None, _) => return Err(Disagreement::NotJson("it ends too early")),
                    _ => return Err(Disagreement::NotJson("a comma or a bracket is missing")),
                }
            }
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.peek() {
            self.has_return |= matches!(byte, b'\r' | b'\n');
            self.at += 1;
        }
    }

    /// Reads a name and its colon. Returns the deciding names of its value.
    fn key(&mut self) -> Checked<Option<usize>> {
        if self.peek() != Some(b'"') {
            return Err(Disagreement::NotJson("a member has no name"));
        }
        let start = self.at;
        let is_plain = self.string()?;
        let key = &self.line[start..self.at];
        self.space();
        if self.peek() != Some(b':') {
            return Err(Disagreement::NotJson("a member has no value"));
        }
        self.at += 1;
        self.space();
        match self.stack.names() {
            None => Ok(None),
            Some((object, seen)) => decides(&self.agreement.objects[*object], key, is_plain, seen),
        }
    }

    /// Reads a string. Returns whether it is free of escapes.
    #[inline]
    fn string(&mut self) -> Checked<bool> {
        let string = strict_string(self.line, self.at + 1).map_err(|why| {
            Disagreement::NotJson(match why {
                NotAString::NoEnd => "a string has no end",
                NotAString::ControlCharacter => "a string has a control character",
                NotAString::UnknownEscape => "a string has an unknown escape",
            })
        })?;
        self.at = string.end;
        Ok(!string.has_escapes)
    }

    /// Reads a number, or a word.
    fn bare(&mut self) -> Checked {
        let rest = &self.line[self.at..];
        let words: &[&[u8]] = match self.agreement.allows_nan {
            true => &[b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity"],
            false => &[b"true", b"false", b"null"],
        };
        let length = match words.iter().find(|word| rest.starts_with(word)) {
            Some(word) => word.len(),
            None => number_length(rest).ok_or(Disagreement::NotJson("a value is none"))?,
        };
        self.at += length;
        Ok(())
    }
}

/// Checks one name, given with its quotes, in an object with deciding names. Returns the deciding names of its value.
fn decides(Object { names, lengths }: &Object, key: &[u8], is_plain: bool, seen: &mut u64) -> Checked<Option<usize>> {
    let inside = &key[1..key.len() - 1];
    let is_simple = is_plain && inside.is_ascii();
    // No reader takes it for a name of another length.
    if is_simple && lengths & length_bit(inside.len()) == 0 {
        return Ok(None);
    }
    if let Some(index) = names.iter().position(|name| name.name.as_bytes() == inside) {
        if *seen >> index & 1 == 1 {
            return Err(Disagreement::Twice(names[index].name.clone()));
        }
        *seen |= 1 << index;
        return Ok(Some(names[index].object));
    }
    if is_simple && names.iter().all(|name| !name.name.as_bytes().eq_ignore_ascii_case(inside)) {
        return Ok(None);
    }
    let text = unescape(key).ok_or(Disagreement::NotJson("a name has half a surrogate pair"))?;
    let folded = fold(&text);
    match names.iter().find(|name| *name.folded == *folded) {
        Some(name) => {
            Err(Disagreement::LookAlike { found: String::from_utf8_lossy(inside).into(), name: name.name.clone() })
        }
        None => Ok(None),
    }
}

/// The length of the number at the start of `text`.
fn number_length(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(text.first() == Some(&b'-'));
    at += match (text.get(at)?, digits(at)) {
        (_, 0) => return None,
        (b'0', _) => 1,
        (_, count) => count,
    };
    if text.get(at) == Some(&b'.') {
        let count = digits(at + 1);
        at += (count > 0).then_some(1 + count)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let count = digits(at + 1 + sign);
        at += (count > 0).then_some(1 + sign + count)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests;
