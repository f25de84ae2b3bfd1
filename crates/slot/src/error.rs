//! What can go wrong with slots.

use std::path::{Path, PathBuf};

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
         set {} to a directory on a local disk", crate::lock::VARIABLE, path = path.display()
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
