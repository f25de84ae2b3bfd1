//! Putting a new file in the place of another one, so that what a third process wrote meanwhile can still be seen.

use std::fs::File;
use std::io;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::GENERIC_READ;
use windows_sys::Win32::Storage::FileSystem::{FILE_SHARE_DELETE, FILE_SHARE_READ, ReOpenFile, ReplaceFileW};

use crate::files;

/// A process has the file open in a way that does not go together with ours.
const SHARING_VIOLATION: i32 = 32;

/// Puts one file in the place of another one, in one step, with the other one's attributes and permissions; and then the other one in the place
/// of the first, of which no other process knows.
pub fn exchange(one: &Path, two: &Path) -> io::Result<()> {
    let mut old = one.as_os_str().to_owned();
    old.push(".old");
    let (from, to, kept) = (super::wide(one)?, super::wide(two)?, super::wide(&old)?);
    // SAFETY: the three paths end with a zero; the last two arguments are for later use.
    super::done(unsafe {
        ReplaceFileW(to.as_ptr(), from.as_ptr(), kept.as_ptr(), 0, std::ptr::null(), std::ptr::null())
    })?;
    std::fs::rename(&old, one)
}

/// How long another process may have a file open.
const OPEN_TIME: Duration = Duration::from_secs(2);

/// Gives a file the name of another one, which is gone then.
pub fn rename_over(from: &Path, to: &Path) -> io::Result<()> {
    patiently(|| std::fs::rename(from, to))
}

/// Repeats an attempt that fails because another process has the file open: some versions of Windows (and Wine 8) do not replace a file that is
/// being read, and do not open one that is being replaced.
pub fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + OPEN_TIME;
    loop {
        match attempt() {
            Err(error) if is_open_elsewhere(&error) && Instant::now() < until => {
                // No event tells that another process has closed a file.
                std::thread::sleep(Duration::from_millis(2));
            }
            done => return done,
        }
    }
}

fn is_open_elsewhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied || error.raw_os_error() == Some(SHARING_VIOLATION)
}

/// A new file gets owner and permissions of the file that it replaces when it does so.
pub fn copy_attributes(_: &File, _: &File) -> io::Result<()> {
    Ok(())
}

/// Waits until no other process of nostray edits a file. The turn is over when the file is closed. A folder cannot be locked here, so all take
/// turns at one file.
pub fn take_turn(_: &Path) -> io::Result<File> {
    let folder = files::local_data_folder().map_or_else(std::env::temp_dir, |folder| folder.join("nostray"));
    if !folder.exists() {
        match files::make_private_folder(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let turn = File::options().write(true).create(true).truncate(false).open(folder.join("wrap.lock"))?;
    turn.lock()?;
    Ok(turn)
}

/// Whether this user may write a file.
#[must_use]
pub fn may_write(path: &Path) -> bool {
    File::options().write(true).open(path).is_ok()
}

/// Whether other names (hard links) lead to a file, too.
pub fn has_other_names(file: &File) -> io::Result<bool> {
    files::names_of(file).map(|names| names > 1)
}

/// Whether a process has this file open for writing. `None` if that cannot be seen.
#[must_use]
pub fn has_writer(file: &File) -> Option<bool> {
    // Opened once more, in a way that does not go together with a writer.
    // SAFETY: the handle is open as long as the file is borrowed; the new one is ours.
    let again = unsafe {
        super::owned(ReOpenFile(file.as_raw_handle(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, 0))
    };
    match again {
        Ok(_) => Some(false),
        Err(error) => (error.raw_os_error() == Some(SHARING_VIOLATION)).then_some(true),
    }
}
