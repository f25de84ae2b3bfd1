//! Ends strays: only certain ones, each after a question to the user, and after a second look right before the signal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, Instant};

use nostray_sys::escalation::{Escalation, Step};
use nostray_sys::identity::wait_for_handles;
use nostray_sys::{Pidfd, Signal};

use super::command_line;
use super::evidence;
use super::strays::{Confidence, Stray};

/// From SIGTERM to SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(3);
/// How long the kernel may take to end a process after SIGKILL. After that, `doctor` reports that it has not ended.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// By SIGTERM.
    Ended,
    /// By SIGKILL.
    Killed,
    /// The user said no.
    Declined,
    /// It ended before it got a signal.
    Gone,
    /// It was not a certain stray at the second look, or only a *maybe* at the first, for which the user is not asked.
    Spared,
    /// It is still there.
    Failed(String),
}

impl Outcome {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Killed => "killed",
            Self::Declined => "declined",
            Self::Gone => "gone",
            Self::Spared => "spared",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether the process is not there any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Ended | Self::Killed | Self::Gone)
    }
}

/// Whether a user is there to answer questions.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Ends the certain strays that the user agrees to. The outcomes are in the order of the strays.
pub(super) fn end(strays: &[Stray], ask: bool) -> io::Result<Vec<Outcome>> {
    let mut outcomes = Vec::with_capacity(strays.len());
    for stray in strays {
        outcomes.push(match stray.confidence {
            Confidence::Maybe => Some(Outcome::Spared),
            Confidence::Certain if ask && !is_agreed(stray)? => Some(Outcome::Declined),
            Confidence::Certain => None,
        });
    }
    let agreed: Vec<_> = strays.iter().zip(&outcomes).filter(|(_, o)| o.is_none()).map(|(stray, _)| stray).collect();
    let mut ended = end_all(&agreed)?.into_iter();
    Ok(outcomes.into_iter().map(|outcome| outcome.or_else(|| ended.next()).unwrap_or(Outcome::Spared)).collect())
}

fn is_agreed(stray: &Stray) -> io::Result<bool> {
    let mut stderr = io::stderr();
    write!(stderr, "End {} {}? [y/N] ", stray.identity.pid, command_line::shortened(&stray.command))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn end_all(agreed: &[&Stray]) -> io::Result<Vec<Outcome>> {
    // Handles come before the second look, so that the look is about the very processes that get the signals.
    let handles: Vec<_> = agreed.iter().map(|stray| stray.identity.open()).collect();
    let now = evidence::look(&[])?;
    let is_still_certain = |stray: &Stray| {
        now.iter().any(|again| again.identity == stray.identity && again.confidence == Confidence::Certain)
    };
    let mut outcomes = vec![Outcome::Gone; agreed.len()];
    let mut left: Vec<(usize, &Pidfd)> = Vec::new();
    for (at, (stray, handle)) in agreed.iter().zip(&handles).enumerate() {
        match handle {
            Some(handle) if is_still_certain(stray) => left.push((at, handle)),
            Some(_) => outcomes[at] = Outcome::Spared,
            None => {}
        }
    }
    let mut escalation = Escalation::Asked { until: Instant::now(), term_grace: TERM_GRACE };
    while !matches!(escalation, Escalation::Killing(_)) {
        let (signal, outcome, until) = match escalation.next(Instant::now(), left.len()) {
            Step::Terminate(until) => (Signal::TERM, Outcome::Ended, until),
            Step::Kill => (Signal::KILL, Outcome::Killed, Instant::now() + KILL_WAIT),
            Step::Done => break,
        };
        left.retain(|&(at, handle)| {
            let sent = handle.send(signal);
            outcomes[at] = match &sent {
                Ok(()) => outcome.clone(),
                Err(_) if handle.has_ended().unwrap_or(false) => Outcome::Gone,
                Err(error) => Outcome::Failed(error.to_string()),
            };
            sent.is_ok()
        });
        wait_for_handles(left.iter().map(|(_, handle)| *handle).collect(), until);
        left.retain(|(_, handle)| !handle.has_ended().unwrap_or(false));
    }
    for (at, _) in left {
        outcomes[at] = Outcome::Failed("the kernel has not ended it yet, although it was killed".to_owned());
    }
    Ok(outcomes)
}
