//! A limit on how often something may happen.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of times within a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many times.
    pub times: u32,
    /// In how long.
    pub within: Duration,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.times, humantime::format_duration(self.within))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it like 5/1m: how many, in how long".to_owned();
        let (times, within) = text.split_once('/').ok_or_else(wrong)?;
        let times = times.trim().parse().ok().filter(|times| (1..=1000).contains(times)).ok_or_else(wrong)?;
        let within =
            humantime::parse_duration(within.trim()).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)?;
        Ok(Self { times, within: within.min(Duration::from_secs(366 * 24 * 3600)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_wrong_is_refused_with_an_example() {
        for wrong in ["", "5", "5/", "/1m", "0/1m", "-1/1m", "5/0s", "5/1"] {
            assert!(wrong.parse::<Rate>().is_err_and(|why| why.contains("5/1m")), "{wrong}");
        }
        let rate = Rate { times: 5, within: Duration::from_secs(60) };
        assert_eq!("5/1m".parse::<Rate>().expect("right"), rate);
        assert_eq!(rate.to_string(), "5/1m");
    }
}
