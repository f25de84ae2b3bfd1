//! Signals as values: sets, masks, dispositions, and a descriptor to read them from.
//!
//! Front and guard install no handlers. They block what they care about and read it from a signalfd, so a
//! signal is an event among others and there is no code that runs at a random moment.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::Pid;

/// One signal, by its number on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(i32);

#[allow(missing_docs)] // the names are the documentation
impl Signal {
    pub const HUP: Self = Self(libc::SIGHUP);
    pub const INT: Self = Self(libc::SIGINT);
    pub const QUIT: Self = Self(libc::SIGQUIT);
    pub const ILL: Self = Self(libc::SIGILL);
    pub const TRAP: Self = Self(libc::SIGTRAP);
    pub const ABRT: Self = Self(libc::SIGABRT);
    pub const BUS: Self = Self(libc::SIGBUS);
    pub const FPE: Self = Self(libc::SIGFPE);
    pub const KILL: Self = Self(libc::SIGKILL);
    pub const USR1: Self = Self(libc::SIGUSR1);
    pub const SEGV: Self = Self(libc::SIGSEGV);
    pub const USR2: Self = Self(libc::SIGUSR2);
    pub const PIPE: Self = Self(libc::SIGPIPE);
    pub const TERM: Self = Self(libc::SIGTERM);
    pub const CHLD: Self = Self(libc::SIGCHLD);
    pub const CONT: Self = Self(libc::SIGCONT);
    pub const STOP: Self = Self(libc::SIGSTOP);
    pub const TSTP: Self = Self(libc::SIGTSTP);
    pub const TTIN: Self = Self(libc::SIGTTIN);
    pub const TTOU: Self = Self(libc::SIGTTOU);
    pub const WINCH: Self = Self(libc::SIGWINCH);
    pub const SYS: Self = Self(libc::SIGSYS);
}

const NAMES: [&str; 32] = [
    "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
    "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
    "WINCH", "IO", "PWR", "SYS",
];

impl Signal {
    /// The signal with this number, if the system has one.
    #[must_use]
    pub fn from_raw(number: i32) -> Option<Self> {
        (1..=libc::SIGRTMAX()).contains(&number).then_some(Self(number))
    }

    /// The last real-time signal. Real-time signals queue: each that is sent arrives. Of the others, one that is sent
    /// while the same is pending is lost.
    #[must_use]
    pub fn queued() -> Self {
        Self(libc::SIGRTMAX())
    }

    /// Its number.
    #[must_use]
    pub fn as_raw(self) -> i32 {
        self.0
    }
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match usize::try_from(self.0).ok().and_then(|n| NAMES.get(n)) {
            Some(name) => write!(f, "SIG{name}"),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl std::fmt::Debug for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A set of signals.
#[derive(Clone, Copy, Debug)]
pub struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// Every signal that can be blocked.
    #[must_use]
    pub fn full() -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigfillset` initialises the set it is given.
        Self(unsafe {
            libc::sigfillset(set.as_mut_ptr());
            set.assume_init()
        })
    }

    /// None.
    #[must_use]
    pub fn empty() -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises the set it is given.
        Self(unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        })
    }

    /// The same set with `signal`.
    #[must_use]
    pub fn with(mut self, signal: Signal) -> Self {
        // SAFETY: the set is initialised and the number came from a `Signal`.
        unsafe { libc::sigaddset(&mut self.0, signal.0) };
        self
    }

    /// The same set without `signal`.
    #[must_use]
    pub fn without(mut self, signal: Signal) -> Self {
        // SAFETY: the set is initialised and the number came from a `Signal`.
        unsafe { libc::sigdelset(&mut self.0, signal.0) };
        self
    }

    /// Makes this the calling thread's mask and returns the one before.
    pub fn set_as_mask(&self) -> io::Result<SignalSet> {
        let mut old = MaybeUninit::uninit();
        // SAFETY: both pointers are valid for the call, which initialises `old` when it succeeds.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, old.as_mut_ptr()) } {
            // SAFETY: initialised, since the call succeeded.
            0 => Ok(Self(unsafe { old.assume_init() })),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// What a process does with a signal, as far as it survives `execve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The default action.
    Default,
    /// Ignored.
    Ignored,
}

/// Whether this process ignores `signal`.
#[must_use]
pub fn is_ignored(signal: Signal) -> bool {
    // SAFETY: all-zero is a valid `sigaction`, and the call only writes into it.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal.0, std::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
    }
}

