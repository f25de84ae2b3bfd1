//! How often to poll for a condition that sends no event: soon at first, then less and less often.

use std::time::{Duration, Instant};

const FIRST_INTERVAL: Duration = Duration::from_millis(20);
const MAX_INTERVAL: Duration = Duration::from_millis(250);

/// When to poll next.
#[derive(Debug)]
pub(super) struct PollInterval {
    next: Instant,
    pause: Duration,
}

impl PollInterval {
    pub(super) fn new(now: Instant) -> Self {
        Self { next: now + FIRST_INTERVAL, pause: FIRST_INTERVAL }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// The condition is not met yet.
    pub(super) fn again(&mut self, now: Instant) {
        self.pause = (self.pause * 2).min(MAX_INTERVAL);
        self.next = now + self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_quarter_of_a_second_and_no_further() {
        let mut now = Instant::now();
        let mut interval = PollInterval::new(now);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            pauses.push((interval.next() - now).as_millis());
            now = interval.next();
            interval.again(now);
        }
        assert_eq!(pauses, [20, 40, 80, 160, 250, 250]);
    }
}
