//! Detects that the child is ready, in the process that keeps the tree, as part of that process's event loop.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_sys::listeners::listeners_of;
use nostray_sys::poll::Until;
use nostray_sys::proc::Stat;
use nostray_sys::process::{Ended, Pid, user};

use super::command::Probe;
use super::detector::Detector;
use super::file;
use super::lines::LineMatcher;
use super::notices::{self, Notice, Status};
use super::poll_interval::PollInterval;
use super::stderr::StderrRelay;
use crate::child::Plan;
use crate::tree::Tree;

/// The most messages that are read before other events have their turn.
const MAX_READS_PER_WAKEUP: usize = 64;

/// Something that is watched for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The child's standard error, or the host's.
    Stderr,
    /// What the child tells.
    Notices,
}

/// What is watched, and what has come of it so far.
#[derive(Debug)]
pub(crate) struct Readiness<'a> {
    detector: &'a Detector,
    stderr: Option<StderrRelay<'a>>,
    status: Status,
    /// Until it is ready, or has no more use for it.
    awaited: Option<Awaited>,
    probe: Option<Probe>,
    /// What has been noticed and not been told.
    noticed: Vec<Notice>,
}

#[derive(Debug)]
struct Awaited {
    interval: PollInterval,
    until: Option<Instant>,
}

impl<'a> Readiness<'a> {
    /// Nothing is awaited yet, but the child's stderr is passed on.
    pub(crate) fn new(detector: &'a Detector) -> Self {
        let stderr = detector.reader().map(StderrRelay::new);
        Self { detector, stderr, status: Status::default(), awaited: None, probe: None, noticed: Vec::new() }
    }

    /// From now on it is awaited that the child is ready, for so long at most.
    pub(crate) fn await_it(&mut self, timeout: Option<Duration>, now: Instant) {
        // A time beyond all clocks is for ever.
        self.awaited =
            Some(Awaited { interval: PollInterval::new(now), until: timeout.and_then(|time| now.checked_add(time)) });
        if let (Detector::Line { pattern, .. }, Some(stderr)) = (self.detector, &mut self.stderr) {
            stderr.look_at(LineMatcher::new(pattern));
        }
    }

    /// Whether it still is.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    /// It is not awaited any more: it has come, or the child has ended, or is to.
    pub(crate) fn await_no_more(&mut self, now: Instant) {
        self.awaited = None;
        if let Some(stderr) = &mut self.stderr {
            stderr.look_no_more();
        }
        if let Some(probe) = &mut self.probe {
            probe.end(now);
        }
    }

    /// What there is to wait for.
    pub(crate) fn watches(&self) -> impl Iterator<Item = (Stream, BorrowedFd<'_>, Until)> {
        let stderr = self.stderr.as_ref().and_then(StderrRelay::watch).map(|(fd, until)| (Stream::Stderr, fd, until));
        let notices = self.detector.mailbox().map(|mailbox| (Stream::Notices, mailbox.as_fd(), Until::Readable));
        stderr.into_iter().chain(notices)
    }

    /// When there is something to do by itself.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let awaited = self.awaited.as_ref();
        let look = awaited.filter(|_| self.looks() && self.probe.is_none()).map(|awaited| awaited.interval.next());
        let ending = self.probe.as_ref().and_then(Probe::ends_by).filter(|at| *at > now);
        [look, awaited.and_then(|awaited| awaited.until), ending, self.status.deadline()].into_iter().flatten().min()
    }

    /// Whether this kind sends no event, and has to be polled.
    fn looks(&self) -> bool {
        matches!(self.detector, Detector::Port(_) | Detector::File { .. } | Detector::Command { .. })
    }

    /// Something has come.
    pub(crate) fn on(&mut self, stream: Stream, now: Instant) {
        match stream {
            Stream::Stderr => self.pass_on(),
            Stream::Notices => self.read_notices(now),
        }
    }

    /// Passes on what the child has written.
    pub(crate) fn pass_on(&mut self) {
        if self.stderr.as_mut().is_some_and(StderrRelay::pass_on) {
            self.noticed.push(Notice::Ready);
        }
    }

    /// The same once the tree is empty. False if the host has to read before more can be written.
    pub(crate) fn pass_on_the_rest(&mut self, has_moved: &mut bool) -> bool {
        self.stderr.as_mut().is_none_or(|stderr| stderr.pass_on_the_rest(has_moved))
    }

    fn read_notices(&mut self, now: Instant) {
        let mut buffer = [0; notices::MAX_MESSAGE];
        for _ in 0..MAX_READS_PER_WAKEUP {
            let Some(Ok(Some(letter))) = self.detector.mailbox().map(|mailbox| mailbox.next(&mut buffer)) else {
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

    /// The last look: the child may have become ready since the one before. Not for a command, which takes time.
    pub(crate) fn look_once_more(&mut self, tree: &Tree<'_>) {
        if self.awaited.is_some() && self.is_ready_now(tree) {
            self.noticed.push(Notice::Ready);
        }
    }

    fn is_ready_now(&self, tree: &Tree<'_>) -> bool {
        match self.detector {
            Detector::Port(port) => {
                let members = tree.members();
                let found = listeners_of(members.iter().map(|member| member.pid));
                found.iter().any(|found| port.is_served_by(found.address, found.port))
            }
            Detector::File { path, before } => file::is_new(path, *before),
            Detector::Command { .. } | Detector::Line { .. } | Detector::Notify { .. } => false,
        }
    }

    /// Polls, if it is time to.
    pub(crate) fn look(&mut self, plan: &Plan, tree: &Tree<'_>, now: Instant) {
        let is_due = self.awaited.as_ref().is_some_and(|awaited| awaited.interval.next() <= now);
        if is_due && self.looks() && self.probe.is_none() {
            if let Detector::Command { program, directory } = self.detector {
                // One that cannot be started now may be able to later.
                self.probe = Probe::start(plan, program, directory.as_fd(), tree).ok();
            } else if self.is_ready_now(tree) {
                self.noticed.push(Notice::Ready);
            }
            // The pause after a command counts from its end.
            if let Some(awaited) = self.awaited.as_mut().filter(|_| self.probe.is_none()) {
                awaited.interval.again(now);
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
            awaited.interval.again(now);
            if how == Ended::Exited(0) {
                self.noticed.push(Notice::Ready);
            }
        }
    }

    /// Whether a readiness command is about to end, which would otherwise be taken for a process that the child has left behind.
    pub(crate) fn is_ending(&self, now: Instant) -> bool {
        self.probe.as_ref().and_then(Probe::ends_by).is_some_and(|at| now < at)
    }

    /// Removes the processes of the readiness command from a list of the tree's members, which has parents before children.
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
