//! What growth costs, as tables.

use super::grown::{Amount, Grown, Kind};
use super::straight::Straight;
use crate::report::Table;
use crate::targets::Targets;

/// In KiB.
const MOST_OF_A_KEY: f64 = 717.0;

pub(super) fn table(kind: Kind, all: &[Grown], amount: &Amount) -> Table {
    let columns = [
        "sessions",
        "memory, MiB",
        "each, KiB",
        "next session, ms",
        "quiet call p50, ms",
        "p99, ms",
        "`nostray ps`, ms",
        "`nostray metrics`, ms",
        "`nostray top`, ms",
    ];
    let mut table = Table::new(format!("So many sessions, {}", kind.words()), &columns);
    for grown in all {
        table.row([
            grown.sessions.to_string(),
            format!("{:.1}", grown.mib),
            format!("{:.0}", grown.mib * 1024.0 / grown.sessions as f64),
            grown.start.show(1),
            format!("{:.2}", grown.middle),
            format!("{:.2}", grown.slow),
            grown.ps.show(1),
            grown.metrics.show(1),
            grown.top.show(1),
        ]);
    }
    table.note(format!(
        "Memory: PSS of nostray's processes, without servers, while nothing happens. {} starts, {} calls and {} looks at each number. `nostray \
         top`: until its first frame is on the screen.",
        amount.starts, amount.calls, amount.looks
    ));
    table
}

pub(super) fn straight(all: &[Straight]) -> Table {
    let mut targets = Targets::new("Whether it grows in a straight line");
    for straight in all {
        let most = format!("<= {:.1}", straight.most());
        targets.line(&straight.words(), &most, format!("{:.2}", straight.factor), straight.holds());
    }
    targets.table()
}

/// What each further key takes, with its session.
pub(super) fn a_further_key(rows: &[(Kind, Vec<Grown>)]) -> Table {
    let mut targets = Targets::new("What a further key may hold: PSS");
    let (what, target) =
        ("a session with a key of its own, without its server", format!("<= {MOST_OF_A_KEY:.0} KiB"));
    let keys = rows.iter().find(|(kind, _)| *kind == Kind::AKeyEach).map(|(_, all)| &all[..]);
    match keys {
        Some([first, .., last]) => {
            let kib = (last.mib - first.mib) * 1024.0 / (last.sessions - first.sessions) as f64;
            targets.line(what, &target, format!("{kib:.0} KiB"), kib <= MOST_OF_A_KEY);
        }
        _ => targets.unknown(what, &target, "not measured"),
    }
    targets.table()
}
