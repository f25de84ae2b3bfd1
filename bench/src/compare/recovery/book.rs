//! Where children sign when they start: `badchild sign`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use badchild::Found;
use nostray_sys::poll::{Until, wait};

use crate::Failure;
use crate::programs::Programs;

fn new_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    std::env::temp_dir().join(format!("book-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// A book to be counted through.
pub(super) struct Book(PathBuf);

impl Book {
    pub(super) fn new() -> Self {
        Self(new_path())
    }

    /// A child that signs, and ends at once.
    pub(super) fn crashing_child(&self, programs: &Programs) -> Vec<OsString> {
        vec![programs.badchild.clone().into(), "sign".into(), self.0.clone().into(), "1".into()]
    }

    /// How many have signed.
    pub(super) fn signatures(&self) -> usize {
        std::fs::read_to_string(&self.0).map_or(0, |text| text.lines().count())
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        // Who never signed has made none.
        std::fs::remove_file(&self.0).ok();
    }
}

/// A door at which each is seen the moment it signs: a FIFO.
pub(super) struct Door {
    path: PathBuf,
    signs: BufReader<File>,
}

impl Door {
    pub(super) fn new() -> Result<Self, Failure> {
        let path = new_path();
        if !Command::new("mkfifo").arg(&path).status()?.success() {
            return Err("mkfifo failed".into());
        }
        // For writing as well: it has no end, then, when a writer goes.
        let file = File::options().read(true).write(true).open(&path)?;
        Ok(Self { path, signs: BufReader::new(file) })
    }

    /// A child that signs, and stays.
    pub(super) fn staying_child(&self, programs: &Programs) -> Vec<OsString> {
        vec![programs.badchild.clone().into(), "sign".into(), self.path.clone().into()]
    }

    /// The next one; none, if none comes in time.
    pub(super) fn next(&mut self, within: Duration) -> Result<Option<Found>, Failure> {
        if self.signs.buffer().is_empty() {
            let came = wait(&[(self.signs.get_ref().as_fd(), Until::Readable)], Some(within))?;
            if !came.contains(&true) {
                return Ok(None);
            }
        }
        let mut line = String::new();
        self.signs.read_line(&mut line)?;
        Ok(Found::by_pid(badchild::pid(line.trim().parse()?)))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}
