//! Waiting for a journal to change: by looking several times a second.

use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(200);

/// Waits.
pub(crate) struct Following;

impl Following {
    pub(crate) fn new() -> Self {
        Self
    }

    /// Waits a moment. A reader that is gone is noticed by the next write.
    pub(crate) fn wait(&mut self) -> bool {
        std::thread::sleep(INTERVAL);
        true
    }
}
