//! A pen that is open, as its opener sees it: a child process to signal, to stop with, and to wait for.

use std::os::fd::{AsFd, BorrowedFd};

use nostray_sys::Pidfd;
use nostray_sys::proc::{StartTime, Stat};
use nostray_sys::process::Pid;
use nostray_sys::signal::{Arrived, Signal, send_to_own_child};

use crate::front::stop_unless;
use crate::{Ask, PenId, requests};

/// A pen that was opened.
#[derive(Debug)]
pub struct OpenPen {
    /// Its name.
    pub id: PenId,
    pub(super) front: Option<Pidfd>,
    /// Until it has been reaped.
    pub(super) pid: Option<Pid>,
    pub(super) since: Option<StartTime>,
}

impl OpenPen {
    /// Readable when the pen's front, a child of this process, has ended. Without a handle only SIGCHLD tells.
    #[must_use]
    pub fn front(&self) -> Option<BorrowedFd<'_>> {
        self.front.as_ref().filter(|_| self.pid.is_some()).map(AsFd::as_fd)
    }

    /// Hands a signal of the host's on to the pen. False if that is not possible: its front has ended, or the user has no room for
    /// another queued signal.
    pub fn hand_on(&self, arrived: Arrived) -> bool {
        self.front
            .as_ref()
            .is_some_and(|front| front.send_with(Signal::queued(), requests::handed_on(arrived)).is_ok())
    }

    /// Stops this process as the pen's front was, until it is continued: by the shell, or by that front.
    pub fn stop_with_it(&self, by: Signal) {
        let is_stopped = || self.pid.and_then(Stat::of).is_some_and(|stat| stat.is_stopped());
        stop_unless(by, || !is_stopped());
    }

    /// Whether a signal is the SIGCONT of the pen's front: the opener need not be stopped any more.
    #[must_use]
    pub fn wakes_us(&self, arrived: Arrived) -> bool {
        arrived.signal == Signal::CONT && arrived.sender.is_some() && arrived.sender == self.pid
    }

    /// Lets the pen's front go on, if it was stopped.
    pub fn go_on(&self) {
        if let Some(pid) = self.pid {
            send_to_own_child(pid, Signal::CONT).ok();
        }
    }

    /// Asks the pen's front to end the pen. False if the front has ended.
    pub fn ask(&self, ask: Ask) -> bool {
        self.front.as_ref().is_some_and(|front| crate::ask(front, ask).is_ok())
    }
}
