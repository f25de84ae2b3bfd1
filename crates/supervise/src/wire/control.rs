//! Control lines between a session's front and the steward of its child. They travel among the session's own lines: a line that begins
//! with `!`, which no JSON does, is a control line.

use nostray_registry::Process;
use serde::{Deserialize, Serialize};

use crate::error_text::Outlook;
use crate::machine::Cause;

/// What a front is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToFront {
    /// From the broker: it has handed the connection to this steward, which answers from now on.
    KeptBy(Process),
    /// The session holds the child. With it come the session's ends of two pipes: what is said from now on is said there, since a pipe
    /// costs less than a socket.
    Welcome {
        /// The id of the child's record.
        id: String,
        /// What people call the child.
        name: String,
    },
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
        /// What became of it.
        cause: Cause,
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
    /// No child is started for now: calls that wait for one are refused.
    Refused {
        /// What became of the last child.
        cause: Cause,
        /// The last that the child wrote to its standard error.
        stderr: Vec<String>,
        /// Whether a later call may find a child.
        outlook: Outlook,
    },
    /// Something that the user of a waiting session should know.
    News {
        /// For a person.
        text: String,
    },
    /// The shortcut of this number may begin: nothing more comes this way before.
    ShortcutMayBegin(u64),
    /// It is over, or does not begin: what it has not passed is the front's, and what follows comes this way.
    ShortcutOver(u64),
    /// The broker leaves. The next call starts another one.
    Leaving,
    /// The child never comes back, so the session is over.
    Over {
        /// What to end with.
        code: u8,
        /// How the child ended, if it was not asked to.
        why: Option<Cause>,
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
    /// The front wants to open the shortcut of this number, and says nothing more before. The steward is to say nothing more, either.
    Shortcut(u64),
    /// It is open: the host's streams, and what else is needed, have come over the socket by which the session attached.
    ShortcutBegins(u64),
    /// It is to end.
    EndShortcut(u64),
}

/// A message as a control line.
pub fn control_line(message: &impl Serialize) -> Vec<u8> {
    let mut line = vec![b'!'];
    // Texts and numbers alone, which cannot fail.
    line.extend(serde_json::to_vec(message).unwrap_or_default());
    line.push(b'\n');
    line
}

/// The message of a control line; none if the line is no control line.
#[must_use]
pub fn parse_control<T: serde::de::DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::from_slice(text.strip_prefix(b"!")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_line_is_told_from_a_message() {
        let line = control_line(&ToFront::Up(3));
        assert_eq!(line, b"!{\"up\":3}\n");
        assert_eq!(parse_control(line.trim_ascii_end()), Some(ToFront::Up(3)));
        assert_eq!(parse_control::<ToFront>(b"{\"up\":3}"), None);
        assert_eq!(parse_control::<ToFront>(b"!{\"down\":3}"), None);
    }
}
