//! The time since boot, which setting the clock does not change; and moments in the user's time zone.

use std::time::Duration;

/// How long the machine has been running, asleep or not. The same for all processes, and independent of the wall clock.
#[must_use]
pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// How many seconds the user's time zone (`TZ`, `/etc/localtime`) is ahead of UTC at a moment of Unix time. The zone data is the C
/// library's, which is linked anyway.
#[must_use]
pub fn seconds_ahead_of_utc(unix_seconds: i64) -> Option<i64> {
    let mut broken_down = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: reads the number, and writes the structure or returns null. It may read the environment, which no thread of this program
    // changes.
    let converted = unsafe { libc::localtime_r(&unix_seconds, broken_down.as_mut_ptr()) };
    if converted.is_null() {
        return None;
    }
    // SAFETY: not null, so the structure was written.
    Some(unsafe { broken_down.assume_init() }.tm_gmtoff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_is_less_than_a_day_from_utc() {
        for moment in [0, 1_700_000_000, i64::from(i32::MAX)] {
            assert!(seconds_ahead_of_utc(moment).is_some_and(|ahead| ahead.abs() < 86_400));
        }
        assert_eq!(seconds_ahead_of_utc(i64::MAX), None, "no year is so late");
    }
}
