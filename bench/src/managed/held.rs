//! What the managed path holds while nothing is said: the memory of all of nostray's own processes, before and after a
//! message that is far longer than any other.

use std::time::Duration;

use crate::Failure;
use crate::memory::{Held, each};
use crate::programs::Programs;
use crate::report::Table;
use crate::stats::Spread;
use crate::traffic::{Filling, Request, Server, Session, watch};
use crate::variants::Variant;

/// By then start-up is over, and memory that is given back has been.
const SETTLED: Duration = Duration::from_secs(1);
const HUGE: usize = 16 << 20;

/// Sums over all processes, in KiB.
pub(crate) struct Sums {
    pub(crate) idle: Spread,
    pub(crate) after_huge: Spread,
}

pub(crate) fn measure(
    managed: &Variant,
    server: &Server,
    programs: &Programs,
    passes: usize,
) -> Result<(Table, Sums), Failure> {
    let (mut idle, mut after_huge) = (Vec::new(), Vec::new());
    for pass in 0..passes {
        watch::doing(format!("memory: pass {} of {passes}", pass + 1));
        let mut session = Session::open(managed, server)?;
        session.call(&mut Request::new(200, Filling::Text))?;
        idle.push(own(&session, programs)?);
        session.call(&mut Request::new(HUGE, Filling::Text))?;
        after_huge.push(own(&session, programs)?);
    }
    let sum = |seen: &[Vec<Held>]| {
        Spread::of(&seen.iter().map(|held| held.iter().map(|held| held.pss).sum()).collect::<Vec<f64>>())
    };
    let sums = Sums { idle: sum(&idle), after_huge: sum(&after_huge) };
    let mut table = Table::new(
        "Memory of nostray's own processes on the managed path, without the server",
        &["", "PSS KiB", "PSS of each, KiB"],
    );
    table.row(["after a message of 200 B".to_owned(), sums.idle.show(0), each(&idle)]);
    table.row(["after one of 16 MiB, there and back".to_owned(), sums.after_huge.show(0), each(&after_huge)]);
    table.note(format!("Median of {passes} sessions (lowest-highest), {SETTLED:?} after the message."));
    Ok((table, sums))
}

fn own(session: &Session, programs: &Programs) -> Result<Vec<Held>, Failure> {
    // What is held when nothing happens is the question.
    std::thread::sleep(SETTLED);
    session.processes(&programs.nostray, true).iter().map(Held::of).collect()
}
