//! The lock that decides. The front holds it, and the kernel frees it when the front ends, at the same moment as it ends the front's job.
//! What is written in any file means nothing beside it.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;

use nostray_registry::{Place, files};
use nostray_sys::identity::Identity;

use crate::Error;

/// The variable by which a user can name a directory in which locks work.
pub(crate) const VARIABLE: &str = "LOCALAPPDATA";

/// The lock of a slot, from outside.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: Arc<File>,
}

/// A slot that is held for as long as this process lives, or until it has the proof that the tree is empty.
#[derive(Debug)]
pub(crate) struct Held(Arc<File>);

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
        self.0.unlock().ok();
    }
}

impl Lock {
    pub(crate) fn open(place: &Place) -> Result<Self, Error> {
        let path = place.path().join("lock");
        let file = files::to_lock_or_make(&path).map_err(Error::io(&path))?;
        Ok(Self { path, file: Arc::new(file) })
    }

    #[allow(clippy::unused_self, reason = "as on Linux, where there is something to watch")]
    pub(crate) fn watch(&self) -> Result<Watch, Error> {
        Ok(Watch)
    }

    /// Takes it, if it is free.
    pub(crate) fn try_take(&self) -> Result<Option<Held>, Error> {
        match self.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(self.broken(&error.to_string())),
        }
        match self.check() {
            Ok(()) => Ok(Some(Held(Arc::clone(&self.file)))),
            Err(error) => {
                self.file.unlock().ok();
                Err(error)
            }
        }
    }

    /// Some file systems give one lock to several processes. Such a lock is refused.
    fn check(&self) -> Result<(), Error> {
        let other = files::to_lock_or_make(&self.path).map_err(Error::io(&self.path))?;
        match other.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(()),
            Ok(()) => Err(self.broken("two had it at once")),
            Err(TryLockError::Error(error)) => Err(self.broken(&error.to_string())),
        }
    }

    /// Whether it is held, for a reader. (A reader holds a shared lock for a moment, together with other readers.)
    pub(crate) fn is_taken(place: &Place) -> bool {
        let path = place.path().join("lock");
        files::to_read(&path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Processes are not stopped on Windows.
    #[allow(clippy::unused_self, reason = "as on Linux")]
    pub(crate) fn frozen_holders(&self) -> Vec<Identity> {
        Vec::new()
    }

    fn broken(&self, why: &str) -> Error {
        Error::NoLocks { path: self.path.clone(), why: why.to_owned() }
    }
}
