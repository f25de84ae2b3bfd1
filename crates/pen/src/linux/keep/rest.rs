//! When to look for the processes of a tree that are no children of the keeper, to send them SIGTERM, too. A look at all of `/proc` takes
//! longer than most trees take to end: the kernel hands the keeper what a dead process leaves, and often that is all.

use std::time::{Duration, Instant};

/// So long after the last end of a process: nothing more is ending by itself.
const QUIET: Duration = Duration::from_millis(2);
/// So long after the first SIGTERM, in any case: the grace is for every process of the tree.
const LATEST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct RestSearch {
    at: Instant,
    latest: Instant,
}

impl RestSearch {
    pub(super) fn new(now: Instant) -> Self {
        Self { at: now + QUIET, latest: now + LATEST }
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// A process of the tree has ended.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.at = (now + QUIET).min(self.latest);
    }
}
