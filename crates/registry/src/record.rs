//! The record of one pen.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

#[cfg(target_os = "linux")]
use nostray_pen::Takes;
use nostray_sys::files::is_own_file;
use nostray_sys::identity::{Identity, World};
use nostray_sys::proc::StartTime;
use nostray_sys::process::Pid;
use serde::{Deserialize, Serialize};

use crate::{Place, files};
use nostray_sys::secrets::masked_text;

/// The format of the file. Raised when an older reader would misunderstand it.
pub(crate) const VERSION: u32 = 1;
/// A larger file is no record of ours. That of a shared child names each of its sessions, with the labels that a user gave it.
const MAX_RECORD_SIZE: u64 = 4 << 20;

/// What a user attached to a pen.
pub type Labels = BTreeMap<String, String>;

/// A process as it is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it started, in kernel ticks since boot.
    pub start: u64,
}

impl Process {
    /// The process with this number, as it is now.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        Identity::of(pid).map(Self::from)
    }

    /// Who that is, or was, in the world of the record.
    #[must_use]
    pub fn identity(self) -> Option<Identity> {
        let pid = if self.pid > 0 { Pid::from_raw(self.pid) } else { None };
        pid.map(|pid| Identity { pid, start: StartTime(self.start) })
    }
}

impl From<Identity> for Process {
    fn from(identity: Identity) -> Self {
        Self { pid: identity.pid.as_raw_nonzero().get(), start: identity.start.0 }
    }
}

/// How far a pen has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum State {
    /// The child is being started.
    Starting,
    /// The child runs.
    Ready,
    /// The tree is being torn down.
    Stopping {
        /// Why.
        reason: String,
    },
    /// No child is there, and the next call starts one.
    Asleep,
    /// The child ended by itself, and is started again in a while.
    BackingOff {
        /// How it ended.
        cause: String,
    },
    /// It failed too often, and calls are answered with an error.
    Tripped {
        /// How it ended the last time.
        cause: String,
    },
}

impl State {
    /// A reason may quote what a child has said.
    pub(crate) fn without_secrets(self) -> Self {
        match self {
            Self::Stopping { reason } => Self::Stopping { reason: masked_text(&reason) },
            Self::BackingOff { cause } => Self::BackingOff { cause: masked_text(&cause) },
            Self::Tripped { cause } => Self::Tripped { cause: masked_text(&cause) },
            Self::Starting | Self::Ready | Self::Asleep => self,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping { .. } => "stopping",
            Self::Asleep => "asleep",
            Self::BackingOff { .. } => "backing-off",
            Self::Tripped { .. } => "tripped",
        }
    }
}

/// What is known of a pen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The format of this file.
    pub version: u32,
    /// The pen's name.
    pub id: String,
    /// How far it has come.
    pub state: State,
    /// Since when, in milliseconds of Unix time. For people: nothing is decided by it.
    pub since: u64,
    /// When it was started, in milliseconds of Unix time. For people, too.
    pub started: u64,
    /// The command line, with secrets masked.
    pub command: Vec<String>,
    /// The directory that it was started in.
    pub cwd: String,
    /// The session that it belongs to, as the user named it.
    pub session: Option<String>,
    /// What the user attached.
    #[serde(default)]
    pub labels: Labels,
    /// The run of the machine that the numbers below belong to.
    pub boot: String,
    /// The pid namespace that they belong to.
    pub pid_namespace: u64,
    /// Who started the front, if that could be seen.
    pub host: Option<Process>,
    /// nostray's own processes.
    pub front: Process,
    /// The process that takes over when the guard is killed.
    pub spare: Option<Process>,
    /// The process that keeps the tree.
    pub guard: Option<Process>,
    /// The child itself.
    pub child: Option<Process>,
    /// The processes above the front, nearest first: orphans of this pen are handed to one of them.
    #[serde(default)]
    pub ancestors: Vec<Process>,
    /// The session (as the kernel has them) that the front is in; zero if that is outside of its pid namespace. A process of the pen is in
    /// this session or in a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<i32>,
    /// The control group that the front was started in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<String>,
    /// Written by a sweep: all its keepers are dead, and these processes may be of it or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Process>,
    /// What holds the tree together: `cgroup`, `pid-namespace` or `subreaper`.
    pub tier: String,
    /// The folder of its control group, where there is one.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// From the end of input to SIGTERM, in milliseconds.
    pub eof_grace: u64,
    /// From SIGTERM to SIGKILL, in milliseconds.
    pub term_grace: u64,
    /// How many children there have been, where one is started after the other. Each has a record of its own meanwhile, whose
    /// id begins with this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// How the child says that it is doing, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Whether its keepers take requests as queued signals. Those of older versions do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// Whether its child bears a limit with its name, and so all that the child has started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limited: bool,
    /// The slot that it holds, or waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Its holders, if it is a shared child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
    /// The file descriptor of the front under which it counts what passes: see [`crate::TrafficReader`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<i32>,
    /// How the last of several children ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<LastExit>,
    /// The bytes of memory that the child used before it was put to sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slept_with: Option<u64>,
}

