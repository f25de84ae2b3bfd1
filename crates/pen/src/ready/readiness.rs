//! Noticing that the child is ready, and all that comes with it: in whoever keeps the tree, among all else that it waits for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_sys::listeners::listeners_of;
use nostray_sys::poll::Until;
use nostray_sys::proc::Stat;
use nostray_sys::process::{Ended, Pid, user};

use super::command::Probe;
use super::errors::Errors;
use super::file;
use super::lines::Lines;
use super::means::Means;
use super::notices::{self, Notice, Status};
use super::pace::Pace;
use crate::child::Plan;
use crate::tree::Tree;

/// So many messages, then others have their turn.
const TURNS: usize = 64;

/// Something that is watched for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The child's standard error, or the host's.
    Errors,
    /// What the child tells.
    Notices,
}

/// What is watched, and what has come of it so far.
#[derive(Debug)]
pub(crate) struct Readiness<'a> {
    means: &'a Means,
    errors: Option<Errors<'a>>,
    status: Status,
    /// Until it is ready, or has no more use for it.
    awaited: Option<Awaited>,
    probe: Option<Probe>,
    /// What has been noticed and not been told.
    noticed: Vec<Notice>,
}

#[derive(Debug)]
struct Awaited {
    pace: Pace,
    until: Option<Instant>,
}

impl<'a> Readiness<'a> {
    /// For whoever keeps the tree. Nothing is awaited yet, but what the child writes is passed on.
    pub(crate) fn new(means: &'a Means) -> Self {
        let errors = means.reader().map(Errors::new);
        Self { means, errors, status: Status::default(), awaited: None, probe: None, noticed: Vec::new() }
    }

    /// From now on it is awaited that the child is ready, for so long at most.
    pub(crate) fn await_it(&mut self, timeout: Option<Duration>, now: Instant) {
        // A time beyond all clocks is for ever.
        self.awaited = Some(Awaited { pace: Pace::new(now), until: timeout.and_then(|time| now.checked_add(time)) });
        if let (Means::Line { pattern, .. }, Some(errors)) = (self.means, &mut self.errors) {
            errors.look_at(Lines::new(pattern));
        }
    }

    /// Whether it still is.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    /// It is not awaited any more: it has come, or the child has ended, or is to.
    pub(crate) fn await_no_more(&mut self, now: Instant) {
        self.awaited = None;
        if let Some(errors) = &mut self.errors {
            errors.look_no_more();
        }
        if let Some(probe) = &mut self.probe {
            probe.end(now);
        }
    }

    /// What there is to wait for.
    pub(crate) fn watches(&self) -> impl Iterator<Item = (Stream, BorrowedFd<'_>, Until)> {
        let errors = self.errors.as_ref().and_then(Errors::watch).map(|(fd, until)| (Stream::Errors, fd, until));
        let notices = self.means.mailbox().map(|mailbox| (Stream::Notices, mailbox.as_fd(), Until::Readable));
        errors.into_iter().chain(notices)
    }

