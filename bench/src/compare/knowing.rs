//! What knowing costs: a look at what runs, with many processes and with many children; what there is in memory for it; and who wakes
//! up while nothing happens.

mod crowded;
mod growth;
mod idle;

use std::time::Duration;

use crowded::Crowded;
use growth::{Amount, Grown};
use idle::{RESTLESS, Woken};

use super::behind::{Measured, Unit, behind};
use super::{Answer, Check, Ground};
use crate::Failure;
use crate::chart::{Bar, Bars, Chart, Curve, Curves, Scale};
use crate::looks::Look;
use crate::report::Table;
use crate::stats::Spread;
use crate::targets::Targets;

/// What a sweep that looks through a crowded machine may take of `ps -e`.
const MOST_OF_A_SCAN: f64 = 0.3;
const CROWDED: usize = 5000;
const MS: Unit = Unit { name: "ms", digits: 1 };
const KIB: Unit = Unit { name: "KiB", digits: 0 };
const A_SECOND: Unit = Unit { name: "a second", digits: 2 };

pub(super) fn measure(ground: &Ground) -> Result<Answer, Failure> {
    let quick = ground.is_quick();
    let rounds = if quick { 3 } else { 9 };
    let idle = Duration::from_secs(if quick { 1 } else { 5 });
    let watched = Duration::from_secs(if quick { 3 } else { 20 });
    let processes: &[usize] = if quick { &[100, 1000] } else { &[100, 1000, CROWDED] };
    let counts: &[usize] = if quick { &[1, 100] } else { &[1, 10, 100, 1000] };

    let crowded = crowded::measure(ground, processes, rounds)?;
    let grown = growth::measure(ground, &Amount { counts, rounds, idle })?;
    let woken = idle::measure(ground, watched)?;
    let tables = vec![
        crowded::table(&crowded, rounds),
        growth::time_table(&grown, rounds),
        growth::memory_table(&grown, idle),
        idle::table(&woken, watched),
        targets(&crowded, &grown, &woken),
    ];
    Ok(Answer {
        title: "What knowing costs",
        lead: "`nostray ps` says which children there are and what their trees use, `nostray sweep` ends what a crash of everything has \
               left. Neither has a daemon to ask: both look at records and at the machine. What that takes, against `ps -e` and against \
               what supervisord and pm2 answer; and what it takes to be known, while nothing happens."
            .to_owned(),
        tables,
        charts: charts(&grown, &woken),
        worse: worse(&crowded, &grown, &woken),
        checks: checks(&crowded, &grown, &woken).into_iter().chain([Check::no_child_left(ground)]).collect(),
    })
}

fn targets(crowded: &[Crowded], grown: &[Grown], woken: &[Woken]) -> Table {
    let mut targets = Targets::new("Targets for knowing");
    let (scan, most) = ("scan of a sweep at 5,000 processes / `ps -e`", format!("<= {MOST_OF_A_SCAN:.2}"));
    match crowded.iter().find(|crowded| crowded.processes == CROWDED) {
        Some(crowded) => {
            let ratio = crowded.looks.ratio(Look::SweepOfOneDead);
            targets.line(scan, &most, ratio.show(2), ratio.median <= MOST_OF_A_SCAN);
        }
        None => targets.unknown(scan, &most, "not in a quick run"),
    }
    for ratio in grown.iter().filter_map(|grown| grown.crowded) {
        targets.line("`ps` of 100 pens at 1,000 processes / `ps -e`", "<= 1.00", ratio.show(2), ratio.median <= 1.0);
    }
    for grown in grown {
        let pens = if grown.count == 1 { "one idle pen".to_owned() } else { format!("{} idle pens", grown.count) };
        let what = format!("wake-ups a second of {pens}");
        targets.line(&what, "0", format!("{:.2}", grown.wakeups), grown.wakeups == 0.0);
    }
    for woken in woken.iter().filter(|woken| woken.ours) {
        let what = format!("wake-ups a second of an idle `{}`", woken.name);
        targets.line(&what, "0", format!("{:.2}", woken.wakeups), woken.wakeups == 0.0);
    }
    targets.table()
}

