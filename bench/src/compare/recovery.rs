//! What happens when something is killed: the server, the host, or the server again and again.

mod book;
mod crash_loop;
mod revival;

use std::time::Duration;

use crash_loop::Looped;
use revival::{Outcome, Revival, With};

use super::behind::{Measured, Unit, behind};
use super::ways::{DIRECT, RUN};
use super::{Answer, Check, Ground};
use crate::chart::{Bar, Bars, Chart, Scale};
use crate::stats::Spread;
use crate::targets::Targets;
use crate::teardown::{GRACES, Outcomes, Seen, Survivors, Times};
use crate::traffic::{native, watch};
use crate::{Failure, targets, teardown, variants};

/// How long the first crash of a server may keep a call waiting, in milliseconds.
const MOST_OF_A_RESPAWN: f64 = 10.0;
const MS: Unit = Unit { name: "ms", digits: 0 };
const STARTS: Unit = Unit { name: "starts", digits: 0 };

pub(super) fn measure(ground: &Ground) -> Result<Answer, Failure> {
    let quick = ground.is_quick();
    let minute = Duration::from_secs(if quick { 10 } else { 60 });
    let rounds = if quick { 2 } else { 9 };
    let sizes: &[usize] = if quick { &[1, 10, 100] } else { &[1, 10, 100, 1000] };
    let wrappers = variants::with_peers(&ground.programs, &ground.peers);
    let echo = native(0)?;
    // Nothing of these is a time in which a crowded machine would matter.
    let (looped, tried, survivors) = std::thread::scope(|scope| {
        let looped = scope.spawn(|| crash_loop::measure(ground, minute));
        let survivors = scope.spawn(|| Survivors::find(&wrappers, &ground.programs, sizes));
        let tried = revival::try_once(ground, &echo);
        watch::doing("recovery: servers that crash, and trees that stay".to_owned());
        (looped.join(), tried, survivors.join())
    });
    let looped = looped.map_err(|_| "a thread failed")??;
    let survivors = survivors.map_err(|_| "a thread failed")??;
    let mut all = tried?;
    let mut signs = revival::Kept::all(ground)?;
    revival::time(ground, &echo, &mut all, &mut signs, rounds)?;
    let mut with = vec![With { server: echo.name, all }];
    if let (false, Ok(everything)) = (quick, &ground.everything) {
        let mut all = revival::try_once(ground, everything)?;
        revival::time(ground, everything, &mut all, &mut [], rounds)?;
        with.push(With { server: everything.name.clone(), all });
    }
    let signs: Vec<Revival> = signs.into_iter().map(revival::Kept::into_revival).collect();
    let runs = |size| if size < 1000 { 15 } else { 5 };
    let runs = if quick { |_| 3 } else { runs };
    let (mut trees, times) = teardown::measure(&wrappers, &ground.programs, sizes, runs, &survivors)?;
    if let Some(table) = trees.last_mut() {
        table.note(
            "supervisord, pm2, mcp-proxy, supergateway and rmcp-mux are not here: what they start is not the host's own, and its end is \
             nothing to them. Who survives whom is under containment.",
        );
    }

    let mut tables = vec![revival::table(&with, &signs, rounds), crash_loop::table(&looped, minute)];
    tables.append(&mut trees);
    let mut reached = Targets::new("Targets for recovery");
    respawn_targets(&mut reached, &with);
    targets::teardown(&mut reached, &times);
    let reached = reached.table();
    let missed = targets::missed(&reached);
    tables.push(reached);
    Ok(Answer {
        title: "Recovery",
        lead: "How long a host waits for its next answer when its server was killed; how often a server is started that ends at once; and \
               how long a tree outlives a host that was killed."
            .to_owned(),
        tables,
        charts: charts(&with, &signs, &looped, minute),
        worse: missed.into_iter().chain(worse(&with, &signs, &looped, &times)).collect(),
        checks: checks(&with, &looped, &times).into_iter().chain([Check::no_child_left(ground)]).collect(),
    })
}

/// The first failure of a server that has served, with a server that needs next to no time to start.
fn respawn_targets(targets: &mut Targets, with: &[With]) {
    for revival in with.first().iter().flat_map(|with| &with.all).filter(|revival| revival.ours) {
        // `nostray run` alone hands its child's end on.
        if matches!(revival.outcome, Outcome::Ended) {
            continue;
        }
        let what = format!("{}: `kill -9` of the native echo to the next answer, p50", revival.name);
        let target = format!("<= {MOST_OF_A_RESPAWN} ms");
        match revival.outcome.spread() {
            Some(ms) => targets.line(&what, &target, format!("{} ms", ms.show(1)), ms.median <= MOST_OF_A_RESPAWN),
            None => targets.unknown(&what, &target, &revival.outcome.show()),
        }
    }
}

