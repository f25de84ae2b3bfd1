//! How a child ended, and why.

use std::fmt;

use nostray_sys::Signal;
use nostray_sys::process::Ended;

use crate::report::GuardReport;

/// How a child ended, once nothing is left of its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why.
    pub cause: Cause,
}

/// Why a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// By itself.
    Itself,
    /// A process asked for it: this host, `nostray stop`, or a newcomer to its slot.
    Asked(String),
    /// Its input was closed.
    StdinClosed,
    /// It could not be executed, and why.
    NotExecuted(String),
    /// It did not get its slot, so that it was not started. The holder was written to its stderr.
    SlotTaken,
    /// All of nostray's processes around it were killed.
    KeepersKilled,
    /// The guard failed. Nothing was started.
    GuardFailed(String),
    /// Something else, in words.
    Other(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itself => f.write_str("it ended by itself"),
            Self::StdinClosed => f.write_str("its input was closed"),
            Self::SlotTaken => f.write_str("its slot was taken"),
            Self::KeepersKilled => f.write_str("nostray's own processes around it were killed"),
            Self::Asked(text) | Self::NotExecuted(text) | Self::GuardFailed(text) | Self::Other(text) => {
                f.write_str(text)
            }
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.how(), self.cause)
    }
}

impl Exit {
    /// How it ended, without the reason.
    pub(crate) fn how(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "was not started".to_owned(),
        }
    }

    /// Whether it ended with 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// From the guard's report, and how its front ended. If the front was killed, or the host's own `waitpid(-1)` took its exit status
    /// and the guard reported nothing, nothing is known.
    pub(crate) fn new(report: &GuardReport, front: Option<Ended>) -> Self {
        let cause = cause(report, front);
        let (code, signal) = match (report.ended, front, &cause) {
            (Some((code, signal)), ..) => (code, signal),
            (None, Some(Ended::Exited(code)), Cause::NotExecuted(_) | Cause::SlotTaken) => {
                (Some(i32::from(code)), None)
            }
            _ => (None, None),
        };
        Self { code, signal, cause }
    }
}

fn cause(report: &GuardReport, front: Option<Ended>) -> Cause {
    if let Some(why) = &report.failed {
        return Cause::GuardFailed(why.clone());
    }
    if let Some(why) = &report.not_executed {
        return Cause::NotExecuted(why.clone());
    }
    if let Some((word, detail)) = &report.stopping {
        return match word.as_str() {
            "stdin-closed" => Cause::StdinClosed,
            "stop-request" | "hand-over" | "signal" => Cause::Asked(detail.clone()),
            "front-killed" | "spare-killed" | "guard-killed" => Cause::KeepersKilled,
            "child-ended" => Cause::Itself,
            _ => Cause::Other(detail.clone()),
        };
    }
    match front {
        _ if report.ended.is_some() => Cause::Itself,
        // It knows what to do with that signal before it starts anything.
        Some(Ended::Killed(Signal::TERM)) if !report.is_started => {
            Cause::Asked("it was asked to end before it was started".to_owned())
        }
        None | Some(Ended::Killed(_)) => Cause::KeepersKilled,
        // A guard that tells of its end would have reported a child.
        Some(Ended::Exited(nostray_slot::NOT_NOW)) if report.over.is_some() && !report.is_started => Cause::SlotTaken,
        Some(Ended::Exited(_)) if report.over.is_some() && !report.is_started => {
            Cause::Asked("it was asked to end while it waited for its slot, and was not started".to_owned())
        }
        Some(Ended::Exited(_)) if report.is_started => Cause::Itself,
        Some(Ended::Exited(code)) => Cause::GuardFailed(format!(
            "what was to guard it has ended with {code} and report nothing; is the `nostray` in PATH an older one?"
        )),
    }
}
