//! How long a tree is given to end by itself, stage by stage.

use std::time::Duration;

/// The patience of a tear-down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graces {
    /// From the end of its input (or the host's own signal) to SIGTERM.
    pub eof: Duration,
    /// From SIGTERM to SIGKILL.
    pub term: Duration,
}

impl Graces {
    /// What a tree is given that its own child has left behind: nobody waits for its answer any more, so it is
    /// asked once and then killed.
    #[must_use]
    pub fn leftover(self) -> Duration {
        self.term.min(Duration::from_secs(1))
    }
}

impl Default for Graces {
    fn default() -> Self {
        Self { eof: Duration::from_secs(2), term: Duration::from_secs(5) }
    }
}
