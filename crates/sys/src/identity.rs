//! The identity of a process, which names it for ever, unlike its number; and how a process is signalled and waited for by it.

use std::io;
use std::time::Instant;

use crate::poll::{self, AsFd, Until};
use crate::proc::{StartTime, Stat};
use crate::{Pid, Pidfd, Signal};

pub use crate::world::World;

/// One process of a world: its number, and when it started. A number that is used again does not match it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its number.
    pub pid: Pid,
    /// When it started.
    pub start: StartTime,
}

impl Identity {
    /// Signals this very process: opens a handle, compares the identity, asks `is_target`, and sends through the handle. What
    /// `is_target` finds out is about this process as long as the handle says that it has not ended.
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
        let me = Identity::of(crate::process::getpid()).expect("is there");
        assert!(me.is_alive() && me.open().is_some());
        let stranger = Identity { start: StartTime(me.start.0 + 1), ..me };
        assert!(!stranger.is_alive() && stranger.open().is_none());
    }
}
