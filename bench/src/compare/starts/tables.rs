//! Starts, as tables and as charts.

use super::cold::Cold;
use super::many::Many;
use super::one::Row;
use crate::chart::{Bar, Bars, Scale};
use crate::report::Table;
use crate::stats::Spread;
use crate::traffic::{Server, digits};

pub(super) fn one(rows: &[Row], server: &Server, cold: &Cold) -> Table {
    let title = format!("To the first answer of {}, ms", server.name);
    let has_cold = rows.iter().any(|row| row.cold().is_some());
    let mut columns = vec!["", "greeting, warm", "first call, warm", "above direct"];
    columns.extend(has_cold.then_some("first call, cold"));
    let mut table = Table::new(title, &columns);
    let direct = rows.first().map_or(0.0, |row| row.answered().median);
    for (at, row) in rows.iter().enumerate() {
        let above = row.answered().median - direct;
        let above = if at == 0 { "-".to_owned() } else { format!("{above:+.*}", digits(direct)) };
        let cold = has_cold.then(|| row.cold().map_or_else(|| "-".to_owned(), show));
        table.row([row.label(), show(row.greeted()), show(row.answered()), above].into_iter().chain(cold));
    }
    table.note(
        "From the start of the command to the answer; the first call includes the greeting. Medians (lowest-highest), taking turns. \
         Warm: everything has been read before. A further session: a first one is there, with all that both need; without these \
         words, nothing is there, and daemon, broker or server side are started, too (supergateway starts a server for each \
         session in any case). `--lazy` knows the greeting from an earlier run, and starts the server with the first call.",
    );
    if has_cold {
        let what = "`-`: a further session starts no server, or there was no time for it";
        table.note(format!("{}. {what}.", cold.definition()));
    } else {
        table.note("Cold starts are not told of it: its program is this benchmark's own, which is always in memory.");
    }
    table
}

pub(super) fn one_bars(rows: &[Row], server: &Server) -> Bars {
    let bar = |label, value, ours| Bar { label, value: Some(value), ours };
    let mut bars = Vec::new();
    for row in rows {
        if row.name.ends_with("--lazy") {
            bars.push(bar(format!("{}, greeting alone", row.label()), row.greeted(), row.ours));
        }
        bars.push(bar(row.label(), row.answered(), row.ours));
    }
    let title = format!("From a start to the first answer of {}, warm, ms", server.name);
    Bars { title, scale: Scale::Linear, digits: 0, bars }
}

pub(super) fn many(all: &[Many], server: &Server) -> Table {
    let count = all.first().map_or(0, |many| many.sessions);
    let title = format!("{count} sessions with {} at once", server.name);
    let columns = ["", "all greeted, ms", "servers then", "memory then, PSS MiB", "then a call each, ms"];
    let mut table = Table::new(title, &columns);
    for many in all {
        table.row([
            many.name.to_owned(),
            show(many.greeted()),
            many.servers().to_string(),
            show(many.memory()),
            show(many.called()),
        ]);
    }
    table.note(
        "All are started at the same moment, and greeted; the time is that of the last answer. Memory is of all processes, servers and \
         all. Then all make their first call at the same moment, for which `--lazy` starts the servers. Warm. Medians (lowest-highest).",
    );
    table
}

pub(super) fn many_bars(all: &[Many], server: &Server) -> Bars {
    let count = all.first().map_or(0, |many| many.sessions);
    Bars {
        title: format!("{count} sessions with {} at once: until all are greeted, ms", server.name),
        scale: Scale::Logarithmic,
        digits: 0,
        bars: all
            .iter()
            .map(|many| Bar { label: many.name.to_owned(), value: Some(many.greeted()), ours: many.ours })
            .collect(),
    }
}

fn show(spread: Spread) -> String {
    spread.show(digits(spread.median))
}
