//! What a session's front says to the broker and to the steward of a shared child, and what they say to it.
//!
//! A connection begins with one [`Request`] as a line of JSON. From then on it carries the session's own lines; a line that begins
//! with `!`, which no JSON does, is a word between front and steward.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nostray_pen::Ready;
use nostray_registry::Process;
use serde::{Deserialize, Serialize};

/// Raised when fronts, broker and stewards of different versions would misunderstand each other. It is part of the socket's name,
/// so they never meet.
pub const VERSION: u32 = 3;

/// What a connection is for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// A session wants to hold a child.
    Attach(Box<Attach>),
    /// Somebody wants to know how the broker is. Answered with a [`Status`].
    Status,
    /// End all children, and then yourself. Answered with a [`Status`].
    Stop {
        /// Sessions are to attach anew at once, not with their next call.
        again: bool,
    },
}

/// What a broker says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its number.
    pub pid: i32,
    /// The version of the program.
    pub version: String,
    /// How long it has been there, in milliseconds.
    pub age: u64,
    /// The children that it has, by the names that they have on record.
    pub children: Vec<String>,
    /// It is about to leave.
    pub stopping: bool,
}

/// A text that need not be UTF-8: each byte is one character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub OsString);

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        let bytes = bytes.ok_or_else(|| serde::de::Error::custom("a character that is no byte"))?;
        Ok(Self(OsString::from_vec(bytes)))
    }
}

impl From<&OsStr> for Bytes {
    fn from(text: &OsStr) -> Self {
        Self(text.to_owned())
    }
}

/// What a session wants to hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attach {
    /// The command and its arguments.
    pub command: Vec<Bytes>,
    /// Where it is to run.
    pub cwd: Bytes,
    /// It may run anywhere: sessions of other directories share it.
    pub any_dir: bool,
    /// With which environment.
    pub environment: Vec<(Bytes, Bytes)>,
    /// The name under which it is shared, in place of all that.
    pub key: Option<String>,
    /// The variables that count, if the user has chosen them.
    pub counted: Option<Vec<String>>,
    /// What it must have been told before, if the child that everybody shares was told something else.
    pub variant: Option<String>,
    /// Why that is so, for the journal.
    pub because: Option<String>,
    /// Whose session it is, if that can be seen: without that one it holds nothing, even if it is stopped itself.
    pub host: Option<Process>,
    /// The session, as the user named it.
    pub session: Option<String>,
    /// What the user attached to it.
    pub labels: BTreeMap<String, String>,
    /// How long the child is kept after this session, if it was the last, in milliseconds.
    pub linger: u64,
    /// How the child is kept.
    pub wish: Wish,
}

/// How a shared child is kept: as the first one who holds it wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// From the end of its input to SIGTERM, in milliseconds.
    pub eof_grace: u64,
    /// From SIGTERM to SIGKILL.
    pub term_grace: u64,
    /// In a pid namespace.
    pub isolate: bool,
    /// Started again when it crashes.
    pub respawn: bool,
    /// The pauses before that, as a person writes them.
    pub backoff: String,
    /// How many crashes in how long, likewise.
    pub max_failures: String,
    /// In milliseconds, like all times here.
    pub hibernate: Option<u64>,
    /// See [`crate::Policy`].
    pub max_age: Option<u64>,
    /// See [`crate::Policy`].
    pub start_timeout: Option<u64>,
    /// Started for the first call.
    pub on_demand: bool,
    /// In bytes.
    pub max_memory: Option<u64>,
    /// In bytes.
    pub max_line: usize,
    /// Not MCP, but any other JSON-RPC.
    pub plain: bool,
    /// Whether any session may answer what the child asks; the newest does.
    pub reverse_newest: bool,
    /// Where a message says whose it is: the names that lead there, for each such place.
    pub route_by: Vec<Vec<String>>,
    /// The slot that the child needs.
    #[serde(default)]
    pub slot: Option<SlotWish>,
    /// The child is a daemon, which its sessions hold and do not talk to.
    #[serde(default)]
    pub daemon: Option<DaemonWish>,
}

