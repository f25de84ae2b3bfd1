//! What the last looks have seen of a child: its memory over time, and how much passes a minute.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use nostray_registry::TrafficSeen;

/// So many looks are kept: five minutes, at one a second.
const MAX_SAMPLES: usize = 300;
/// Rates are over this time.
const MINUTE: Duration = Duration::from_secs(60);
/// Over a shorter time a rate says nothing.
const SHORTEST_TIME: Duration = Duration::from_millis(500);

/// What one look has seen of a child.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Bytes of memory of its tree.
    pub memory: u64,
    /// Messages so far.
    pub messages: u64,
    /// Calls so far that have ended.
    pub calls: u64,
    /// Those of them that failed.
    pub errors: u64,
}

/// How much passes a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Messages in either direction.
    pub messages: f64,
    /// Calls that have ended.
    pub calls: f64,
    /// Those of them that failed.
    pub errors: f64,
}

/// The last looks at each child.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    by_id: HashMap<String, VecDeque<Sample>>,
}

impl Histories {
    /// A look has seen this.
    pub(crate) fn add(&mut self, id: &str, at: Instant, memory: u64, traffic: Option<&TrafficSeen>) {
        let samples = self.by_id.entry(id.to_owned()).or_default();
        if samples.len() >= MAX_SAMPLES {
            samples.pop_front();
        }
        let (messages, calls, errors) = traffic.map_or((0, 0, 0), |seen| (seen.messages, seen.calls, seen.errors));
        samples.push_back(Sample { at, memory, messages, calls, errors });
    }

    /// Forgets the children that are not there any more.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.by_id.retain(|id, _| is_there(id));
    }

    pub(crate) fn of(&self, id: &str) -> impl Iterator<Item = &Sample> {
        self.by_id.get(id).into_iter().flatten()
    }

    /// `None` after the first look.
    pub(crate) fn rates(&self, id: &str) -> Option<Rates> {
        let samples = self.by_id.get(id)?;
        let last = samples.back()?;
        let first = samples.iter().find(|sample| last.at.duration_since(sample.at) <= MINUTE)?;
        let time = last.at.duration_since(first.at);
        if time < SHORTEST_TIME {
            return None;
        }
        let per_minute = |from: u64, to: u64| to.saturating_sub(from) as f64 * 60.0 / time.as_secs_f64();
        Some(Rates {
            messages: per_minute(first.messages, last.messages),
            calls: per_minute(first.calls, last.calls),
            errors: per_minute(first.errors, last.errors),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let mut histories = Histories::default();
        let began = Instant::now();
        let seen = |messages, errors| TrafficSeen { messages, calls: messages / 2, errors, methods: Vec::new() };
        for second in 0..=120_u64 {
            // A burst in the first minute, then two messages a second, of which one in ten is a failed call.
            let messages = 1_000_000 + second * 2;
            let at = began + Duration::from_secs(second);
            let messages = if second == 0 { 0 } else { messages };
            histories.add("a", at, second, Some(&seen(messages, second / 5)));
        }
        let rates = histories.rates("a").expect("rates");
        assert_eq!((rates.messages.round(), rates.calls.round(), rates.errors.round()), (120.0, 60.0, 12.0));
        assert_eq!(histories.of("a").count(), 121);
        assert_eq!(histories.rates("b"), None);
        histories.keep(|id| id != "a");
        assert_eq!(histories.of("a").count(), 0);
    }

    #[test]
    fn no_more_than_five_minutes_are_kept() {
        let mut histories = Histories::default();
        let began = Instant::now();
        (0..1000).for_each(|second| histories.add("a", began + Duration::from_secs(second), second, None));
        assert_eq!(histories.of("a").count(), MAX_SAMPLES);
        assert_eq!(histories.of("a").last().map(|sample| sample.memory), Some(999));
    }
}
