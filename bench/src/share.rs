//! `share`: the path on which many sessions have one server, against none, against the least that could be in between (two bare
//! relays in a row, since there are two processes on that path), and against rmcp-mux, in one run.

mod held;
pub(crate) mod tables;
pub(crate) mod ways;

use held::Held;
use tables::Costs;

use crate::mux::Mux;
use crate::programs::{Programs, until_none_runs};
use crate::report::Report;
use crate::targets::Targets;
use crate::traffic::{
    Amount, Load, Server, everything_loads, measure, native, native_loads, round_trips, short_loads, watch,
};
use crate::{Failure, args, peers, screen};

/// How many sessions' memory is looked at.
const SESSIONS: [usize; 4] = [1, 8, 32, 128];

pub(crate) fn run(options: &args::Shown) -> Result<(), Failure> {
    screen::progress("building");
    let programs = Programs::build()?;
    screen::progress("installing rmcp-mux");
    let mux = if options.short { Err("--short".into()) } else { Mux::find() };
    screen::progress("installing server-everything");
    let everything = if options.quick || options.short { Err("--quick".into()) } else { peers::everything() };
    watch::begin();
    let quick = options.quick;
    let mut report = Report::new("nostray share, measured");
    let mut left_out = Vec::new();
    left_out.extend(mux.as_ref().err().map(|why| format!("RMCP-MUX IS LEFT OUT: {why}")));
    left_out.extend(everything.as_ref().err().map(|why| format!("SERVER-EVERYTHING IS LEFT OUT: {why}")));
    left_out.iter().for_each(|line| report.say(line));
    let mux = mux.ok();

    let ways = ways::all(&programs, mux.as_ref())?;
    let mut targets = Targets::new("Targets for nostray share");
    let mut all = |server: &Server, loads: &[Load], amount: &Amount, counts: bool| -> Result<(), Failure> {
        let seen = measure(&ways, server, loads, amount)?;
        let mut table = round_trips(&ways, server, &seen);
        table.note(format!(
            "Medians of {} passes, each with new processes, in which the ways take turns. `share` is one session of `nostray {}`. \
             Every answer was counted, and its number and length compared.",
            amount.passes,
            ways::SHARE.join(" "),
        ));
        report.add(&table);
        let seen: Vec<Costs<'_>> = seen.iter().map(Costs).collect();
        report.add(&tables::latency(server, &seen));
        report.add(&tables::throughput(&ways, server, &seen));
        report.add(&tables::busy(&ways, server, &seen));
        if counts {
            tables::check(&mut targets, "", &seen);
        }
        Ok(())
    };
    let echo = native(0)?;
    let passes = if quick { 5 } else { 15 };
    let loads = if options.short { short_loads() } else { native_loads() };
    all(&echo, &loads, &Amount { passes, turns: 2, warm_up: 200, limits: None }, true)?;
    if let Ok(everything) = &everything {
        all(
            everything,
            &everything_loads(false),
            &Amount { passes: 5, turns: 1, warm_up: 2000, limits: None },
            false,
        )?;
    }
    if options.short {
        until_none_runs(&programs.nostray)?;
        report.add(&targets.table());
        return report.write(options.markdown.as_deref());
    }

    let server = everything.as_ref().unwrap_or(&echo);
    let (table, Held { further, broker }) =
        held::measure(&programs, mux.as_ref(), server, &SESSIONS, if quick { 1 } else { 3 })?;
    report.add(&table);
    targets.line("PSS of each further session", "<= 512 KiB", format!("{further:.0} KiB"), further <= 512.0);
    targets.line("PSS of the broker", "<= 5120 KiB", format!("{broker:.0} KiB"), broker <= 5120.0);
    until_none_runs(&programs.nostray)?;
    let mut targets = targets.table();
    left_out.into_iter().for_each(|line| targets.note(line));
    report.add(&targets);
    report.write(options.markdown.as_deref())
}
