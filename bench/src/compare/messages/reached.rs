//! What `nostray run`, `run --respawn` and `share` set out to cost a message, and what they cost.

use super::ways::{Found, Who};
use crate::report::Table;
use crate::share::tables::Costs;
use crate::stats::{Spread, ratios};
use crate::targets::{MOST_OF_A_MESSAGE, Targets};
use crate::{managed, share};

pub(super) fn table(found: &Found<'_>, together: &Found<'_>) -> Table {
    let mut targets = Targets::new(&format!("Set out and reached, with {}", found.server));
    let what = "nostray run: p50 / direct, 200 B, 1 in flight, on one processor";
    let target = format!("<= {MOST_OF_A_MESSAGE:.2}");
    let beside = together.alone().and_then(|seen| {
        let of = |who| together.of(seen, who).map(|passes| &passes.p50);
        // Both directs in one, so that half of the noise is gone.
        let base: Vec<f64> =
            of(Who::Direct)?.iter().zip(of(Who::Again)?).map(|(one, other)| f64::midpoint(*one, *other)).collect();
        Some(Spread::of(&ratios(of(Who::Run)?, &base)))
    });
    match beside {
        Some(ratio) => targets.line(what, &target, ratio.show(2), ratio.median <= MOST_OF_A_MESSAGE),
        None => targets.unknown(what, &target, "not measured"),
    }
    // In the order of their places.
    let managed = found.only([Who::Direct, Who::Again, Who::Run, Who::Relay, Who::Respawn]);
    managed::check_traffic(&mut targets, "nostray run --respawn: ", found.server, &managed);
    let shared = found.only([Who::Direct, Who::Relays, Who::Share]);
    share::tables::check(&mut targets, "nostray share: ", &shared.iter().map(Costs).collect::<Vec<_>>());
    targets.table()
}
