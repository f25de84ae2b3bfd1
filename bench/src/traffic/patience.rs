//! How long a turn may take. Some ways are a thousand times as slow as others, and some lose what they should carry: the one is cut
//! short and counted as far as it came, the other is given up. Nothing of this is on the way of a message: a thread of its own looks at a
//! count, and ends the session's processes, so that the thread that reads from them sees the end of the stream.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// After this nothing more is sent.
    pub(crate) sending: Duration,
    /// A server that does not answer for so long does not answer any more.
    pub(crate) silence: Duration,
    /// After this the turn does not wait for the answers that are still missing.
    pub(crate) all: Duration,
}

/// What a turn's end was, if it did not come by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Running,
    Done,
    Silent,
    TooLong,
}

pub(super) struct Patience {
    pub(super) limits: Limits,
    answers: AtomicUsize,
    end: Mutex<End>,
    changed: Condvar,
}

impl Patience {
    pub(super) fn new(limits: Limits) -> Self {
        let (answers, end, changed) = (AtomicUsize::new(0), Mutex::new(End::Running), Condvar::new());
        Self { limits, answers, end, changed }
    }

    pub(super) fn sees_an_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the turn to end, and ends it when it has to.
    pub(super) fn keep(&self, kill: impl Fn()) {
        let start = Instant::now();
        let (mut answers, mut since) = (0, start);
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        while *end == End::Running {
            (end, _) = self.changed.wait_timeout(end, LOOK).unwrap_or_else(PoisonError::into_inner);
            let now = self.answers.load(Ordering::Relaxed);
            if now != answers {
                (answers, since) = (now, Instant::now());
            }
            let over = match *end {
                End::Running if since.elapsed() > self.limits.silence => End::Silent,
                End::Running if start.elapsed() > self.limits.all => End::TooLong,
                _ => continue,
            };
            *end = over;
            kill();
        }
    }

    /// The turn has ended by itself, unless it was ended.
    pub(super) fn ends(&self) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if *end == End::Running {
            *end = End::Done;
        }
        self.changed.notify_one();
    }

    fn end(&self) -> End {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_taken_too_long(&self) -> bool {
        self.end() == End::TooLong
    }

    /// In words, if it did not end by itself.
    pub(super) fn why_it_ended(&self) -> Option<String> {
        match self.end() {
            End::Running | End::Done => None,
            End::Silent => Some(format!("no answer for {} s", self.limits.silence.as_secs_f64())),
            End::TooLong => Some(format!("no answer within {} s", self.limits.all.as_secs_f64())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const SOON: Duration = Duration::from_millis(300);
    const NEVER: Duration = Duration::from_secs(3600);

    fn kept(silence: Duration, all: Duration, turn: impl FnOnce(&Patience, &AtomicBool)) -> Patience {
        let limits = Limits { sending: NEVER, silence, all };
        let (patience, killed) = (Patience::new(limits), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| patience.keep(|| killed.store(true, Ordering::Relaxed)));
            turn(&patience, &killed);
            patience.ends();
        });
        patience
    }

    fn until(killed: &AtomicBool) {
        assert!(
            badchild::comes_true(badchild::PATIENCE, &mut || killed.load(Ordering::Relaxed)),
            "the session was not ended"
        );
    }

    #[test]
    fn a_silent_server_is_ended_and_the_reason_says_so() {
        let silent = kept(SOON, NEVER, |_, killed| until(killed));
        assert_eq!(silent.why_it_ended().as_deref(), Some("no answer for 0.3 s"));
        assert!(!silent.has_taken_too_long());
    }

    #[test]
    fn a_slow_server_is_ended_and_the_answers_that_came_count() {
        let slow = kept(NEVER, SOON, |patience, killed| {
            patience.sees_an_answer();
            until(killed);
        });
        assert!(slow.has_taken_too_long());
    }

    #[test]
    fn a_finished_turn_is_left_alone() {
        let done = kept(NEVER, NEVER, |patience, _| patience.sees_an_answer());
        assert_eq!(done.why_it_ended(), None);
    }
}
