//! What passes between the sessions of a supervised child and the child: messages, calls, errors, and how long calls take, by method.
//!
//! The process that passes the messages on counts in memory that other processes can read (see [`nostray_sys::shared_words`]), so
//! counting is a few instructions, and a reader disturbs no process. The record says under which file descriptor.
//!
//! ```text
//! word 0      the format
//! 1, 2, 3     messages, calls that have ended, those of them that failed
//! 4..32       for later
//! 32..        for each method 25 words: its name (5 words of bytes), calls, errors, answers, microseconds, 16 times
//! ```

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nostray_sys::shared_words::{SharedWords, open_words_of, read_words};

use crate::record::Record;

const FORMAT: u64 = 0x6e6f_7374_7261_0001;
const MESSAGES: usize = 1;
const CALLS: usize = 2;
const ERRORS: usize = 3;
const FIRST_METHOD: usize = 32;

const NAME_WORDS: usize = 5;
const METHOD_CALLS: usize = NAME_WORDS;
const METHOD_ERRORS: usize = NAME_WORDS + 1;
const METHOD_ANSWERS: usize = NAME_WORDS + 2;
const METHOD_MICROSECONDS: usize = NAME_WORDS + 3;
const METHOD_TIMES: usize = NAME_WORDS + 4;
const METHOD_WORDS: usize = METHOD_TIMES + BOUNDS.len();
/// More methods than any protocol that we know has. Two pages, of which most children need one.
const METHODS: usize = 39;
const WORDS: usize = FIRST_METHOD + METHODS * METHOD_WORDS;
/// The longest name that is told apart.
const MAX_NAME: usize = NAME_WORDS * size_of::<u64>();
/// What all methods beyond the last place, and all names that are too long, are counted as.
const OTHER: &str = "other";

/// The upper bounds of the times that are told apart, in seconds: two, and those that OpenTelemetry's conventions for MCP advise.
pub const BOUNDS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// The same in microseconds.
const BOUNDS_MICROSECONDS: [u64; BOUNDS.len()] = [
    1_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
];

/// Which method a call names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Method(u8);

/// Counts.
#[derive(Debug)]
pub struct Traffic {
    words: SharedWords,
    /// The names of the methods so far, in their order. The first is for all that have no place.
    names: Vec<Box<[u8]>>,
}

impl Traffic {
    /// Nothing has passed so far.
    pub fn new() -> io::Result<Self> {
        let mut traffic = Self { words: SharedWords::new(WORDS)?, names: Vec::new() };
        traffic.words.add(0, FORMAT);
        traffic.learn(OTHER.as_bytes());
        Ok(traffic)
    }

    /// A message has passed, in either direction.
    pub fn message(&self) {
        self.words.add(MESSAGES, 1);
    }

    /// The place of a method.
    pub fn method(&mut self, name: impl AsRef<[u8]>) -> Method {
        let name = name.as_ref();
        if let Some(at) = self.names.iter().position(|known| **known == *name) {
            return Method(u8::try_from(at).unwrap_or(0));
        }
        if name.len() > MAX_NAME || name.is_empty() || self.names.len() >= METHODS {
            return Method(0);
        }
        self.learn(name)
    }

    fn learn(&mut self, name: &[u8]) -> Method {
        let at = self.names.len();
        self.names.push(name.into());
        for (word, bytes) in name.chunks(size_of::<u64>()).enumerate() {
            let mut padded = [0; size_of::<u64>()];
            padded[..bytes.len()].copy_from_slice(bytes);
            self.words.add(place(at) + word, u64::from_ne_bytes(padded));
        }
        Method(u8::try_from(at).unwrap_or(0))
    }

    /// The child has answered a call after this time.
    pub fn answered(&self, Method(method): Method, took: Duration, is_error: bool) {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = place(method.into());
        self.words.add(place + METHOD_ANSWERS, 1);
        self.words.add(place + METHOD_MICROSECONDS, microseconds);
        if let Some(bound) = BOUNDS_MICROSECONDS.iter().position(|bound| microseconds <= *bound) {
            self.words.add(place + METHOD_TIMES + bound, 1);
        }
        self.ended(place, is_error);
    }

    /// A call has ended without an answer of the child.
    pub fn failed(&self, Method(method): Method) {
        self.ended(place(method.into()), true);
    }

    fn ended(&self, place: usize, is_error: bool) {
        self.words.add(CALLS, 1);
        self.words.add(place + METHOD_CALLS, 1);
        if is_error {
            self.words.add(ERRORS, 1);
            self.words.add(place + METHOD_ERRORS, 1);
        }
    }

    /// The file descriptor under which others find it.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.words.number()
    }

    /// What has been counted so far.
    #[must_use]
    pub fn seen(&self) -> TrafficSeen {
        let words: Vec<u64> = self.words.words().iter().map(|word| word.load(Ordering::Relaxed)).collect();
        TrafficSeen::of(&words).unwrap_or_default()
    }
}

#[cfg(target_os = "linux")]
impl std::os::fd::AsFd for Traffic {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.words.as_fd()
    }
}

