//! A handle on one process, which stays on that process when its number is used again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::{Pid, Signal};

/// What the kernel keeps of a queued signal, as it lies in `siginfo_t` on 64-bit machines.
#[repr(C)]
struct QueuedBy {
    pid: i32,
    uid: u32,
    value: i64,
}

/// A handle on one process. Readable once that process, with all its threads, has ended.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// A handle on the process that has this pid now; the caller checks that it is the process that it means.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// A handle on the process that a user has named by its number, or what is wrong with the number.
    pub fn of_user(number: u32) -> Result<(Pid, Self), String> {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or("not a process number")?;
        let handle = Self::open(pid).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => "there is no such process (it may have ended already)".to_owned(),
            Some(libc::ENOENT | libc::EINVAL) => "that is a thread, not a process".to_owned(),
            _ => error.to_string(),
        })?;
        match handle.has_ended() {
            Ok(false) => Ok((pid, handle)),
            Ok(true) => Err("it has ended already".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A handle on this process itself, for the processes that inherit it to watch this one.
    pub fn of_self() -> io::Result<Self> {
        Self::open(rustix::process::getpid())
    }

    /// Another descriptor for the same handle, for a caller that has to own it to wait for it.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Sends `signal` to this very process; an error when it has ended or may not be signalled.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::Signal::from_named_raw(signal.as_raw()) {
            Some(named) => Ok(pidfd_send_signal(&self.0, named)?),
            // rustix has no safe name for a real-time signal.
            None => self.send_raw(signal, None),
        }
    }

    /// The same with a number attached, by which the receiver knows that it is meant and not any process of this name.
    pub fn send_with(&self, signal: Signal, value: i32) -> io::Result<()> {
        // SAFETY: all-zero is a valid `siginfo_t`.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = signal.as_raw();
        info.si_code = libc::SI_QUEUE;
        let sender = QueuedBy {
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            uid: rustix::process::getuid().as_raw(),
            value: i64::from(value),
        };
        // SAFETY: behind the three numbers at its head, and aligned as a pointer is, the kernel's structure has the sender
        // and the value at this place, and is much larger than both.
        unsafe { std::ptr::from_mut(&mut info).cast::<u8>().add(16).cast::<QueuedBy>().write_unaligned(sender) };
        self.send_raw(signal, Some(&info))
    }

    /// What rustix cannot send: a real-time signal, or one with a value. Without `info` it is what `kill` would send.
    fn send_raw(&self, signal: Signal, info: Option<&libc::siginfo_t>) -> io::Result<()> {
        let info = info.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the descriptor is open, the structure is initialised or null, and the kernel only reads it; flags are none.
        let result =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal.as_raw(), info, 0) };
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
