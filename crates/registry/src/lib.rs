//! Every pen is on record from before its child starts until after its tree is empty, so that a person can see all of them
//! and a sweep acts on proof.
//!
//! One small file for each pen, written atomically, beside a lock that front, spare and guard hold for as long as any of them
//! lives. The kernel drops the lock at their death, so *owner alive* is a fact and not a guess. There is no server, no
//! contention between pens, and nothing to repair after a crash.
#![doc = include_str!("../DESIGN.md")]

mod census;
mod debris;
mod ending;
pub mod files;
mod follow;
mod journal;
mod name;
mod output;
mod owner;
mod place;
mod policy;
mod predecessors;
mod record;
mod series;
mod slots;
mod status;
mod stopped;
mod survivors;
mod sweep;
mod traffic;
mod used_by;
mod witness;

pub use census::{Census, Pen, Tally, census};
pub use follow::{Follower, Followers, JournalPosition};
pub use journal::{Cause, Entry, Journal, Story};
pub use name::short_name;
pub use nostray_sys::secrets::{describe, masked, masked_text};
pub use output::{Output, Printed};
pub use place::Place;
pub use policy::{Outcome, Policy, Swept};
pub use predecessors::Predecessors;
pub use record::{Labels, LastExit, Lease, Process, Record, Shared, State, Unreadable};
pub use series::SeriesKeeper;
pub use slots::{Holder, end_holder_apart, sweep_slot_apart, sweep_slot_here};
pub use status::{StatusEvent, StatusLines, StatusWitness};
pub use stopped::{WAS_STOPPED, end_stopped_steward};
pub use survivors::{Evidence, Found};
pub use sweep::{forget, is_on_record, sweep, sweep_pen};
pub use traffic::{BOUNDS, Method, MethodSeen, Traffic, TrafficReader, TrafficSeen};
pub use used_by::{Hosts, UsedBy};
pub use witness::{RecordDetails, RecordKeeper, SAYS_STOPPING};

/// What can go wrong with the registry. None of it keeps a child from being contained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nowhere to keep records.
    #[error("no directory for records: {why}; set XDG_RUNTIME_DIR to a directory of your own")]
    NoPlace {
        /// What was tried, and why not.
        why: String,
    },
    /// Processes cannot be told apart for longer than their numbers last.
    #[error("{why}")]
    NoProc {
        /// What is missing.
        why: String,
    },
    /// The system refused.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// Where.
        path: std::path::PathBuf,
        /// What it said.
        error: std::io::Error,
    },
}

/// Why [`nostray_sys::identity::World::current`] is not known.
#[must_use]
pub fn why_no_world() -> String {
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    match std::fs::File::open(BOOT) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => format!("{BOOT}: {error}"),
        Err(_) if std::path::Path::new("/proc/self/stat").exists() => {
            format!("{BOOT} is not there: mount /proc without subset=pid, or this run of the machine has no name")
        }
        Err(_) => "/proc is not mounted".to_owned(),
        Ok(_) => "/proc/self/ns/pid cannot be read".to_owned(),
    }
}

impl Error {
    fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}
