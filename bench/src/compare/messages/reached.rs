//! What `nostray run`, `run --respawn` and `share` set out to cost a message, and what they cost.

use super::ways::{Found, Who};
use crate::report::Table;
use crate::share::tables::Costs;
use crate::stats::{Spread, ratios};
use crate::targets::{Targets, verdict};
use crate::{managed, share};

/// How many times as long as directly a message may take when no process is on its way.
const MOST_BESIDE: f64 = 1.05;

pub(super) fn table(found: &Found<'_>, together: &Found<'_>) -> Table {
    let mut targets = Targets::new(&format!("Set out and reached, with {}", found.server));
    let what = "nostray run: p50 / direct, 200 B, 1 in flight, on one processor";
    let target = format!("<= {MOST_BESIDE:.2}");
    let beside = together.alone().and_then(|seen| {
        let of = |who| together.of(seen, who).map(|passes| &passes.p50);
        // Both directs in one, so that half of the noise is gone.
        let base: Vec<f64> =
            of(Who::Direct)?.iter().zip(of(Who::Again)?).map(|(one, other)| f64::midpoint(*one, *other)).collect();
        Some(Spread::of(&ratios(of(Who::Run)?, &base)))
    });
    match beside {
        Some(ratio) => targets.line(what, &target, ratio.show(2), ratio.median <= MOST_BESIDE),
        None => targets.unknown(what, &target, "not measured"),
    }
    // In the order of their places.
    let managed = found.only([Who::Direct, Who::Again, Who::Run, Who::Relay, Who::Respawn]);
    managed::check_traffic(&mut targets, "nostray run --respawn: ", found.server, &managed);
    let shared = found.only([Who::Direct, Who::Relays, Who::Share]);
    share::tables::check(&mut targets, "nostray share: ", &shared.iter().map(Costs).collect::<Vec<_>>());
    targets.table()
}

/// A sentence for each that was not reached.
pub(super) fn missed(table: &Table) -> Vec<String> {
    let is_missed = |row: &&Vec<String>| row.last().is_some_and(|cell| cell == verdict(false));
    let sentence = |row: &Vec<String>| match &row[..] {
        [what, target, measured, ..] => Some(format!("Set out and missed: {what}: {measured} instead of {target}.")),
        _ => None,
    };
    table.rows.iter().filter(is_missed).filter_map(sentence).collect()
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
