//! Job control: the front stops and continues with the child, so that a shell sees one job.

use std::time::{Duration, Instant};

use nostray_sys::signal::Signal;

use super::{Child, Keeper, Source};
use crate::relay::{Message, Next};

/// How soon a front that has not answered is told again to go on, at first and at most.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);

impl Keeper<'_> {
    /// Continues a front that was stopped with the child. A front that is just about to stop misses the message, so it is repeated after
    /// this time until the front has answered, which may take long on a busy machine.
    pub(super) fn continue_front(&mut self, again: Duration) {
        if let Some(relay) = self.relay {
            relay.send(Message::Continued(self.stops));
            self.continue_front_at = Some((Instant::now() + again, again));
        }
    }

    /// A front that was stopped together with its child would never learn that the pen has ended; and a front that reads only now of the
    /// stop must not follow it any more. If the front is not known to run, wait for its answer: after the keeper has ended, no process
    /// could continue it.
    pub(super) fn leave_no_front_stopped(&mut self) {
        if self.stops == 0 && !matches!(self.child, Child::Unknown) {
            return;
        }
        self.watches.retain(|(source, ..)| *source == Source::Relay);
        self.continue_front(FIRST_PAUSE);
        while let Some((at, _)) = self.continue_front_at.filter(|_| !self.watches.is_empty()) {
            self.wait_until(Some(at));
            self.continue_front_again();
        }
    }

    pub(super) fn continue_front_again(&mut self) {
        if let Some((_, pause)) = self.continue_front_at.filter(|(at, _)| *at <= Instant::now()) {
            self.continue_front((pause * 2).min(MAX_PAUSE));
        }
    }

    /// False when no message will ever come again.
    pub(super) fn read_relay(&mut self) -> bool {
        while let Some(relay) = self.relay {
            match relay.next() {
                // A shell continues the whole group, so the child runs before the guard is told; if the child has been stopped again
                // since, that SIGCONT was not for this stop. The new stop may not have been reaped yet, so reap first.
                Next::Message(Message::Signal(arrived, stops)) if arrived.signal == Signal::CONT => {
                    self.reap_children();
                    if stops == self.stops {
                        self.on_signal(arrived, true);
                    }
                }
                Next::Message(Message::Signal(arrived, _)) => self.on_signal(arrived, true),
                Next::Message(Message::Runs(stops)) if stops == self.stops => self.continue_front_at = None,
                Next::Message(_) => {}
                Next::Nothing => return true,
                Next::Closed => break,
            }
        }
        false
    }
}
