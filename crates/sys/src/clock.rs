//! The time since boot, which setting the clock does not change.

use std::time::Duration;

/// How long the machine has been running, asleep or not. The same for all processes, and independent of the wall clock.
#[must_use]
pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
