//! Attaches the sessions that the broker sends, and detaches them when their connection or their host ends.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nostray_pen::PenOpener;
use nostray_registry::{Cause, Labels, Lease, Process, Story};
use nostray_supervise::MachineEvent as Event;
use nostray_supervise::wire::{FromBroker, Received, ToFront, control_line, receive};
use nostray_supervise::{State, Why};
use nostray_sys::Signal;
use nostray_sys::identity::Identity;
use nostray_sys::local;
use nostray_sys::stream::Sink;

use super::Steward;
use super::attachments::{Attachment, Inbound};
use crate::router::SessionId;

/// How many sessions may share one child.
const MAX_SESSIONS: usize = 2048;
/// Why a session is detached whose host has ended.
const HOST_ENDED: &str = "its host has ended";
/// How long the record may lag behind the sessions.
const RECORD_DELAY: Duration = Duration::from_millis(50);

impl Steward {
    pub(super) fn hear_broker(&mut self) {
        loop {
            let Some(control) = &self.control else { return };
            match receive(control) {
                Received::Message(FromBroker::Attach { host, session, labels, linger }, Some(connection)) => {
                    self.leases += 1;
                    let session_id = SessionId(self.leases);
                    self.attach(connection, session, labels, linger);
                    self.watch_host(session_id, host);
                }
                Received::Message(FromBroker::Attach { .. }, None) => self.leases += 1,
                Received::Message(FromBroker::Stop { again, why }, _) => self.leave(again, &why, broker_gone(&why)),
                // A session on its way would have come before.
                Received::Message(FromBroker::Leave, _) => {
                    if self.told_idle == Some(self.leases) && self.attachments.is_empty() {
                        self.is_over = true;
                    }
                }
                Received::Nothing => return,
                Received::Closed => return self.broker_is_gone(),
            }
        }
    }

    /// Without its broker no session can attach, and another broker may start the same child: so this steward ends.
    pub(super) fn broker_is_gone(&mut self) {
        self.control = None;
        self.leave(true, "the broker has ended", broker_gone("the broker has ended"));
    }

    /// Ends the child, whichever sessions hold it, and then everything. `why` is what the end of each session says, `cause` what the end of
    /// the child does.
    fn leave(&mut self, again: bool, why: &str, cause: Cause) {
        if std::mem::replace(&mut self.is_leaving, true) {
            return;
        }
        // First of all, since it is why the sessions end.
        if self.keeper.has_live_child()
            && let Some(record) = self.keeper.record()
        {
            record.tell(Story::Stopping(cause));
        }
        for attachment in self.attachments.all_mut() {
            if !again {
                attachment.tell(&ToFront::Leaving);
            }
            attachment.gone = Some(why.to_owned());
        }
        self.see_off();
        // As when the last session has gone: the child's input ends first.
        let effects = self.lifecycle.end_linger(self.now());
        self.perform(effects);
    }

    fn attach(&mut self, connection: OwnedFd, session: Option<String>, labels: Labels, linger: Duration) {
        let is_ending = matches!(self.lifecycle.state(), State::Ended | State::Stopping { why: Why::Stop, .. });
        if self.is_leaving || is_ending || self.lifecycle.ends_for_good() {
            return; // its front looks for the next steward
        }
        if self.attachments.len() >= MAX_SESSIONS {
            let word = ToFront::No { why: format!("{MAX_SESSIONS} sessions share it already"), for_good: false };
            Sink::Socket.write(connection.as_fd(), &control_line(&word)).ok();
            return;
        }
        let front = local::caller(connection.as_fd()).ok().and_then(|caller| Process::of(caller.pid?));
        let lease = Lease::new(front.unwrap_or(Process { pid: 0, start: 0 }), session, labels);
        let session_id = SessionId(self.leases);
        let max_line = self.keeper.config().max_line;
        let welcome = ToFront::Welcome { id: self.keeper.id().to_string(), name: self.keeper.name() };
        // Without another file it finds the connection closed, and asks again.
        let Ok(attachment) = Attachment::new(session_id, connection, &welcome, lease, linger, max_line) else {
            return;
        };
        let (front, session) = (attachment.front(), attachment.lease.session.clone());
        self.attachments.add(attachment);
        self.router.join(session_id);
        let leases = self.attachments.len();
        if let Some(record) = self.keeper.record() {
            record.tell(Story::Attached { front, leases, session });
        }
        self.leases_have_changed();
        let was_up = self.is_up;
        let effects = self.lifecycle.take(self.now());
        self.perform(effects);
        // A child that is started for this session is announced to all sessions.
        if was_up {
            self.tell_of_child(session_id);
        }
    }

