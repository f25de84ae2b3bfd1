//! What broker and steward say to each other: one datagram each, some with a file descriptor.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nostray_registry::Process;
use nostray_sys::descriptors::{memory_file, write_to_stderr_at_once};
use nostray_sys::local;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{ChildSettings, OsText};

/// The longest datagram.
const MAX_DATAGRAM: usize = 64 << 10;

/// What a steward is started with. Not on its command line: hosts end processes by what they find there.
#[derive(Debug, Serialize, Deserialize)]
pub struct StewardSetup {
    /// The command of the child.
    pub command: Vec<OsText>,
    /// The name under which the child is shared, if the user gave one.
    pub key: Option<String>,
    /// Sessions of all directories share the child.
    pub any_dir: bool,
    /// Why this is not the child that other sessions of the same command share.
    pub because: Option<String>,
    /// The records of children for other keys that the same broker keeps. What a dead broker or steward has left for this key is looked
    /// for in the others.
    pub beside: HashSet<String>,
    /// How the child is run.
    pub settings: ChildSettings,
}

impl StewardSetup {
    /// Sends it in a file, since a command may be longer than a datagram.
    pub fn send(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let file = memory_file(&serde_json::to_vec(self)?)?;
        send(socket, &(), Some(file.as_fd()))
    }

    /// Receives a setup that [`StewardSetup::send`] has sent.
    pub fn receive(socket: &OwnedFd) -> io::Result<Self> {
        let Received::Message((), Some(file)) = receive(socket) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok(serde_json::from_reader(BufReader::new(File::from(file)))?)
    }
}

/// From the broker to a steward.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromBroker {
    /// A session attaches. Its connection comes with the message.
    Attach {
        /// See [`Attach`](super::Attach).
        host: Option<Process>,
        /// See [`Attach`](super::Attach).
        session: Option<String>,
        /// See [`Attach`](super::Attach).
        labels: BTreeMap<String, String>,
        /// See [`Attach`](super::Attach).
        linger: Duration,
    },
    /// End the child, whichever sessions hold it.
    Stop {
        /// The sessions are to look for another broker at once, not with their next call.
        again: bool,
        /// Why, for the journal.
        why: String,
    },
    /// No other session will come. Leave.
    Leave,
}

/// From a steward to the broker.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToBroker {
    /// The id of the steward's record.
    Named(String),
    /// No session holds the child, and nothing is left of it.
    Idle {
        /// How many sessions have attached so far.
        seen: u64,
    },
}

/// Sends a message, with a file descriptor or without.
pub fn send(socket: BorrowedFd<'_>, message: &impl Serialize, with: Option<BorrowedFd<'_>>) -> io::Result<()> {
    local::send(socket, &serde_json::to_vec(message)?, with)
}

/// What has been received.
#[derive(Debug)]
pub enum Received<T> {
    /// A message, and the file descriptor that came with it.
    Message(T, Option<OwnedFd>),
    /// Nothing is there yet.
    Nothing,
    /// The other side has closed the socket, or has said something that cannot be read.
    Closed,
}

/// Receives a message.
pub fn receive<T: DeserializeOwned>(socket: &OwnedFd) -> Received<T> {
    let mut buffer = vec![0; MAX_DATAGRAM];
    match local::receive(socket.as_fd(), &mut buffer) {
        Ok(None) => Received::Nothing,
        Ok(Some((0, _))) | Err(_) => Received::Closed,
        Ok(Some((length, fd))) => match serde_json::from_slice(&buffer[..length]) {
            Ok(message) => Received::Message(message, fd),
            Err(error) => {
                // Both are the same program, so neither can go on.
                write_to_stderr_at_once(&format!("nostray: broker or steward cannot be understood: {error}\n"));
                Received::Closed
            }
        },
    }
}
