//! The lock that decides. The front holds it, and the kernel frees it when the front ends, at the same moment as it ends the front's job.
//! What is written in any file means nothing beside it.

use std::sync::Arc;

use nostray_registry::Place;
use nostray_sys::identity::Identity;

use crate::Error;
use crate::lock_file::LockFile;

/// The variable by which a user can name a directory in which locks work.
pub(crate) const VARIABLE: &str = "LOCALAPPDATA";

/// The lock of a slot, from outside.
#[derive(Debug)]
pub(crate) struct Lock(Arc<LockFile>);

/// A slot that is held for as long as this process lives, or until it has the proof that the tree is empty.
#[derive(Debug)]
pub(crate) struct Held(Arc<LockFile>);

/// What tells that a holder has ended. Nothing does here, so a claim looks often enough.
#[derive(Debug)]
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn has_hung_up(&self) -> bool {
        false
    }
}

impl Held {
    pub(crate) fn release(&self) {
        self.0.release();
    }
}

impl Lock {
    pub(crate) fn open(place: &Place) -> Result<Self, Error> {
        LockFile::open(place).map(|file| Self(Arc::new(file)))
    }

    #[allow(clippy::unused_self, reason = "as on Linux, where there is something to watch")]
    pub(crate) fn watch(&self) -> Result<Watch, Error> {
        Ok(Watch)
    }

    /// Takes it, if it is free.
    pub(crate) fn try_take(&self) -> Result<Option<Held>, Error> {
        Ok(self.0.try_take()?.then(|| Held(Arc::clone(&self.0))))
    }

    /// Processes are not stopped on Windows.
    #[allow(clippy::unused_self, reason = "as on Linux")]
    pub(crate) fn frozen_holders(&self) -> Vec<Identity> {
        Vec::new()
    }
}