/// Sets what this process does with `signal`.
pub fn set_disposition(signal: Signal, to: Disposition) -> io::Result<()> {
    // SAFETY: the structure is fully initialised and holds one of the two constants, never a function.
    let result = unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = match to {
            Disposition::Default => libc::SIG_DFL,
            Disposition::Ignored => libc::SIG_IGN,
        };
        libc::sigaction(signal.0, &new, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends `signal` to the process with this number.
///
/// Sound only for a process that cannot be replaced meanwhile: this process, or a child that it has not
/// reaped. Every other process is signalled through a [`crate::Pidfd`].
pub fn send_to_own_child(pid: Pid, signal: Signal) -> io::Result<()> {
    raw_kill(pid.as_raw_nonzero().get(), signal)
}

/// Sends `signal` to this process.
pub fn send_to_self(signal: Signal) -> io::Result<()> {
    raw_kill(rustix::process::getpid().as_raw_nonzero().get(), signal)
}

/// As the first process of a pid namespace: sends `signal` to every other process in it, in one step that a fork
/// cannot slip through. Refuses anywhere else, where it would mean every process of this user.
pub fn send_to_namespace(signal: Signal) -> io::Result<()> {
    if rustix::process::getpid() != Pid::INIT {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    raw_kill(-1, signal)
}

/// From now on the kernel sends `signal` to this process whenever something arrives at `fd`, a pipe, or its last writer is gone. A
/// process in a pid namespace below ours can signal us in no other way; and what is sent with SIGCONT reaches us also when we are stopped.
pub fn send_to_self_on_input(fd: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    let number = fd.as_raw_fd();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: these commands read numbers, and change nothing but this descriptor's open file.
    let is_set = unsafe {
        libc::fcntl(number, libc::F_SETOWN, own) != -1
            && libc::fcntl(number, F_SETSIG, signal.0) != -1
            && libc::fcntl(number, libc::F_SETFL, libc::fcntl(number, libc::F_GETFL) | libc::O_ASYNC) != -1
    };
    if is_set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The C library's headers have it, and its crate does not for every machine.
pub(crate) const F_SETSIG: i32 = 10;

fn raw_kill(pid: i32, signal: Signal) -> io::Result<()> {
    // SAFETY: `kill` reads its two numbers and nothing else.
    if unsafe { libc::kill(pid, signal.0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A signal that arrived, and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Which one.
    pub signal: Signal,
    /// The sender, when it was a process that this one can see.
    pub sender: Option<Pid>,
    /// Sent by the kernel itself: a key on the terminal or its hang-up, which the whole foreground group has got too; a limit; or
    /// something that has arrived ([`send_to_self_on_input`]).
    pub from_kernel: bool,
    /// The number that the sender attached, if it did.
    pub value: Option<i32>,
}

/// A descriptor from which blocked signals are read.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Reads the signals of `set`, which must be blocked.
    pub fn new(set: &SignalSet) -> io::Result<Self> {
        // SAFETY: the set is initialised, and -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and owned by no other value.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that waits, if any.
    pub fn next(&self) -> io::Result<Option<Arrived>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        loop {
            // SAFETY: the buffer is as large as the size given.
            let n = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if n == -1 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    io::ErrorKind::WouldBlock => return Ok(None),
                    _ => return Err(error),
                }
            }
            if usize::try_from(n).is_ok_and(|n| n < size) {
                return Ok(None);
            }
            // SAFETY: the kernel filled the whole structure.
            let info = unsafe { info.assume_init() };
            let Some(signal) = i32::try_from(info.ssi_signo).ok().and_then(Signal::from_raw) else {
                continue;
            };
            return Ok(Some(Arrived {
                signal,
                sender: i32::try_from(info.ssi_pid).ok().and_then(Pid::from_raw),
                // What a process sends has zero or less.
                from_kernel: info.ssi_code > 0,
                value: (info.ssi_code == libc::SI_QUEUE).then_some(info.ssi_int),
            }));
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
