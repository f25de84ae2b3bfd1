//! Twenty contenders want one slot, and the test kills and stops processes among them at random. Two trees must never hold the slot
//! at once, a last contender must obtain it in the end, and no unrelated process may be hit.
//!
//! The first check does not rely on nostray's records: every child takes a lock that its whole tree inherits (`badchild claim`), and
//! reports if another tree still holds it.

mod cast;
mod ending;
mod plan;
mod round;
mod strangers;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use cast::Role;
pub use plan::{CONTENDERS, Plan};
pub use round::play;
pub use strangers::Lookalikes;

/// The programs of a round.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program under test.
    pub nostray: PathBuf,
    /// The `badchild` program.
    pub badchild: PathBuf,
}

/// Why a round failed.
#[derive(Debug)]
pub struct Trouble {
    /// In a sentence.
    pub what: String,
    /// The details.
    pub details: Vec<String>,
}

impl Trouble {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), details: Vec::new() }
    }

    /// The round could not run, since there are too many processes. That is no failure of slots.
    #[must_use]
    pub fn is_want_of_room(&self) -> bool {
        self.what.contains("Resource temporarily unavailable")
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}", self.what, self.details.join("\n    "))
    }
}

/// The totals of the rounds that passed.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// How many rounds.
    pub rounds: u64,
    /// How many children held the slot.
    pub children: u64,
    /// How many pens held the slot.
    pub holders: u64,
    /// How often a holder was asked to hand over.
    pub asked: u64,
    /// How often a holder did not answer and was ended from outside.
    pub ended_from_outside: u64,
    /// How often the next holder had to sweep remains.
    pub swept: u64,
    /// How often a contender that wanted to replace the holder waited instead.
    pub settled: u64,
    /// Refusals: taken, superseded, too late.
    pub refused: [u64; 3],
    /// How often a host ended while its contender waited.
    pub gave_up: u64,
    /// Strokes that hit a process, by role and deed.
    pub strokes: [[u64; 5]; Role::ALL.len()],
    /// The longest time in which the slot was obtained in the end, in each way.
    pub slowest: [Duration; 3],
    /// The longest time from then until no process was left.
    pub slowest_end: Duration,
}

impl Tally {
    /// The ways in which the slot is obtained in the end. Sharing has an entry of its own: a shared child without sessions is kept for
    /// a while.
    const HOW: [&'static str; 3] = ["wait", "wait for a shared one", "replace"];

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        let numbers = |tally: &Self| {
            let Self { rounds, children, holders, asked, ended_from_outside, swept, settled, gave_up, .. } = *tally;
            [rounds, children, holders, asked, ended_from_outside, swept, settled, gave_up]
        };
        let mut sums = numbers(self);
        sums.iter_mut().zip(numbers(other)).for_each(|(sum, number)| *sum += number);
        [
            self.rounds,
            self.children,
            self.holders,
            self.asked,
            self.ended_from_outside,
            self.swept,
            self.settled,
            self.gave_up,
        ] = sums;
        self.refused.iter_mut().zip(other.refused).for_each(|(sum, number)| *sum += number);
        for (row, more) in self.strokes.iter_mut().zip(other.strokes) {
            row.iter_mut().zip(more).for_each(|(sum, number)| *sum += number);
        }
        self.slowest.iter_mut().zip(other.slowest).for_each(|(most, time)| *most = (*most).max(time));
        self.slowest_end = self.slowest_end.max(other.slowest_end);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, children, holders, asked, ended_from_outside, swept, settled, gave_up, .. } = self;
        let [taken, superseded, late] = self.refused;
        writeln!(
            f,
            "{rounds} rounds: {children} children of {holders} holders; {asked} asked to hand over, {ended_from_outside} ended from \
             outside, {swept} swept by the next one, {settled} settled for waiting"
        )?;
        writeln!(
            f,
            "refused: {taken} since it was taken, {superseded} superseded, {late} too late; {gave_up} gave up"
        )?;
        for (role, row) in Role::ALL.iter().zip(self.strokes).filter(|(_, row)| row.iter().sum::<u64>() > 0) {
            let parts = plan::Deed::NAMES.iter().zip(row).filter(|(_, count)| *count > 0);
            let parts: Vec<String> = parts.map(|(name, count)| format!("{name} {count}")).collect();
            writeln!(f, "struck {role:?}: {}", parts.join(", "))?;
        }
        let slowest = Self::HOW.iter().zip(self.slowest);
        let slowest: Vec<String> = slowest.map(|(how, time)| format!("{how} {} ms", time.as_millis())).collect();
        let end = self.slowest_end.as_millis();
        write!(f, "slowest to obtain it in the end: {}; slowest end after that: {end} ms", slowest.join(", "))
    }
}
