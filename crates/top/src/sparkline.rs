//! Memory over time in a few characters.

use std::time::{Duration, Instant};

use nostray_view::Sample;

/// One character is this long, so that the picture moves every few seconds and not with each refresh.
const STEP: Duration = Duration::from_secs(5);
const UNICODE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
/// A change by less than this part of the highest value does not use the whole height: it would make a mountain of noise.
const CALM: f64 = 0.125;

/// The memory of the last looks, the newest at the right end, in at most `width` characters. Steps are counted from `origin`, so that a
/// sample stays in its step.
pub(crate) fn memory<'a>(
    samples: impl Iterator<Item = &'a Sample>,
    origin: Instant,
    width: usize,
    in_unicode: bool,
) -> String {
    let mut steps: Vec<(u128, u64)> = Vec::new();
    for sample in samples {
        let step = sample.at.saturating_duration_since(origin).as_millis() / STEP.as_millis();
        match steps.last_mut() {
            Some((last, highest)) if *last == step => *highest = sample.memory.max(*highest),
            _ => steps.push((step, sample.memory)),
        }
    }
    let shown = &steps[steps.len().saturating_sub(width)..];
    let least = shown.iter().map(|(_, memory)| *memory).min().unwrap_or(0);
    let most = shown.iter().map(|(_, memory)| *memory).max().unwrap_or(0);
    if most == 0 {
        return String::new(); // asleep all the time
    }
    let range = ((most - least) as f64).max(most as f64 * CALM);
    let levels = if in_unicode { UNICODE } else { ASCII };
    let level = |memory: u64| {
        let part = (memory - least) as f64 / range;
        levels[((part * 7.0).round() as usize).min(7)]
    };
    shown.iter().map(|(_, memory)| level(*memory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[u64], width: usize) -> String {
        let origin = Instant::now();
        let sample = |(at, memory): (usize, &u64)| Sample {
            at: origin + STEP * u32::try_from(at).expect("small"),
            memory: *memory,
            messages: 0,
            calls: 0,
            errors: 0,
        };
        let samples: Vec<Sample> = values.iter().enumerate().map(sample).collect();
        memory(samples.iter(), origin, width, true)
    }

    #[test]
    fn growth_is_seen_noise_is_not_and_the_newest_is_at_the_end() {
        assert_eq!(drawn(&[0, 10, 20, 30, 40, 50, 60, 70], 8), "▁▂▃▄▅▆▇█");
        assert_eq!(drawn(&[0, 10, 20, 30, 40, 50, 60, 70], 3), "▁▅█");
        assert_eq!(drawn(&[1000, 1001, 999, 1000], 8), "▁▁▁▁");
        assert_eq!(drawn(&[0, 0], 8), "");
        assert_eq!(drawn(&[], 8), "");
        assert_eq!(drawn(&[5], 0), "");
    }
}
