//! Making, joining and reaping processes.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

pub use rustix::process::{Pid, getpid, getppid, setsid};
use rustix::process::{WaitOptions, WaitStatus, set_child_subreaper, set_parent_process_death_signal};

use crate::Signal;
use crate::cgroup::Cgroup;

/// The session of a process, this one by default. None if the session is outside of this pid namespace, and for kernel
/// threads and an init that never made a session: theirs is number 0, which `rustix` does not expect.
pub fn session_of(pid: Option<Pid>) -> io::Result<Option<Pid>> {
    // SAFETY: reads a number, returns a number.
    match unsafe { libc::getsid(Pid::as_raw(pid)) } {
        -1 => Err(io::Error::last_os_error()),
        session => Ok(Pid::from_raw(session)),
    }
}

/// Whether this process is at the head of its group.
#[must_use]
pub fn leads_a_group() -> bool {
    // SAFETY: returns a number.
    Pid::from_raw(unsafe { libc::getpgrp() }) == Some(getpid())
}

/// Whether this process has a controlling terminal.
#[must_use]
pub fn has_terminal() -> bool {
    crate::proc::Stat::of(getpid()).is_some_and(|stat| stat.has_terminal)
}

/// Puts this process at the head of a group of its own, in the session it is in.
pub fn lead_own_group() -> io::Result<()> {
    Ok(rustix::process::setpgid(None, None)?)
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Side {
    /// The process that forked; the new one has this number.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Forks. **Only for a program with one thread**: the child goes on to run ordinary code, and a lock that
/// another thread held at the fork would stay locked in it for ever.
pub fn fork() -> io::Result<Side> {
    // SAFETY: front and guard have one thread, so the child's memory is consistent.
    side_of(unsafe { libc::fork() }.into())
}

/// Forks a process that does something of its own and ends. It has none of this process's files, so that no process that waits for
/// the end of one of them has to wait for it; and `work` knows of nothing from before but the word that it is told. Same
/// condition as [`fork`].
pub fn fork_apart(name: &str, about: &str, work: fn(&str)) -> io::Result<Pid> {
    fork_with_nothing(
        name,
        || true,
        || {
            work(about);
            0
        },
    )
}

/// The same, for work that only this process waits for: it is killed when this process ends.
pub fn fork_helper(name: &str, about: &str, work: fn(&str)) -> io::Result<Pid> {
    let parent = getpid();
    let ends_with_us = || {
        // Armed first and checked then: a parent that ended before has sent nothing.
        set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).ok();
        getppid() == Some(parent)
    };
    fork_with_nothing(name, ends_with_us, || {
        work(about);
        0
    })
}

/// The same for work that knows of more, and is done in this directory. **It must know of no descriptor from before**: what had
/// its number is closed.
pub fn fork_alone(name: &str, directory: BorrowedFd<'_>, work: impl FnOnce() -> u8) -> io::Result<Pid> {
    let goes_there = || {
        // A directory that is gone is no reason to fail.
        rustix::process::fchdir(directory).ok();
        true
    };
    fork_with_nothing(name, goes_there, work)
}

/// Forks a process that closes all of its files, after a first step that needs them and may call it off, and ends with its work.
fn fork_with_nothing(name: &str, first: impl FnOnce() -> bool, work: impl FnOnce() -> u8) -> io::Result<Pid> {
    match fork()? {
        Side::Parent(pid) => Ok(pid),
        Side::Child => {
            set_name(name);
            set_title(name);
            if !first() {
                exit_now(1);
            }
            crate::descriptors::let_go_of_everything();
            exit_now(work())
        }
    }
}

/// Becomes a daemon: leaves the session and the parent, so that their end does not end this process. Same condition as [`fork`].
pub fn become_daemon() -> io::Result<()> {
    let leave_parent = || match fork()? {
        Side::Parent(_) => exit_now(0),
        Side::Child => io::Result::Ok(()),
    };
    // A process that leads a group cannot make a session.
    if rustix::process::setsid().is_err() {
        leave_parent()?;
        rustix::process::setsid()?;
    }
    // A process that leads no session never gets a controlling terminal.
    leave_parent()
}

/// Forks a child that starts inside `cgroup`. Same condition as [`fork`]; the child must do no more than
/// prepare for `execve`, since the C library does not know of it.
///
/// Joining later, by a write to `cgroup.procs`, takes a lock over every process of the machine and waits for
/// a grace period of the kernel: milliseconds where this takes microseconds.
pub fn fork_into(cgroup: &Cgroup) -> io::Result<Side> {
    let args = CloneArgs {
        flags: CLONE_INTO_CGROUP,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: cgroup.raw_fd().unsigned_abs().into(),
        ..CloneArgs::default()
    };
    // SAFETY: the structure is the kernel's own with its true size; with no CLONE_VM and no stack given it
    // acts as `fork` does, under the same condition.
    side_of(unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) })
}

