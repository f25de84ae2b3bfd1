//! How long a call waits for a server that hibernates, against what the server needs to start and answer by itself.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_sys::Pidfd;
use nostray_sys::poll::{Until, wait};

use super::ways;
use crate::Failure;
use crate::programs::Programs;
use crate::report::Table;
use crate::stats::{Spread, median, ratios};
use crate::targets::verdict;
use crate::traffic::{Filling, Request, Server, Session, watch};

/// How many times the server's own cold start an answer may take.
pub(super) const MOST: f64 = 1.1;
/// What ended the server has tidied up by then. A call that comes sooner waits for that as well.
const SETTLED: Duration = Duration::from_millis(100);

/// A server, and whether its cold start is long enough for a ratio to say something.
pub(super) struct Sleeper {
    pub(super) server: Server,
    pub(super) counts: bool,
}

/// Measures all servers. Returns the table, and the ratio of each that counts.
pub(super) fn measure(
    programs: &Programs,
    sleepers: &[Sleeper],
    rounds: usize,
) -> Result<(Table, Vec<(String, Spread)>), Failure> {
    let title = format!("From a call to its answer, ms: the server started for it, {rounds} times each");
    let columns = ["", "cold start", "hibernating", "above", "ratio", ""];
    let mut table = Table::new(title, &columns);
    let mut results = Vec::new();
    for Sleeper { server, counts } in sleepers {
        let (cold, woken) = one(programs, server, rounds)?;
        let above: Vec<f64> = woken.iter().zip(&cold).map(|(woken, cold)| woken - cold).collect();
        let ratio = Spread::of(&ratios(&woken, &cold));
        table.row([
            server.name.clone(),
            Spread::of(&cold).show(2),
            Spread::of(&woken).show(2),
            format!("{:.2}", median(&above)),
            ratio.show(2),
            if *counts { verdict(ratio.median <= MOST).to_owned() } else { String::new() },
        ]);
        if *counts {
            results.push((server.name.clone(), ratio));
        }
    }
    table.note(format!(
        "Medians (lowest-highest), taking turns. Cold start: the server alone, from its start over the greeting to the \
         answer of its first call. Hibernating: `nostray {}`, from a call to its answer, {SETTLED:?} after the server had \
         ended. Ratio: within a turn, at most {MOST}; where a start takes next to nothing, `above` is what there is to say.",
        ways::HIBERNATE.join(" "),
    ));
    Ok((table, results))
}

/// Milliseconds of each, round by round.
fn one(programs: &Programs, server: &Server, rounds: usize) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let mut request = Request::new(200, Filling::Text);
    let mut session = Session::open(&ways::hibernating(programs), server)?;
    session.call(&mut request)?;
    let (mut cold, mut woken) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        watch::doing(format!("waking: {}, {} of {rounds}", server.name, round + 1));
        until_asleep(&session, programs)?;
        let (time, _) = session.call(&mut request)?;
        woken.push(time.as_secs_f64() * 1e3);
        cold.push(cold_start(server, &mut request)?.as_secs_f64() * 1e3);
    }
    Ok((cold, woken))
}

fn cold_start(server: &Server, request: &mut Request) -> Result<Duration, Failure> {
    let start = Instant::now();
    let mut session = Session::open(&ways::direct(), server)?;
    session.call(request)?;
    Ok(start.elapsed())
}

/// Waits until no process but nostray's own is left.
fn until_asleep(session: &Session, programs: &Programs) -> Result<(), Failure> {
    let deadline = Instant::now() + badchild::PATIENCE;
    for process in session.processes(&programs.nostray, false) {
        // A process that cannot be opened has ended.
        let Ok(handle) = Pidfd::open(process.stat.pid) else { continue };
        let left = deadline.saturating_duration_since(Instant::now());
        if !wait(&[(handle.as_fd(), Until::Readable)], Some(left))?.contains(&true) {
            return Err(format!("{} does not hibernate", process.command).into());
        }
    }
    std::thread::sleep(SETTLED);
    match session.processes(&programs.nostray, false).first() {
        None => Ok(()),
        Some(process) => Err(format!("{} was started although the host did not call", process.command).into()),
    }
}
