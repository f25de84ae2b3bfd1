//! A waiter's file on Windows, with another one beside it that is locked: what is locked here, no other process can read.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use nostray_registry::{Place, files};
use nostray_sys::identity::Identity;

use crate::Error;

fn lock_path(place: &Place, id: &str) -> PathBuf {
    place.path().join(format!("{id}.held"))
}

/// Makes the file, and holds it for as long as what is returned is open.
pub(crate) fn make(place: &Place, id: &str, path: &Path, text: &[u8]) -> Result<File, Error> {
    let (held, new) = (lock_path(place, id), place.path().join(format!("{id}.new")));
    let lock = files::to_lock_or_make(&held).map_err(Error::io(&held))?;
    // Locked before there is the other one: one without a lock belongs to a dead waiter.
    lock.try_lock().map_err(|error| Error::NoLocks { path: held, why: error.to_string() })?;
    files::replace(path, &new, text).map_err(Error::io(path))?;
    Ok(lock)
}

/// What is in it, if its waiter lives. Removes the file of a dead one.
pub(crate) fn read(place: &Place, id: &str, path: &Path, most: u64) -> Option<Vec<u8>> {
    let is_dead = match files::to_read(&lock_path(place, id)) {
        Ok(lock) => match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => false,
            Ok(()) => true,
            Err(TryLockError::Error(_)) => return None,
        },
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if is_dead {
        remove(place, id, path);
        return None;
    }
    files::read(&files::to_read(path).ok()?, most).ok()
}

/// Removes the files of a waiter that waits no more.
pub(crate) fn remove(place: &Place, id: &str, path: &Path) {
    std::fs::remove_file(path).ok();
    std::fs::remove_file(lock_path(place, id)).ok();
}

/// Whether a file of this name may be one that a killed process has left.
pub(crate) fn may_be_left(name: &str) -> bool {
    name.ends_with(".held") || (name.ends_with(".new") && name != "history.new")
}

/// A waiter looks again by itself, soon enough.
pub(crate) fn wake(_: Identity) {}
