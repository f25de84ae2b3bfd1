//! Memory that two processes of ours have in common: an anonymous file that both map. What one of them has written there stays when it is
//! killed.
//!
//! Numbers in it are atomic. Bytes are copied in and out, and never borrowed: the other process may write to them at any time.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A file that shrinks below a mapping kills the process that touches it.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// One piece of it, mapped into this process.
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    start: NonNull<AtomicU64>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, lives as long as it, and is only touched through atomics and by copying.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// So many zero bytes: whole words. Only pages that are written to take memory.
    pub fn new(name: &str, length: usize) -> io::Result<Self> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, length as u64)?;
        fcntl_add_seals(&file, FIXED)?;
        Self::map(file, length)
    }

    /// The memory that another process has made, of this length.
    pub fn of(file: OwnedFd, length: usize) -> io::Result<Self> {
        let is_fixed = fcntl_get_seals(&file)?.contains(FIXED);
        if !is_fixed || u64::try_from(fstat(&file)?.st_size) != Ok(length as u64) {
            return Err(ErrorKind::InvalidData.into());
        }
        Self::map(file, length)
    }

    fn map(file: OwnedFd, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping, at an address that the kernel chooses, of a file that cannot shrink.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        let Some(mapped) = NonNull::new(start.cast::<AtomicU64>()) else {
            return Err(io::Error::other("mapped at address zero"));
        };
        let memory = Self { file, start: mapped, length };
        // SAFETY: the whole mapping of above; a fork must not have it, and no fork of ours uses it.
        unsafe { madvise(start, length, Advice::LinuxDontFork) }?;
        Ok(memory)
    }

    /// All of it, as numbers.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as `self` lives, page-aligned, of this length, and any bits are a number.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length / size_of::<u64>()) }
    }

    /// Where a range of bytes begins.
    ///
    /// # Panics
    /// If it is not inside.
    fn place(&self, range: &Range<usize>) -> *mut u8 {
        assert!(range.start <= range.end && range.end <= self.length, "outside of the shared memory");
        // SAFETY: inside of the mapping.
        unsafe { self.start.as_ptr().cast::<u8>().add(range.start) }
    }

    /// Copies bytes to `target`, which is as long as the range.
    ///
    /// # Panics
    /// If the range is not inside, or of another length.
    pub fn copy_to(&self, range: Range<usize>, target: &mut [u8]) {
        let place = self.place(&range);
        assert_eq!(range.len(), target.len());
        // SAFETY: the range is inside of the mapping, and the target is memory of its own. The other process may write meanwhile; then
        // it is bytes all the same.
        unsafe { std::ptr::copy_nonoverlapping(place, target.as_mut_ptr(), target.len()) };
    }

    /// The same as a vector.
    #[must_use]
    pub fn copy(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.copy_to(range, &mut bytes);
        bytes
    }

    /// Writes bytes.
    ///
    /// # Panics
    /// If there is no room.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let place = self.place(&(at..at + bytes.len()));
        // SAFETY: as in `copy_to`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    }

    /// Makes these bytes zero.
    ///
    /// # Panics
    /// If they are not inside.
    pub fn clear(&self, range: Range<usize>) {
        let place = self.place(&range);
        // SAFETY: as in `copy_to`.
        unsafe { std::ptr::write_bytes(place, 0, range.len()) };
    }

    /// Reads what is there straight into the memory, as [`stream::read`](crate::stream::read) does: whichever moment this process is killed
    /// at, what it has read is in the memory.
    ///
    /// # Panics
    /// If the range is not inside.
    pub fn read_from(&self, fd: impl AsFd, range: Range<usize>) -> io::Result<Option<usize>> {
        let place = self.place(&range);
        // SAFETY: the range is inside of the mapping, and the kernel writes no more than that. Not as a slice: the other process may look.
        let count = unsafe { libc::read(fd.as_fd().as_raw_fd(), place.cast(), range.len()) };
        match usize::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => match io::Error::last_os_error() {
                error if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
                error => Err(error),
            },
        }
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; no reference to it outlives `self`.
        unsafe { munmap(self.start.as_ptr().cast(), self.length) }.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Pipe;
    use std::sync::atomic::Ordering;

    const LENGTH: usize = 8192;

    #[test]
    fn what_one_writes_the_other_reads() {
        let ours = SharedMemory::new("test", LENGTH).expect("memory");
        let theirs = ours.as_fd().try_clone_to_owned().expect("another descriptor");
        let theirs = SharedMemory::of(theirs, LENGTH).expect("the same memory");
        ours.words()[3].store(7, Ordering::Release);
        assert_eq!(theirs.words()[3].load(Ordering::Acquire), 7);
        ours.write(100, b"some bytes");
        assert_eq!(theirs.copy(99..111), b"\0some bytes\0");
        theirs.clear(100..104);
        assert_eq!(ours.copy(100..110), b"\0\0\0\0 bytes");
        let pipe = Pipe::new().expect("pipe");
        rustix::io::write(&pipe.writer, b"from a pipe").expect("write");
        assert_eq!(ours.read_from(&pipe.reader, LENGTH - 8..LENGTH).expect("read"), Some(8));
        assert_eq!(theirs.copy(LENGTH - 8..LENGTH), b"from a p");
    }

    #[test]
    fn what_could_shrink_or_has_another_length_is_refused() {
        let memory = SharedMemory::new("test", LENGTH).expect("memory");
        let again = || memory.as_fd().try_clone_to_owned().expect("another descriptor");
        assert!(SharedMemory::of(again(), LENGTH * 2).is_err());
        assert!(ftruncate(again(), 0).is_err());
        let loose = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
        ftruncate(&loose, LENGTH as u64).expect("it grows");
        assert!(SharedMemory::of(loose, LENGTH).is_err());
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn nothing_outside_is_touched() {
        SharedMemory::new("test", LENGTH).expect("memory").write(LENGTH - 1, b"two");
    }
}
