//! `managed`: the path on which nostray reads the messages, against none and against the least that could be in between, in
//! one run.

pub(crate) mod held;
pub(crate) mod tables;
mod wake;
pub(crate) mod ways;

use tables::Costs;
use wake::Sleeper;

use crate::programs::Programs;
use crate::report::{Report, Table};
use crate::stats::Spread;
use crate::targets::Targets;
use crate::traffic::{
    Amount, Load, Seen, Server, Way, dense_loads, everything_loads, measure, native, native_loads, short_loads, watch,
};
use crate::{Failure, args, peers, screen};

pub(crate) fn run(options: &args::Shown) -> Result<(), Failure> {
    screen::progress("building");
    let programs = Programs::build()?;
    watch::begin();
    watch::doing("installing server-everything".to_owned());
    let everything = if options.short { Err("--short".into()) } else { peers::everything() };
    let quick = options.quick;
    let mut report = Report::new("nostray on the managed path, measured");
    let left_out = everything.as_ref().err().map(|why| format!("SERVER-EVERYTHING IS LEFT OUT: {why}"));
    left_out.iter().for_each(|line| report.say(line));

    let ways = ways::all(&programs)?;
    let mut targets = Targets::new("Targets for the managed path");
    let mut all = |server: &Server, loads: &[Load], amount: &Amount| -> Result<(), Failure> {
        let seen = measure(&ways, server, loads, amount)?;
        for table in all_tables(&ways, server, &seen, amount) {
            report.add(&table);
        }
        check_traffic(&mut targets, "", &server.name, &seen);
        Ok(())
    };
    let echo = native(0)?;
    let passes = if quick { 5 } else { 15 };
    let loads = if options.short { short_loads() } else { [native_loads(), dense_loads()].concat() };
    all(&echo, &loads, &Amount { passes, turns: 2, warm_up: 200, limits: None })?;
    if let Ok(everything) = &everything {
        let passes = if quick { 3 } else { 7 };
        all(everything, &everything_loads(quick), &Amount { passes, turns: 1, warm_up: 2000, limits: None })?;
    }
    if options.short {
        report.add(&targets.table());
        return report.write(options.markdown.as_deref());
    }

    let (table, held) = held::measure(&ways::managed(&programs), &echo, &programs, if quick { 2 } else { 5 })?;
    report.add(&table);
    for (what, kib) in [("PSS, idle", held.idle), ("PSS, after a message of 16 MiB", held.after_huge)] {
        targets.line(what, "<= 4096 KiB", format!("{:.0} KiB", kib.median), kib.median <= 4096.0);
    }

    let mut sleepers =
        vec![Sleeper { server: echo.clone(), counts: false }, Sleeper { server: native(300)?, counts: true }];
    sleepers.extend(everything.ok().map(|server| Sleeper { server, counts: true }));
    let (table, woken) = wake::measure(&programs, &sleepers, if quick { 5 } else { 15 })?;
    report.add(&table);
    for (server, ratio) in woken {
        let what = format!("hibernate to answer / cold start, {server}");
        let most = wake::MOST;
        targets.line(&what, &format!("<= {most:.2}"), format!("{:.2}", ratio.median), ratio.median <= most);
    }
    let mut targets = targets.table();
    left_out.into_iter().for_each(|line| targets.note(line));
    report.add(&targets);
    report.write(options.markdown.as_deref())
}

fn all_tables(ways: &[Way], server: &Server, seen: &[Seen], amount: &Amount) -> [Table; 4] {
    [
        tables::round_trips(ways, server, seen, amount),
        tables::added(server, seen),
        tables::throughput(server, seen),
        tables::busy(server, seen),
    ]
}

/// The worst of each kind, in words that begin with `whose`.
pub(crate) fn check_traffic(targets: &mut Targets, whose: &str, name: &str, all: &[Seen]) {
    for seen in all.iter().map(Costs).filter(Costs::is_short) {
        let (what, most) =
            (format!("{whose}added latency / the relay's, {name}, {}", which(seen)), seen.most_added());
        let (target, ratio) = (format!("<= {most:.2}"), seen.added_ratio());
        match ratio.value() {
            Some(value) => targets.line(&what, &target, ratio.show(), value <= most),
            None => targets.unknown(&what, &target, "in the noise"),
        }
    }
    let long = all.iter().map(Costs).filter(|seen| seen.is_long()).map(|seen| (seen.throughput_ratio(), seen));
    if let Some((Spread { median, .. }, worst)) = long.min_by(|a, b| a.0.median.total_cmp(&b.0.median)) {
        let what = format!("{whose}throughput / the relay's, {name}, worst: {}", which(worst));
        let least = tables::LEAST_THROUGHPUT;
        targets.line(&what, &format!(">= {least:.2}"), format!("{median:.2}"), median >= least);
    }
}

fn which(Costs(seen): Costs<'_>) -> String {
    format!("{}, {} in flight", seen.load.size(), seen.load.in_flight)
}
