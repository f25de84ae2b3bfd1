//! Starting a child of our own, ending it, and noticing that it has ended.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_pen::PenOpener;
use nostray_registry::{Cause, Story};
use nostray_sys::poll::{self, Until};

use super::Front;
use super::upstream::Upstream;
use crate::child_keeper::ChildLoss;
use crate::machine::{Generation, Why};

impl Front<'_> {
    pub(super) fn on_signals(&mut self) {
        while let Some(arrived) = self.keeper.opener.next_signal() {
            if let Some(ask) = PenOpener::asks(arrived) {
                self.session.stop(self.now());
                self.keeper.ask(ask);
                continue;
            }
            if PenOpener::asks_to_restart(arrived) {
                self.session.restart(self.now());
                continue;
            }
            let is_the_end = PenOpener::is_the_end(arrived);
            if self.keeper.saw_key(arrived) {
                continue;
            }
            // As without us: the child gets what the host sent, and what follows is the pen's affair.
            if is_the_end && self.keeper.child.is_none() && self.session.is_over() {
                self.farewell = Some(Instant::now()); // only the host is waited for, which has no patience left
                continue;
            }
            if is_the_end {
                if let Some(record) = self.keeper.record() {
                    record.tell(Story::Stopping(Cause::of_signal(arrived)));
                }
                self.session.stop(self.now());
            }
            self.keeper.pass(arrived, is_the_end);
        }
        self.look_after_pen();
    }

    pub(super) fn on_host_ended(&mut self) {
        let events: Vec<_> = self.keeper.opener.ends().map(|fd| (fd, Until::Readable)).collect();
        let came = poll::wait(&events, Some(Duration::ZERO)).unwrap_or_default();
        if came.contains(&true) {
            self.host_gone = true;
            self.from_host = None;
            self.session.release(self.now());
            self.keeper.end_of_input();
        }
    }

    /// Takes in what the pen's processes have told.
    pub(super) fn hear(&mut self) {
        if let Some(loss) = self.keeper.hear() {
            self.on_child_lost(loss);
        }
        self.look_after_pen();
    }

    pub(super) fn look_after_pen(&mut self) {
        if let Some(loss) = self.keeper.look_after() {
            self.on_child_lost(loss);
        }
    }

    /// What the child has said before counts.
    pub(super) fn on_child_lost(&mut self, loss: ChildLoss) {
        self.read_all();
        let now = self.now();
        let unread = self.keeper.take_unread();
        self.session.child_has_not_read(&unread, now);
        match loss {
            ChildLoss::Died(generation, cause) => {
                self.status.down(&cause);
                self.session.child_died(generation, cause, now);
            }
            ChildLoss::TreeEmpty => {
                let Some(end) = self.keeper.take_end(self.session.state()) else { return };
                self.status.down(&end.cause);
                if end.was_stopped {
                    self.session.stop(now);
                }
                if end.is_hopeless {
                    self.session.child_hopeless(end.generation, end.cause, now);
                } else {
                    self.session.child_emptied(end.generation, end.cause, now);
                }
                if end.was_to_be_suspended {
                    PenOpener::stop_with_terminal(nostray_sys::Signal::TSTP);
                }
            }
        }
        self.perform();
    }

    fn read_all(&mut self) {
        if matches!(self.upstream, Upstream::Own) && self.read_child(true).is_err() {
            self.host_is_deaf();
        }
        // Bounded, too: each time is no more than the buffer.
        for _ in 0..64 {
            if !self.read_errors() {
                break;
            }
        }
    }

    /// Starts a child. Nothing of the last one is left.
    pub(super) fn start(&mut self, generation: Generation) {
        let now = self.now();
        let traffic = self.session.traffic().map(AsFd::as_fd);
        match self.keeper.start(generation, traffic.as_slice()) {
            Ok(()) => {
                self.status.up(generation.0);
                self.session.child_started(generation, now);
            }
            Err(cause) => self.session.child_emptied(generation, cause, now),
        }
    }

    /// Tears the child down. `patience` is how long its input stays open for what is on its way there.
    pub(super) fn tear_down(&mut self, why: Why, patience: Duration) {
        let (generation, now) = (self.session.generation(), self.now());
        let unread = if why.lets_child_answer() { Vec::new() } else { self.keeper.take_unread() };
        self.session.child_is_torn_down(generation, why, &unread, now);
        self.keeper.tear_down(why, patience);
    }
}
