//! `managed`: the path on which nostray reads the messages, against none and against the least that could be in between, in
//! one run.

mod busy;
pub(crate) mod echo;
mod everything;
mod held;
mod lines;
mod load;
pub(crate) mod relay;
mod request;
mod session;
mod traffic;
mod wake;
mod watch;
mod ways;

use load::Load;
use request::Filling;
use session::Server;
use traffic::{Amount, Seen};
use wake::Sleeper;

use crate::programs::Programs;
use crate::report::{Report, Table};
use crate::stats::Spread;
use crate::targets::Targets;
use crate::variants::Variant;
use crate::{Failure, args, screen};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

pub(crate) fn run(options: &args::Shown) -> Result<(), Failure> {
    screen::progress("building");
    let programs = Programs::build()?;
    watch::begin();
    watch::doing("installing server-everything".to_owned());
    let everything = everything::find();
    let quick = options.quick;
    let mut report = Report::new("nostray on the managed path, measured");
    let left_out = everything.as_ref().err().map(|why| format!("SERVER-EVERYTHING IS LEFT OUT: {why}"));
    left_out.iter().for_each(|line| report.say(line));

    let ways = ways::all(&programs)?;
    let mut targets = Targets::new("Targets for the managed path");
    let mut all = |server: &Server, loads: &[Load], amount: &Amount| -> Result<(), Failure> {
        let seen = traffic::measure(&ways, server, &programs, loads, amount)?;
        for table in tables(&ways, server, &seen, amount) {
            report.add(&table);
        }
        check_traffic(&mut targets, server, &seen);
        Ok(())
    };
    let native = native(0)?;
    let passes = if quick { 5 } else { 15 };
    all(&native, &native_loads(), &Amount { passes, turns: 2, warm_up: 200 })?;
    if let Ok(everything) = &everything {
        let passes = if quick { 3 } else { 7 };
        all(everything, &everything_loads(quick), &Amount { passes, turns: 1, warm_up: 2000 })?;
    }

    let (table, held) = held::measure(&ways::managed(&programs), &native, &programs, if quick { 2 } else { 5 })?;
    report.add(&table);
    for (what, kib) in [("PSS, idle", held.idle), ("PSS, after a message of 16 MiB", held.after_huge)] {
        targets.line(what, "<= 4096 KiB", format!("{:.0} KiB", kib.median), kib.median <= 4096.0);
    }

    let mut sleepers =
        vec![Sleeper { server: native.clone(), counts: false }, Sleeper { server: self::native(300)?, counts: true }];
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

/// The server of this program, which is busy for so many milliseconds before it answers.
fn native(start_up: u32) -> Result<Server, Failure> {
    let name =
        if start_up == 0 { "the native echo".to_owned() } else { format!("the native echo, {start_up} ms to start") };
    let me = std::env::current_exe()?.into_os_string();
    Ok(Server { name, command: vec![me, "echo".into(), start_up.to_string().into()] })
}

fn load(size: usize, in_flight: usize, messages: usize) -> Load {
    Load { size, filling: Filling::Text, in_flight, messages }
}

fn native_loads() -> Vec<Load> {
    let dense = |in_flight, messages| Load { filling: Filling::Dense, ..load(MIB, in_flight, messages) };
    vec![
        load(200, 1, 1000),
        load(200, 16, 5000),
        load(200, 256, 20_000),
        load(64 * KIB, 1, 200),
        load(64 * KIB, 16, 500),
        load(64 * KIB, 256, 1500),
        load(MIB, 1, 30),
        load(MIB, 16, 100),
        load(MIB, 256, 600),
        dense(1, 30),
        dense(16, 100),
        dense(256, 600),
    ]
}

fn everything_loads(quick: bool) -> Vec<Load> {
    let mut loads = vec![
        load(200, 1, 500),
        load(200, 16, 2000),
        load(200, 256, 5000),
        load(64 * KIB, 1, 100),
        load(64 * KIB, 16, 300),
        load(64 * KIB, 256, 800),
        load(MIB, 1, 20),
        load(MIB, 16, 40),
        load(MIB, 256, 300),
    ];
    loads.retain(|load| !quick || load.in_flight < 256);
    loads
}

fn tables(ways: &[Variant; ways::COUNT], server: &Server, seen: &[Seen], amount: &Amount) -> [Table; 4] {
    [
        traffic::round_trips(ways, server, seen, amount),
        traffic::added(server, seen),
        traffic::throughput(server, seen),
        traffic::busy(server, seen),
    ]
}

/// The worst of each kind.
fn check_traffic(targets: &mut Targets, server: &Server, all: &[Seen]) {
    let name = &server.name;
    let target = format!("<= {:.2}", traffic::MOST_ADDED);
    let seen = all.iter().filter_map(|seen| Some((seen.added_ratio().value()?, seen)));
    if let Some((ratio, worst)) = seen.max_by(|a, b| a.0.total_cmp(&b.0)) {
        let what = format!("added latency / the relay's, {name}, worst: {}", which(worst));
        targets.line(&what, &target, worst.added_ratio().show(), ratio <= traffic::MOST_ADDED);
    } else {
        targets.unknown(&format!("added latency / the relay's, {name}"), &target, "in the noise");
    }
    let long = all.iter().filter(|seen| seen.is_long()).map(|seen| (seen.throughput_ratio(), seen));
    if let Some((Spread { median, .. }, worst)) = long.min_by(|a, b| a.0.median.total_cmp(&b.0.median)) {
        let what = format!("throughput / the relay's, {name}, worst: {}", which(worst));
        let least = traffic::LEAST_THROUGHPUT;
        targets.line(&what, &format!(">= {least:.2}"), format!("{median:.2}"), median >= least);
    }
}

fn which(seen: &Seen) -> String {
    format!("{}, {} in flight", seen.load.size(), seen.load.in_flight)
}
