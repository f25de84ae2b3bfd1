//! What a line is, without parsing what is inside.

use std::borrow::Cow;
use std::ops::Range;

use crate::id::{Id, IdToken};
use crate::long_line::LineSummary;
use crate::members::visit;
use crate::scan::after_space;
use crate::text::unescape;

/// What one line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// One message.
    One(Envelope<'a>),
    /// Several in a list. There is at least one.
    Batch(Vec<Envelope<'a>>),
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// All of it, as it came.
    pub text: &'a [u8],
    /// What it is.
    pub kind: Kind<'a>,
    /// Where its id is in the text, also when that is null.
    id: Option<Range<usize>>,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// Wants an answer.
    Request {
        /// What the answer will carry.
        id: IdToken<'a>,
        /// What is asked for.
        method: Cow<'a, str>,
        /// The JSON as it came.
        params: Option<&'a [u8]>,
    },
    /// Wants none. (A request whose id is null is one too: nobody could tell whose the answer is.)
    Notification {
        /// What it tells.
        method: Cow<'a, str>,
        /// The JSON as it came.
        params: Option<&'a [u8]>,
    },
    /// An answer.
    Response {
        /// Of the request that it answers; none if that could not be read, which is written as null.
        id: Option<IdToken<'a>>,
        /// How it went.
        outcome: Outcome<'a>,
    },
}

/// How a request went: the JSON as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Well.
    Result(&'a [u8]),
    /// Not well.
    Error(&'a [u8]),
}

/// Why a line is not a message. Its words are for a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAMessage {
    /// Nothing, or whitespace.
    #[error("a blank line")]
    Empty,
    /// Text, null, a number, a list that is no batch: what programs print when they take stdout for a log.
    #[error("not a JSON object")]
    NotAnObject,
    /// Begins like a message, but is cut off, not balanced, or followed by something else.
    #[error("broken JSON")]
    Broken,
    /// An object, but of another kind.
    #[error("a JSON object, but no JSON-RPC message")]
    NotJsonRpc,
    /// Not text.
    #[error("not UTF-8{}", .id.as_ref().map(|id| format!(" (id {id})")).unwrap_or_default())]
    NotUtf8 {
        /// The id, if one could be read nevertheless: whoever waits for the answer can be told.
        id: Option<Id>,
        /// Whether it is an answer, and not a request.
        is_response: bool,
    },
}

/// Reads one line, given without its ending.
///
/// A message is an object with `"jsonrpc": "2.0"` and either a method, or an id with a result or an error. Members may stand in
/// any order; of two with the same name the last one counts, as it does for JavaScript and Python. What is inside params,
/// result and error has to be balanced, and that is all.
pub fn read(line: &[u8]) -> Result<Message<'_>, NotAMessage> {
    // Most lines are ASCII, which is quicker to see.
    if !line.is_ascii() && std::str::from_utf8(line).is_err() {
        let LineSummary { id, is_response, .. } = summary(line);
        return Err(NotAMessage::NotUtf8 { id, is_response });
    }
    let start = after_space(line, 0);
    match line.get(start) {
        None => Err(NotAMessage::Empty),
        Some(b'{') => {
            let (top, end) = whole(line, start).ok_or(NotAMessage::Broken)?;
            Ok(Message::One(Envelope::of(line, start..end, top)?))
        }
        Some(b'[') => batch(line, start).map(Message::Batch),
        // A byte order mark ends here too: RFC 8259 forbids to write one, and it is never part of a line's JSON.
        Some(_) => Err(NotAMessage::NotAnObject),
    }
}

/// The object that opens here, if nothing comes after it.
fn whole(line: &[u8], open: usize) -> Option<(Top<'_>, usize)> {
    Top::of(line, open).filter(|(_, end)| after_space(line, *end) == line.len())
}

fn batch(line: &[u8], open: usize) -> Result<Vec<Envelope<'_>>, NotAMessage> {
    let mut envelopes = Vec::new();
    let mut at = after_space(line, open + 1);
    loop {
        match line.get(at) {
            None => return Err(NotAMessage::Broken),
            Some(b'{') => {}
            Some(_) => return Err(NotAMessage::NotAnObject),
        }
        let (top, end) = Top::of(line, at).ok_or(NotAMessage::Broken)?;
        envelopes.push(Envelope::of(line, at..end, top)?);
        at = after_space(line, end);
        match line.get(at) {
            Some(b',') => at = after_space(line, at + 1),
            Some(b']') if after_space(line, at + 1) == line.len() => return Ok(envelopes),
            _ => return Err(NotAMessage::Broken),
        }
    }
}

/// What can be told of a line that is not text everywhere.
fn summary(line: &[u8]) -> LineSummary {
    let start = after_space(line, 0);
    let object = if line.get(start) == Some(&b'{') { whole(line, start) } else { None };
    object.map(|(top, _)| top.summary()).unwrap_or_default()
}

