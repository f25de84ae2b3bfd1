//! Looks at the memory of sessions, the contenders taking turns.

use std::time::Duration;

use crate::Failure;
use crate::compare::contenders::{Contender, Servers};
use crate::compare::{Check, Size};
use crate::crowd::{Crowd, Look, until_alone};
use crate::stats::{Spread, median};
use crate::traffic::{Server, watch};

const MIB: f64 = 1024.0;

/// So many interpreters, one started after the other, take as long as everything else.
const MOST_ONE_BY_ONE: usize = 8;

/// How much is looked at.
pub(super) struct Plan {
    /// So many sessions, and how often.
    counts: &'static [(usize, usize)],
    /// With more sessions, those with an interpreter in each would take minutes to start.
    most_interpreters: usize,
    /// By then start-up is over, and memory that is given back has been.
    settled: Duration,
}

impl Plan {
    pub(super) fn of(size: Size) -> Self {
        match size {
            Size::Quick => {
                Self { counts: &[(1, 1), (8, 1), (16, 1)], most_interpreters: 8, settled: Duration::from_millis(500) }
            }
            Size::Full => Self {
                counts: &[(1, 3), (8, 2), (32, 1), (128, 1)],
                most_interpreters: 32,
                settled: Duration::from_secs(2),
            },
        }
    }

    /// How many sessions of this contender are looked at, at most.
    fn most(&self, contender: &Contender<'_>) -> usize {
        match contender.interpreted {
            false => usize::MAX,
            true if contender.at_once == 1 => MOST_ONE_BY_ONE,
            true => self.most_interpreters,
        }
    }
}

/// One contender.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) ours: bool,
    servers: Servers,
    /// By how many sessions there were, the fewest first.
    pub(super) cells: Vec<Cell>,
}

/// All looks at as many sessions.
pub(super) struct Cell {
    pub(super) sessions: usize,
    pub(super) looks: Vec<Look>,
}

impl Cell {
    fn spread(&self, of: impl Fn(&Look) -> f64) -> Spread {
        Spread::of(&self.looks.iter().map(|look| of(look) / MIB).collect::<Vec<_>>())
    }

    /// In MiB.
    pub(super) fn all(&self) -> Spread {
        self.spread(Look::all)
    }

    /// Without the servers, in MiB.
    pub(super) fn around(&self) -> Spread {
        self.spread(|look| look.around)
    }

    pub(super) fn servers(&self) -> usize {
        self.looks.first().map_or(0, |look| look.servers)
    }
}

impl Row {
    pub(super) fn at(&self, sessions: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.sessions == sessions)
    }

    /// Whether there were as many servers as there should be, in every look.
    pub(super) fn check(&self) -> Check {
        let what = if self.servers == Servers::One { "have one server process together" } else { "have one each" };
        let is_right = |cell: &Cell| cell.looks.iter().all(|look| look.servers == self.servers.called(cell.sessions));
        Check::new(format!("all sessions of {} {what}", self.name), self.cells.iter().all(is_right))
    }

    /// One with these numbers of sessions and of servers, and MiB of servers and around them.
    #[cfg(test)]
    pub(super) fn known(name: &'static str, cells: &[(usize, usize, f64, f64)]) -> Self {
        let cell = |&(sessions, servers, of_servers, around): &(usize, usize, f64, f64)| {
            let look = Look { servers, of_servers: of_servers * MIB, around: around * MIB, of_broker: 0.0 };
            Cell { sessions, looks: vec![look] }
        };
        let cells = cells.iter().map(cell).collect();
        Self { name, ours: name.starts_with("nostray"), servers: Servers::One, cells }
    }

    /// What each session takes beyond the first, without servers, in KiB.
    pub(super) fn further(&self) -> Option<f64> {
        let (first, last) = (self.cells.first()?, self.cells.last()?);
        let more = last.sessions.checked_sub(first.sessions).filter(|&more| more > 0)?;
        Some((last.around().median - first.around().median) * MIB / more as f64)
    }

    /// In KiB, with the most sessions.
    pub(super) fn broker(&self) -> Option<f64> {
        let looks = self.cells.last()?.looks.iter();
        Some(median(&looks.map(|look| look.of_broker).collect::<Vec<_>>()))
    }
}

pub(super) fn take(contenders: &[Contender<'_>], server: &Server, plan: &Plan) -> Result<Vec<Row>, Failure> {
    let new = |contender: &Contender<'_>| {
        let Contender { name, ours, servers, .. } = *contender;
        Row { name, ours, servers, cells: Vec::new() }
    };
    let mut rows: Vec<Row> = contenders.iter().map(new).collect();
    for &(sessions, passes) in plan.counts {
        for pass in 0..passes {
            for (contender, row) in contenders.iter().zip(&mut rows) {
                if sessions > plan.most(contender) {
                    continue;
                }
                watch::doing(format!("{sessions} sessions: pass {} of {passes}, {}", pass + 1, contender.name));
                let look = one(contender, server, sessions, plan.settled)?;
                match row.cells.last_mut().filter(|cell| cell.sessions == sessions) {
                    Some(cell) => cell.looks.push(look),
                    None => row.cells.push(Cell { sessions, looks: vec![look] }),
                }
            }
        }
    }
    Ok(rows)
}

fn one(contender: &Contender<'_>, server: &Server, sessions: usize, settled: Duration) -> Result<Look, Failure> {
    let crowd = Crowd::gather(contender.enter(server)?, sessions, contender.at_once, settled)?;
    let look = Look::now(server)?;
    drop(crowd);
    // The next one is to start from nothing.
    until_alone()?;
    Ok(look)
}
