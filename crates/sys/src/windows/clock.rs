//! The time since boot, which setting the clock does not change; and moments in the user's time zone.

use std::time::Duration;

use windows_sys::Win32::Foundation::{FILETIME, SYSTEMTIME};
use windows_sys::Win32::System::SystemInformation::GetTickCount64;
use windows_sys::Win32::System::Time::{FileTimeToSystemTime, SystemTimeToFileTime, SystemTimeToTzSpecificLocalTime};

/// How long the machine has been running, asleep or not. The same for all processes, and independent of the wall clock.
#[must_use]
pub fn since_boot() -> Duration {
    // SAFETY: returns a number.
    Duration::from_millis(unsafe { GetTickCount64() })
}

const SECONDS_TO_UNIX: i64 = 11_644_473_600;

/// How many seconds the user's time zone is ahead of UTC at a moment of Unix time.
#[must_use]
pub fn seconds_ahead_of_utc(unix_seconds: i64) -> Option<i64> {
    let ticks = unix_seconds.checked_add(SECONDS_TO_UNIX)?.checked_mul(10_000_000)?;
    let ticks = u64::try_from(ticks).ok().filter(|ticks| *ticks < 1 << 63)?;
    let utc = FILETIME { dwLowDateTime: ticks as u32, dwHighDateTime: (ticks >> 32) as u32 };
    // SAFETY: all-zero is valid for each of these; the calls read one and write the next.
    unsafe {
        let (mut broken, mut local): (SYSTEMTIME, SYSTEMTIME) = std::mem::zeroed();
        let mut back: FILETIME = std::mem::zeroed();
        super::done(FileTimeToSystemTime(&raw const utc, &raw mut broken)).ok()?;
        super::done(SystemTimeToTzSpecificLocalTime(std::ptr::null(), &raw const broken, &raw mut local)).ok()?;
        super::done(SystemTimeToFileTime(&raw const local, &raw mut back)).ok()?;
        let back = u64::from(back.dwHighDateTime) << 32 | u64::from(back.dwLowDateTime);
        // Milliseconds are all that the steps keep.
        Some((back as i64 - ticks as i64 + 5_000_000).div_euclid(10_000_000))
    }
}
