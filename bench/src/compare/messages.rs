//! What a message costs: round trips, throughput and processor time on every way from a host to a server.

mod belief;
mod reached;
mod tables;
mod ways;
mod worse;

use std::time::Duration;

use ways::{Found, Ways, Who};

use super::{Answer, Ground, Size};
use crate::Failure;
use crate::chart::{Bar, Bars, Chart, Scale};
use crate::stats::Spread;
use crate::targets::missed;
use crate::traffic::{
    Amount, Limits, Load, Passes, Seen, Server, everything_loads, measure_leniently, native, native_loads, together,
};

const LEAD: &str = "A host calls the tool `echo` of a server and compares every answer. With `direct` and `nostray \
    run`, no process is between host and server. A bare relay is the least that can be in between: one process that \
    copies bytes; `nostray run --respawn` is one process, too, and `nostray share` two. mcp-proxy and supergateway \
    put a server on the network, so that a host of pipes needs two of their processes: a listener and a client; \
    rmcp-mux has two as well.";

/// How long a short message is.
const SHORT: usize = 200;

pub(super) fn measure(ground: &Ground) -> Result<Answer, Failure> {
    let ways = Ways::all(ground)?;
    let echo = native(0)?;
    let mut answer = Answer {
        title: "What a message costs",
        lead: LEAD.to_owned(),
        tables: Vec::new(),
        charts: Vec::new(),
        worse: Vec::new(),
        checks: belief::harm_is_seen(&echo)?,
    };
    let mut add = |server: &Server, loads: &[Load], amount: &Amount| -> Result<[Vec<Seen>; 2], Failure> {
        let (together, seen): (Vec<Seen>, Vec<Seen>) = measure_leniently(&ways.ways, server, loads, amount)?
            .into_iter()
            .partition(|seen| seen.load.on_one_processor);
        answer.tables.extend(tables::together(&ways.found(server, &together)));
        let found = ways.found(server, &seen);
        answer.tables.extend(tables::all(&found, amount.passes));
        answer.worse.extend(worse::sentences(&found));
        answer.checks.extend(belief::checks(&found));
        Ok([together, seen])
    };
    let quick = ground.is_quick();
    let mut loads = native_loads();
    // Slow ways need seconds for what many long ones come to.
    loads.retain(|load| !quick || load.in_flight < 256 || load.size == SHORT);
    loads.push(together());
    let [together, seen] = add(&echo, &loads, &amount(ground.size, 2, 5, 1000))?;
    if let Ok(everything) = &ground.everything {
        add(everything, &everything_loads(quick), &amount(ground.size, 1, 3, 2000))?;
    }
    let found = ways.found(&echo, &seen);
    let together = ways.found(&echo, &together);
    let reached = reached::table(&found, &together);
    answer.worse.splice(0..0, missed(&reached));
    answer.tables.insert(0, reached);
    answer.charts = charts(&found, &together);
    Ok(answer)
}

fn amount(size: Size, quick: usize, full: usize, warm_up: usize) -> Amount {
    let seconds = Duration::from_secs;
    let (passes, sending, silence, all) = match size {
        Size::Quick => (quick, Duration::from_millis(200), seconds(6), seconds(8)),
        Size::Full => (full, Duration::from_millis(400), seconds(10), seconds(15)),
    };
    Amount { passes, turns: 1, warm_up, limits: Some(Limits { sending, silence, all }) }
}

/// One short message, and many.
fn charts(found: &Found<'_>, together: &Found<'_>) -> Vec<Chart> {
    let bars = |seen: &Seen, title: String, digits, of: fn(&Passes) -> &[f64]| {
        let bar = |(name, who, passes): (&str, Who, &Passes)| {
            let value = (!of(passes).is_empty()).then(|| Spread::of(of(passes)));
            let label = if value.is_some() { name.to_owned() } else { format!("{name} (fails)") };
            Bar { label, value, ours: who.is_ours() }
        };
        Bars { title, scale: Scale::Logarithmic, digits, bars: found.each(seen).map(bar).collect() }
    };
    let server = found.server;
    let alone = together.alone().map(|seen| {
        let title = format!("A message of 200 B with {server} and back, all on one processor: p50, us");
        bars(seen, title, 0, |passes| &passes.p50).chart("messages-latency.svg")
    });
    let crowd = found.crowd().map(|seen| {
        let title = format!("Messages of 200 B a second with {server}, {} in flight", seen.load.in_flight);
        bars(seen, title, 0, |passes| &passes.messages_a_second).chart("messages-throughput.svg")
    });
    alone.into_iter().chain(crowd).collect()
}
