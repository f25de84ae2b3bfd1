//! The types of the machine: policy, states, events, timers, actions.

use std::fmt;
use std::time::Duration;

use nostray_sys::rate::Rate;
use serde::{Deserialize, Serialize};

use crate::as_text;
use crate::backoff::{Backoff, MAX_FAILURES};

/// Counts the incarnations of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

impl Generation {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment, as the time since the machine was made. The machine is told the time and never reads a clock.
pub type Moment = Duration;

/// What a user wants of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Whether a child that ended by itself is started again.
    pub respawn: bool,
    /// How long to wait before that.
    #[serde(with = "as_text")]
    pub backoff: Backoff,
    /// How many failures in how long trip the child.
    #[serde(with = "as_text")]
    pub max_failures: Rate,
    /// How long the child has to be *ready* until earlier failures are forgotten.
    pub sustained: Duration,
    /// Put to sleep after so long without anything in flight.
    pub hibernate: Option<Duration>,
    /// Recycled, at a quiet moment, after so long.
    pub max_age: Option<Duration>,
    /// A start that takes longer has failed.
    pub start_timeout: Option<Duration>,
    /// Start the child with the first call, not with the first holder.
    pub on_demand: bool,
}

/// How long a child has to be *ready* until its earlier failures are forgotten.
const SUSTAINED: Duration = Duration::from_secs(30);

impl Default for Policy {
    /// What holds of a child of which the user has said nothing.
    fn default() -> Self {
        Self {
            respawn: false,
            backoff: Backoff::default(),
            max_failures: MAX_FAILURES,
            sustained: SUSTAINED,
            hibernate: None,
            max_age: None,
            start_timeout: None,
            on_demand: false,
        }
    }
}

/// Why a child is torn down although it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It was to be stopped, for good.
    Stop,
    /// Its last holder has released it.
    Released,
    /// Nothing was in flight for long enough.
    Hibernate,
    /// Its tree uses more memory than it may.
    Memory,
    /// It is older than it may become.
    Age,
    /// Its start took too long.
    StartTimeout,
    /// It did not take up the session of the one before it.
    BadStart,
    /// The user restarts it.
    Restart,
}

impl Why {
    /// Whether the child may still answer, within its grace, what it was asked before. Otherwise its callers are told at once that it
    /// is gone, and nothing that it says reaches them.
    #[must_use]
    pub fn lets_child_answer(self) -> bool {
        matches!(self, Self::Stop | Self::Released)
    }

    /// What a caller is told.
    #[must_use]
    pub fn cause(self) -> Cause {
        match self {
            Self::Stop => Cause::new("was stopped"),
            Self::Released => Cause::because("was ended", "no session holds it any more"),
            Self::Hibernate => Cause::new("was put to sleep"),
            Self::Memory => {
                Cause::because("was restarted", "its process tree used more memory than --max-memory allows")
            }
            Self::Age => Cause::because("was restarted", "it reached its --max-age"),
            Self::StartTimeout => Cause::because("was ended", "it took longer to start than --start-timeout allows"),
            Self::Restart => Cause::because("was restarted", "a user or a program asked for that"),
            Self::BadStart => {
                Cause::because("was ended", "it refused the handshake that its predecessor had accepted")
            }
        }
    }
}

/// What became of a child that never ran.
const NOT_STARTED: &str = "could not be started";

/// Why a child is not there: what became of it, as a clause whose subject is the child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// What became of it: `exited with code 1`.
    pub what: String,
    /// Why, as a clause of its own, if there is more to say: `it took longer to start than --start-timeout allows`.
    pub why: Option<String>,
}

impl Cause {
    /// What became of the child says all.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), why: None }
    }

    /// What became of the child, and why.
    #[must_use]
    pub fn because(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: Some(why.into()) }
    }

    /// The child could not be started, and why.
    #[must_use]
    pub fn not_started(why: impl Into<String>) -> Self {
        Self::because(NOT_STARTED, why)
    }

    /// Whether there was no child that could have read anything.
    #[must_use]
    pub fn is_failed_start(&self) -> bool {
        self.what == NOT_STARTED
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the child {}", self.what)?;
        self.why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// Where a child is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// There is no child, and no call waits for one.
    Asleep,
    /// There, but it has not answered yet.
    Starting(Generation),
    /// There, and it has answered.
    Ready {
        /// Which one.
        generation: Generation,
        /// To be recycled at the next quiet moment.
        recycle: Option<Why>,
    },
    /// Being torn down by us.
    Stopping {
        /// Which one.
        generation: Generation,
        /// Why.
        why: Why,
    },
    /// It ended by itself, and its tree is not empty yet.
    Falling {
        /// Which one.
        generation: Generation,
        /// How it ended.
        cause: Cause,
    },
    /// Waiting before the next start.
    BackingOff {
        /// How the last one ended.
        cause: Cause,
    },
    /// It failed too often. Calls are answered with an error at once.
    Tripped {
        /// How the last one ended.
        cause: Cause,
    },
    /// Over, for good.
    Ended,
}

impl State {
    /// The generation that is alive, or whose tree is not known to be empty.
    #[must_use]
    pub fn live(&self) -> Option<Generation> {
        match self {
            Self::Starting(generation)
            | Self::Ready { generation, .. }
            | Self::Stopping { generation, .. }
            | Self::Falling { generation, .. } => Some(*generation),
            Self::Asleep | Self::BackingOff { .. } | Self::Tripped { .. } | Self::Ended => None,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// One holder more.
    Taken,
    /// One holder less.
    Released,
    /// Something waits that only the child can answer.
    Demanded,
    /// The child has answered.
    Answered(Generation),
    /// The child runs. Without a protocol, and without a definition of ready, that is all that can be known of it.
    Runs(Generation),
    /// From now on something is in flight.
    Busy,
    /// Nothing is in flight any more.
    Quiet,
    /// The child ended by itself; its tree may not be empty.
    Died(Generation, Cause),
    /// The tree is empty. The cause counts unless the child was torn down.
    Emptied(Generation, Cause),
    /// The tree uses more memory than it may.
    OverMemory(Generation),
    /// It uses twice as much.
    FarOverMemory(Generation),
    /// A timer has fired.
    Fired(Timer),
    /// Stop, for good.
    Stop,
    /// It is there, but refuses the handshake that its predecessor took.
    BadStart(Generation),
    /// Starting it is of no use: the program is not there.
    Hopeless(Generation, Cause),
    /// The user restarts the child, at the next quiet moment.
    Restart,
    /// A steward has put its child to rest. The next call wakes it.
    Rested(Generation),
}

/// What the machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Timer {
    /// The next start.
    Backoff,
    /// A start that takes too long.
    Start,
    /// Long enough in *ready*.
    Sustained,
    /// Long enough without work.
    Hibernate,
    /// Old age.
    Age,
    /// Long enough after it was given up.
    Cooled,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start this generation.
    Start(Generation),
    /// Tear this one down, with its graces.
    TearDown(Generation, Why),
    /// Answer everything that is in flight with an error.
    CutOff(Cause),
    /// Answer everything that waits with an error.
    Refuse(Cause),
    /// Arm a timer. Replaces its earlier deadline.
    Arm(Timer, Duration),
    /// Disarm a timer.
    Disarm(Timer),
}
