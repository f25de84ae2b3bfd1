//! Which process is meant: its number, and when it was made. A number alone is used again.

use std::io;
use std::time::Instant;

use crate::poll::{self, AsFd, Until};
use crate::proc::{StartTime, Stat};
use crate::{Pid, Pidfd, Signal};

/// Where numbers of processes mean what they mean here. On Windows that is the machine: the time at which a process was made is a moment
/// of the calendar, so a number from before the last start of the machine names no process of today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The run of the machine.
    pub boot: String,
    /// There are no pid namespaces.
    pub pid_namespace: u64,
}

impl World {
    /// This one.
    #[must_use]
    pub fn current() -> Option<Self> {
        Some(Self { boot: "windows".to_owned(), pid_namespace: 0 })
    }
}

/// One process, for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its number.
    pub pid: Pid,
    /// When it was made.
    pub start: StartTime,
}

impl Identity {
    /// The process that has this number now.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        Pidfd::open(pid).ok()?.identity(pid)
    }

    /// A handle on this very process, if it has not ended.
    #[must_use]
    pub fn open(self) -> Option<Pidfd> {
        // Compared after the handle is there: from then on the number cannot be another process's.
        let handle = Pidfd::open(self.pid).ok()?;
        (handle.identity(self.pid) == Some(self)).then_some(handle)
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_alive(self) -> bool {
        self.open().is_some()
    }

    /// Signals this very process, if the handle on it passes the check.
    pub fn signal(self, signal: Signal, is_target: impl FnOnce(&Pidfd) -> bool) -> io::Result<()> {
        let handle = self.open().filter(is_target).ok_or(io::ErrorKind::NotFound)?;
        handle.send(signal)
    }
}

impl Pidfd {
    /// Who that is, if it has not ended.
    #[must_use]
    pub fn identity(&self, pid: Pid) -> Option<Identity> {
        let [made, ..] = self.times().ok()?;
        (!self.has_ended().ok()?).then_some(Identity { pid, start: StartTime(made) })
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
        let me = Identity::of(crate::process::getpid()).expect("is there");
        assert!(me.is_alive() && me.open().is_some());
        let stranger = Identity { start: StartTime(me.start.0 + 1), ..me };
        assert!(!stranger.is_alive() && stranger.open().is_none());
    }
}