impl<'a> Envelope<'a> {
    #[inline]
    fn of(line: &'a [u8], place: Range<usize>, top: Top<'a>) -> Result<Self, NotAMessage> {
        let kind = top.kind()?;
        let id = top.id_at.map(|id| id.start - place.start..id.end - place.start);
        Ok(Self { text: &line[place], kind, id })
    }

    /// Its id, if it is a request.
    #[must_use]
    pub fn request_id(&self) -> Option<Id> {
        match &self.kind {
            Kind::Request { id, .. } => Some(id.id()),
            Kind::Notification { .. } | Kind::Response { .. } => None,
        }
    }

    /// What comes before its id and what comes after: with another id between them it is the same message otherwise, and
    /// nothing of it had to be copied. None when there is no id, as in a notification.
    #[must_use]
    pub fn around_id(&self) -> Option<(&'a [u8], &'a [u8])> {
        if let Kind::Notification { .. } = self.kind {
            return None;
        }
        let id = self.id.clone()?;
        Some((&self.text[..id.start], &self.text[id.end..]))
    }
}

/// The members that say what a message is: the JSON of each, as it came.
#[derive(Debug, Default)]
pub(crate) struct Top<'a> {
    pub(crate) jsonrpc: Option<&'a [u8]>,
    pub(crate) id: Option<&'a [u8]>,
    pub(crate) method: Option<&'a [u8]>,
    pub(crate) params: Option<&'a [u8]>,
    pub(crate) result: Option<&'a [u8]>,
    pub(crate) error: Option<&'a [u8]>,
    /// Where the id is.
    pub(crate) id_at: Option<Range<usize>>,
}

/// A member that says what a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl Name {
    /// Which one a key is, given with its quotes.
    #[inline]
    pub(crate) fn of(key: &[u8]) -> Option<Self> {
        match Self::plain(&key[1..key.len() - 1]) {
            None if key.contains(&b'\\') => Self::plain(unescape(key)?.as_bytes()),
            name => name,
        }
    }

    #[inline]
    fn plain(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"jsonrpc" => Self::Jsonrpc,
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"params" => Self::Params,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => return None,
        })
    }
}

impl<'a> Top<'a> {
    #[inline]
    fn of(text: &'a [u8], open: usize) -> Option<(Self, usize)> {
        let mut top = Self::default();
        let end = visit(text, open, |key, place| {
            let value = &text[place.clone()];
            match Name::of(key) {
                Some(Name::Jsonrpc) => top.jsonrpc = Some(value),
                Some(Name::Id) => (top.id, top.id_at) = (Some(value), Some(place)),
                Some(Name::Method) => top.method = Some(value),
                Some(Name::Params) => top.params = Some(value),
                Some(Name::Result) => top.result = Some(value),
                Some(Name::Error) => top.error = Some(value),
                None => {}
            }
        })?;
        Some((top, end))
    }

    fn is_jsonrpc(&self) -> bool {
        self.jsonrpc
            .is_some_and(|version| version == b"\"2.0\"" || unescape(version).is_some_and(|text| text == "2.0"))
    }

    /// The method, if it is a text.
    fn method(&self) -> Option<&'a [u8]> {
        self.method.filter(|method| method.starts_with(b"\""))
    }

    /// The id, if it is not null.
    fn id(&self) -> Option<&'a [u8]> {
        self.id.filter(|id| id != b"null")
    }

    fn kind(&self) -> Result<Kind<'a>, NotAMessage> {
        if !self.is_jsonrpc() {
            return Err(NotAMessage::NotJsonRpc);
        }
        let id = match self.id() {
            None => None,
            Some(raw) => Some(IdToken::read(raw).ok_or(NotAMessage::NotJsonRpc)?),
        };
        if let Some(method) = self.method() {
            let method = unescape(method).ok_or(NotAMessage::Broken)?;
            let params = self.params;
            return Ok(match id {
                Some(id) => Kind::Request { id, method, params },
                None => Kind::Notification { method, params },
            });
        }
        // Version 1 had both, and one of them was null; there are servers that still write it so.
        let outcome = match (self.result, self.error) {
            (Some(result), None | Some(b"null")) => Outcome::Result(result),
            (_, Some(error)) => Outcome::Error(error),
            (None, None) => return Err(NotAMessage::NotJsonRpc),
        };
        if self.id.is_none() {
            return Err(NotAMessage::NotJsonRpc);
        }
        Ok(Kind::Response { id, outcome })
    }

    /// The same for a message of which not everything may be readable: what is.
    pub(crate) fn summary(&self) -> LineSummary {
        let is_request = self.method().is_some();
        let is_response = !is_request && self.id.is_some() && (self.result.is_some() || self.error.is_some());
        if !self.is_jsonrpc() || !(is_request || is_response) {
            return LineSummary::default();
        }
        LineSummary {
            id: self.id().and_then(Id::from_json),
            method: self.method().and_then(unescape).map(Cow::into_owned),
            is_response,
        }
    }
}
