//! What broker and stewards say to each other, a message each.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_registry::Process;
use nostray_supervise::link::Wish;
use nostray_sys::local;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a steward is started with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Charge {
    /// The name under which its child is shared, if the user gave one.
    pub(crate) key: Option<String>,
    /// Why it is not the child that others share.
    pub(crate) because: Option<String>,
    /// How the child is kept.
    pub(crate) wish: Wish,
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
