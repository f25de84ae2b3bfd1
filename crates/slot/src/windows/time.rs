//! The clock that decisions go by.

use std::time::Duration;

/// A waiter looks this often at least: a lock sends no event.
pub(crate) const MAX_PAUSE: Duration = Duration::from_millis(100);

/// By the calendar, as are the identities of processes: runs of the machine have no names, so that a time since the last start of the
/// machine could be taken for one of an earlier run.
pub(crate) fn now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
