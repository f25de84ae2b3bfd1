//! Counters. Other processes cannot read them yet on Windows: only supervised and shared children have any.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Pid;

/// A row of numbers.
#[derive(Debug)]
pub struct SharedWords(Vec<AtomicU64>);

impl SharedWords {
    /// All zero.
    pub fn new(count: usize) -> io::Result<Self> {
        Ok(Self(std::iter::repeat_with(AtomicU64::default).take(count).collect()))
    }

    /// The numbers.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    /// Adds to one of them.
    pub fn add(&self, at: usize, by: u64) {
        if let Some(word) = self.0.get(at) {
            word.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Under which number another process finds them: none.
    #[must_use]
    pub fn number(&self) -> i32 {
        -1
    }
}

/// Those of another process.
pub fn open_words_of(_: Pid, _: i32) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What is in them.
pub fn read_words(_: &File, _: usize) -> io::Result<Vec<u64>> {
    Err(io::ErrorKind::Unsupported.into())
}
