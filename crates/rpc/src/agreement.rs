//! Checks that every JSON reader understands a line as the same message.
//!
//! Between sessions that share a child, the router passes a line on byte for byte only if no reader can disagree with ours about
//! it. Readers differ in four ways. Of two members with one name, some take the first and some the last. Some take `ID` or
//! `"\u0069d"` for `id`, or end a name at a NUL. Some end a line at CR, U+0085, U+2028 or U+2029. Some read a stream of values
//! instead of lines, and never recover from an invalid value. So the whole line is checked against the grammar of RFC 8259, and each
//! name that decides where a message goes must occur once at most, in plain letters.

mod check;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use nostray_sys::masks::is_ascii;

use crate::envelope::{self, Envelope, Kind, Message, NotAMessage, Top, read};
use crate::id::Id;
use crate::quick_read::{QuickEnvelope, quick_read};
use crate::reply::{error, error_to, errors};
use crate::scan::StringEnds;
use crate::shapes::{Shapes, Values};
use check::{Check, Stack};

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
