//! What sharing holds while nothing is said: the memory of all processes but the server, by how many sessions there are.

use std::time::Duration;

use badchild::Found;

use super::ways;
use crate::crowd::{Crowd, Entrance};
use crate::mux::Mux;
use crate::programs::{Programs, running, until_none_runs};
use crate::report::Table;
use crate::stats::median;
use crate::traffic::{Server, watch};
use crate::{Failure, memory};

/// By then start-up is over, and memory that is given back has been.
const SETTLED: Duration = Duration::from_millis(3500);

/// In KiB.
pub(super) struct Held {
    /// What each session takes beyond the first, when there are as many as were tried.
    pub(super) further: f64,
    pub(super) broker: f64,
}

/// One look, in KiB.
#[derive(Default, Clone)]
struct Sums {
    /// The processes that the sessions have each for itself.
    fronts: f64,
    /// Who stands between them and the server: a steward, or rmcp-mux.
    between: f64,
    broker: f64,
    /// Those around the server that only wait for its end.
    pen: f64,
}

impl Sums {
    fn all(&self) -> f64 {
        self.fronts + self.between + self.broker + self.pen
    }
}

/// All looks at as many sessions.
struct Seen {
    count: usize,
    looks: Vec<Sums>,
}

impl Seen {
    fn middle(&self, of: fn(&Sums) -> f64) -> f64 {
        median(&self.looks.iter().map(of).collect::<Vec<_>>())
    }

    /// What each session takes beyond the first sessions.
    fn further(&self, first: &Self) -> f64 {
        (self.middle(Sums::all) - first.middle(Sums::all)) / (self.count - first.count).max(1) as f64
    }
}

pub(super) fn measure(
    programs: &Programs,
    mux: Option<&Mux>,
    server: &Server,
    counts: &[usize],
    passes: usize,
) -> Result<(Table, Held), Failure> {
    let new = || counts.iter().map(|&count| Seen { count, looks: Vec::new() }).collect::<Vec<_>>();
    let (mut share, mut others) = (new(), new());
    for pass in 0..passes {
        for (share, other) in share.iter_mut().zip(&mut others) {
            let count = share.count;
            let doing =
                |what| watch::doing(format!("memory: pass {} of {passes}, {count} sessions, {what}", pass + 1));
            doing("share");
            share.looks.push(of_share(programs, server, count)?);
            if let Some(mux) = mux {
                doing("rmcp-mux");
                other.looks.push(of_mux(mux, server, count)?);
            }
        }
    }
    let columns = ["", "sessions", "all", "each further", "a session's own", "steward, daemon", "broker", "pen"];
    let title = format!("Memory of what is around {}, without it: PSS, KiB", server.name);
    let mut table = Table::new(title, &columns);
    let mux = mux.map(|_| ("rmcp-mux", &others));
    for (name, all) in std::iter::once(("share", &share)).chain(mux) {
        for seen in all {
            let cell = |of| format!("{:.0}", seen.middle(of));
            table.row([
                name.to_owned(),
                seen.count.to_string(),
                cell(Sums::all),
                if seen.count == counts[0] { String::new() } else { format!("{:.0}", seen.further(&all[0])) },
                format!("{:.0}", seen.middle(|sums| sums.fronts) / seen.count as f64),
                cell(|sums| sums.between),
                cell(|sums| sums.broker),
                cell(|sums| sums.pen),
            ]);
        }
    }
    table.note(format!(
        "Median of {passes}, {SETTLED:?} after each session has made one call. Each further: what all of it takes more than \
         around the first, for each session. PSS counts a page that n processes share as 1/n in each."
    ));
    let last = share.last().ok_or("nothing was looked at")?;
    Ok((table, Held { further: last.further(&share[0]), broker: last.middle(|sums| sums.broker) }))
}

fn of_share(programs: &Programs, server: &Server, count: usize) -> Result<Sums, Failure> {
    // Each session's environment is another one; the name makes them share.
    let sums = {
        let entrance = Entrance::through(ways::share(programs, &["--key", "bench"]), server);
        let crowd = Crowd::gather(entrance, count, 1, SETTLED)?;
        let own = running(&programs.nostray);
        let is_front = |found: &Found| crowd.sessions.iter().any(|session| session.is_started_as(found));
        let mut sums = Sums::default();
        for found in own {
            let pss = memory::Held::of(&found)?.pss;
            *match found.stat.name.as_str() {
                _ if is_front(&found) => &mut sums.fronts,
                "nostray-broker" => &mut sums.broker,
                "nostray-steward" => &mut sums.between,
                _ => &mut sums.pen,
            } += pss;
        }
        sums
    };
    // The next ones are to start from nothing, too.
    until_none_runs(&programs.nostray)?;
    Ok(sums)
}

fn of_mux(mux: &Mux, server: &Server, count: usize) -> Result<Sums, Failure> {
    let _crowd = Crowd::gather(Entrance::beside(mux.start(server)?, server), count, 1, SETTLED)?;
    let pss = |program| -> Result<f64, Failure> {
        running(program).iter().map(|found| Ok(memory::Held::of(found)?.pss)).sum()
    };
    Ok(Sums { fronts: pss(&mux.proxy)?, between: pss(&mux.daemon)?, ..Sums::default() })
}
