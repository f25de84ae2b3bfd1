//! One start at a time, the contenders taking turns.

use std::time::Instant;

use super::cold::Cold;
use crate::Failure;
use crate::compare::contenders::Contender;
use crate::crowd::{Entrance, until_alone};
use crate::stats::Spread;
use crate::traffic::{Filling, Request, Server, Session, watch};

/// What is started.
pub(super) struct Kind<'a> {
    pub(super) contender: Contender<'a>,
    pub(super) manner: Manner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Starts the server, and no more.
    Wrapper,
    /// Each session has all for itself.
    Own,
    /// A second session finds there what the first one needed.
    Shared,
}

impl Kind<'_> {
    fn is_nothing_or_ours(&self) -> bool {
        self.contender.ours || self.contender.name == "direct"
    }

    fn is_started_cold(&self, amount: &Amount) -> bool {
        self.is_nothing_or_ours() || (amount.cold_of_others && self.manner != Manner::Wrapper)
    }
}

/// How often.
pub(super) struct Amount {
    pub(super) warm: usize,
    /// Of those which have an interpreter on the way.
    pub(super) warm_interpreted: usize,
    pub(super) cold: usize,
    /// Whether others than direct and nostray are started cold, too, as far as they do more than start a server.
    pub(super) cold_of_others: bool,
}

/// One start, in milliseconds.
struct Start {
    greeted: f64,
    answered: f64,
}

/// All starts of one kind, of a first session or of a further one.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) ours: bool,
    pub(super) further: bool,
    warm: Vec<Start>,
    cold: Vec<Start>,
}

impl Row {
    fn new(kind: &Kind<'_>, further: bool) -> Self {
        let Contender { name, ours, .. } = kind.contender;
        Self { name, ours, further, warm: Vec::new(), cold: Vec::new() }
    }

    /// Like `rmcp-mux, a further session`.
    pub(super) fn label(&self) -> String {
        if self.further { format!("{}, a further session", self.name) } else { self.name.to_owned() }
    }

    /// The same in a sentence.
    pub(super) fn quoted(&self) -> String {
        if self.further { format!("a further session of `{}`", self.name) } else { format!("`{}`", self.name) }
    }

    pub(super) fn greeted(&self) -> Spread {
        spread(&self.warm, |start| start.greeted)
    }

    pub(super) fn answered(&self) -> Spread {
        spread(&self.warm, |start| start.answered)
    }

    /// What the call takes, once the greeting is answered.
    pub(super) fn call(&self) -> Spread {
        spread(&self.warm, |start| start.answered - start.greeted)
    }

    /// To the first answer; none if it was not started cold.
    pub(super) fn cold(&self) -> Option<Spread> {
        (!self.cold.is_empty()).then(|| spread(&self.cold, |start| start.answered))
    }

    /// One of which only these times to the first answer are known.
    #[cfg(test)]
    pub(super) fn known(name: &'static str, further: bool, answered: &[f64]) -> Self {
        let warm = answered.iter().map(|&answered| Start { greeted: answered / 2.0, answered }).collect();
        Self { name, ours: name.starts_with("nostray"), further, warm, cold: Vec::new() }
    }
}

fn spread(starts: &[Start], of: impl Fn(&Start) -> f64) -> Spread {
    Spread::of(&starts.iter().map(of).collect::<Vec<_>>())
}

/// The rows of one kind.
struct Rows {
    first: Row,
    further: Option<Row>,
}

impl Rows {
    fn of(kind: &Kind<'_>) -> Self {
        let further = (kind.manner == Manner::Shared).then(|| Row::new(kind, true));
        Self { first: Row::new(kind, false), further }
    }

    fn add(&mut self, (first, further): (Start, Option<Start>)) {
        self.first.warm.push(first);
        if let Some(row) = &mut self.further {
            row.warm.extend(further);
        }
    }
}

pub(super) fn measure(
    kinds: &[Kind<'_>],
    server: &Server,
    cold: &Cold,
    amount: &Amount,
) -> Result<Vec<Row>, Failure> {
    let often = |kind: &Kind<'_>| if kind.contender.interpreted { amount.warm_interpreted } else { amount.warm };
    let mut rows: Vec<Rows> = kinds.iter().map(Rows::of).collect();
    // Has the programs in memory, and what `--lazy` has to know on record.
    for kind in kinds.iter().filter(|kind| kind.is_nothing_or_ours() || often(kind) > 1) {
        one(kind, server, || Ok(()))?;
    }
    for round in 0..amount.warm {
        for turn in 0..kinds.len() {
            let at = (round + turn) % kinds.len();
            if round < often(&kinds[at]) {
                rows[at].add(one(&kinds[at], server, || Ok(()))?);
            }
        }
    }
    for _ in 0..amount.cold {
        for (kind, rows) in kinds.iter().zip(&mut rows).filter(|(kind, _)| kind.is_started_cold(amount)) {
            let (first, _) = one(kind, server, || cold.chill())?;
            rows.first.cold.push(first);
        }
    }
    let rows = rows.into_iter().flat_map(|rows| std::iter::once(rows.first).chain(rows.further));
    Ok(rows.filter(|row| !row.warm.is_empty()).collect())
}

/// One session, and a second one where it is another matter.
fn one(
    kind: &Kind<'_>,
    server: &Server,
    before: impl Fn() -> Result<(), Failure>,
) -> Result<(Start, Option<Start>), Failure> {
    watch::doing(format!("a start of {}: {}", server.name, kind.contender.name));
    before()?;
    let begun = Instant::now();
    let entrance = kind.contender.enter(server)?;
    let (start, session) = until_answered(begun, &entrance)?;
    let further =
        if kind.manner == Manner::Shared { Some(until_answered(Instant::now(), &entrance)?.0) } else { None };
    drop((session, entrance));
    // Nothing of this one is there, or ends, while the next one starts.
    until_alone()?;
    Ok((start, further))
}

fn until_answered(begun: Instant, entrance: &Entrance) -> Result<(Start, Session), Failure> {
    let milliseconds = || begun.elapsed().as_secs_f64() * 1e3;
    let mut session = entrance.open()?;
    let greeted = milliseconds();
    session.call(&mut Request::new(200, Filling::Text))?;
    Ok((Start { greeted, answered: milliseconds() }, session))
}