    /// When there is something to do by itself.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let awaited = self.awaited.as_ref();
        let look = awaited.filter(|_| self.looks() && self.probe.is_none()).map(|awaited| awaited.pace.next());
        let ending = self.probe.as_ref().and_then(Probe::ends_by).filter(|at| *at > now);
        [look, awaited.and_then(|awaited| awaited.until), ending, self.status.deadline()].into_iter().flatten().min()
    }

    /// Whether nobody tells, and it has to be looked for.
    fn looks(&self) -> bool {
        matches!(self.means, Means::Port(_) | Means::File { .. } | Means::Command { .. })
    }

    /// Something has come.
    pub(crate) fn on(&mut self, stream: Stream, now: Instant) {
        match stream {
            Stream::Errors => self.pass_on(),
            Stream::Notices => self.read_notices(now),
        }
    }

    /// Passes on what the child has written.
    pub(crate) fn pass_on(&mut self) {
        if self.errors.as_mut().is_some_and(Errors::pass_on) {
            self.noticed.push(Notice::Ready);
        }
    }

    /// The same once nobody is left who writes. False if the host would have to read before there can be more.
    pub(crate) fn pass_on_the_rest(&mut self, has_moved: &mut bool) -> bool {
        self.errors.as_mut().is_none_or(|errors| errors.pass_on_the_rest(has_moved))
    }

    fn read_notices(&mut self, now: Instant) {
        let mut buffer = [0; notices::LONGEST];
        for _ in 0..TURNS {
            let Some(Ok(Some(letter))) = self.means.mailbox().map(|mailbox| mailbox.next(&mut buffer)) else {
                return;
            };
            if letter.user != Some(user()) || !letter.is_whole {
                continue;
            }
            for notice in notices::read(&buffer[..letter.length]) {
                match notice {
                    Notice::Status(text) => self.status.is(text),
                    Notice::Extend(time) => {
                        if let Some(until) = self.awaited.as_mut().and_then(|awaited| awaited.until.as_mut()) {
                            *until = (*until).max(now + time);
                        }
                        self.noticed.push(notice);
                    }
                    Notice::Ready | Notice::Stopping => self.noticed.push(notice),
                }
            }
        }
    }

    /// The last look, before nobody cares any more: it may have been ready since the one before. Not for a command, which takes time.
    pub(crate) fn look_once_more(&mut self, tree: &Tree<'_>) {
        if self.awaited.is_some() && self.is_ready_now(tree) {
            self.noticed.push(Notice::Ready);
        }
    }

    fn is_ready_now(&self, tree: &Tree<'_>) -> bool {
        match self.means {
            Means::Port(port) => {
                let members = tree.members();
                let found = listeners_of(members.iter().map(|member| member.pid));
                found.iter().any(|found| port.is_served_by(found.address, found.port))
            }
            Means::File { path, before } => file::is_new(path, *before),
            Means::Command { .. } | Means::Line { .. } | Means::Notify { .. } => false,
        }
    }

    /// Looks for what nobody tells, if it is time to.
    pub(crate) fn look(&mut self, plan: &Plan, tree: &Tree<'_>, now: Instant) {
        let is_due = self.awaited.as_ref().is_some_and(|awaited| awaited.pace.next() <= now);
        if is_due && self.looks() && self.probe.is_none() {
            if let Means::Command { program, directory } = self.means {
                // One that cannot be started now may be able to later.
                self.probe = Probe::start(plan, program, directory.as_fd(), tree).ok();
            } else if self.is_ready_now(tree) {
                self.noticed.push(Notice::Ready);
            }
            // The pause after a command counts from its end.
            if let Some(awaited) = self.awaited.as_mut().filter(|_| self.probe.is_none()) {
                awaited.pace.again(now);
            }
        }
        if let Some(text) = self.status.due(now) {
            self.noticed.push(Notice::Status(text));
        }
    }

    /// What has been noticed since the last time.
    pub(crate) fn noticed(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.noticed)
    }

    /// Whether it took too long.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.awaited.as_ref().and_then(|awaited| awaited.until).is_some_and(|until| until <= now)
    }

    /// A child of the guard's has ended.
    pub(crate) fn reaped(&mut self, pid: Pid, how: Ended, now: Instant) {
        if self.probe.take_if(|probe| probe.pid == pid).is_none() {
            return;
        }
        if let Some(awaited) = &mut self.awaited {
            awaited.pace.again(now);
            if how == Ended::Exited(0) {
                self.noticed.push(Notice::Ready);
            }
        }
    }

    /// Whether a command of ours is about to end that would be taken for somebody whom the child has left behind.
    pub(crate) fn is_ending(&self, now: Instant) -> bool {
        self.probe.as_ref().and_then(Probe::ends_by).is_some_and(|at| now < at)
    }

    /// Leaves those who were started here out of a list of the tree's members, parents before children.
    pub(crate) fn without_own(&self, mut members: Vec<Stat>) -> Vec<Stat> {
        if let Some(probe) = &self.probe {
            let mut own = vec![probe.pid];
            members.retain(|member| {
                let is_own = own.contains(&member.pid) || member.parent.is_some_and(|parent| own.contains(&parent));
                if is_own {
                    own.push(member.pid);
                }
                !is_own
            });
        }
        members
    }
}
