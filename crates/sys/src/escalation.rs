//! The one schedule by which processes are ended: SIGTERM, a grace, then SIGKILL until none is left. It says *what happens when*, and
//! has no clock and no process, so that a test can walk through it. [`crate::identity::signal_each`] is how its signals are sent.

use std::time::{Duration, Instant};

/// SIGKILL is sent so often at most. More than once is needed only for processes that fork as they die.
const KILL_ROUNDS: u32 = 20;
/// How long to wait for processes to end after each SIGKILL, before the next step.
pub const KILL_WAIT: Duration = Duration::from_millis(500);

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send SIGTERM to every process that is left. The next step is due when all have ended, or at this moment.
    Terminate(Instant),
    /// Send SIGKILL to every process that is left.
    Kill,
    /// Nothing: no process is left, or SIGKILL was sent often enough.
    Done,
}

/// How far the end of some processes has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escalation {
    /// They were asked in another way, or not at all. SIGTERM is next.
    Asked {
        /// When it is due.
        until: Instant,
        /// From SIGTERM to SIGKILL.
        term_grace: Duration,
    },
    /// They got SIGTERM. SIGKILL is next.
    Terminating {
        /// When it is due.
        until: Instant,
    },
    /// They got SIGKILL, so often.
    Killing(u32),
}

impl Escalation {
    /// When the next step is due. Who kills, repeats it at its own pace.
    #[must_use]
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::Asked { until, .. } | Self::Terminating { until } => Some(until),
            Self::Killing(_) => None,
        }
    }

    /// Makes the grace that has begun longer, never shorter.
    pub fn extend(&mut self, to: Instant) {
        if let Self::Asked { until, .. } | Self::Terminating { until } = self {
            *until = (*until).max(to);
        }
    }

    /// The next step, if its time has come.
    pub fn tick(&mut self, now: Instant) -> Option<Step> {
        (self.deadline()? <= now).then(|| self.next(now, 1))
    }

    /// The next step, also before its time, for so many processes that are left: all that got the last signal have ended, or had enough
    /// time. Where no process is left, the step is skipped.
    pub fn next(&mut self, now: Instant, left: usize) -> Step {
        let (next, step) = match *self {
            Self::Asked { term_grace, .. } => {
                let until = now + term_grace;
                (Self::Terminating { until }, Step::Terminate(until))
            }
            Self::Terminating { .. } => (Self::Killing(1), Step::Kill),
            Self::Killing(rounds) if rounds < KILL_ROUNDS => (Self::Killing(rounds + 1), Step::Kill),
            Self::Killing(_) => (*self, Step::Done),
        };
        *self = next;
        if left == 0 { Step::Done } else { step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn sigkill_follows_sigterm_after_the_grace_and_is_repeated_until_there_were_enough_rounds() {
        let t = Instant::now();
        let mut it = Escalation::Asked { until: t + SECOND, term_grace: SECOND };
        assert_eq!(it.tick(t), None);
        assert_eq!(it.tick(t + SECOND), Some(Step::Terminate(t + 2 * SECOND)));
        it.extend(t + 3 * SECOND);
        assert_eq!(it.tick(t + 2 * SECOND), None);
        assert_eq!(it.tick(t + 3 * SECOND), Some(Step::Kill));
        let repeated = std::iter::from_fn(|| Some(it.next(t, 1))).take_while(|step| *step == Step::Kill);
        assert_eq!(repeated.count(), KILL_ROUNDS as usize - 1);
    }

    #[test]
    fn a_step_without_processes_is_skipped() {
        let t = Instant::now();
        let mut it = Escalation::Asked { until: t, term_grace: SECOND };
        assert_eq!(it.next(t, 0), Step::Done);
        assert_eq!(it.next(t, 1), Step::Kill);
    }
}
