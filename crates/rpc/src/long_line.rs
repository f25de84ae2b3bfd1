//! Finds the id and the method of a line that is too long to be buffered, as its pieces arrive.

use crate::envelope::{Name, Top};
use crate::id::Id;
use crate::scan::{Nest, Text, is_bare};

/// What is known of a line that is not buffered, or that is not UTF-8. Empty if the line is not a message, or if it is a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineSummary {
    /// Its id.
    pub id: Option<Id>,
    /// Its method.
    pub method: Option<String>,
    /// Whether it is a response.
    pub is_response: bool,
}

/// No real id or method is longer. The bound keeps the memory for a long line small.
const MAX_TOKEN_LENGTH: usize = 4096;

/// Reads a line piece by piece and keeps its id and its method.
///
/// The result equals that of [`read`](crate::read) for the whole line, with three exceptions. A batch is not looked into. An id
/// or a method of more than four kibibytes is not kept. An invalid id or method does not hide the other one: the line is lost
/// anyway, and a caller may wait for it.
#[derive(Debug, Default)]
pub struct LongLineReader {
    state: State,
    key: Token,
    value: Token,
    jsonrpc: Option<Token>,
    id: Option<Token>,
    method: Option<Token>,
    result: bool,
    error: bool,
}

#[derive(Debug, Default)]
enum State {
    /// Before the object.
    #[default]
    Start,
    /// After its opening bracket: a key, or its end.
    First,
    /// After a comma: a key.
    Key,
    InKey(Text),
    Colon,
    Value,
    InText(Text),
    InBare,
    InNest(Nest),
    /// After a value: a comma, or the end.
    After,
    /// After the object.
    End,
    NoMessage,
}

/// The bytes of one token, up to a bound.
#[derive(Debug, Default)]
struct Token {
    bytes: Vec<u8>,
    cut: bool,
}

impl Token {
    fn clear(&mut self) {
        self.bytes.clear();
        self.cut = false;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn add(&mut self, piece: &[u8]) {
        let room = MAX_TOKEN_LENGTH - self.bytes.len();
        self.cut |= piece.len() > room;
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

impl LongLineReader {
    /// Before the first piece.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while !rest.is_empty() {
            let used = self.step(rest);
            rest = &rest[used..];
        }
    }

    /// Consumes one token, or one byte between tokens. Returns the number of bytes.
    fn step(&mut self, rest: &[u8]) -> usize {
        let byte = rest[0];
        match &mut self.state {
            State::NoMessage => rest.len(),
            State::InKey(text) => {
                let end = text.skip(rest);
                let used = end.unwrap_or(rest.len());
                self.key.add(&rest[..used]);
                if end.is_some() {
                    self.state = State::Colon;
                }
                used
            }
            State::InText(text) => {
                let end = text.skip(rest);
                let used = end.unwrap_or(rest.len());
                self.value.add(&rest[..used]);
                if end.is_some() {
                    self.close();
                }
                used
            }
            State::InNest(nest) => match nest.skip(rest) {
                None => rest.len(),
                Some(used) => {
                    self.close();
                    used
                }
            },
            State::InBare => {
                let used = rest.iter().take_while(|byte| is_bare(**byte)).count();
                self.value.add(&rest[..used]);
                if used < rest.len() {
                    self.close();
                }
                used
            }
            between => {
                if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                    return 1;
                }
                self.state = match (between, byte) {
                    (State::Start, b'{') => State::First,
                    (State::First | State::Key, b'"') => {
                        self.key.clear();
                        self.key.add(b"\"");
                        State::InKey(Text::default())
                    }
                    (State::First | State::After, b'}') => State::End,
                    (State::Colon, b':') => State::Value,
                    (State::Value, first) => return self.open(first),
                    (State::After, b',') => State::Key,
                    _ => State::NoMessage,
                };
                1
            }
        }
    }

    /// A value begins with this byte.
    fn open(&mut self, first: u8) -> usize {
        self.value.clear();
        let (state, used) = match first {
            b'"' => {
                self.value.add(b"\"");
                (State::InText(Text::default()), 1)
            }
            // Keep one bracket of an object or a list: it shows that the value is neither a string nor a number.
            b'{' | b'[' => {
                self.value.add(b"[");
                (State::InNest(Nest::default()), 0)
            }
            bare if is_bare(bare) => (State::InBare, 0),
            _ => (State::NoMessage, 1),
        };
        self.state = state;
        used
    }

    /// A value has ended.
    fn close(&mut self) {
        self.state = State::After;
        let name = if self.key.cut { None } else { Name::of(&self.key.bytes) };
        let kept = match name {
            Some(Name::Jsonrpc) => &mut self.jsonrpc,
            Some(Name::Id) => &mut self.id,
            Some(Name::Method) => &mut self.method,
            Some(Name::Result) => return self.result = true,
            Some(Name::Error) => return self.error = true,
            Some(Name::Params) | None => return,
        };
        *kept = Some(std::mem::take(&mut self.value));
    }

    /// Ends the line, and returns what is known of it.
    #[must_use]
    pub fn finish(self) -> LineSummary {
        if !matches!(self.state, State::End) {
            return LineSummary::default();
        }
        let seen = |seen: bool| seen.then_some(&b"null"[..]);
        let top = Top {
            jsonrpc: self.jsonrpc.as_ref().map(Token::bytes),
            id: self.id.as_ref().map(Token::bytes),
            method: self.method.as_ref().map(Token::bytes),
            result: seen(self.result),
            error: seen(self.error),
            ..Top::default()
        };
        let mut summary = top.summary();
        // A truncated number is still a number, but a different one.
        if self.id.as_ref().is_some_and(|id| id.cut) {
            summary.id = None;
        }
        summary
    }
}
