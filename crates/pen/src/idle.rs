//! Detects an idle tree: no byte read or written and no processor time used, by any of its
//! processes. Sampled rarely, from outside; the data path is not touched.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// The state of everything that moves when a tree does anything. Equal to an earlier one: nothing has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample(u64);

impl Sample {
    pub(crate) fn of(moving: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        moving.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// How long a tree has been idle.
#[derive(Debug)]
pub(crate) struct IdleWatch {
    timeout: Duration,
    last: Option<Sample>,
    active_at: Instant,
    next: Instant,
}

impl IdleWatch {
    pub(crate) fn new(timeout: Duration, now: Instant) -> Self {
        // A year is for ever, and no clock overflows.
        let timeout = timeout.min(Duration::from_secs(366 * 24 * 3600));
        Self { timeout, last: None, active_at: now, next: now + period(timeout) }
    }

    /// When the next sample is due.
    pub(crate) fn deadline(&self) -> Instant {
        self.next
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Takes note of a sample; true when the tree has been idle for the whole time.
    pub(crate) fn is_idle(&mut self, sample: Sample, now: Instant) -> bool {
        if self.last.replace(sample) != Some(sample) {
            self.active_at = now;
        }
        let idle_at = self.active_at + self.timeout;
        // The last look comes when the time is up, so that it is neither early nor a whole period late.
        self.next = if idle_at > now { idle_at.min(now + period(self.timeout)) } else { now + self.timeout };
        idle_at <= now
    }
}

fn period(timeout: Duration) -> Duration {
    (timeout / 8).clamp(Duration::from_millis(10), Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_means_that_nothing_moved_for_the_whole_time() {
        let t = Instant::now();
        let minute = Duration::from_secs(60);
        let mut watch = IdleWatch::new(30 * minute, t);
        assert!(!watch.is_idle(Sample(1), t + minute));
        assert!(!watch.is_idle(Sample(1), t + 20 * minute));
        assert!(!watch.is_idle(Sample(2), t + 30 * minute));
        assert!(!watch.is_idle(Sample(2), t + 59 * minute));
        assert_eq!(watch.deadline(), t + 60 * minute);
        assert!(watch.is_idle(Sample(2), t + 60 * minute));
    }
}