/// When a daemon is ready, as the first one who holds it wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonWish {
    /// By what it is noticed.
    pub ready: ReadyWish,
    /// When it is too late for it, in milliseconds.
    pub ready_timeout: Option<u64>,
}

/// A definition of [ready](Ready), as a user writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "they are those of `Ready`")]
pub enum ReadyWish {
    Started,
    Line(String),
    Port(String),
    File(Bytes),
    Command(Bytes),
    Notify,
}

impl ReadyWish {
    /// Fails only for what no user could have written.
    pub fn definition(self) -> Result<Ready, String> {
        Ok(match self {
            Self::Started => Ready::Started,
            Self::Line(pattern) => Ready::Line(pattern.parse()?),
            Self::Port(port) => Ready::Port(port.parse()?),
            Self::File(path) => Ready::File(path.0.into()),
            Self::Command(command) => Ready::Command(command.0),
            Self::Notify => Ready::Notify,
        })
    }
}

/// What the key of a child begins with that is shared because it holds a slot.
pub const SLOT_KEY: &str = "slot:";

/// A slot for a shared child, as the first one who holds it wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotWish {
    /// Which.
    pub name: String,
    /// How long to wait for it, in milliseconds.
    pub wait_timeout: Option<u64>,
}

/// What a front is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToFront {
    /// From the broker: it has handed the connection to this steward, who answers from now on.
    KeptBy(Process),
    /// The session holds the child.
    Welcome,
    /// It does not, and why.
    No {
        /// For a person.
        why: String,
        /// It never will: a child of its own would not be what the user wants.
        for_good: bool,
    },
    /// A child is there and can be talked to.
    Up(u64),
    /// It is not there any more.
    Down {
        /// Why.
        cause: String,
        /// The last that it wrote to its standard error.
        stderr: Vec<String>,
        /// It was put to rest, and nothing that was asked of it is lost. In any case, what it has not got comes back.
        orderly: bool,
        /// No other one follows, and the session ends.
        for_good: bool,
    },
    /// The next line is one of this session's that no child has read. Before [`ToFront::Down`], it had been given
    /// to the child.
    Back,
    /// All such lines have come back.
    Settled,
    /// This session needs a child that was told something else.
    Elsewhere {
        /// What.
        variant: String,
        /// Why, for a person.
        why: String,
    },
    /// Whatever waits for a child is in vain, for now.
    Refused {
        /// Why.
        cause: String,
        /// The last that the child wrote to its standard error.
        stderr: Vec<String>,
    },
    /// Something that whoever waits should know.
    News {
        /// For a person.
        text: String,
    },
    /// The broker leaves. The next call starts another one.
    Leaving,
    /// The child never comes back, so the session is over.
    Over {
        /// What to end with.
        code: u8,
        /// How the child ended, if it was not asked to.
        why: Option<String>,
    },
}

/// What a steward is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToSteward {
    /// It is known that the last child is not there; what follows is for the next one.
    Heard,
    /// The child was told all that it must know of this session; what follows is new.
    Told,
    /// Something waits for a child.
    Wake,
}

/// A word as a line.
pub fn line(word: &impl Serialize) -> Vec<u8> {
    let mut line = vec![b'!'];
    // It is made of texts and numbers alone, which cannot fail.
    line.extend(serde_json::to_vec(word).unwrap_or_default());
    line.push(b'\n');
    line
}

/// What a line says, if it is a word.
#[must_use]
pub fn word<T: serde::de::DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::from_slice(text.strip_prefix(b"!")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_text_comes_through() {
        let all = Bytes(OsString::from_vec((1..=255).collect()));
        let json = serde_json::to_string(&all).expect("json");
        assert_eq!(serde_json::from_str::<Bytes>(&json).expect("back"), all);
        assert!(serde_json::from_str::<Bytes>("\"\u{100}\"").is_err());
    }

    #[test]
    fn a_word_is_told_from_a_message() {
        let line = line(&ToFront::Up(3));
        assert_eq!(line, b"!{\"up\":3}\n");
        assert_eq!(word(line.trim_ascii_end()), Some(ToFront::Up(3)));
        assert_eq!(word::<ToFront>(b"{\"up\":3}"), None);
        assert_eq!(word::<ToFront>(b"!{\"down\":3}"), None);
    }
}
