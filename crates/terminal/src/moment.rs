//! Moments of Unix time as text.

use std::time::{Duration, UNIX_EPOCH};

use nostray_sys::clock::seconds_ahead_of_utc;

/// In which time zone moments are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// `2026-01-31T12:00:00Z`
    Utc,
    /// The user's own, with its offset: `2026-01-31T13:00:00+01:00`
    Local,
}

impl Zone {
    /// The user's own zone where a person reads standard output, and UTC where a script does.
    #[must_use]
    pub fn of_output() -> Self {
        if crate::is_terminal() { Self::Local } else { Self::Utc }
    }

    /// A moment in milliseconds, as text that `--since` understands.
    #[must_use]
    pub fn show(self, milliseconds: u64) -> String {
        let seconds = i64::try_from(milliseconds / 1000).unwrap_or(i64::MAX);
        match self {
            Self::Utc => in_utc(milliseconds),
            Self::Local => seconds_ahead_of_utc(seconds)
                .map_or_else(|| in_utc(milliseconds), |ahead| shifted(milliseconds, ahead)),
        }
    }
}

fn in_utc(milliseconds: u64) -> String {
    // RFC 3339 ends with the year 9999.
    let time = UNIX_EPOCH + Duration::from_millis(milliseconds.min(253_402_300_799_000));
    humantime::format_rfc3339_seconds(time).to_string()
}

/// A moment in a zone that is so many seconds ahead of UTC.
fn shifted(milliseconds: u64, ahead: i64) -> String {
    let there = in_utc(milliseconds.saturating_add_signed(ahead * 1000));
    let (sign, minutes) = (if ahead < 0 { '-' } else { '+' }, ahead.unsigned_abs() / 60);
    format!("{}{sign}{:02}:{:02}", there.trim_end_matches('Z'), minutes / 60, minutes % 60)
}

/// Reads a moment that [`Zone::show`] has shown, in milliseconds. Without an offset it is UTC.
#[must_use]
pub fn read_moment(text: &str) -> Option<u64> {
    // The sign of an offset is the only one behind the date.
    let at = text.get(10..).and_then(|time| time.find(['+', '-'])).map(|at| at + 10);
    let (time, ahead) = match at {
        Some(at) => (&text[..at], offset(&text[at..])?),
        None => (text, 0),
    };
    let time = humantime::parse_rfc3339_weak(time).ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).ok().map(|milliseconds| milliseconds.saturating_add_signed(-ahead * 1000))
}

/// `+01:00`, `-0330` or `+01`, in seconds.
fn offset(text: &str) -> Option<i64> {
    let (sign, digits) = text.split_at_checked(1)?;
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    let number =
        |part: Option<&str>| part.filter(|part| part.chars().all(|c| c.is_ascii_digit()))?.parse::<i64>().ok();
    let hours = number(digits.get(..2))?;
    let minutes = if digits.len() == 2 { 0 } else { number(digits.get(2..).filter(|rest| rest.len() == 2))? };
    let seconds = (hours * 60 + minutes) * 60;
    Some(if sign == "-" { -seconds } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_with_the_offset_of_its_zone_and_read_back() {
        let moment = 1_769_860_800_000;
        assert_eq!(in_utc(moment), "2026-01-31T12:00:00Z");
        for (ahead, shown) in [
            (3600, "2026-01-31T13:00:00+01:00"),
            (0, "2026-01-31T12:00:00+00:00"),
            (-12_600, "2026-01-31T08:30:00-03:30"),
            (49_500, "2026-02-01T01:45:00+13:45"),
        ] {
            assert_eq!(shifted(moment, ahead), shown);
            assert_eq!(read_moment(shown), Some(moment), "{shown}");
        }
        assert_eq!(read_moment(&Zone::Local.show(moment)), Some(moment));
        assert_eq!(Zone::Utc.show(u64::MAX), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for (text, moment) in [
            ("2026-01-31T12:00:00Z", Some(1_769_860_800_000)),
            ("2026-01-31 12:00:00", Some(1_769_860_800_000)),
            ("2026-01-31T13:00:00+0100", Some(1_769_860_800_000)),
            ("2026-01-31T13:00:00+01", Some(1_769_860_800_000)),
            ("2026-01-31T13:00:00+", None),
            ("2026-01-31T13:00:00+1:00", None),
            ("2026-01-31T13:00:00+aa:bb", None),
            ("2026-01-31", None),
            ("10m", None),
            ("", None),
        ] {
            assert_eq!(read_moment(text), moment, "{text}");
        }
    }
}
