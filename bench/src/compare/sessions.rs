//! What a session costs: the memory of all processes of 1, 8, 32 and 128 sessions with one kind of server, with the servers and
//! without them.

mod looks;
mod tables;
mod worse;

use looks::{Plan, Row};

use super::contenders::{Contender, wrappers};
use super::{Answer, Check, Ground};
use crate::report::Table;
use crate::stats::Spread;
use crate::targets::{Targets, missed};
use crate::traffic::{Server, native};
use crate::variants::nostray_run;
use crate::{Failure, managed, memory};

/// What one `nostray run` may take around an idle child, in KiB: front, spare and guard.
const MOST_OF_RUN: f64 = 1024.0;
/// All of nostray's processes around a supervised child.
const MOST_OF_MANAGED: f64 = 4096.0;
/// All of nostray's processes around the one session of a shared child, the broker among them.
const MOST_OF_FIRST: f64 = 2048.0;
/// Each session that shares a child, after the first.
const MOST_OF_FURTHER: f64 = 512.0;
const MOST_OF_BROKER: f64 = 5120.0;

pub(super) fn measure(ground: &Ground) -> Result<Answer, Failure> {
    let echo = native(0)?;
    let server = ground.everything.as_ref().unwrap_or(&echo);
    let instead =
        if ground.everything.is_err() { ", in place of server-everything, which could not be had here" } else { "" };
    let rows = looks::take(&contenders(ground), server, &Plan::of(ground.size))?;
    let passes = if ground.is_quick() { 2 } else { 5 };
    let variants: Vec<_> = std::iter::once(nostray_run(&ground.programs)).chain(wrappers(ground)).collect();
    let (wrapper, sizes) = memory::measure(&variants, &ground.programs, passes)?;
    let run = sizes.first().ok_or("no variant was measured")?.1;
    let targets = targets(ground, &rows, run, &echo)?;
    let worse =
        missed(&targets).into_iter().chain(worse::sentences(&rows)).chain(worse::of_wrappers(&sizes)).collect();
    Ok(Answer {
        title: "What a session costs",
        lead: format!(
            "So many sessions with {}{instead}, each of which has made one call. Shown is the memory of all processes together: PSS, which \
             counts a page that n processes share as 1/n in each. With a server for each session, the servers are nearly all of it.",
            server.name
        ),
        tables: vec![tables::everything(&rows, server), tables::around(&rows, server), wrapper, targets],
        charts: vec![tables::curves(&rows, server).chart("sessions.svg")],
        worse,
        checks: checks(&rows),
    })
}

fn contenders(ground: &Ground) -> Vec<Contender<'_>> {
    let ours = [Contender::run(ground), Contender::share(ground)];
    let others = Contender::mux(ground).into_iter().chain(Contender::gateways(ground));
    std::iter::once(Contender::direct()).chain(ours).chain(others).collect()
}

/// What nostray set out to reach.
fn targets(ground: &Ground, rows: &[Row], run: Spread, echo: &Server) -> Result<Table, Failure> {
    let programs = &ground.programs;
    let passes = if ground.is_quick() { 2 } else { 3 };
    let (_, managed) = managed::held::measure(&managed::ways::managed(programs), echo, programs, passes)?;
    let mut targets = Targets::new("What nostray's own processes may hold: PSS");
    let mut line = |what: &str, most: f64, kib: Option<f64>| match kib {
        Some(kib) => targets.line(what, &format!("<= {most:.0} KiB"), format!("{kib:.0} KiB"), kib <= most),
        None => targets.unknown(what, &format!("<= {most:.0} KiB"), "not measured"),
    };
    line("`run`: front, spare and guard of an idle child", MOST_OF_RUN, Some(run.median));
    line("`run --respawn`, after a call", MOST_OF_MANAGED, Some(managed.idle.median));
    line("`run --respawn`, after a message of 16 MiB", MOST_OF_MANAGED, Some(managed.after_huge.median));
    let share = rows.iter().find(|row| row.name == "nostray share");
    let first = |row: &Row| Some(row.at(1)?.around().median * 1024.0);
    line("`share`: one session, broker and all", MOST_OF_FIRST, share.and_then(first));
    line("`share`: each further session", MOST_OF_FURTHER, share.and_then(Row::further));
    line("`share`: the broker", MOST_OF_BROKER, share.and_then(Row::broker));
    Ok(targets.table())
}

/// Whether what was counted is what was there.
fn checks(rows: &[Row]) -> Vec<Check> {
    let direct = rows.iter().find(|row| row.name == "direct");
    let grows = direct.is_some_and(|row| row.cells.is_sorted_by(|a, b| a.all().median < b.all().median));
    let is_something = |row: &Row| {
        row.cells.iter().all(|cell| {
            let has_servers = cell.looks.iter().all(|look| look.of_servers > 0.0);
            has_servers && (cell.around().low > 0.0) == (row.name != "direct")
        })
    };
    let more = [
        Check::new("direct, more sessions take more memory", grows),
        Check::new(
            "servers have memory in every row, and what is around them in every row but direct",
            rows.iter().all(is_something),
        ),
    ];
    rows.iter().map(Row::check).chain(more).collect()
}
