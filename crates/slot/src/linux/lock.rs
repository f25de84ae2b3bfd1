//! The lock that decides. It is held through one open file that front, spare and guard inherit from each other, so the kernel
//! frees it when the last of them ends, and that is after the tree is empty. What is written in any file means nothing beside it.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nostray_registry::Place;
use nostray_sys::fifo;
use nostray_sys::identity::Identity;
use nostray_sys::poll::{self, AsFd, BorrowedFd, Until};
use nostray_sys::proc::lock_holders;

use crate::Error;
use crate::lock_file::LockFile;

/// The variable by which a user can name a directory in which locks work.
pub(crate) const VARIABLE: &str = "XDG_STATE_HOME";

/// The lock of a slot, from outside.
#[derive(Debug)]
pub(crate) struct Lock {
    sign: PathBuf,
    file: Arc<LockFile>,
}

/// A slot that is held, for as long as any process lives that has this open, or until one of them has the proof that the tree is
/// empty.
#[derive(Debug)]
pub(crate) struct Held {
    lock: Arc<LockFile>,
    /// A FIFO that hangs up when the holder ends: flock cannot be polled, so waiters poll this instead.
    _sign: OwnedFd,
}

/// Tells that a holder has ended.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    pub(crate) fn has_hung_up(&self) -> bool {
        let events = [(self.as_fd(), Until::HungUp)];
        poll::wait(&events, Some(Duration::ZERO)).is_ok_and(|fired| fired.contains(&true))
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Held {
    /// Releases it for every process that has it open: one of them may be stopped and never end.
    pub(crate) fn release(&self) {
        self.lock.release();
    }
}

impl Lock {
    pub(crate) fn open(place: &Place) -> Result<Self, Error> {
        let sign = place.path().join("alive");
        let file = LockFile::open(place).map(Arc::new)?;
        fifo::make(&sign).map_err(Error::io(&sign))?;
        Ok(Self { sign, file })
    }

    /// Hangs up when the current holder has ended. To be opened before the lock is tried.
    pub(crate) fn watch(&self) -> Result<Watch, Error> {
        fifo::watch(&self.sign).map(Watch).map_err(Error::io(&self.sign))
    }

    /// Takes it, if it is free.
    pub(crate) fn try_take(&self) -> Result<Option<Held>, Error> {
        if !self.file.try_take()? {
            return Ok(None);
        }
        let sign = fifo::hold(&self.sign).map_err(Error::io(&self.sign)).inspect_err(|_| self.file.release())?;
        Ok(Some(Held { lock: Arc::clone(&self.file), _sign: sign }))
    }

    /// Stopped processes that hold it, on record or not: the kernel lists the holders of a lock.
    pub(crate) fn frozen_holders(&self) -> Vec<Identity> {
        let own = nostray_sys::process::getpid();
        let frozen = lock_holders(self.file.path()).into_iter().filter(|stat| stat.is_stopped() && stat.pid != own);
        frozen.map(|stat| Identity::from(&stat)).collect()
    }
}
