//! Numbers that one process counts up and others read, without a system call for either the counting or a question. They live in an
//! anonymous file in memory: a process that may look at the counting process opens it as `/proc/PID/fd/N`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Pid;
use crate::descriptors::limit;
use crate::shared_memory::SharedMemory;

const WORD: usize = size_of::<u64>();
/// More than a start needs.
const SPARE_FILES: u64 = 32;

/// The counting side.
#[derive(Debug)]
pub struct SharedWords(SharedMemory);

impl SharedWords {
    /// So many zeros. Only pages that are written to take memory. An error where few more files may be opened: counting must not take
    /// the file descriptor that a start needs.
    pub fn new(count: usize) -> io::Result<Self> {
        let memory = SharedMemory::new("nostray-counters", count * WORD)?;
        if u64::try_from(memory.as_fd().as_raw_fd()).is_ok_and(|number| number + SPARE_FILES > limit()) {
            return Err(io::Error::other("few more files may be opened"));
        }
        Ok(Self(memory))
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }

    /// Adds to a word. There is one counting process with one thread, so no locked instruction is needed.
    pub fn add(&self, at: usize, by: u64) {
        if let Some(word) = self.words().get(at) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        }
    }

    /// The number of its file descriptor, by which others find it.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The reading side: opens the words that a process counts under this file descriptor. The caller has to see to it that it is the
/// process that it means.
pub fn open_words_of(pid: Pid, number: i32) -> io::Result<File> {
    let file = File::options().read(true).open(format!("/proc/{pid}/fd/{number}"))?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a plain file"));
    }
    Ok(file)
}

/// The words as they are now, at most so many.
pub fn read_words(file: &File, most: usize) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; most * WORD];
    let read = file.read_at(&mut bytes, 0)?;
    let words = bytes[..read].chunks_exact(WORD);
    Ok(words.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::getpid;

    #[test]
    fn what_is_counted_is_read_through_proc() {
        let words = SharedWords::new(1024).expect("words");
        words.add(3, 5);
        words.add(3, 2);
        words.add(1023, u64::MAX);
        words.add(4096, 1); // beyond the end: not counted, and nothing happens
        let file = open_words_of(getpid(), words.number()).expect("open");
        let read = read_words(&file, 2000).expect("read");
        assert_eq!((read.len(), read[0], read[3], read[1023]), (1024, 0, 7, u64::MAX));
    }

    #[test]
    fn no_reader_can_cut_it_off_under_the_counting_process() {
        let words = SharedWords::new(1024).expect("words");
        let file = File::options().write(true).open(format!("/proc/self/fd/{}", words.number())).expect("open");
        assert!(file.set_len(0).is_err());
        words.add(0, 1);
        assert_eq!(words.words()[0].load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let (read, _write) = io::pipe().expect("pipe");
        assert!(open_words_of(getpid(), read.as_raw_fd()).is_err());
        assert!(open_words_of(getpid(), -1).is_err());
    }
}
