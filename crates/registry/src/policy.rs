//! How a sweep is done, and what comes of it.

use std::time::Duration;

use crate::record::Unreadable;
use crate::survivors::Found;

/// How a sweep is done.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Only look.
    pub dry_run: bool,
    /// End pens whose owner is alive, too, by asking them.
    pub include_active: bool,
    /// End pens whose keepers are all stopped.
    pub include_frozen: bool,
    /// No more time than this for all of it, but for the last SIGKILL.
    pub budget: Duration,
}

impl Policy {
    /// Every dead pen, with all the graces that were promised to it.
    #[must_use]
    pub fn thorough() -> Self {
        Self { dry_run: false, include_active: false, include_frozen: false, budget: Duration::from_secs(120) }
    }

    /// The same, beside the start of another pen.
    #[must_use]
    pub fn in_the_background() -> Self {
        Self { budget: Duration::from_secs(30), ..Self::thorough() }
    }
}

/// What came of one record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Outcome {
    /// Its owner is alive: not touched.
    Active,
    /// Its owner was alive and has been asked to stop.
    Asked,
    /// Its owner is dead and nothing is left; the record has been removed.
    Clean,
    /// All its keepers are stopped.
    Frozen {
        /// It has been ended for that, and nothing is left of it.
        ended: bool,
    },
    /// Its owner is dead, and these may be of it: nothing proves it, nor the opposite. They are not touched, and the record stays.
    Unproved {
        /// Processes that are proved to be of it, and have been ended.
        found: Vec<Found>,
        /// Processes that may be of it.
        candidates: Vec<Found>,
    },
    /// These were found, and this many of them are still there.
    Survivors {
        /// The processes.
        found: Vec<Found>,
        /// How many could not be ended (or were only looked at).
        left: usize,
    },
    /// It cannot be acted on.
    Unreadable(Unreadable),
    /// Its numbers belong to another pid namespace, where it must be swept.
    Elsewhere,
}

/// A record, and what came of it.
#[derive(Debug, Clone)]
pub struct Swept {
    /// The pen.
    pub id: String,
    /// Its command line, if it could be read.
    pub command: Vec<String>,
    /// What came of it.
    pub outcome: Outcome,
}
