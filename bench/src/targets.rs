//! What nostray set out to reach, and whether it has.

use crate::report::Table;
use crate::stats::Spread;
use crate::teardown::{GRACES, Times, Tree};

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

pub(crate) fn check(measured: &Measured) -> Table {
    let mut targets = Targets::new("Targets for nostray run");
    let mut line =
        |what: &str, target: &str, value: String, reached: bool| targets.line(what, target, value, reached);
    let latency = measured.latency.median;
    line("message latency, p50 / direct", "<= 1.05", format!("{latency:.2}"), latency <= 1.05);
    let pss = measured.pss.median;
    line("PSS of front, spare and guard", "<= 1024 KiB", format!("{pss:.0} KiB"), pss <= 1024.0);
    let start = measured.start.median;
    // Of the pen alone; what is measured has its record in it, for which there are 0.3 ms more.
    line("start above direct, p50", "<= 1.5 ms", format!("{start:.2} ms"), start <= 1.5);
    teardown(&mut targets, &measured.teardown);
    targets.table()
}

/// How soon trees have to be gone after their host's death.
pub(crate) fn teardown(targets: &mut Targets, times: &Times) {
    let ten = times.median(Tree { size: 10, stubborn: false });
    let reached = ten.is_some_and(|ms| ms <= 50.0);
    targets.line("cooperative tree of 10 gone, p50", "<= 50 ms", milliseconds(ten), reached);
    for tree in times.trees().filter(|tree| tree.stubborn) {
        let above = times.median(tree).map(|ms| ms - GRACES.as_secs_f64() * 1e3);
        let what = format!("stubborn tree of {} gone above graces, p50", tree.size);
        targets.line(&what, "<= 100 ms", milliseconds(above), above.is_some_and(|ms| ms <= 100.0));
    }
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or_else(|| "survivors".to_owned(), |ms| format!("{ms:.1} ms"))
}