fn side_of(returned: i64) -> io::Result<Side> {
    match i32::try_from(returned) {
        Ok(0) => Ok(Side::Child),
        Ok(pid) => Pid::from_raw(pid.max(0)).map(Side::Parent).ok_or_else(io::Error::last_os_error),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// The C library's constant overflows its type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The kernel's `struct clone_args`, second version and later.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Ends this process at once, without running what the program it was forked from would run at exit.
pub fn exit_now(code: u8) -> ! {
    // SAFETY: `_exit` does not return and touches no memory of ours.
    unsafe { libc::_exit(code.into()) }
}

/// Makes this process the one to which orphans among its descendants are handed.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Asks for SIGTERM when the thread that forked this process ends. The caller must check afterwards that its
/// parent is still the one it expects: it may have ended before.
pub fn ask_for_term_when_parent_ends() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?)
}

/// Whether the kernel continues this process (SIGCONT) when the thread that forked it ends, or later the subreaper that
/// adopted it. If it is stopped at that moment, it goes on and sees that its parent is gone.
pub fn be_continued_when_parent_ends(yes: bool) {
    // It cannot fail: the signal is a valid one.
    set_parent_process_death_signal(yes.then_some(rustix::process::Signal::CONT)).ok();
}

pub use crate::startup::set_title;

/// Tells a person who looks with `ps` what this process is for.
pub fn set_name(name: &str) {
    // On the stack: this is the first step of processes that were just forked, and what one of them allocates costs it copies
    // of pages. The kernel takes fifteen bytes, too.
    let mut buffer = [0; 16];
    let length = name.len().min(buffer.len() - 1);
    buffer[..length].copy_from_slice(&name.as_bytes()[..length]);
    // A name is a courtesy; the kernel refuses none of ours.
    std::ffi::CStr::from_bytes_until_nul(&buffer).ok().and_then(|name| rustix::thread::set_name(name).ok());
}

/// Best effort to be scheduled before a tree that forks as fast as it can. Unprivileged users may not, and
/// do without.
pub fn raise_priority() {
    rustix::process::setpriority_process(None, -20).ok();
}

/// What a program ends with.
pub type Code = u8;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Exited(u8),
    /// By a signal.
    Killed(Signal),
}

impl Ended {
    /// The code by which a shell would report it.
    #[must_use]
    pub fn shell_code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX),
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => match signal.to_string() {
                name if name.starts_with("SIG") => write!(f, "was killed by signal {} ({name})", signal.as_raw()),
                number => write!(f, "was killed by {number}"),
            },
        }
    }
}

/// News of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It ended and has been reaped: its pid may belong to another process from now on.
    Ended(Pid, Ended),
    /// It was stopped by a signal.
    Stopped(Pid, Signal),
    /// It goes on after a stop.
    Continued(Pid),
    /// Some child has changed in a way that is of no interest here.
    Other,
}

/// What a look at the children found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// One of them has news.
    News(News),
    /// There are children, and none has news.
    Quiet,
    /// ECHILD: no child is left. In a subreaper that means no descendant at all, since each one either has a
    /// living parent in the tree or has been handed to us. **The only accepted proof of an empty tree.**
    NoChildren,
}

/// Reaps this child, if it has ended, and no other: for a program that has children of its own.
pub fn reap_child(pid: Pid) -> io::Result<Option<Ended>> {
    match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)? {
        None => Ok(None),
        Some((_, status)) => Ok(match news(pid, status) {
            News::Ended(_, how) => Some(how),
            _ => None,
        }),
    }
}

/// Waits for the end of this child, and reaps it. Without such a child, it returns at once.
pub fn wait_for_child(pid: Pid) {
    while let Err(rustix::io::Errno::INTR) = rustix::process::waitpid(Some(pid), WaitOptions::empty()) {}
}

/// How this child has ended, if it has. It is not reaped.
#[must_use]
pub fn peek_at_child(pid: Pid) -> Option<Ended> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(pid), options).ok()??;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Ended::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX))),
        (None, Some(signal)) => Signal::from_raw(signal).map(Ended::Killed),
        (None, None) => None,
    }
}

