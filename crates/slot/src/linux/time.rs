//! The clock that decisions go by.

use std::time::Duration;

/// A waiter looks this often at least: what it waits for sends an event.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Since the machine was started. Setting the clock does not change it.
pub(crate) fn now() -> Duration {
    nostray_sys::clock::since_boot()
}