/// How a child ended that was followed, or may be followed, by another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastExit {
    /// In milliseconds of Unix time. For people.
    pub time: u64,
    /// How, in words.
    pub how: String,
}

/// What is known of a shared child.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// The name under which it is shared, if the user gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Sessions of all directories share it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_dir: bool,
    /// Why it is not the child that other sessions of its key share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Its holders.
    pub leases: Vec<Lease>,
}

/// One holder of a shared child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The front of the session.
    pub front: Process,
    /// The session, as the user named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What the user attached to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// Since when, in milliseconds of Unix time. For people.
    pub since: u64,
}

impl Lease {
    /// A lease that begins now.
    #[must_use]
    pub fn new(front: Process, session: Option<String>, labels: Labels) -> Self {
        Self { front, session, labels, since: crate::journal::now() }
    }
}

/// Why a file in the place of a record is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// It vanished meanwhile: its pen has ended.
    Gone,
    /// Written by another version of nostray, which alone understands it.
    OtherVersion(u32),
    /// Torn, or written by something else.
    Damaged(String),
    /// Not a file of ours: a link, another user's, too large.
    NotOurs(String),
}

impl Record {
    /// Whether it is a shared child that runs without a holder: it is kept for the time of `--linger`.
    #[must_use]
    pub fn is_lingering(&self) -> bool {
        self.state == State::Ready && self.shared.as_ref().is_some_and(|shared| shared.leases.is_empty())
    }

    /// The world that its numbers belong to.
    #[must_use]
    pub fn world(&self) -> World {
        World { boot: self.boot.clone(), pid_namespace: self.pid_namespace }
    }

    /// nostray's own processes, the innermost first.
    #[must_use]
    pub fn keepers(&self) -> Vec<Identity> {
        [self.guard, self.spare, Some(self.front)].into_iter().flatten().filter_map(Process::identity).collect()
    }

    /// From SIGTERM to SIGKILL. A grace that no clock can measure is cut to a year.
    pub(crate) fn promised_grace(&self) -> Duration {
        Duration::from_millis(self.term_grace).min(Duration::from_secs(366 * 24 * 3600))
    }

    /// From the end of its input to SIGTERM, cut in the same way.
    #[cfg(windows)]
    pub(crate) fn eof_grace(&self) -> Duration {
        Duration::from_millis(self.eof_grace).min(Duration::from_secs(366 * 24 * 3600))
    }

    /// The form in which its keepers take requests.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn takes(&self) -> Takes {
        if self.queued { Takes::Queued } else { Takes::Terms }
    }

    /// Writes it atomically: a reader sees the old record or the new one.
    pub(crate) fn write(&self, place: &Place) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        files::replace(&path(place, &self.id), &place.file(&format!("{}.new", self.id)), &text)
    }

    /// Reads one. Nothing is believed that is not whole, of this version, and ours.
    pub(crate) fn read(path: &Path) -> Result<Self, Unreadable> {
        let text = read_own_file(path)?;
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let damaged = |error: serde_json::Error| Unreadable::Damaged(error.to_string());
        let Versioned { version } = serde_json::from_slice(&text).map_err(damaged)?;
        if version != VERSION {
            return Err(Unreadable::OtherVersion(version));
        }
        let record: Self = serde_json::from_slice(&text).map_err(damaged)?;
        if path.file_stem().is_none_or(|stem| stem != record.id.as_str()) {
            return Err(Unreadable::Damaged("bears the name of another pen".to_owned()));
        }
        Ok(record)
    }
}

fn read_own_file(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let file = files::to_read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unreadable::Gone,
        _ => Unreadable::NotOurs(error.to_string()),
    })?;
    let found = file.metadata().map_err(|error| Unreadable::NotOurs(error.to_string()))?;
    if !is_own_file(&file).unwrap_or(false) {
        return Err(Unreadable::NotOurs("belongs to another user".to_owned()));
    }
    if found.len() > MAX_RECORD_SIZE {
        return Err(Unreadable::NotOurs("is far too large".to_owned()));
    }
    files::read(&file, MAX_RECORD_SIZE).map_err(|error| Unreadable::Damaged(error.to_string()))
}