/// Whether this process has children, also such as have ended and were not reaped. One call, where listing them takes four.
#[must_use]
pub fn has_children() -> bool {
    // `__WALL`: also children that `clone` made without SIGCHLD.
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let mut news = std::mem::MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: writes into the variable that it is given, which is never read, and with these options reaps nothing.
    let looked = unsafe { libc::waitid(libc::P_ALL, 0, news.as_mut_ptr(), options) };
    looked == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ECHILD)
}

/// Looks at the children without waiting, and reaps an ended child, if there is one.
pub fn reap() -> io::Result<Reaped> {
    let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
    match rustix::process::wait(options) {
        Ok(None) => Ok(Reaped::Quiet),
        Ok(Some((pid, status))) => Ok(Reaped::News(news(pid, status))),
        Err(rustix::io::Errno::CHILD) => Ok(Reaped::NoChildren),
        Err(rustix::io::Errno::INTR) => Ok(Reaped::News(News::Other)),
        Err(error) => Err(error.into()),
    }
}

fn news(pid: Pid, status: WaitStatus) -> News {
    let signal = |number: Option<i32>| number.and_then(Signal::from_raw);
    if let Some(code) = status.exit_status() {
        News::Ended(pid, Ended::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)))
    } else if let Some(by) = signal(status.terminating_signal()) {
        News::Ended(pid, Ended::Killed(by))
    } else if let Some(by) = signal(status.stopping_signal()) {
        News::Stopped(pid, by)
    } else if status.continued() {
        News::Continued(pid)
    } else {
        News::Other
    }
}

/// The nanoseconds of processor time that a process has used, with all its threads. Finer than the clock
/// ticks of `/proc`, and readable for every process.
#[must_use]
pub fn cpu_time(pid: Pid) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write only into the variables that they are given.
    let found = unsafe {
        libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    let whole = u64::try_from(time.tv_sec).ok()?.checked_mul(1_000_000_000)?;
    found.then_some(whole + u64::try_from(time.tv_nsec).ok()?)
}

/// Sixty-four random bits.
#[must_use]
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // Before the kernel has gathered entropy, at boot, the clock and our number have to do.
    if rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::NONBLOCK).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        return (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 40);
    }
    u64::from_ne_bytes(bytes)
}

/// How much of a processor's time, in microseconds, a real-time thread of this process may use without waiting: the hard limit.
#[must_use]
pub fn real_time_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Rttime).maximum.unwrap_or(u64::MAX)
}

/// Lowers it. Children inherit it over fork and execve, and without privileges it cannot be raised again.
pub fn lower_real_time_limit(to: u64) -> io::Result<()> {
    let resource = rustix::process::Resource::Rttime;
    let current = rustix::process::getrlimit(resource).current.unwrap_or(u64::MAX);
    let limit = rustix::process::Rlimit { current: Some(current.min(to)), maximum: Some(to) };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

/// Random numbers that cannot be guessed: many for one system call.
pub fn random_numbers() -> impl FnMut() -> u64 + Send {
    const BATCH: usize = 64;
    let mut bytes = [0; 8 * BATCH];
    let mut used = BATCH;
    move || {
        if used == BATCH {
            let mut filled = 0;
            while filled < bytes.len() {
                // Waits, at boot, until the kernel has gathered entropy. Of this size a call may be cut short by a signal.
                filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                    .unwrap_or_default();
            }
            used = 0;
        }
        used += 1;
        bytes.as_chunks::<8>().0.get(used - 1).map_or(0, |number| u64::from_ne_bytes(*number))
    }
}

/// The current directory, to return to later.
pub fn directory() -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    Ok(open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Leaves the directory that this process was started in, which belongs to the child alone.
pub fn leave_directory() {
    std::env::set_current_dir("/").ok();
}

/// Takes root's identity for good, where the program's file allows it (set-user-id). For tests of processes that may not
/// be signalled.
pub fn become_root() -> io::Result<()> {
    // SAFETY: sets three numbers of this process.
    if unsafe { libc::setresuid(0, 0, 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The user that this process acts for.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The pid of this process in the mounted `/proc`: in a pid namespace of its own, that is not what `getpid` returns.
#[must_use]
pub fn number_in_proc() -> Option<Pid> {
    std::fs::read_link("/proc/self").ok()?.to_str()?.parse().ok().and_then(Pid::from_raw)
}
