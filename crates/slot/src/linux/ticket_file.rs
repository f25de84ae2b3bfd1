//! A waiter's file on Linux: locked itself.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nostray_registry::{Place, files};
use nostray_sys::Signal;
use nostray_sys::identity::Identity;

use crate::Error;

/// Makes the file, and holds it for as long as what is returned is open.
pub(crate) fn make(place: &Place, id: &str, path: &Path, text: &[u8]) -> Result<File, Error> {
    let new = place.path().join(format!("{id}.new"));
    let made: Result<File, Error> = (|| {
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&new).map_err(Error::io(&new))?;
        // Locked before it gets its name: a file without a lock belongs to a dead waiter.
        file.try_lock().map_err(|error| Error::NoLocks { path: new.clone(), why: error.to_string() })?;
        file.write_all(text).and_then(|()| std::fs::rename(&new, path)).map_err(Error::io(&new))?;
        Ok(file)
    })();
    if made.is_err() {
        std::fs::remove_file(&new).ok();
    }
    made
}

/// What is in it, if its waiter lives. Removes the file of a dead one.
pub(crate) fn read(_: &Place, _: &str, path: &Path, most: u64) -> Option<Vec<u8>> {
    let file = files::to_read(path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => files::read(&file, most).ok(),
        Ok(()) => {
            std::fs::remove_file(path).ok();
            None
        }
        Err(TryLockError::Error(_)) => None,
    }
}

/// Removes the file of a waiter that waits no more.
pub(crate) fn remove(_: &Place, _: &str, path: &Path) {
    std::fs::remove_file(path).ok();
}

/// Whether a file of this name may be one that a killed process has left.
pub(crate) fn may_be_left(name: &str) -> bool {
    name.ends_with(".new") && name != "history.new"
}

/// Makes a waiter look again. A process that waits no more ignores the signal.
pub(crate) fn wake(waiter: Identity) {
    if let Some(handle) = waiter.open() {
        handle.send(Signal::CHLD).ok();
    }
}
