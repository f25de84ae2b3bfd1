//! What a [machine](crate::Machine) waits for, and when.

use std::time::Duration;

use crate::machine::{Moment, Timer};

/// The timers that are armed.
#[derive(Debug, Default)]
pub struct Timers {
    armed: Vec<(Timer, Moment)>,
    /// How long a start may take, until the child has been asked something: one that has not been asked cannot have answered.
    start_limit: Option<Duration>,
}

impl Timers {
    /// This one fires in so long.
    pub fn arm(&mut self, timer: Timer, after: Duration, now: Moment) {
        self.disarm(timer);
        match timer {
            Timer::Start => self.start_limit = Some(after),
            _ => self.armed.push((timer, now + after)),
        }
    }

    /// This one does not fire.
    pub fn disarm(&mut self, timer: Timer) {
        self.armed.retain(|(armed, _)| *armed != timer);
        self.start_limit.take_if(|_| timer == Timer::Start);
    }

    /// The child has been asked something: from now on a start takes time.
    pub fn asked(&mut self, now: Moment) {
        if let Some(limit) = self.start_limit.take() {
            self.armed.push((Timer::Start, now + limit));
        }
    }

    /// When the next one fires.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        self.armed.iter().map(|(_, at)| *at).min()
    }

    /// Takes out one that has fired.
    pub fn fired(&mut self, now: Moment) -> Option<Timer> {
        let at = self.armed.iter().position(|(_, at)| *at <= now)?;
        Some(self.armed.swap_remove(at).0)
    }
}
