//! Waits for events, and dispatches them.

use std::os::fd::AsFd;
use std::time::Instant;

use nostray_slot::Claim;
use nostray_supervise::{ChildEvent, ChildKeeper};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::poll::Until;

use super::Steward;
use super::attachments::Shortcut;

/// With more than this pending for one side, what would go there is not read.
const PAUSE_READING_AT: usize = 1 << 20;
/// The same for what a session is told.
const PAUSE_READING_SESSION_AT: usize = 4 << 20;

const SIGNALS: usize = 0;
const CONTROL: usize = 1;
const BROKER: usize = 2;
const CHILD: usize = 3 + Claim::EVENTS;
/// What happens about the slot that a child needs.
const CLAIM: usize = 3;
/// Five for each session: what it says, that it can be told more, that its host has ended; and by the shortcut, what its host says and
/// that it can be told more.
const SESSIONS: usize = CHILD + ChildKeeper::EVENTS;
const OF_SESSION: usize = 5;

impl Steward {
    fn next_deadline(&self) -> Option<Instant> {
        let by_the_machine = [self.lifecycle.deadline(), self.router.next_deadline()].into_iter().flatten().min();
        let leaving = self.attachments.all().filter_map(|attachment| attachment.leaves_at).min();
        let predecessors = self.predecessors.as_ref().map(|(_, at)| *at);
        let own = [self.shared_at, self.sweep_at, self.tidy_at, leaving, predecessors];
        let claim = self.claim.as_ref().map(Claim::deadline);
        let machine = by_the_machine.and_then(|at| self.began.checked_add(at));
        own.into_iter().chain([machine, self.keeper.deadline(), claim]).flatten().min()
    }

    /// Waits for something to happen, and says what. Only what there is room for is looked at.
    pub(super) fn wait(&mut self, names: &mut Vec<usize>) {
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = if self.is_over { Some(std::time::Duration::ZERO) } else { timeout };
        let events = &mut self.events;
        events.want(SIGNALS, self.keeper.opener.signals(), Until::Readable, 0);
        if let Some(control) = &self.control {
            events.want(CONTROL, control.as_fd(), Until::Readable, 0);
            if let Some(broker) = self.keeper.opener.ends().next() {
                events.want(BROKER, broker, Until::Readable, 0);
            }
        }
        // One session that does not read may hold up the child if it is alone; otherwise it must not.
        let is_alone = self.attachments.len() == 1;
        let is_heard =
            !is_alone || self.attachments.all().all(|attachment| attachment.pending_bytes() < PAUSE_READING_AT);
        self.keeper.want(events, CHILD, is_heard);
        if let Some(claim) = &self.claim {
            for (at, (fd, until)) in claim.watches().enumerate() {
                events.want(CLAIM + at, fd, until, claim.looks());
            }
        }
        let child_takes =
            self.keeper.child.as_ref().is_none_or(|child| child.channel.pending_bytes() < PAUSE_READING_AT);
        for (at, attachment) in self.attachments.numbered() {
            let name = SESSIONS + OF_SESSION * at;
            let may_speak = child_takes
                && self.router.has_room(attachment.session_id)
                && attachment.pending_bytes() < PAUSE_READING_SESSION_AT;
            let shortcut = attachment.shortcut.as_ref();
            if let Some(reader) = attachment.channel.reader().filter(|_| attachment.leaves_at.is_none()) {
                // By the shortcut, only control lines come this way.
                let until = if may_speak || shortcut.is_some() { Until::Readable } else { Until::HungUp };
                events.want(name, reader.as_fd(), until, attachment.session_id.0);
            }
            if let Some(writer) = attachment.channel.pending_writer() {
                events.want(name + 1, writer.as_fd(), Until::Writable, attachment.session_id.0);
            }
            if let Some(Shortcut { number, end: Some(shortcut) }) = shortcut {
                let stamp = attachment.session_id.0.rotate_left(32) ^ number;
                if may_speak {
                    events.want(name + 3, shortcut.from_host(), Until::Readable, stamp);
                }
                if let Some(to_host) = shortcut.pending_to_host() {
                    events.want(name + 4, to_host, Until::Writable, stamp);
                }
            }
            if let Some((_, host)) = &attachment.host {
                events.want(name + 2, host.as_fd(), Until::Readable, attachment.session_id.0);
            }
        }
        if let Err(error) = events.wait(timeout, names) {
            // Without a way to wait there is no way to go on; the tree ends with us.
            write_to_stderr_at_once(&format!("nostray: a steward cannot wait for events: {error}\n"));
            self.is_over = true;
        }
    }

    pub(super) fn on(&mut self, name: usize) {
        match name {
            SIGNALS => self.on_signals(),
            CONTROL => self.hear_broker(),
            BROKER => self.broker_is_gone(),
            CLAIM..CHILD => {} // it goes on by itself
            name if name >= SESSIONS => {
                let at = (name - SESSIONS) / OF_SESSION;
                let Some(attachment) = self.attachments.at(at) else { return };
                match (name - SESSIONS) % OF_SESSION {
                    0 => self.read_session(at),
                    1 => {
                        attachment.channel.flush();
                        let holds_spare_memory = attachment.channel.holds_spare_memory();
                        self.tidy_after_saying(holds_spare_memory);
                    }
                    3 => self.read_shortcut(at),
                    4 => attachment.go_on_by_shortcut(),
                    // Another session may have got this index since.
                    _ if attachment.host.as_ref().is_some_and(|(_, host)| host.has_ended().unwrap_or(false)) => {
                        let session_id = attachment.session_id;
                        self.host_is_gone(session_id);
                    }
                    _ => {}
                }
            }
            name => match ChildEvent::of(name - CHILD) {
                Some(ChildEvent::Says) => self.read_child(false),
                Some(ChildEvent::Listens) => {
                    if let Some(child) = &mut self.keeper.child {
                        child.channel.flush();
                        let holds_spare_memory = child.channel.holds_spare_memory();
                        self.tidy_after_saying(holds_spare_memory);
                    }
                }
                Some(ChildEvent::Errors) => drop(self.read_errors()),
                Some(ChildEvent::PenEvent | ChildEvent::Front) => self.hear_child(),
                None => {}
            },
        }
    }
}
