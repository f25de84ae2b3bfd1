//! The lock that decides. It is held through one open file that front, spare and guard inherit from each other, so the kernel
//! frees it when the last of them ends, and that is after the tree is empty. What is written in any file means nothing beside it.

use std::fs::{File, TryLockError};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use nostray_registry::{Place, files};
use nostray_sys::fifo;
use nostray_sys::identity::Identity;
use nostray_sys::proc::lock_holders;

use crate::Error;

/// The lock of a slot, from outside.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    sign: PathBuf,
    file: File,
}

/// A slot that is held, for as long as any process lives that has this open, or until one of them has the proof that the tree is
/// empty.
#[derive(Debug)]
pub(crate) struct Held {
    lock: File,
    /// By which those who wait learn of the end: a lock has no event that one could wait for beside others.
    _sign: OwnedFd,
}

impl Held {
    /// Frees it for all who have it open: one of them may be stopped and never end.
    pub(crate) fn release(&self) {
        self.lock.unlock().ok();
    }
}

impl Lock {
    pub(crate) fn open(place: &Place) -> Result<Self, Error> {
        let (path, sign) = (place.path().join("lock"), place.path().join("alive"));
        let file = files::to_lock_or_make(&path).map_err(Error::io(&path))?;
        fifo::make(&sign).map_err(Error::io(&sign))?;
        Ok(Self { path, sign, file })
    }

    /// What hangs up when whoever holds it now has ended. To be opened before the lock is tried.
    pub(crate) fn watch(&self) -> Result<OwnedFd, Error> {
        fifo::watch(&self.sign).map_err(Error::io(&self.sign))
    }

    /// Takes it, if it is free.
    pub(crate) fn try_take(&self) -> Result<Option<Held>, Error> {
        match self.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(self.broken(&error.to_string())),
        }
        let held = self.check().and_then(|()| {
            let sign = fifo::hold(&self.sign).map_err(Error::io(&self.sign))?;
            let lock = self.file.try_clone().map_err(Error::io(&self.path))?;
            Ok(Held { lock, _sign: sign })
        });
        if held.is_err() {
            self.file.unlock().ok();
        }
        held.map(Some)
    }

    /// On some file systems everybody gets the lock. One that keeps nobody out is none.
    fn check(&self) -> Result<(), Error> {
        let other = files::to_lock_or_make(&self.path).map_err(Error::io(&self.path))?;
        match other.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(()),
            Ok(()) => Err(self.broken("two had it at once")),
            Err(TryLockError::Error(error)) => Err(self.broken(&error.to_string())),
        }
    }

    /// Whether somebody holds it, for those who only look. (They hold it themselves for a moment, together with others who look.)
    pub(crate) fn is_taken(place: &Place) -> bool {
        let path = place.path().join("lock");
        files::to_read(&path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Those who have it and are stopped, whoever they are: the kernel says so of the lock itself.
    pub(crate) fn frozen_holders(&self) -> Vec<Identity> {
        let own = nostray_sys::process::getpid();
        let frozen = lock_holders(&self.path).into_iter().filter(|stat| stat.is_stopped() && stat.pid != own);
        frozen.map(|stat| Identity::from(&stat)).collect()
    }

    fn broken(&self, why: &str) -> Error {
        Error::NoLocks { path: self.path.clone(), why: why.to_owned() }
    }
}
