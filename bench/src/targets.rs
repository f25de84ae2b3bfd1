//! What nostray set out to reach, and whether it has.

use crate::report::Table;
use crate::stats::Spread;
use crate::teardown::{GRACES, Times};

/// How many times as long as directly a short message may take when no process is on its way.
pub(crate) const MOST_OF_A_MESSAGE: f64 = 1.01;
/// What `nostray run` may add to a start, in milliseconds, with the child's record.
pub(crate) const MOST_OF_A_START: f64 = 0.8;
/// How long cooperative trees of so many processes may outlive their host, in milliseconds.
const COOPERATIVE_TREES: [(usize, f64); 3] = [(1, 1.2), (10, 2.0), (1000, 55.0)];
/// How long stubborn trees may outlive the graces.
const STUBBORN_TREES: f64 = 55.0;

/// What was measured of nostray.
pub(crate) struct Measured {
    pub(crate) latency: Spread,
    pub(crate) pss: Spread,
    pub(crate) start: Spread,
    pub(crate) teardown: Times,
}

/// A line for each.
pub(crate) struct Targets(Table);

impl Targets {
    pub(crate) fn new(title: &str) -> Self {
        Self(Table::new(title, &["", "target", "measured", ""]))
    }

    pub(crate) fn line(&mut self, what: &str, target: &str, value: String, reached: bool) {
        self.0.row([what.to_owned(), target.to_owned(), value, verdict(reached).to_owned()]);
    }

    /// One of which nothing can be said, and why.
    pub(crate) fn unknown(&mut self, what: &str, target: &str, why: &str) {
        self.0.row([what, target, why, "unknown"].map(str::to_owned));
    }

    pub(crate) fn table(self) -> Table {
        self.0
    }
}

pub(crate) fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}

/// A sentence for each that was not reached.
pub(crate) fn missed(table: &Table) -> Vec<String> {
    let is_missed = |row: &&Vec<String>| row.last().is_some_and(|cell| cell == verdict(false));
    let sentence = |row: &Vec<String>| match &row[..] {
        [what, target, measured, ..] => Some(format!("Set out and missed: {what}: {measured} instead of {target}.")),
        _ => None,
    };
    table.rows.iter().filter(is_missed).filter_map(sentence).collect()
}

pub(crate) fn check(measured: &Measured) -> Table {
    let mut targets = Targets::new("Targets for nostray run");
    let mut line =
        |what: &str, target: &str, value: String, reached: bool| targets.line(what, target, value, reached);
    let latency = measured.latency.median;
    let most = format!("<= {MOST_OF_A_MESSAGE:.2}");
    line("message latency, p50 / direct", &most, format!("{latency:.2}"), latency <= MOST_OF_A_MESSAGE);
    let pss = measured.pss.median;
    line("PSS of front, spare and guard", "<= 1024 KiB", format!("{pss:.0} KiB"), pss <= 1024.0);
    let start = measured.start.median;
    let most = format!("<= {MOST_OF_A_START:.1} ms");
    line("start above direct, p50", &most, format!("{start:.2} ms"), start <= MOST_OF_A_START);
    teardown(&mut targets, &measured.teardown);
    targets.table()
}

/// How soon trees have to be gone after their host's death.
pub(crate) fn teardown(targets: &mut Targets, times: &Times) {
    let mut line = |what: &str, most: f64, ms: Option<f64>| {
        targets.line(what, &format!("<= {most} ms"), milliseconds(ms), ms.is_some_and(|ms| ms <= most));
    };
    for tree in times.trees() {
        let ms = times.median(tree);
        if tree.stubborn {
            let what = format!("stubborn tree of {} gone above graces, p50", tree.size);
            line(&what, STUBBORN_TREES, ms.map(|ms| ms - GRACES.as_secs_f64() * 1e3));
        } else if let Some((size, most)) = COOPERATIVE_TREES.into_iter().find(|(size, _)| *size == tree.size) {
            line(&format!("cooperative tree of {size} gone, p50"), most, ms);
        }
    }
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or_else(|| "survivors".to_owned(), |ms| format!("{ms:.1} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_is_said() {
        let mut targets = Targets::new("");
        targets.line("a", "<= 1", "0".to_owned(), true);
        targets.line("b", "<= 1", "2".to_owned(), false);
        assert_eq!(missed(&targets.table()), ["Set out and missed: b: 2 instead of <= 1."]);
    }
}