fn charts(with: &[With], signs: &[Revival], looped: &[Looped], minute: Duration) -> Vec<Chart> {
    let native = with.first().map_or(&[][..], |with| &with.all);
    let bar = |revival: &Revival| {
        let value = revival.outcome.spread();
        let label = match value {
            Some(_) => revival.name.to_owned(),
            None => format!("{}: {}", revival.name, revival.outcome.show()),
        };
        Bar { label, value, ours: revival.ours }
    };
    let sign = |revival: &Revival| Bar { label: format!("{}, first sign of life", revival.name), ..bar(revival) };
    let revivals = Bars {
        title: "From kill -9 of the server to the next answer, ms".to_owned(),
        scale: Scale::Logarithmic,
        digits: 0,
        bars: native.iter().map(bar).chain(signs.iter().map(sign)).collect(),
    };
    let bar = |looped: &Looped| Bar {
        label: looped.name.to_owned(),
        value: Some(Spread::of(&[looped.spawns as f64])),
        ours: looped.ours,
    };
    let starts = Bars {
        title: format!("Starts of a server that ends at once, in the first {} s", minute.as_secs()),
        scale: Scale::Linear,
        digits: 0,
        bars: looped.iter().map(bar).collect(),
    };
    vec![revivals.chart("recovery.svg"), starts.chart("crash-loop.svg")]
}

fn worse(with: &[With], signs: &[Revival], looped: &[Looped], times: &Times) -> Vec<String> {
    let mut said = Vec::new();
    for (at, With { server, all }) in with.iter().enumerate() {
        let measured = |revival: &Revival| Some(Measured::new(revival.name, revival.outcome.spread()?));
        let sign = |revival: &Revival| {
            let name = format!("{} (first sign of life)", revival.name);
            Some(Measured::new(name, revival.outcome.spread()?))
        };
        let mut others: Vec<Measured> = all.iter().filter(|revival| !revival.ours).filter_map(measured).collect();
        // Their child speaks no protocol.
        others.extend(signs.iter().filter(|_| at == 0).filter_map(sign));
        let what = format!("From `kill -9` of {server} to the next answer");
        let ours = all.iter().filter(|revival| revival.ours).filter_map(measured);
        said.extend(ours.filter_map(|ours| behind(&what, MS, &ours, &others)));
    }
    let measured = |looped: &Looped| Measured::new(looped.name, Spread::of(&[looped.spawns as f64]));
    // One start is no recovery.
    let others: Vec<Measured> =
        looped.iter().filter(|looped| !looped.ours && looped.spawns > 1).map(measured).collect();
    let ours = looped.iter().filter(|looped| looped.ours).map(measured);
    said.extend(ours.filter_map(|ours| behind("Starts of a server that ends at once", STARTS, &ours, &others)));
    said.extend(times.trees().filter_map(|tree| {
        let of =
            |ours: bool| times.all().iter().filter(move |seen| seen.tree == tree && (seen.variant == RUN) == ours);
        let measured = |seen: &Seen| Some(Measured::new(seen.variant, Spread::of(seen.outcomes.times()?)));
        let others: Vec<Measured> = of(false).filter(|seen| !seen.is_nostray).filter_map(measured).collect();
        let manner = if tree.stubborn { "stubborn" } else { "cooperative" };
        let graces = if tree.stubborn { format!(" (nostray grants it {GRACES:?})") } else { String::new() };
        let what = format!("From the host's SIGKILL to the end of a {manner} tree of {}{graces}", tree.size);
        behind(&what, Unit { name: "ms", digits: 1 }, &of(true).find_map(measured)?, &others)
    }));
    said
}

fn checks(with: &[With], looped: &[Looped], times: &Times) -> Vec<Check> {
    let answered = |revival: &&Revival| matches!(revival.outcome, Outcome::Answered(_));
    let mut checks = Vec::new();
    for With { server, all } in with {
        let killed = all.iter().all(|revival| revival.killed);
        checks.push(Check::new(format!("every kill of {server} was the end of it"), killed));
        let replaced = all.iter().filter(answered).all(|revival| revival.replaced);
        checks.push(Check::new(format!("every answer after a kill of {server} came from another process"), replaced));
        let some = all.iter().filter(answered).any(|revival| revival.ours);
        checks.push(Check::new(format!("nostray recovers from a kill of {server}"), some));
        let direct = all.iter().find(|revival| revival.name == DIRECT);
        let ended = direct.is_some_and(|direct| matches!(direct.outcome, Outcome::Ended));
        checks.push(Check::new(format!("with nothing around it, a kill of {server} ends the session"), ended));
    }
    checks.extend(looped.iter().map(|looped| {
        let what = format!("the server that ends at once was started by {} ({} times)", looped.name, looped.spawns);
        Check::new(what, looped.spawns > 0)
    }));
    let mut direct = times.all().iter().filter(|seen| seen.variant == DIRECT && seen.tree.stubborn);
    let survive = direct.all(|seen| matches!(seen.outcomes, Outcomes::Survived(count) if count >= seen.tree.size));
    checks.push(Check::new("with nothing around them, stubborn trees outlive their host", survive));
    checks
}