    /// A front that is stopped cannot see that its host has ended, and would hold the child for ever.
    fn watch_host(&mut self, session_id: SessionId, host: Option<Process>) {
        let Some(attachment) = self.attachments.of(session_id) else { return };
        let Some(host) = host.and_then(Process::identity) else { return };
        attachment.host = host.open().map(|handle| (host, handle));
        if attachment.host.is_none() && !host.is_alive() {
            self.host_is_gone(session_id);
        }
    }

    pub(super) fn host_is_gone(&mut self, session_id: SessionId) {
        let Some(attachment) = self.attachments.of(session_id) else { return };
        attachment.gone.get_or_insert_with(|| HOST_ENDED.to_owned());
        if let Some(front) = attachment.lease.front.identity().and_then(Identity::open) {
            front.send(Signal::CONT).ok();
        }
        self.see_off();
    }

    fn leases_have_changed(&mut self) {
        self.shared_at.get_or_insert_with(|| Instant::now() + RECORD_DELAY);
    }

    pub(super) fn put_leases_on_record(&mut self) {
        self.shared.leases = self.attachments.all().map(|attachment| attachment.lease.clone()).collect();
        let shared = self.shared.clone();
        if let Some(record) = self.keeper.record() {
            record.share(shared);
        }
    }

    /// Detaches the sessions that have gone, or have waited long enough for an answer.
    pub(super) fn see_off(&mut self) {
        let now = Instant::now();
        let router = &self.router;
        // Nearly always there is none; this is done for every message, however many hold the child.
        for attachment in self.attachments.all_mut().filter(|s| s.leaves_at.is_some() && s.gone.is_none()) {
            let is_answered = router.has_nothing_of(attachment.session_id)
                && attachment.channel.is_flushed()
                && attachment.out.is_empty();
            if attachment.leaves_at.is_some_and(|at| at <= now || is_answered) {
                // A host that dies closes its end before its own end can be seen.
                let why = if attachment.host_is_ending() { HOST_ENDED } else { "its input ended" };
                attachment.gone = Some(why.to_owned());
            }
        }
        let gone = self.attachments.take_gone();
        if gone.is_empty() {
            return;
        }
        for attachment in gone {
            self.router.leave(attachment.session_id, self.began.elapsed());
            let (front, leases) = (attachment.front(), self.attachments.len());
            let why = attachment.gone.unwrap_or_default();
            if let Some(record) = self.keeper.record() {
                record.tell(Story::Detached { front, leases, why });
            }
            self.leases_have_changed();
            self.last_linger = attachment.linger;
            let linger = Some(attachment.linger).filter(|_| !self.is_leaving && self.keeper.child.is_some());
            let is_asked = self.router.is_asked() || self.is_daemon();
            let effects = self.lifecycle.release(linger, is_asked, self.now());
            self.perform(effects);
        }
        // What they have asked is taken back.
        self.flush();
    }

    /// Tells a session whether there is a child for it.
    pub(super) fn tell_of_child(&mut self, session_id: SessionId) {
        let (is_up, generation) = (self.is_up, self.lifecycle.generation());
        if let Some(attachment) = self.attachments.of(session_id)
            && attachment.inbound == Inbound::Routed
            && is_up
        {
            attachment.tell(&ToFront::Up(generation.0));
        }
    }

    pub(super) fn on_signals(&mut self) {
        while let Some(arrived) = self.keeper.opener.next_signal() {
            if let Some(ask) = PenOpener::asks(arrived) {
                self.drive(Event::Stop);
                self.keeper.ask(ask);
            } else if PenOpener::asks_to_restart(arrived) {
                self.drive(Event::Restart);
            } else if PenOpener::is_the_end(arrived) {
                let cause = Cause::of_signal(arrived);
                let why = format!("its steward was stopped: {cause}");
                self.leave(true, &why, cause);
            }
        }
        self.look_after_pen();
    }
}

/// Why a child ends whose broker has ended or was stopped.
fn broker_gone(why: &str) -> Cause {
    Cause { reason: "broker-gone".to_owned(), detail: why.to_owned(), sender: None }
}
