//! What broker and stewards say to each other, a message each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_registry::Process;
use nostray_supervise::link::{Bytes, Wish};
use nostray_sys::descriptors::memory_file;
use nostray_sys::local;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a steward is started with. Not on its command line: hosts end processes by what they find there.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Charge {
    /// The command of the child.
    pub(crate) command: Vec<Bytes>,
    /// The name under which its child is shared, if the user gave one.
    pub(crate) key: Option<String>,
    /// Sessions of all directories share it.
    pub(crate) any_dir: bool,
    /// Why it is not the child that others share.
    pub(crate) because: Option<String>,
    /// How the child is kept.
    pub(crate) wish: Wish,
}

impl Charge {
    /// Sends it in a file, since a command may be longer than a message.
    pub(crate) fn send(&self, socket: BorrowedFd<'_>) -> std::io::Result<()> {
        let file = memory_file(&serde_json::to_vec(self)?)?;
        send(socket, &(), Some(file.as_fd()))
    }

    /// The one that was sent.
    pub(crate) fn receive(socket: &OwnedFd) -> std::io::Result<Self> {
        let Came::Word((), Some(file)) = receive(socket) else { return Err(std::io::ErrorKind::InvalidData.into()) };
        Ok(serde_json::from_reader(BufReader::new(File::from(file)))?)
    }
}

/// To a steward.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToKeeper {
    /// This one holds the child from now on. Its connection comes with it.
    Lease {
        host: Option<Process>,
        session: Option<String>,
        labels: BTreeMap<String, String>,
        /// In milliseconds.
        linger: u64,
    },
    /// End the child, whoever holds it.
    Stop {
        /// They are to look for another broker at once, and not with their next call.
        again: bool,
        /// Why, for the journal.
        why: String,
    },
    /// Nobody else will come. Leave.
    Leave,
}

/// From a steward.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromKeeper {
    /// What it is called on record.
    Named(String),
    /// Nobody holds the child, and nothing is left of it. So many leases have come so far.
    Idle { seen: u64 },
}

/// No message is longer.
const LONGEST: usize = 64 << 10;

/// Sends one, with a connection or without.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    word: &impl Serialize,
    with: Option<BorrowedFd<'_>>,
) -> std::io::Result<()> {
    local::send(socket, &serde_json::to_vec(word)?, with)
}

/// What came.
#[derive(Debug)]
pub(crate) enum Came<T> {
    Word(T, Option<OwnedFd>),
    Nothing,
    /// The other side is gone.
    End,
}

/// Receives one.
pub(crate) fn receive<T: DeserializeOwned>(socket: &OwnedFd) -> Came<T> {
    let mut buffer = vec![0; LONGEST];
    match local::receive(socket.as_fd(), &mut buffer) {
        Ok(None) => Came::Nothing,
        Ok(Some((0, _))) | Err(_) => Came::End,
        Ok(Some((length, fd))) => match serde_json::from_slice(&buffer[..length]) {
            Ok(word) => Came::Word(word, fd),
            Err(_) => Came::Nothing,
        },
    }
}
