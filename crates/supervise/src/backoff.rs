//! How long to wait before the next start, and how many failures are too many.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nostray_sys::rate::Rate;

/// How many failures trip a child, unless the user says otherwise.
pub const MAX_FAILURES: Rate = Rate { times: 5, within: Duration::from_secs(60) };

/// A pause that doubles with every failure, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(250), longest: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// For attaching to a shared child: hardly any, since its steward paces the starts.
    #[cfg(target_os = "linux")]
    pub(crate) fn for_attaching() -> Self {
        Self { first: Duration::from_millis(2), longest: Duration::from_secs(2) }
    }

    /// The longest pause.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The pause after so many failures in a row before this one. `jitter`, from 0 to 1, spreads it over its upper half, so that
    /// thirty servers that one cause has ended do not start in the same moment.
    #[must_use]
    pub fn pause(&self, failures: u32, jitter: f64) -> Duration {
        let doubled = self.first.saturating_mul(2u32.saturating_pow(failures.min(31)));
        doubled.min(self.longest).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = humantime::format_duration;
        write!(f, "{}..{}", time(self.first), time(self.longest))
    }
}

impl FromStr for Backoff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it like 250ms..30s: the first pause and the longest one".to_owned();
        let (first, longest) = text.split_once("..").ok_or_else(wrong)?;
        let time = |text: &str| humantime::parse_duration(text.trim()).map_err(|_| wrong());
        let (first, longest) = (time(first)?, time(longest)?);
        if first.is_zero() {
            return Err(
                "the first pause must be more than zero, or a child that crashes at once would never let go \
                        of the processor"
                    .to_owned(),
            );
        }
        if longest < first {
            return Err("the longest pause is shorter than the first one".to_owned());
        }
        // At most a year, so that no clock overflows.
        let year = Duration::from_secs(366 * 24 * 3600);
        Ok(Self { first: first.min(year), longest: longest.min(year) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_jitter_takes_up_to_half_of_them() {
        let backoff: Backoff = "100ms..1s".parse().expect("right");
        let pauses: Vec<_> = (0..6).map(|n| backoff.pause(n, 1.0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.pause(0, 0.0).as_millis(), 50);
        assert_eq!(backoff.pause(u32::MAX, 0.5).as_millis(), 750);
    }

    #[test]
    fn what_is_written_wrong_is_refused_with_an_example() {
        for wrong in ["", "1s", "1s..", "..1s", "2s..1s", "0s..1s", "1..2"] {
            assert!(wrong.parse::<Backoff>().is_err(), "{wrong}");
        }
        assert_eq!(Backoff::default().to_string(), "250ms..30s");
        assert_eq!("250ms..30s".parse::<Backoff>().expect("right"), Backoff::default());
    }
}
