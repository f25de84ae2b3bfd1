//! The timers of a [machine](crate::Machine).

use std::time::Duration;

use crate::machine::{Moment, Timer};

/// The timers that are armed.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    armed: Vec<(Timer, Moment)>,
    /// How long a start may take. It counts from the first request: a child that was not asked cannot have answered.
    start_limit: Option<Duration>,
}

impl Timers {
    /// Arms a timer. Replaces an earlier deadline of the same timer.
    pub(crate) fn arm(&mut self, timer: Timer, after: Duration, now: Moment) {
        self.disarm(timer);
        match timer {
            Timer::Start => self.start_limit = Some(after),
            _ => self.armed.push((timer, now + after)),
        }
    }

    /// Disarms a timer.
    pub(crate) fn disarm(&mut self, timer: Timer) {
        self.armed.retain(|(armed, _)| *armed != timer);
        self.start_limit.take_if(|_| timer == Timer::Start);
    }

    /// The child has been asked something: the start timeout counts from now on.
    pub(crate) fn asked(&mut self, now: Moment) {
        if let Some(limit) = self.start_limit.take() {
            self.armed.push((Timer::Start, now + limit));
        }
    }

    /// When a timer fires, if it is armed.
    pub(crate) fn at(&self, timer: Timer) -> Option<Moment> {
        self.armed.iter().find(|(armed, _)| *armed == timer).map(|(_, at)| *at)
    }

    /// When the next timer fires.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.armed.iter().map(|(_, at)| *at).min()
    }

    /// Takes out one timer that has fired.
    pub(crate) fn fired(&mut self, now: Moment) -> Option<Timer> {
        let at = self.armed.iter().position(|(_, at)| *at <= now)?;
        Some(self.armed.swap_remove(at).0)
    }
}