fn place(method: usize) -> usize {
    FIRST_METHOD + method * METHOD_WORDS
}

/// The counters of one child, opened to be read again and again.
#[derive(Debug)]
pub struct TrafficReader(File);

impl TrafficReader {
    /// Those of this child, if its keeper counts and lives.
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
        let keeper = record.front.identity()?;
        let file = open_words_of(keeper.pid, record.traffic?).ok()?;
        // Opened first and compared then: the number may have been given to another process in between.
        keeper.is_alive().then_some(Self(file))
    }

    /// What has been counted so far. `None` if these are no counters of ours.
    #[must_use]
    pub fn read(&self) -> Option<TrafficSeen> {
        TrafficSeen::of(&read_words(&self.0, WORDS).ok()?)
    }
}

/// What has passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficSeen {
    /// Messages in either direction.
    pub messages: u64,
    /// Calls that have ended.
    pub calls: u64,
    /// Those of them that were answered with an error, by the child or on its behalf.
    pub errors: u64,
    /// The same by method, with the time that the child took to answer.
    pub methods: Vec<MethodSeen>,
}

/// What is known of one method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodSeen {
    /// Its name.
    pub name: String,
    /// Calls that have ended.
    pub calls: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Those of them that the child answered.
    pub answers: u64,
    /// How long these took together.
    pub time: Duration,
    /// How many of them took at most [`BOUNDS`], and longer than the bound before.
    pub times: [u64; BOUNDS.len()],
}

impl TrafficSeen {
    fn of(words: &[u64]) -> Option<Self> {
        let words: &[u64; WORDS] = words.try_into().ok()?;
        if words[0] != FORMAT {
            return None;
        }
        let methods = words[FIRST_METHOD..].chunks_exact(METHOD_WORDS).filter_map(method_seen).collect();
        Some(Self { messages: words[MESSAGES], calls: words[CALLS], errors: words[ERRORS], methods })
    }
}

/// `None` if it was never called.
fn method_seen(words: &[u64]) -> Option<MethodSeen> {
    let name: Vec<u8> = words[..NAME_WORDS].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
    let calls = words[METHOD_CALLS];
    (calls > 0 && !name.is_empty()).then(|| MethodSeen {
        name,
        calls,
        errors: words[METHOD_ERRORS],
        answers: words[METHOD_ANSWERS],
        time: Duration::from_micros(words[METHOD_MICROSECONDS]),
        times: std::array::from_fn(|bound| words[METHOD_TIMES + bound]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_method_and_time() {
        let mut traffic = Traffic::new().expect("counters");
        let (call, list) = (traffic.method("tools/call"), traffic.method("tools/list"));
        assert_eq!(traffic.method("tools/call"), call);
        traffic.message();
        traffic.answered(call, Duration::from_micros(900), false);
        traffic.answered(call, Duration::from_millis(1), false);
        traffic.answered(call, Duration::from_secs(400), true);
        traffic.failed(list);
        let seen = traffic.seen();
        assert_eq!((seen.messages, seen.calls, seen.errors), (1, 4, 2));
        let [call, list] = &seen.methods[..] else { panic!("{seen:?}") };
        assert_eq!((call.name.as_str(), call.calls, call.errors), ("tools/call", 3, 1));
        assert_eq!((call.answers, list.answers), (3, 0));
        assert_eq!(call.time, Duration::from_micros(400_001_900));
        assert_eq!((call.times[0], call.times[1..].iter().sum::<u64>()), (2, 0));
        assert_eq!((list.name.as_str(), list.calls, list.errors), ("tools/list", 1, 1));
    }

    /// A hostile session may name as many methods as it likes.
    #[test]
    fn methods_without_a_place_are_counted_together() {
        let mut traffic = Traffic::new().expect("counters");
        for number in 0..1000 {
            let method = traffic.method(format!("method-{number}"));
            traffic.answered(method, Duration::ZERO, false);
        }
        let long = traffic.method("x".repeat(MAX_NAME + 1));
        traffic.answered(long, Duration::ZERO, false);
        let empty = traffic.method("");
        traffic.answered(empty, Duration::ZERO, false);
        let seen = traffic.seen();
        assert_eq!(seen.methods.len(), METHODS);
        assert_eq!(seen.methods.iter().map(|method| method.calls).sum::<u64>(), 1002);
        assert_eq!((seen.methods[0].name.as_str(), seen.methods[0].calls), (OTHER, 1002 - (METHODS as u64 - 1)));
        assert_eq!(seen.methods[1].name, "method-0");
    }

    #[test]
    fn bounds_are_the_same_in_both_units() {
        for (seconds, microseconds) in BOUNDS.into_iter().zip(BOUNDS_MICROSECONDS) {
            assert_eq!((seconds * 1e6).round() as u64, microseconds);
        }
    }

    #[test]
    fn other_bytes_are_no_counters() {
        assert_eq!(TrafficSeen::of(&[]), None);
        assert_eq!(TrafficSeen::of(&[0; WORDS]), None);
    }
}