/// Where the record of a pen is.
pub(crate) fn path(place: &Place, id: &str) -> std::path::PathBuf {
    place.file(&format!("{id}.json"))
}

/// Whether something may be left of a pen: it is on record until its tree is empty.
#[must_use]
pub fn is_on_record(place: &Place, id: &str) -> bool {
    path(place, id).exists()
}

/// Where its lock is. Not the record itself: that is replaced by another file whenever it changes.
pub(crate) fn lock_path(place: &Place, id: &str) -> std::path::PathBuf {
    place.file(&format!("{id}.lock"))
}

/// The ids of the pens on record.
pub(crate) fn ids(place: &Place) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(place.path())? {
        let name = entry?.file_name();
        if let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) {
            ids.push(id.to_owned());
        }
    }
    ids.sort();
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Record {
        let process = |pid| Process { pid, start: 4711 };
        Record {
            version: VERSION,
            id: "k7f39q2x".to_owned(),
            state: State::Stopping { reason: "stdin was closed".to_owned() },
            since: 1,
            started: 1,
            command: vec!["npx".to_owned(), "-y".to_owned()],
            cwd: "/".to_owned(),
            session: Some("s".to_owned()),
            labels: Labels::from([("a".to_owned(), "b".to_owned())]),
            boot: "b".to_owned(),
            pid_namespace: 1,
            host: Some(process(10)),
            front: process(11),
            spare: Some(process(12)),
            guard: Some(process(13)),
            child: Some(process(14)),
            ancestors: vec![process(10), process(1)],
            sid: Some(10),
            around: Some("/x".to_owned()),
            candidates: vec![process(16)],
            tier: "subreaper".to_owned(),
            cgroup: None,
            eof_grace: 2000,
            term_grace: 5000,
            generation: Some(3),
            status: None,
            queued: true,
            limited: true,
            slot: Some("db".to_owned()),
            shared: Some(Shared {
                key: Some("k".to_owned()),
                any_dir: true,
                because: None,
                leases: vec![Lease { front: process(15), session: None, labels: Labels::new(), since: 2 }],
            }),
            traffic: Some(9),
            last_exit: Some(LastExit { time: 1, how: "exited with 1".to_owned() }),
            slept_with: Some(1 << 20),
        }
    }

    #[test]
    fn the_record_of_a_child_with_thousands_of_sessions_is_read() {
        let folder = std::env::temp_dir().join(format!("nostray-record-{}", nostray_sys::process::random()));
        let place = Place::at(&folder).expect("place");
        let mut record = example();
        let leases = (1..=2048).map(|pid| {
            let labels = Labels::from([("project".to_owned(), "a name that a user gave".repeat(4))]);
            Lease::new(
                Process { pid, start: u64::MAX },
                Some("0f8fad5b-d9cb-469f-a165-70867728950e".to_owned()),
                labels,
            )
        });
        record.shared = Some(Shared { leases: leases.collect(), ..Shared::default() });
        record.write(&place).expect("write");
        assert_eq!(Record::read(&path(&place, &record.id)), Ok(record));
        std::fs::remove_dir_all(folder).expect("remove");
    }

    /// Cut at every byte, and with every single bit flipped: it is refused, or it is a record; nothing panics, and no process
    /// number comes out that is not positive.
    #[test]
    fn every_cut_and_every_flipped_bit_is_refused_or_harmless() {
        let folder = std::env::temp_dir().join(format!("nostray-record-{}", nostray_sys::process::random()));
        let place = Place::at(&folder).expect("place");
        let record = example();
        record.write(&place).expect("write");
        let file = path(&place, &record.id);
        assert_eq!(Record::read(&file), Ok(record.clone()));
        let whole = std::fs::read(&file).expect("read");
        for end in 0..whole.len() - 2 {
            std::fs::write(&file, &whole[..end]).expect("write");
            assert!(matches!(Record::read(&file), Err(Unreadable::Damaged(_))), "cut at {end}");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&file, &flipped).expect("write");
            if let Ok(read) = Record::read(&file) {
                assert_eq!((read.version, read.id.as_str()), (VERSION, record.id.as_str()), "bit {bit}");
                assert!(read.keepers().iter().all(|keeper| keeper.pid.as_raw_nonzero().get() > 0), "bit {bit}");
            }
        }
        std::fs::remove_dir_all(folder).expect("remove");
    }
}
