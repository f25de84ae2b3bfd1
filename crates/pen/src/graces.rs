//! How long a tree may take to end by itself, stage by stage.

use std::time::Duration;

/// The graces of a tear-down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graces {
    eof: Duration,
    term: Duration,
}

/// Short enough that no clock overflows: a guard that panics in a tear-down would be the leak that it is there to prevent.
const MAX_GRACE: Duration = Duration::from_secs(366 * 24 * 3600);

impl Graces {
    /// `eof`: from the end of its input (or the host's own signal) to SIGTERM. `term`: from SIGTERM to SIGKILL. Both are
    /// a year at most.
    #[must_use]
    pub fn new(eof: Duration, term: Duration) -> Self {
        Self { eof: eof.min(MAX_GRACE), term: term.min(MAX_GRACE) }
    }

    /// From the end of its input to SIGTERM.
    #[must_use]
    pub fn eof(self) -> Duration {
        self.eof
    }

    /// From SIGTERM to SIGKILL.
    #[must_use]
    pub fn term(self) -> Duration {
        self.term
    }

    /// The grace for processes that the child has left behind. No host waits for their answer, so they get SIGTERM once and are then
    /// killed.
    #[must_use]
    pub fn leftover(self) -> Duration {
        self.term.min(Duration::from_secs(1))
    }
}

impl Default for Graces {
    fn default() -> Self {
        Self::new(Duration::from_secs(2), Duration::from_secs(5))
    }
}