fn charts(grown: &[Grown], woken: &[Woken]) -> Vec<Chart> {
    let curve = |look: Look| Curve {
        label: look.name().to_owned(),
        points: grown.iter().map(|grown| (grown.count as f64, grown.looks.spread(look).median)).collect(),
        ours: look != Look::System,
    };
    let mut curves: Vec<Curve> = [Look::Ps, Look::Sweep, Look::System].map(curve).into();
    for other in grown.first().map_or(&[][..], |grown| &grown.others) {
        let point = |grown: &Grown| {
            let same = grown.others.iter().find(|same| same.name == other.name)?;
            Some((grown.count as f64, same.time().value.median))
        };
        let label = other.time().name.trim_matches('`').to_owned();
        curves.push(Curve { label, points: grown.iter().filter_map(point).collect(), ours: false });
    }
    let looks = Curves { title: "One look at so many children, ms".to_owned(), across: "children", curves };
    let bar = |woken: &Woken| Bar {
        label: woken.name.to_owned(),
        value: Some(Spread::of(&[woken.wakeups])),
        ours: woken.ours,
    };
    let wakeups = Bars {
        title: "Wake-ups a second around one idle child".to_owned(),
        scale: Scale::Linear,
        digits: 1,
        bars: woken.iter().filter(|woken| woken.name != RESTLESS).map(bar).collect(),
    };
    vec![looks.chart("knowing.svg"), wakeups.chart("wakeups.svg")]
}

fn worse(crowded: &[Crowded], grown: &[Grown], woken: &[Woken]) -> Vec<String> {
    let looks = [Look::Ps, Look::Sweep, Look::SweepOfOneDead];
    let measured =
        |looks: &crate::looks::Looks, look: Look| Measured::new(format!("`{}`", look.name()), looks.spread(look));
    let mut said = Vec::new();
    for crowded in crowded {
        let what = format!("A look with {} other processes on the machine", crowded.processes);
        let system = [measured(&crowded.looks, Look::System)];
        said.extend(looks.iter().filter_map(|&look| behind(&what, MS, &measured(&crowded.looks, look), &system)));
    }
    for grown in grown {
        let what = format!("A look at {}", children(grown.count));
        let others: Vec<Measured> = std::iter::once(measured(&grown.looks, Look::System))
            .chain(grown.others.iter().map(growth::Other::time))
            .collect();
        said.extend(looks[..2].iter().filter_map(|&look| behind(&what, MS, &measured(&grown.looks, look), &others)));
        let what = format!("Memory of what is around {}", children(grown.count));
        let others: Vec<Measured> = grown.others.iter().map(growth::Other::memory).collect();
        said.extend(behind(&what, KIB, &Measured::new("`nostray run`", Spread::of(&[grown.pss])), &others));
    }
    let measured = |woken: &Woken| Measured::new(format!("`{}`", woken.name), Spread::of(&[woken.wakeups]));
    let others: Vec<Measured> =
        woken.iter().filter(|woken| !woken.ours && woken.name != RESTLESS).map(measured).collect();
    let ours = woken.iter().filter(|woken| woken.ours);
    said.extend(
        ours.filter_map(|woken| behind("Wake-ups around an idle child", A_SECOND, &measured(woken), &others)),
    );
    said
}

fn children(count: usize) -> String {
    if count == 1 { "one child".to_owned() } else { format!("{count} children") }
}

fn checks(crowded: &[Crowded], grown: &[Grown], woken: &[Woken]) -> Vec<Check> {
    let sees = |crowded: &Crowded| {
        let what = format!("`ps -e` sees the {} processes that were started", crowded.processes);
        Check::new(what, crowded.listed > crowded.processes)
    };
    let lists = |grown: &Grown| {
        let what = format!("`nostray ps --json` shows {} of {} pens", grown.listed, grown.count);
        Check::new(what, grown.listed == grown.count)
    };
    let restless = woken.iter().find(|woken| woken.name == RESTLESS).map_or(0.0, |woken| woken.wakeups);
    let what = format!("{RESTLESS} a tenth of a second at a time is seen to wake up ({restless:.1} a second)");
    let watched = "every contender that was watched while idle had processes to watch";
    crowded
        .iter()
        .map(sees)
        .chain(grown.iter().map(lists))
        .chain([
            Check::new(what, restless >= 1.0),
            Check::new(watched, woken.iter().all(|woken| woken.processes > 0)),
        ])
        .collect()
}
