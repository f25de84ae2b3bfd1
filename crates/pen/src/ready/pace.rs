//! How often to look for something that nobody tells: soon at first, then less and less often.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(250);

/// When to look next.
#[derive(Debug)]
pub(super) struct Pace {
    next: Instant,
    pause: Duration,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { next: now + FIRST, pause: FIRST }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// One more look has been in vain.
    pub(super) fn again(&mut self, now: Instant) {
        self.pause = (self.pause * 2).min(LONGEST);
        self.next = now + self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_quarter_of_a_second_and_no_further() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            pauses.push((pace.next() - now).as_millis());
            now = pace.next();
            pace.again(now);
        }
        assert_eq!(pauses, [20, 40, 80, 160, 250, 250]);
    }
}
