//! The identity of a process, which names it for ever, unlike its pid; and how a process is signalled and waited for by it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use crate::poll::{self, Until};
use crate::proc::{StartTime, Stat};
use crate::{Pid, Pidfd, Signal};

/// The run of the machine, and the pid namespace, in which numbers have a meaning. Numbers of two worlds never name the same
/// process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The kernel's own name for this run.
    pub boot: String,
    /// The inode of the pid namespace.
    pub pid_namespace: u64,
}

impl World {
    /// The world of this process; `None` if that cannot be read.
    #[must_use]
    pub fn current() -> Option<Self> {
        Self::look().ok()
    }

    /// The same, or why it cannot be read: no `/proc`, too many open files.
    pub fn look() -> io::Result<Self> {
        // In one read: every start of a pen asks, and a buffer that grows takes three.
        let mut boot = [0; 64];
        let length = File::open("/proc/sys/kernel/random/boot_id")?.read(&mut boot)?;
        let boot = String::from_utf8_lossy(&boot[..length]).trim().to_owned();
        // `pid:[4026531836]`. Not by `stat`, for which the kernel first makes an inode.
        let name = std::fs::read_link("/proc/self/ns/pid")?;
        let inode = name.to_str().and_then(|name| name.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
        let pid_namespace = inode.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { boot, pid_namespace })
    }
}

/// One process of a world: its number, and when it started, in kernel ticks since boot. A clock that is set does not move
/// it, and a number that is used again does not match it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its number.
    pub pid: Pid,
    /// When it started.
    pub start: StartTime,
}

impl Identity {
    /// The process that has this pid now.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        Stat::of(pid).map(|stat| Self::from(&stat))
    }

    /// A handle on this very process, if it has not ended (a zombie has). Opened first and compared then, so that the handle cannot be on
    /// another process that has got the pid since.
    #[must_use]
    pub fn open(self) -> Option<Pidfd> {
        let handle = Pidfd::open(self.pid).ok()?;
        let now = Stat::of(self.pid)?;
        (now.start == self.start && !now.is_zombie()).then_some(handle)
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|now| now.start == self.start && !now.is_zombie())
    }

    /// Whether it has ended or is on its way out. The kernel marks a process before it closes the process's files.
    #[must_use]
    pub fn is_ending(self) -> bool {
        Stat::of(self.pid).is_none_or(|now| now.start != self.start || now.is_ending())
    }

    /// Signals this very process: opens a handle, compares the identity, asks `is_target`, and sends through the handle. What
    /// `is_target` reads in `/proc` is about this process as long as the handle says that it has not ended.
    pub fn signal(self, signal: Signal, is_target: impl FnOnce(&Pidfd) -> bool) -> io::Result<()> {
        let handle = self.open().filter(is_target).ok_or(io::ErrorKind::NotFound)?;
        handle.send(signal)
    }
}

/// Signals each of these processes that has not ended.
pub fn signal_each(processes: &[Identity], signal: Signal) {
    for process in processes {
        process.signal(signal, |_| true).ok(); // it may have ended since, which is what a signal is for
    }
}

/// Waits until all of these processes have ended, but not beyond `deadline`.
pub fn wait_for_end<'a>(processes: impl IntoIterator<Item = &'a Identity>, deadline: Instant) {
    let handles: Vec<Pidfd> = processes.into_iter().filter_map(|process| process.open()).collect();
    wait_for_handles(handles.iter().collect(), deadline);
}

/// The same for processes on which the caller has handles.
pub fn wait_for_handles(mut handles: Vec<&Pidfd>, deadline: Instant) {
    while !handles.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let events: Vec<_> = handles.iter().map(|handle| (handle.as_fd(), Until::Readable)).collect();
        let Ok(ended) = poll::wait(&events, Some(left)) else { return };
        let mut ended = ended.into_iter();
        handles.retain(|_| !ended.next().unwrap_or(false));
        if left.is_zero() {
            return;
        }
    }
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Self { pid: stat.pid, start: stat.start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_another_start_time_is_another_process() {
        let me = Identity::of(rustix::process::getpid()).expect("is there");
        assert!(me.is_alive() && me.open().is_some());
        let stranger = Identity { start: StartTime(me.start.0 + 1), ..me };
        assert!(!stranger.is_alive() && stranger.open().is_none());
    }

    #[test]
    fn the_world_has_a_name() {
        let world = World::current().expect("proc is mounted");
        assert_eq!(world.boot.len(), 36);
        let namespace = std::fs::metadata("/proc/self/ns/pid").expect("proc is mounted");
        assert_eq!(world.pid_namespace, std::os::unix::fs::MetadataExt::ino(&namespace));
        assert_eq!(Some(world), World::current());
    }
}
