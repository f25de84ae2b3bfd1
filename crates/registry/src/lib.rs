//! Every pen is on record from before its child starts until after its tree is empty, so that a person can see all of them
//! and a sweep acts on proof.
//!
//! One small file for each pen, written atomically, beside a lock that front, spare and guard hold for as long as any of them
//! lives. The kernel drops the lock at their death, so *owner alive* is a fact and not a guess. There is no server, no
//! contention between pens, and nothing to repair after a crash.
#![doc = include_str!("../DESIGN.md")]

mod census;
pub mod files;
mod follow;
mod holder;
mod journal;
mod name;
#[cfg_attr(windows, allow(dead_code, reason = "supervised children alone write there"))]
mod output;
mod owner;
mod place;
mod policy;
mod record;
mod traffic;
mod used_by;
mod witness;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

// What is per platform has the same names on each, so the rest of this crate does not ask where it is.
#[cfg(target_os = "linux")]
use linux::{debris, ending, folders, predecessors, survivors, sweep};
#[cfg(windows)]
use windows::{ending, folders, survivors, sweep};

pub use census::{Census, Pen, Tally, census};
pub use follow::{Follower, Followers, JournalPosition};
pub use holder::{Holder, sweep_slot_here};
pub use journal::{Cause, Entry, Journal, Story};
#[cfg(target_os = "linux")]
pub use linux::{
    Predecessors, SeriesKeeper, StatusEvent, StatusLines, StatusWitness, WAS_STOPPED, end_holder_apart,
    end_stopped_steward, sweep_slot_apart, why_no_world,
};
pub use name::short_name;
pub use nostray_sys::secrets::{describe, masked, masked_text};
pub use output::{Output, Printed};
pub use place::Place;
pub use policy::{Outcome, Policy, Swept};
pub use record::{Labels, LastExit, Lease, Process, Record, Shared, State, Unreadable, is_on_record};
pub use survivors::{Evidence, Found};
pub use sweep::{forget, sweep, sweep_pen};
pub use traffic::{BOUNDS, Method, MethodSeen, Traffic, TrafficReader, TrafficSeen};
pub use used_by::{Hosts, UsedBy};
#[cfg(windows)]
pub use windows::why_no_world;
pub use witness::{RecordDetails, RecordKeeper, SAYS_STOPPING};

/// What can go wrong with the registry. None of it keeps a child from being contained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nowhere to keep records.
    #[error("no directory for records: {why}; set {} to a directory of your own", folders::VARIABLE)]
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

impl Error {
    fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}
