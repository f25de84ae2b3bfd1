//! What can happen, and waiting for it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::poll::Until;

use super::Front;

/// More than this on its way to somebody, and nothing more is read that would go there too. Not less, or the next long line
/// could not be read while the last one is written.
const ENOUGH: usize = 1 << 20;
/// The same for what we answer ourselves.
const TOO_MUCH: usize = 4 << 20;

/// Something that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Signals,
    FromHost,
    HostHungUp,
    ToHost,
    Errors,
    FromChild,
    ToChild,
    ChildErrors,
    Inbox,
    Pen,
    /// The host, and from here on those that the user has named.
    HostEnded,
}

impl Source {
    pub(super) fn of(name: usize) -> Self {
        const ALL: [Source; 10] = [
            Source::Signals,
            Source::FromHost,
            Source::HostHungUp,
            Source::ToHost,
            Source::Errors,
            Source::FromChild,
            Source::ToChild,
            Source::ChildErrors,
            Source::Inbox,
            Source::Pen,
        ];
        ALL.get(name).copied().unwrap_or(Self::HostEnded)
    }
}

impl Front<'_> {
    /// Waits for something to happen, and says what. Only what there is room for is looked at.
    pub(super) fn wait(&mut self, names: &mut Vec<usize>) {
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let stamp = self.session.generation().0;
        let events = &mut self.events;
        let mut want = |source: Source, fd: BorrowedFd<'_>, until| events.want(source as usize, fd, until, 0);
        want(Source::Signals, self.yard.signals(), Until::Readable);
        if !self.to_host.is_empty() && !self.host_deaf {
            want(Source::ToHost, self.host.stdout, Until::Writable);
        }
        if !self.errors.is_empty() {
            want(Source::Errors, self.host.stderr, Until::Writable);
        }
        if self.from_host.is_some() && !self.host_gone {
            if self.session.has_room()
                && self.to_host.len() < TOO_MUCH
                && self.child.as_ref().is_none_or(|child| child.to.len() < ENOUGH)
            {
                want(Source::FromHost, self.host.stdin, Until::Readable);
            } else if self.yard.stdin_tells() && self.hung_up.is_none() {
                // Nobody can take what it says now; that it has closed its end must be seen all the same.
                want(Source::HostHungUp, self.host.stdin, Until::HungUp);
            }
        }
        if !self.host_gone {
            for (number, fd) in self.yard.ends().enumerate() {
                events.want(Source::HostEnded as usize + number, fd, Until::Readable, 0);
            }
        }
        if let Some(child) = &self.child {
            let mut want = |source: Source, fd: BorrowedFd<'_>, until| events.want(source as usize, fd, until, stamp);
            if let Some(inbox) = child.inbox.fd() {
                want(Source::Inbox, inbox, Until::Readable);
            }
            if let Some(front) = child.penned.front() {
                want(Source::Pen, front, Until::Readable);
            }
            if let Some(stdout) = child.stdout.as_ref().filter(|_| self.to_host.len() < ENOUGH) {
                want(Source::FromChild, stdout.as_fd(), Until::Readable);
            }
            if let Some(stderr) = &child.stderr {
                want(Source::ChildErrors, stderr.as_fd(), Until::Readable);
            }
            if let Some(stdin) = child.stdin.as_ref().filter(|_| !child.to.is_empty()) {
                want(Source::ToChild, stdin.as_fd(), Until::Writable);
            }
        }
        if let Err(error) = events.wait(timeout, names) {
            // Without a way to wait there is no way to go on; the tree ends with us.
            write_to_stderr_at_once(&format!("nostray: cannot wait for events: {error}\n"));
            self.host_gone = true;
            self.session.release(self.began.elapsed());
        }
    }

    pub(super) fn on(&mut self, source: Source) {
        let result = match source {
            Source::Signals => {
                self.on_signals();
                Ok(())
            }
            Source::HostEnded => {
                self.on_host_ended();
                Ok(())
            }
            Source::FromHost => self.read_host(),
            Source::HostHungUp => {
                self.hung_up = Some(Instant::now() + self.options.spec.graces.eof());
                Ok(())
            }
            Source::ToHost => {
                self.farewell = None; // it reads
                self.to_host.flush(self.host.stdout)
            }
            Source::Errors => {
                if self.errors.flush(self.host.stderr).is_err() {
                    self.errors.discard();
                }
                Ok(())
            }
            Source::FromChild => self.read_child(false),
            Source::ToChild => {
                self.flush_to_child();
                Ok(())
            }
            Source::ChildErrors => {
                self.read_errors();
                Ok(())
            }
            Source::Inbox => {
                self.hear();
                Ok(())
            }
            // What it has told comes first.
            Source::Pen => {
                self.hear();
                Ok(())
            }
        };
        if result.is_err() {
            self.host_is_deaf();
        }
    }
}
