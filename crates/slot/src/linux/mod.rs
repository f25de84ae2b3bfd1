//! Slots on Linux.

pub(crate) mod claim;
pub(crate) mod decide;
pub(crate) mod enter;
pub(crate) mod held_slot;
pub(crate) mod history;
pub(crate) mod lock;
pub(crate) mod look;
pub(crate) mod queue;
pub(crate) mod request;

use std::path::{Path, PathBuf};

use crate::Name;

pub use claim::Claim;
pub use enter::{Entered, enter, run};
pub use held_slot::{HeldSlot, SlotWitness};
pub use history::{HolderEntry, Moment};
pub use look::{Slot, is_held_around_us, slot, slots};
pub use queue::{Kind, Waiter};
pub use request::{IfTaken, Refusal, SlotRequest, Step};

/// If a slot changed hands more often than this, no holder is asked to hand over, unless a user says otherwise.
pub const MAX_HANDOVERS: nostray_pen::Rate =
    nostray_pen::Rate { times: 3, within: std::time::Duration::from_secs(60) };

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
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}

/// The directory of a slot.
pub(crate) fn place_of(name: &Name) -> Result<nostray_registry::Place, Error> {
    Ok(all()?.below(name.as_str())?)
}

/// The directory of all slots.
pub(crate) fn all() -> Result<nostray_registry::Place, Error> {
    Ok(nostray_registry::Place::that_lasts()?.below("slots")?)
}
