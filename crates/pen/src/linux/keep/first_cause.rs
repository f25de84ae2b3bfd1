//! What came first. A host closes the pipe when it sees the end of its child, and a host that dies closes the pipe before its end can be
//! seen. The guard may notice both at once, or the second one first. **The reason that it tells is the first one.**

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nostray_sys::Pidfd;
use nostray_sys::poll::{self, Until};
use nostray_sys::proc::{Stat, StatFile};
use nostray_sys::process::{Ended, Pid, peek_at_child};
use nostray_sys::signal::Signal;

use super::{Child, Keeper, Source};
use crate::Isolation;
use crate::host;
use crate::reason::Reason;
use crate::reason::Role;

/// How long a process that closes its files takes until its end can be seen, on a busy machine.
const FROM_CLOSED_FILES_TO_END: Duration = Duration::from_millis(100);

impl Keeper<'_> {
    /// The last writer of the child's input is gone.
    pub(super) fn on_input_closed(&mut self) {
        // A supervisor gives its order before it closes the input.
        self.on_event(Source::Signals);
        self.tear_down.input_closed();
        let reason = self.why_input_closed();
        self.because(reason);
    }

    /// Whether the writer has closed the input, or has ended.
    fn why_input_closed(&self) -> Reason {
        if self.tear_down.has_begun() {
            return Reason::StdinClosed;
        }
        if let Some(role) = self.ending_host() {
            return role.into();
        }
        let pid = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
        let has_ended = |(number, handle): &&(u32, Pidfd)| match self.pen.spec.isolation {
            Isolation::None => pid(*number).is_some_and(|pid| host::is_ending(pid, handle)),
            Isolation::Pid => handle.has_ended().unwrap_or(false),
        };
        let ended = self.pen.die_with.iter().find(has_ended);
        ended.map_or(Reason::StdinClosed, |(number, _)| Reason::DieWithEnded(*number))
    }

    /// The host, or a launcher, that has ended or is on its way out.
    fn ending_host(&self) -> Option<Role> {
        let host = &self.pen.host;
        match self.pen.spec.isolation {
            Isolation::None => host.ending(),
            Isolation::Pid => {
                let stat = self.host_stat.as_ref().and_then(StatFile::read);
                let ended = host.handles().find(|(_, handle)| handle.has_ended().unwrap_or(false));
                stat.filter(Stat::is_ending).map(|_| Role::Host).or(ended.map(|(role, _)| role))
            }
        }
    }

    /// The child has ended so, and that is about to be told. If its input has ended as well, and the child may have ended because of
    /// that, the end of the input comes first.
    pub(super) fn look_at_input_before(&mut self, how: Ended) {
        let is_closed = |(source, fd, until): &(Source, BorrowedFd<'_>, Until)| {
            *source == Source::Stdin
                && poll::wait(&[(*fd, *until)], Some(Duration::ZERO)).is_ok_and(|fired| fired.contains(&true))
        };
        if !self.tear_down.has_begun() && may_be_reaction(how) && self.watches.iter().any(is_closed) {
            self.on_event(Source::Stdin);
        }
    }

    /// Whether the child ended by itself before this reason came. It may not have been reaped yet.
    pub(super) fn child_ended_before(&self, reason: &Reason) -> bool {
        if self.tear_down.has_begun() || !may_follow_end_of_child(reason) {
            return false;
        }
        let child = match self.child {
            Child::Alive(child) => child,
            Child::Ended(_) => return true,
            Child::Unknown => return false,
        };
        if Stat::of(child).is_some_and(|stat| stat.is_ending())
            && let Ok(handle) = Pidfd::open(child)
        {
            poll::wait(&[(handle.as_fd(), Until::Readable)], Some(FROM_CLOSED_FILES_TO_END)).ok();
        }
        peek_at_child(child).is_some_and(|how| !may_be_reaction(how))
    }

    /// This reason, or the end of the child if that has been told already.
    pub(super) fn first_of(&self, reason: Reason) -> Reason {
        let has_ended = matches!(self.child, Child::Ended(_)) && !self.tear_down.has_begun();
        if has_ended && may_follow_end_of_child(&reason) { Reason::ChildEnded } else { reason }
    }
}

/// Whether a host, or a process beside it, may act so because the child has ended.
fn may_follow_end_of_child(reason: &Reason) -> bool {
    matches!(reason, Reason::StdinClosed | Reason::HostGone | Reason::LauncherGone { .. } | Reason::DieWithEnded(_))
}

/// Whether a child may end so because its host has closed its streams, or has ended. If that and the end of the child are noticed together,
/// nothing says which came first; a crash is not taken for a reaction.
fn may_be_reaction(how: Ended) -> bool {
    matches!(how, Ended::Exited(0) | Ended::Killed(Signal::PIPE | Signal::HUP))
}
