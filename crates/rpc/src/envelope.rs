//! Classifies a line as a message, without parsing params, result and error.

use std::borrow::Cow;
use std::ops::Range;

use crate::id::{Id, IdToken};
use crate::long_line::LineSummary;
use crate::members::visit;
use crate::scan::after_space;
use crate::text::unescape;

/// The content of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// One message.
    One(Envelope<'a>),
    /// Several messages in a list. There is at least one.
    Batch(Vec<Envelope<'a>>),
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The whole message, as it came.
    pub text: &'a [u8],
    /// What it is.
    pub kind: Kind<'a>,
    /// Where its id is in the text, also when the id is null.
    id: Option<Range<usize>>,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// Expects a response.
    Request {
        /// The response carries the same id.
        id: IdToken<'a>,
        /// The method to call.
        method: Cow<'a, str>,
        /// The JSON as it came.
        params: Option<&'a [u8]>,
    },
    /// Expects no response. A request with a null id is a notification too: its sender could not match a response to it.
    Notification {
        /// The method to notify.
        method: Cow<'a, str>,
        /// The JSON as it came.
        params: Option<&'a [u8]>,
    },
    /// A response.
    Response {
        /// The id of the request. `None` for null: the sender of the response could not read the request's id.
        id: Option<IdToken<'a>>,
        /// The result, or the error.
        outcome: Outcome<'a>,
    },
}

/// The outcome of a request: the JSON as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The request succeeded.
    Result(&'a [u8]),
    /// The request failed.
    Error(&'a [u8]),
}

/// Why a line is not a message. The text is for a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAMessage {
    /// Empty, or only whitespace.
    #[error("a blank line")]
    Empty,
    /// Text, null, a number, or a list that is not a batch. Programs that log to stdout print such lines.
    #[error("not a JSON object")]
    NotAnObject,
    /// Begins like a message, but is truncated, unbalanced, or followed by more text.
    #[error("broken JSON")]
    Broken,
    /// An object that is not JSON-RPC 2.0.
    #[error("a JSON object, but no JSON-RPC message")]
    NotJsonRpc,
    /// Not UTF-8.
    #[error("not UTF-8{}", .id.as_ref().map(|id| format!(" (id {id})")).unwrap_or_default())]
    NotUtf8 {
        /// The id, if it is readable. The session that waits for the response gets an error for it.
        id: Option<Id>,
        /// Whether the line is a response, and not a request.
        is_response: bool,
    },
}

/// Reads one line, given without its ending.
///
/// A message is an object with `"jsonrpc": "2.0"` and either a method, or an id with a result or an error. Members may stand in
/// any order. Of two members with the same name the last one counts, as in JavaScript and Python. The brackets in params, result and
/// error have to be balanced; nothing else in them is checked.
pub fn read(line: &[u8]) -> Result<Message<'_>, NotAMessage> {
    // Most lines are ASCII, and that check is faster.
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
        // This includes a byte order mark: RFC 8259 forbids to write one, and it is never part of a line's JSON.
        Some(_) => Err(NotAMessage::NotAnObject),
    }
}

/// The object that opens at `open`, if only whitespace comes after it.
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

/// What is readable of a line that is not UTF-8.
fn summary(line: &[u8]) -> LineSummary {
    let start = after_space(line, 0);
    let object = if line.get(start) == Some(&b'{') { whole(line, start) } else { None };
    object.map(|(top, _)| top.summary()).unwrap_or_default()
}

impl<'a> Envelope<'a> {
    #[inline]
    pub(crate) fn of(line: &'a [u8], place: Range<usize>, top: Top<'a>) -> Result<Self, NotAMessage> {
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

    /// The bytes before its id and the bytes after it. With another id between them it is the same message otherwise, and the
    /// caller copies nothing. `None` when there is no id, as in a notification.
    #[must_use]
    pub fn around_id(&self) -> Option<(&'a [u8], &'a [u8])> {
        if let Kind::Notification { .. } = self.kind {
            return None;
        }
        let id = self.id.clone()?;
        Some((&self.text[..id.start], &self.text[id.end..]))
    }
}

/// The members that classify a message: the JSON of each, as it came.
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

/// A member that classifies a message.
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
    /// The member that a key, given with its quotes, names.
    #[inline]
    pub(crate) fn of(key: &[u8]) -> Option<Self> {
        match Self::plain(&key[1..key.len() - 1]) {
            None if key.contains(&b'\\') => Self::plain(unescape(key)?.as_bytes()),
            name => name,
        }
    }

    /// The member that a key, given without quotes and escapes, names.
    #[inline]
    pub(crate) fn plain(key: &[u8]) -> Option<Self> {
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
        let end = visit(text, open, |key, place| top.note(Name::of(key), text, place))?;
        Some((top, end))
    }

    /// The member of this name is at this place.
    #[inline]
    pub(crate) fn note(&mut self, name: Option<Name>, text: &'a [u8], place: Range<usize>) {
        let value = &text[place.clone()];
        match name {
            Some(Name::Jsonrpc) => self.jsonrpc = Some(value),
            Some(Name::Id) => (self.id, self.id_at) = (Some(value), Some(place)),
            Some(Name::Method) => self.method = Some(value),
            Some(Name::Params) => self.params = Some(value),
            Some(Name::Result) => self.result = Some(value),
            Some(Name::Error) => self.error = Some(value),
            None => {}
        }
    }

    fn is_jsonrpc(&self) -> bool {
        self.jsonrpc
            .is_some_and(|version| version == b"\"2.0\"" || unescape(version).is_some_and(|text| text == "2.0"))
    }

    /// The method, if it is a string.
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
        // JSON-RPC 1 has both members, and one of them is null. Some servers still write both.
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

    /// Like `kind`, for a message that may be readable only in part.
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
