//! Waits for events, and dispatches them.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::poll::Until;

use super::Front;
use super::shared::Shared;
use crate::child_keeper::{ChildKeeper, Event};

/// With more than this pending for one side, the other side is not read. Not less, or the next long line could not be read while the
/// last one is written.
const PAUSE_READING_AT: usize = 1 << 20;
/// The same for what we answer ourselves.
const PAUSE_READING_HOST_AT: usize = 4 << 20;

/// Something that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Signals,
    FromHost,
    HostHungUp,
    /// The same while the steward reads the host.
    ShortcutHungUp,
    ToHost,
    Errors,
    FromLink,
    ToLink,
    /// An event of the front's own child.
    Child(Event),
    /// The host has ended, or a process that the user has named with `--die-with`.
    HostEnded,
}

/// The tokens of the file descriptors.
const SIGNALS: usize = 0;
const FROM_HOST: usize = 1;
const HOST_HUNG_UP: usize = 2;
const TO_HOST: usize = 3;
const ERRORS: usize = 4;
const FROM_LINK: usize = 5;
const TO_LINK: usize = 6;
const SHORTCUT_HUNG_UP: usize = 7;
const CHILD: usize = 8;
const HOST_ENDED: usize = CHILD + ChildKeeper::EVENTS;

impl Source {
    pub(super) fn of(name: usize) -> Self {
        match name {
            SIGNALS => Self::Signals,
            FROM_HOST => Self::FromHost,
            HOST_HUNG_UP => Self::HostHungUp,
            TO_HOST => Self::ToHost,
            ERRORS => Self::Errors,
            FROM_LINK => Self::FromLink,
            TO_LINK => Self::ToLink,
            SHORTCUT_HUNG_UP => Self::ShortcutHungUp,
            _ => Event::of(name - CHILD).map_or(Self::HostEnded, Self::Child),
        }
    }
}

impl Front<'_> {
    /// Waits for something to happen, and says what. Only what there is room for is looked at.
    pub(super) fn wait(&mut self, names: &mut Vec<usize>) {
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let waiting = self.channel().map_or(0, |channel| channel.pending_bytes());
        let shared = self.upstream.shared();
        let is_settling = shared.is_some_and(|shared| shared.link.is_settling);
        let is_daemon = shared.is_some_and(Shared::is_daemon);
        let events = &mut self.events;
        let mut want = |name: usize, fd: BorrowedFd<'_>, until, stamp| events.want(name, fd, until, stamp);
        // What comes while the shortcut is called back is taken in when the front has the way again.
        let is_called_back = shared.is_some_and(|shared| shared.shortcut.is_called_back());
        let is_away = shared.is_some_and(|shared| shared.shortcut.is_open());
        if !is_called_back {
            want(SIGNALS, self.keeper.opener.signals(), Until::Readable, 0);
        }
        if !self.to_host.is_empty() && !self.host_deaf {
            want(TO_HOST, self.host.stdout, Until::Writable, 0);
        }
        if !self.errors.is_empty() {
            want(ERRORS, self.host.stderr, Until::Writable, 0);
        }
        if self.from_host.is_some() && !self.host_gone {
            if !is_daemon
                && !is_away
                && self.session.has_room()
                && !is_settling
                && self.to_host.len() < PAUSE_READING_HOST_AT
                && waiting < PAUSE_READING_AT
            {
                want(FROM_HOST, self.host.stdin, Until::Readable, 0);
            } else if is_away {
                if !is_called_back {
                    want(SHORTCUT_HUNG_UP, self.host.stdin, Until::HungUp, 0);
                }
            } else if self.keeper.opener.stdin_tells() && self.hung_up.is_none() {
                // What the host says now cannot be taken in, but its end must be noticed.
                want(HOST_HUNG_UP, self.host.stdin, Until::HungUp, 0);
            }
        }
        if !self.host_gone && !is_called_back {
            for (number, fd) in self.keeper.opener.ends().enumerate() {
                want(HOST_ENDED + number, fd, Until::Readable, 0);
            }
        }
        let is_heard = self.to_host.len() < PAUSE_READING_AT;
        if let Some(link) = self.upstream.shared().map(|shared| &shared.link)
            && let Some(channel) = link.look()
        {
            let stamp = link.connections;
            if let Some(reader) = channel.reader().filter(|_| is_heard) {
                want(FROM_LINK, reader.as_fd(), Until::Readable, stamp);
            }
            if let Some(writer) = channel.pending_writer() {
                want(TO_LINK, writer.as_fd(), Until::Writable, stamp);
            }
        }
        self.keeper.want(events, CHILD, is_heard);
        if let Err(error) = events.wait(timeout, names) {
            // Without a way to wait there is no way to go on; the tree ends with us.
            write_to_stderr_at_once(&format!("nostray: cannot wait for events: {error}\n"));
            self.host_gone = true;
            self.session.release(self.began.elapsed());
        }
    }

    pub(super) fn on(&mut self, source: Source) {
        let result = match source {
            Source::Signals | Source::HostEnded if self.is_shortcut_open() => {
                self.call_shortcut_back();
                Ok(())
            }
            Source::ShortcutHungUp => {
                self.call_shortcut_back();
                Ok(())
            }
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
                self.hung_up = Some(Instant::now() + self.keeper.config().spec.graces.eof());
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
            Source::FromLink | Source::Child(Event::Says) => self.read_child(false),
            Source::ToLink | Source::Child(Event::Listens) => {
                if let Some(channel) = self.channel() {
                    channel.flush();
                }
                Ok(())
            }
            Source::Child(Event::Errors) => {
                self.read_errors();
                Ok(())
            }
            Source::Child(Event::PenEvent | Event::Front) => {
                self.hear();
                Ok(())
            }
        };
        if result.is_err() {
            self.host_is_deaf();
        }
    }
}
