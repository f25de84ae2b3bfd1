//! Writes an edited configuration so that nothing of it is ever lost: not its attributes, not its link, and not what another process
//! writes at the same moment.
//!
//! The new file is written beside the old one, and the two change places in one step. So the old one is still there to look at: if it is
//! not what the edit began with, another process has written in the last moment. Then the two change places again, and the edit begins
//! again. A process that still has the old file open for writing is waited for, since what it writes would vanish with the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nostray_sys::{files, replace};

use crate::hosts::Lock;

/// A longer file is no configuration, and is not read into memory.
const LONGEST: u64 = 64 << 20;
/// How often an edit is made again because another process writes all the time.
const ATTEMPTS: usize = 100;
/// How long a process may take to write a file that it has opened.
const WRITER: Duration = Duration::from_secs(5);
/// A host's lock that is older was left behind by a host that was killed.
const STALE: Duration = Duration::from_secs(10);
/// How long a host may hold its lock.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait before looking again at what cannot be waited for.
const PAUSE: Duration = Duration::from_millis(2);

/// Why a file was not written. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It may not be written.
    #[error("is read-only; make it writable first (chmod u+w), or change it where it comes from")]
    ReadOnly,
    /// Another name leads to it, which would keep the old file.
    #[error("has another name (a hard link), which would not change with it; edit it by hand")]
    Linked,
    /// The folder may not be written.
    #[error("cannot be replaced: {0}")]
    Folder(io::Error),
    /// A host holds its lock.
    #[error("is locked by its host ({}); try again", .0.display())]
    Locked(PathBuf),
    /// Other processes write it all the time.
    #[error("is written by other processes all the time; close its host, and try again")]
    Busy,
    /// The edit itself.
    #[error("{0}")]
    Edit(crate::edit::Error),
    /// Anything else.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What was done.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// Whether the file has changed.
    pub has_changed: bool,
    /// The file as it was before its first edit.
    pub backup: Option<PathBuf>,
}

/// Reads a file. `None` if there is none.
#[must_use]
pub fn read(path: &Path) -> Option<Result<Vec<u8>, String>> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return None,
        Err(error) => return Some(Err(error.to_string())),
    };
    // Reading a pipe could block for ever.
    if !found.is_file() {
        return Some(Err("is not a file".to_owned()));
    }
    if found.len() > LONGEST {
        return Some(Err("is too long to be a configuration".to_owned()));
    }
    Some(File::open(path).and_then(|file| content(&file)).map_err(|error| error.to_string()))
}

