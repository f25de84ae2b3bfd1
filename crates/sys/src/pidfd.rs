//! A handle on one process, which stays on that process when its number is used again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::{Pid, Signal};

/// A handle on one process. Readable once that process, with all its threads, has ended.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// A handle on whoever has this number now; the caller checks that it is who it meant.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// A handle on this process itself, to be inherited by those who watch it.
    pub fn of_self() -> io::Result<Self> {
        Self::open(rustix::process::getpid())
    }

    /// Sends `signal` to this very process; an error when it has ended or may not be signalled.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        // SAFETY: the descriptor is open, a null siginfo is what `kill` would send, flags are none.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal.as_raw(),
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether the process has ended (it may still wait to be reaped).
    pub fn has_ended(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&Timespec::default()))? > 0)
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
