//! Sessions: what ends with a connection, and what survives a reconnect.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::spawn::PenNumber;
use crate::{Registry, reaper};

/// What becomes of a session's children when its last connection is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// They end at once: for a side-car, whose workers no other connection can use.
    CloseOnDisconnect,
    /// They end after this time, unless a new connection comes: for a person who comes back.
    KeepFor(Duration),
}

/// One connection of a session. When the last one of its key is dropped, the children with that session key end, as [`Ending`] says;
/// see [`crate::PenSpecBuilder::session`].
#[derive(Debug)]
pub struct Session {
    key: String,
    ending: Ending,
    /// The process that has connected. A process forked from it has a copy of this value, which does nothing.
    creator: u32,
}

/// How many are connected, and the number of the last change: of all keys, so that a key that is forgotten and comes back has no
/// number again that a timer still waits for.
#[derive(Debug, Default, Clone, Copy)]
struct Connected {
    now: usize,
    change: u64,
}

static CHANGES: AtomicU64 = AtomicU64::new(0);
static CONNECTED: Mutex<Option<HashMap<String, Connected>>> = Mutex::new(None);

fn change(key: &str, by: impl FnOnce(&mut Connected)) -> Connected {
    let mut all = CONNECTED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    let connected = all.entry(key.to_owned()).or_default();
    by(connected);
    connected.change = CHANGES.fetch_add(1, Ordering::Relaxed);
    *connected
}

impl Session {
    /// Adds a connection to the session with this key.
    #[must_use = "the session is over when this is dropped"]
    pub fn connect(key: impl Into<String>, ending: Ending) -> Self {
        let key = key.into();
        change(&key, |connected| connected.now += 1);
        Self { key, ending, creator: std::process::id() }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Ends all that belongs to the session now, also if there are other connections. Returns the names of the children
    /// that did not end.
    pub fn close(self) -> Vec<String> {
        Registry::new().close_session(&self.key)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.creator != std::process::id() {
            return;
        }
        let mut before = PenNumber::next();
        let connected = change(&self.key, |connected| {
            connected.now = connected.now.saturating_sub(1);
            before = PenNumber::next();
        });
        if connected.now > 0 {
            return;
        }
        let kept = match self.ending {
            Ending::CloseOnDisconnect => None,
            Ending::KeepFor(time) => Some(time),
        };
        let key = self.key.clone();
        let close = move || {
            {
                let mut all = CONNECTED.lock().unwrap_or_else(PoisonError::into_inner);
                let all = all.get_or_insert_default();
                let is_back = all.get(&key).is_some_and(|now| now.change != connected.change);
                match (is_back, kept) {
                    (true, Some(_)) => return,
                    // What the old connection had ends all the same; what the new connection has started does not.
                    (true, None) => {}
                    (false, _) => {
                        all.remove(&key);
                        before = PenNumber::next();
                    }
                }
            }
            // It may take seconds, and others wait to be seen off.
            let close = move || drop(Registry::new().close_session_before(&key, Some(before)));
            std::thread::Builder::new().spawn(close).ok();
        };
        // A time that no clock can show is for ever. The drop itself does not wait.
        if let Some(at) = Instant::now().checked_add(kept.unwrap_or_default()) {
            reaper::at(at, Box::new(close));
        }
    }
}
