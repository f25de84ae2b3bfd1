//! How often a view that refreshes looks again.

use std::time::Duration;

/// The shortest time between two looks. Each takes some milliseconds for each hundred children.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// A number of seconds, or a time with its unit.
pub fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match seconds.or_else(|| humantime::parse_duration(text).ok()) {
        Some(time) if time >= SHORTEST_INTERVAL => Ok(time),
        Some(_) => Err("too short; 0.1 is the least".to_owned()),
        None => Err("write the seconds between two looks, like 2 or 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_number_of_seconds_or_a_time() {
        let milliseconds = |text| interval(text).map(|time| time.as_millis());
        assert_eq!(milliseconds("2"), Ok(2000));
        assert_eq!(milliseconds("0.5"), Ok(500));
        assert_eq!(milliseconds("500ms"), Ok(500));
        for wrong in ["0", "0.01", "-1", "soon", "NaN", "inf", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