fn content(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What is done to a file's bytes; more than once, if another process writes meanwhile.
pub type Edit<'a> = &'a mut dyn FnMut(&[u8]) -> Result<Vec<u8>, crate::edit::Error>;

/// Where the backup of a file is.
#[must_use]
pub fn backup_of(path: &Path) -> PathBuf {
    beside(path, ".before-nostray")
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Edits a file. A link stays a link; the file that it leads to is edited.
///
/// # Errors
/// If the file cannot be edited or written. It is as it was then.
pub fn edit(path: &Path, lock: Lock, keep_backup: bool, edit: Edit<'_>) -> Result<Written, Error> {
    let path = files::real_path(path)?;
    let folder = path.parent().ok_or_else(|| Error::Unreadable("is not a file".to_owned()))?;
    // Two processes of nostray take turns.
    let _turn = replace::take_turn(folder)?;
    let _held = match lock {
        Lock::None => None,
        Lock::Folder => Some(HostLock::take(beside(&path, ".lock"))?),
    };
    let (mut backup, mut has_made) = (None, false);
    for _ in 0..ATTEMPTS {
        let base = settled(&path)?;
        let edited = edit(&base).map_err(Error::Edit)?;
        if edited == base {
            return Ok(Written { has_changed: false, backup });
        }
        let old = File::open(&path)?;
        if old.metadata()?.permissions().readonly() || !replace::may_write(&path) {
            return Err(Error::ReadOnly);
        }
        if replace::has_other_names(&old)? {
            return Err(Error::Linked);
        }
        if keep_backup {
            backup = Some(keep(&path, &old, &base, &mut has_made).map_err(Error::Folder)?);
        }
        let new = New::beside(&path, &old, &edited).map_err(Error::Folder)?;
        if new.takes_the_place_of(&path, &edited, &base)? {
            return Ok(Written { has_changed: true, backup });
        }
    }
    Err(Error::Busy)
}

/// What a file says when no process is in the middle of writing it.
fn settled(path: &Path) -> Result<Vec<u8>, Error> {
    // Opened only after the look: a pipe would be waited for.
    let first = read(path).unwrap_or_else(|| Err("is gone".to_owned())).map_err(Error::Unreadable)?;
    let file = File::open(path)?;
    if replace::has_writer(&file) != Some(true) {
        return Ok(first);
    }
    wait_for_writer(&file);
    read(path).unwrap_or_else(|| Err("is gone".to_owned())).map_err(Error::Unreadable)
}

fn wait_for_writer(file: &File) {
    let begin = Instant::now();
    while replace::has_writer(file) == Some(true) && begin.elapsed() < WRITER {
        std::thread::sleep(PAUSE);
    }
}

/// Keeps what a file was before its first edit. A backup that is there is older, and stays, unless this call has made it.
fn keep(path: &Path, old: &File, bytes: &[u8], made: &mut bool) -> io::Result<PathBuf> {
    let backup = backup_of(path);
    if !*made && std::fs::symlink_metadata(&backup).is_ok() {
        return Ok(backup);
    }
    let new = New::beside(path, old, bytes)?;
    std::fs::rename(&new.path, &backup)?;
    new.keep();
    *made = true;
    Ok(backup)
}

/// Removes the backup of a file, if there is one.
///
/// # Errors
/// If it cannot be removed.
pub fn forget_backup(path: &Path) -> io::Result<Option<PathBuf>> {
    let backup = backup_of(&files::real_path(path)?);
    match std::fs::remove_file(&backup) {
        Ok(()) => Ok(Some(backup)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that is complete and on disk, and not yet in its place. It is removed if it does not get there.
struct New {
    path: PathBuf,
    is_kept: bool,
}

impl New {
    fn beside(path: &Path, like: &File, bytes: &[u8]) -> io::Result<Self> {
        let new = beside(path, &format!(".{:016x}.nostray", nostray_sys::process::random()));
        let mut file = files::private(OpenOptions::new().write(true).create_new(true)).open(&new)?;
        let new = Self { path: new, is_kept: false };
        file.write_all(bytes)?;
        replace::copy_attributes(like, &file)?;
        file.sync_all()?;
        Ok(new)
    }

    /// Puts the file in its place, unless there is something else by now than what was expected. Then that stays, or is put back.
    fn takes_the_place_of(self, path: &Path, edited: &[u8], expected: &[u8]) -> Result<bool, Error> {
        if settled(path)? != expected {
            return Ok(false);
        }
        match replace::exchange(&self.path, path) {
            Ok(()) => {}
            // A file system without this step, like some network file systems: the look was as late as possible.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
                std::fs::rename(&self.path, path).map_err(Error::Folder)?;
                self.keep();
                return Ok(true);
            }
            Err(error) => return Err(Error::Folder(error)),
        }
        let mut found = self.settled()?;
        if found == expected {
            sync(path);
            return Ok(true);
        }
        // Another process has written in the last moment. What it wrote goes back; and if there is something else by then than what
        // was put there, that is newer still.
        let mut put = edited.to_vec();
        for _ in 0..ATTEMPTS {
            replace::exchange(&self.path, path).map_err(Error::Folder)?;
            let newer = self.settled()?;
            if newer == put {
                return Ok(false);
            }
            (put, found) = (found, newer);
        }
        Err(Error::Busy)
    }

    /// What is there now instead of the new file. No other process knows this name, but one may still write what it has opened before.
    fn settled(&self) -> Result<Vec<u8>, Error> {
        let file = File::open(&self.path)?;
        wait_for_writer(&file);
        Ok(content(&file)?)
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if !self.is_kept {
            // It is in a folder that this process could write to a moment ago; a file that stays there harms nothing.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// Brings the new name to disk. Without it, a power cut brings the old file back, which is whole as well.
fn sync(path: &Path) {
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        folder.sync_all().ok();
    }
}

/// A host's own lock: a folder that exists while a process writes.
struct HostLock {
    folder: PathBuf,
}

impl HostLock {
    fn take(folder: PathBuf) -> Result<Self, Error> {
        let begin = Instant::now();
        loop {
            match std::fs::create_dir(&folder) {
                Ok(()) => return Ok(Self { folder }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::Folder(error)),
            }
            let age = std::fs::metadata(&folder)
                .and_then(|found| found.modified())
                .ok()
                .and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > STALE) {
                // As the hosts themselves do. Of several that remove it, one makes it anew.
                std::fs::remove_dir(&folder).ok();
            } else if begin.elapsed() > PATIENCE {
                return Err(Error::Locked(folder));
            } else {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // A lock that stays is stale after ten seconds.
        std::fs::remove_dir(&self.folder).ok();
    }
}
