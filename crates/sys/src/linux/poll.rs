//! Waiting for the first of several events, with an optional deadline, and no wake-up for anything else.

use std::io;
pub use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

/// What to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Something can be read.
    Readable,
    /// The other side is gone: the last writer of a pipe, the peer of a socket (or its sending half), the
    /// master of a terminal. Data that waits or arrives does not count and causes no wake-up: the kernel
    /// filters by the events asked for before it wakes.
    HungUp,
    /// Something can be written, or no reader is left.
    Writable,
    /// Nothing that is written will be read: no reader of a pipe is left, or the peer of a socket has shut down both ways.
    Unheard,
}

/// Waits until one of the events has come, and says for each whether it has. Without a timeout there is no
/// wake-up until then.
pub fn wait(events: &[(BorrowedFd<'_>, Until)], duration: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut fds: Vec<PollFd<'_>> = events
        .iter()
        .map(|(fd, until)| {
            let flags = match until {
                Until::Readable => PollFlags::IN,
                Until::HungUp => PollFlags::RDHUP,
                Until::Writable => PollFlags::OUT,
                // What cannot be asked for is always told: an error, and the end of both ways.
                Until::Unheard => PollFlags::empty(),
            };
            PollFd::from_borrowed_fd(*fd, flags)
        })
        .collect();
    let timeout = duration
        .map(|t| Timespec { tv_sec: t.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: t.subsec_nanos().into() });
    crate::memory::before_waiting(duration);
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
        // Stopped and continued: nothing has come, and the caller computes its timeout anew.
        Err(rustix::io::Errno::INTR) => Ok(vec![false; events.len()]),
        Err(error) => Err(error.into()),
    }
}
