//! What may be left of a pen.

use nostray_sys::identity::Identity;
use nostray_sys::secrets::describe;

use crate::record::{Process, Record};

/// Why a process is a survivor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// It is the very process that was recorded.
    Recorded,
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it is on record")
    }
}

/// A survivor.
#[derive(Debug, Clone)]
pub struct Found {
    /// The process.
    pub process: Identity,
    /// What it runs.
    pub command: String,
    /// Why it is one.
    pub evidence: Evidence,
}

/// The processes on this record that live: the front, and the child.
pub(crate) fn survivors(record: &Record) -> Vec<Found> {
    let recorded = record.keepers().into_iter().chain(record.child.and_then(Process::identity));
    let found = |process: Identity| Found { process, command: describe(process.pid), evidence: Evidence::Recorded };
    recorded.filter(|process| process.is_alive()).map(found).collect()
}
