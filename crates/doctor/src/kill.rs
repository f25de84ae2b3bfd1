//! Ending strays: only those that are certain, each asked for, and looked at once more right before.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_sys::poll::{self, Until};
use nostray_sys::{Pidfd, Signal};

use super::strays::{self, Confidence, Stray};
use super::words;

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// How long the kernel may take to end a process after SIGKILL, before it is said that it has not.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// By SIGTERM.
    Ended,
    /// By SIGKILL.
    Killed,
    /// A person said no.
    Declined,
    /// It ended before it got a signal.
    Gone,
    /// At the second look it was not a certain stray any more. Or it never was: those are not asked for.
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

/// Whether there is somebody to ask.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Ends those that are certain and agreed to. The outcomes are in the order of the strays.
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
    write!(stderr, "End {} {}? [y/N] ", stray.identity.pid, words::shortened(&stray.command))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A stray in the course of being ended.
enum Course {
    Over(Outcome),
    Under(Pidfd, Outcome),
}

fn end_all(agreed: &[&Stray]) -> io::Result<Vec<Outcome>> {
    // The handles first, the second look then: what it says is about those whom the signals will go to.
    let handles: Vec<_> = agreed.iter().map(|stray| stray.identity.open()).collect();
    let now = strays::look()?;
    let is_still = |stray: &Stray| {
        now.iter().any(|again| again.identity == stray.identity && again.confidence == Confidence::Certain)
    };
    let mut all: Vec<_> = agreed
        .iter()
        .zip(handles)
        .map(|(stray, handle)| match handle {
            None => Course::Over(Outcome::Gone),
            Some(_) if !is_still(stray) => Course::Over(Outcome::Spared),
            Some(handle) => begin(handle, Signal::TERM, Outcome::Ended),
        })
        .collect();
    wait_for(&all, GRACE)?;
    for course in &mut all {
        if let Course::Under(handle, _) = course
            && !handle.has_ended()?
            && let Course::Under(handle, _) = std::mem::replace(course, Course::Over(Outcome::Gone))
        {
            *course = begin(handle, Signal::KILL, Outcome::Killed);
        }
    }
    wait_for(&all, PATIENCE)?;
    all.into_iter()
        .map(|course| match course {
            Course::Over(outcome) => Ok(outcome),
            Course::Under(handle, outcome) if handle.has_ended()? => Ok(outcome),
            Course::Under(..) => {
                Ok(Outcome::Failed("the kernel has not ended it yet, although it was killed".to_owned()))
            }
        })
        .collect()
}

fn begin(handle: Pidfd, signal: Signal, outcome: Outcome) -> Course {
    match handle.send(signal) {
        Ok(()) => Course::Under(handle, outcome),
        Err(_) if handle.has_ended().unwrap_or(false) => Course::Over(Outcome::Gone),
        Err(error) => Course::Over(Outcome::Failed(error.to_string())),
    }
}

/// Waits until all have ended, or the time is over.
fn wait_for(all: &[Course], time: Duration) -> io::Result<()> {
    let deadline = Instant::now() + time;
    for course in all {
        if let Course::Under(handle, _) = course {
            while !handle.has_ended()? && Instant::now() < deadline {
                let left = deadline.saturating_duration_since(Instant::now());
                poll::wait(&[(handle.as_fd(), Until::Readable)], Some(left))?;
            }
        }
    }
    Ok(())
}
