//! A slot is a name that at most one live tree holds.
//!
//! Ownership is a kernel lock (`lock`), which is released when the tree's guard ends, and that is after the tree is empty. A claim that
//! finds the slot taken waits in the `queue`, decides (`decide`) what to do from what it sees of the holder, and starts nothing before the
//! old tree is empty: not when the holder was asked to end, and not when its files are gone.
#![doc = include_str!("../DESIGN.md")]

mod claim;
mod decide;
mod enter;
mod held_slot;
mod history;
mod lock;
mod look;
mod name;
mod queue;
mod request;

use std::path::{Path, PathBuf};

pub use claim::Claim;
pub use enter::{Entered, enter, run};
pub use held_slot::{HeldSlot, SlotWitness};
pub use history::{HolderEntry, Moment};
pub use look::{Slot, is_held_around_us, slot, slots};
pub use name::Name;
pub use queue::{Kind, Waiter};
pub use request::{IfTaken, Refusal, SlotRequest, Step};

/// If a slot changed hands more often than this, no holder is asked to hand over, unless a user says otherwise.
pub const MAX_HANDOVERS: nostray_pen::Rate =
    nostray_pen::Rate { times: 3, within: std::time::Duration::from_secs(60) };

/// Exit code of a command that did not get its slot: try again later, as `sysexits.h` has it.
pub const NOT_NOW: u8 = 75;

/// What can go wrong with slots.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nowhere to keep them.
    #[error(transparent)]
    Place(#[from] nostray_registry::Error),
    /// The system refused.
    #[error("{path}: {error}; a slot needs a directory in which files can be written and locked", path = path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
    /// The file system gives one lock to two processes.
    #[error(
        "{path}: locks do not work on this file system ({why}), so that two could hold one slot; \
         set XDG_STATE_HOME to a directory on a local disk", path = path.display()
    )]
    NoLocks {
        /// Where.
        path: PathBuf,
        /// How that shows.
        why: String,
    },
    /// Processes cannot be identified.
    #[error("a slot needs a /proc by which its holder is known: {0}")]
    NoProc(String),
}

impl Error {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}

/// The directory of a slot.
fn place_of(name: &Name) -> Result<nostray_registry::Place, Error> {
    Ok(all()?.below(name.as_str())?)
}

/// The directory of all slots.
fn all() -> Result<nostray_registry::Place, Error> {
    Ok(nostray_registry::Place::that_lasts()?.below("slots")?)
}
