//! How what nostray costs grows: with the sessions of one shared child, and with the children. Each number should be a straight line, or
//! none at all.

mod frame;
mod grown;
mod straight;
mod tables;

use grown::{Amount, Grown, Kind};
use straight::{Quantity, Straight};

use super::{Answer, Check, Ground};
use crate::Failure;
use crate::chart::{Chart, Curve, Curves};
use crate::targets::missed;
use crate::traffic::native;

pub(super) fn measure(ground: &Ground) -> Result<Answer, Failure> {
    let server = native(0)?;
    let amount = Amount::of(ground.size);
    let rows: Vec<(Kind, Vec<Grown>)> = Kind::ALL
        .into_iter()
        .map(|kind| Ok((kind, grown::measure(ground, kind, &server, &amount)?)))
        .collect::<Result<_, Failure>>()?;
    let straight: Vec<Straight> = rows.iter().flat_map(|(kind, all)| straight::of(*kind, all)).collect();
    let mut tables: Vec<_> = rows.iter().map(|(kind, all)| tables::table(*kind, all, &amount)).collect();
    let key = tables::a_further_key(&rows);
    let missed = missed(&key);
    tables.extend([tables::straight(&straight), key]);
    Ok(Answer {
        title: "How it grows",
        lead: format!(
            "So many sessions with {}: all of them with one child (`nostray share --key`), and each with a child of its own (`nostray share`, \
             a key each). At each number: the memory of nostray's processes; how long the next session waits for its greeting; how long a \
             session that is mostly quiet waits for an answer while the others make calls, one after the other, {} a second together; and \
             how long one look takes.",
            server.name,
            amount.calls_a_second()
        ),
        tables,
        charts: charts(&rows),
        worse: missed.into_iter().chain(straight.iter().filter_map(Straight::complaint)).collect(),
        checks: rows
            .iter()
            .flat_map(|(kind, all)| checks(*kind, all))
            .chain([Check::no_child_left(ground)])
            .collect(),
    })
}

fn charts(rows: &[(Kind, Vec<Grown>)]) -> Vec<Chart> {
    let memory = rows.iter().map(|(kind, all)| curve(kind.words().to_owned(), all, |grown| Some(grown.mib)));
    let memory = Curves {
        title: "Memory of nostray's processes, MiB".to_owned(),
        across: "sessions",
        curves: memory.collect(),
    };
    let times = rows.iter().map(|(kind, all)| {
        let curves = Quantity::ALL.into_iter().filter(|quantity| *quantity != Quantity::Memory);
        let curves = curves.map(|quantity| curve(quantity.words().to_owned(), all, move |grown| quantity.of(grown)));
        let curves = curves.filter(|curve| !curve.points.is_empty()).collect();
        Curves { title: format!("So many sessions, {}: ms", kind.words()), across: "sessions", curves }
            .chart(kind.chart())
    });
    std::iter::once(memory.chart("growth-memory.svg")).chain(times).collect()
}

/// All of them are nostray's; what is to be told apart are the quantities.
fn curve(label: String, all: &[Grown], of: impl Fn(&Grown) -> Option<f64>) -> Curve {
    let points = all.iter().filter_map(|grown| Some((grown.sessions as f64, of(grown)?))).collect();
    Curve { label, points, ours: false }
}

fn checks(kind: Kind, all: &[Grown]) -> Vec<Check> {
    let servers = |grown: &Grown| {
        let (right, there) = (kind.children(grown.sessions), grown.servers);
        Check::new(
            format!("growth: {} sessions, {}: {there} of {right} servers", grown.sessions, kind.words()),
            there == right,
        )
    };
    let listed = |grown: &Grown| {
        let right = kind.children(grown.sessions);
        let what = format!("growth: `nostray ps --json` shows {} of {right} shared children", grown.listed);
        Check::new(what, grown.listed == right)
    };
    let grows = all.is_sorted_by(|a, b| a.mib < b.mib);
    let more = Check::new(format!("growth: more sessions take more memory, {}", kind.words()), grows);
    all.iter().flat_map(|grown| [servers(grown), listed(grown)]).chain([more]).collect()
}
