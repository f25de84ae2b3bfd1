//! The queue of a slot: a file for each waiter, locked for as long as it waits. The file's name has the time of its arrival, so that the
//! order needs no process that keeps it, and no lock that a stopped process could hold.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use nostray_registry::{Place, Process, files};
use nostray_sys::identity::{Identity, World};
use nostray_sys::proc::Stat;
use nostray_sys::replace::rename_over;
use serde::{Deserialize, Serialize};

use crate::{Error, ticket_file};

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Until it is free.
    Wait,
    /// To replace the holder.
    Replace,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Self::Wait => 'w',
            Self::Replace => 'r',
        }
    }
}

/// What is known of a waiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The name of the pen that it will be.
    pub id: String,
    /// Its process.
    pub process: Process,
    /// Its command line, with secrets masked.
    pub command: Vec<String>,
    /// The session that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Since when, in milliseconds of Unix time. For people.
    pub since: u64,
    boot: String,
    pid_namespace: u64,
}

impl Waiter {
    pub(crate) fn new(id: String, command: Vec<String>, session: Option<String>, since: u64) -> Option<Self> {
        let process = Process::of(nostray_sys::process::getpid())?;
        let World { boot, pid_namespace } = World::current()?;
        Some(Self { id, process, command, session, since, boot, pid_namespace })
    }

    /// Its identity, if its pid is of this boot and this pid namespace.
    fn identity(&self) -> Option<Identity> {
        let world = World { boot: self.boot.clone(), pid_namespace: self.pid_namespace };
        self.process.identity().filter(|_| World::current() == Some(world))
    }
}

/// A waiter, as other claims see it.
#[derive(Debug, Clone)]
pub(crate) struct QueueEntry {
    /// Files are ordered by it.
    pub(crate) turn: Turn,
    pub(crate) kind: Kind,
    pub(crate) waiter: Waiter,
}

/// Since when a waiter waits, in nanoseconds since boot; and its id, for two that came at once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    since: u128,
    id: String,
}

impl Turn {
    /// Since when, in nanoseconds since the machine was started.
    pub(crate) fn since(&self) -> u64 {
        u64::try_from(self.since).unwrap_or(u64::MAX)
    }
}

impl QueueEntry {
    /// A stopped waiter does not take its turn, so no other waiter waits for it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.waiter.identity().and_then(|process| Stat::of(process.pid)).is_some_and(|stat| stat.is_stopped())
    }

    /// The identity of its process.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.waiter.identity()
    }

    /// Makes it look again.
    pub(crate) fn wake(&self) {
        if let Some(process) = self.waiter.identity() {
            ticket_file::wake(process);
        }
    }
}

/// A claim's own place in the queue. Given up when it is dropped, or when this process ends.
#[derive(Debug)]
pub(crate) struct Ticket {
    place: Place,
    pub(crate) turn: Turn,
    kind: Kind,
    path: PathBuf,
    _lock: File,
}

impl Ticket {
    pub(crate) fn draw(place: &Place, kind: Kind, waiter: &Waiter) -> Result<Self, Error> {
        let turn = Turn { since: nostray_sys::clock::since_boot().as_nanos(), id: waiter.id.clone() };
        let path = path_of(place, kind, &turn);
        let text = serde_json::to_vec(waiter).map_err(|error| Error::io(&path)(error.into()))?;
        let lock = ticket_file::make(place, &waiter.id, &path, &text)?;
        Ok(Self { place: place.clone(), turn, kind, path, _lock: lock })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// From now on it only waits. It keeps its place.
    pub(crate) fn downgrade_to_wait(&mut self) {
        if self.kind == Kind::Wait {
            return;
        }
        let path = path_of(&self.place, Kind::Wait, &self.turn);
        if rename_over(&self.path, &path).is_ok() {
            (self.kind, self.path) = (Kind::Wait, path);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        ticket_file::remove(&self.place, &self.turn.id, &self.path);
    }
}

fn path_of(place: &Place, kind: Kind, turn: &Turn) -> PathBuf {
    place.path().join(format!("{}-{:024}-{}.waits", kind.letter(), turn.since, turn.id))
}

/// All waiters, in the order in which they came. Removes the files of dead ones.
pub(crate) fn waiters(place: &Place) -> Vec<QueueEntry> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(place.path()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(ticket_file::may_be_left) {
            remove_if_dead(&entry);
        }
        let Some((kind, turn)) = name.to_str().and_then(parse) else { continue };
        if let Some(text) = ticket_file::read(place, &turn.id, &entry.path(), MAX_TICKET_SIZE)
            && let Ok(waiter) = serde_json::from_slice(&text)
        {
            all.push(QueueEntry { turn, kind, waiter });
        }
    }
    all.sort_by(|a, b| a.turn.cmp(&b.turn));
    all
}

const MAX_TICKET_SIZE: u64 = 64 << 10;

/// Removes the file of a process that was killed while it drew a ticket. A young file may be just about to be locked.
fn remove_if_dead(entry: &std::fs::DirEntry) {
    const MINUTE: Duration = Duration::from_secs(60);
    let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
    if age.is_some_and(|age| age > MINUTE)
        && files::to_read(&entry.path()).is_ok_and(|file| file.try_lock_shared().is_ok())
    {
        std::fs::remove_file(entry.path()).ok();
    }
}

fn parse(name: &str) -> Option<(Kind, Turn)> {
    let mut parts = name.strip_suffix(".waits")?.splitn(3, '-');
    let kind = match parts.next()? {
        "w" => Kind::Wait,
        "r" => Kind::Replace,
        _ => return None,
    };
    let since = parts.next()?.parse().ok()?;
    Some((kind, Turn { since, id: parts.next()?.to_owned() }))
}
