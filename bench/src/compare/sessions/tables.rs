//! The memory of sessions, as tables and as a chart.

use super::looks::{Cell, Row};
use crate::chart::{Curve, Curves};
use crate::report::Table;
use crate::stats::Spread;
use crate::traffic::{Server, digits};

/// With the servers.
pub(super) fn everything(rows: &[Row], server: &Server) -> Table {
    let title = format!("Memory of so many sessions with {}, servers and all: PSS, MiB", server.name);
    let mut table = table(title, rows, Cell::all, &["servers"], |row| {
        vec![row.cells.last().map_or_else(String::new, |cell| match cell.servers() {
            1 => "one".to_owned(),
            each if each == cell.sessions => "one each".to_owned(),
            some => format!("{some} for {}", cell.sessions),
        })]
    });
    table.note(
        "Medians; in brackets the lowest and the highest pass, where there were several. Contenders take turns, one at a time. \
         Looked at a moment after each session had made one call, when nothing happens any more. Servers: how many processes of it \
         there were with the most sessions. Pages that programs outside of this run share count for less: another program of the same \
         interpreter makes all rows lighter.",
    );
    if rows.iter().any(|row| row.cells.len() < most(rows).len()) {
        table.note(
            "`-`: each session has an interpreter of its own on its way, of which so many take minutes to start.",
        );
    }
    table
}

/// Without them.
pub(super) fn around(rows: &[Row], server: &Server) -> Table {
    let title = format!("The same without {}: what is around it, PSS, MiB", server.name);
    let mut table = table(title, rows, Cell::around, &["each further, KiB"], |row| {
        vec![row.further().map_or_else(|| "-".to_owned(), |kib| format!("{kib:.0}"))]
    });
    table.note(
        "Each further: what a session adds to the first one, from one session to the most that were looked at. Where there is a server \
         for each session, that server comes on top.",
    );
    table
}

pub(super) fn curves(rows: &[Row], server: &Server) -> Curves {
    let curve = |row: &Row| Curve {
        label: row.name.to_owned(),
        points: row.cells.iter().map(|cell| (cell.sessions as f64, cell.all().median)).collect(),
        ours: row.ours,
    };
    Curves {
        title: format!("Memory of sessions with {}, servers and all, MiB", server.name),
        across: "sessions",
        curves: rows.iter().map(curve).collect(),
    }
}

/// The numbers of sessions of the contender that was measured with the most.
fn most(rows: &[Row]) -> Vec<usize> {
    let most = rows.iter().max_by_key(|row| row.cells.len());
    most.map(|row| row.cells.iter().map(|cell| cell.sessions).collect()).unwrap_or_default()
}

fn table(
    title: String,
    rows: &[Row],
    of: fn(&Cell) -> Spread,
    more: &[&str],
    with: impl Fn(&Row) -> Vec<String>,
) -> Table {
    let counts = most(rows);
    let names: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let columns: Vec<&str> = ["sessions:"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new(title, &[&columns, more].concat());
    for row in rows {
        let cells = counts.iter().map(|&count| row.at(count).map_or_else(|| "-".to_owned(), |cell| show(cell, of)));
        table.row(std::iter::once(row.name.to_owned()).chain(cells).chain(with(row)));
    }
    table
}

fn show(cell: &Cell, of: fn(&Cell) -> Spread) -> String {
    let spread = of(cell);
    let digits = digits(spread.median).min(1);
    if cell.looks.len() > 1 { spread.show(digits) } else { format!("{:.digits$}", spread.median) }
}
