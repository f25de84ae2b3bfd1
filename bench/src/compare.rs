//! `compare`: nostray and what people use instead, on the same work, in one run. Seven parts, each of which takes its turns with all
//! contenders, checks itself, and says plainly what nostray is worse at.

mod behind;
mod containment;
mod contenders;
mod growth;
mod knowing;
mod messages;
mod recovery;
mod results;
mod sessions;
mod starts;
mod ways;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

use results::Results;

use crate::chart::Chart;
use crate::peers::{self, Peers};
use crate::programs::{Programs, running, until_none_runs};
use crate::report::Table;
use crate::traffic::{Server, watch};
use crate::{Failure, args, screen};

/// What all parts stand on.
pub(crate) struct Ground {
    pub(crate) programs: Programs,
    pub(crate) peers: Peers,
    pub(crate) everything: Result<Server, Failure>,
    pub(crate) size: Size,
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// All of it in five minutes.
    Quick,
    Full,
}

impl Ground {
    pub(crate) fn is_quick(&self) -> bool {
        self.size == Size::Quick
    }
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Containment,
    Messages,
    Sessions,
    Growth,
    Starts,
    Knowing,
    Recovery,
}

impl Part {
    const ALL: [Self; 7] = [
        Self::Containment,
        Self::Messages,
        Self::Sessions,
        Self::Growth,
        Self::Starts,
        Self::Knowing,
        Self::Recovery,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Containment => "containment",
            Self::Messages => "messages",
            Self::Sessions => "sessions",
            Self::Growth => "growth",
            Self::Starts => "starts",
            Self::Knowing => "knowing",
            Self::Recovery => "recovery",
        }
    }

    fn measure(self, ground: &Ground) -> Result<Answer, Failure> {
        match self {
            Self::Containment => containment::measure(ground),
            Self::Messages => messages::measure(ground),
            Self::Sessions => sessions::measure(ground),
            Self::Growth => growth::measure(ground),
            Self::Starts => starts::measure(ground),
            Self::Knowing => knowing::measure(ground),
            Self::Recovery => recovery::measure(ground),
        }
    }
}

impl FromStr for Part {
    type Err = Failure;

    fn from_str(word: &str) -> Result<Self, Failure> {
        let known = Self::ALL.map(Self::name).join(", ");
        let part = Self::ALL.into_iter().find(|part| part.name() == word);
        part.ok_or_else(|| format!("compare has no part '{word}'; it has {known}").into())
    }
}

/// What a part found.
pub(crate) struct Answer {
    /// Like `What a message costs`.
    pub(crate) title: &'static str,
    /// What was done, and how to read it.
    pub(crate) lead: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    /// What nostray is slower or heavier at than one of the others, or than it set out to be; a sentence each, with its numbers.
    pub(crate) worse: Vec<String>,
    /// Whether the part can be believed.
    pub(crate) checks: Vec<Check>,
}

/// One way in which a part would notice that it measures nothing.
pub(crate) struct Check {
    /// Like `with nothing around it, a stubborn child outlives its host`.
    pub(crate) what: String,
    pub(crate) held: bool,
}

impl Check {
    pub(crate) fn new(what: impl Into<String>, held: bool) -> Self {
        Self { what: what.into(), held }
    }

    /// At the end of a part that has ended everything it started.
    fn no_child_left(ground: &Ground) -> Self {
        Self::new("no child that was started is left", running(&ground.programs.badchild).is_empty())
    }
}

pub(crate) fn run(options: &args::Compare) -> Result<ExitCode, Failure> {
    let size = if options.quick { Size::Quick } else { Size::Full };
    screen::progress("building");
    let programs = Programs::build()?;
    let peers = Peers::find(|who| screen::progress(format_args!("installing {who}")));
    let everything = peers::everything();
    watch::begin();
    let ground = Ground { programs, peers, everything, size };
    let mut results = Results::new(&ground)?;
    for part in Part::ALL.into_iter().filter(|part| options.only.is_empty() || options.only.contains(part)) {
        let start = Instant::now();
        let answer = part.measure(&ground).map_err(|error| format!("{}: {error}", part.name()))?;
        until_none_runs(&ground.programs.nostray)?;
        results.add(answer, start.elapsed());
    }
    let whole = size == Size::Full && options.only.is_empty();
    let believable = results.write(whole)?;
    Ok(if believable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
