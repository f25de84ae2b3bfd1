//! `pen`: every measurement in one run, so that all of them saw the same machine.

use crate::programs::Programs;
use crate::report::Report;
use crate::targets::Measured;
use crate::{Failure, args, memory, messages, quiet, screen, start, targets, teardown, variants};

pub(crate) fn run(options: &args::Shown) -> Result<(), Failure> {
    screen::progress("building");
    let programs = Programs::build()?;
    let (variants, missing) = variants::find(&programs);
    let quick = options.quick;
    let mut report = Report::new("nostray run, measured");
    missing.iter().for_each(|line| report.say(line));

    let amount = if quick {
        messages::Amount { passes: 3, rounds: 10, round_trips: 50, long_lines: 8 }
    } else {
        messages::Amount { passes: 15, rounds: 20, round_trips: 100, long_lines: 32 }
    };
    let mut with_both_tiers = variants.clone();
    if let Some(variant) = variants::without_group(&programs) {
        with_both_tiers.insert(2, variant);
    }
    let (table, latency) = messages::measure(&with_both_tiers, &programs, &amount)?;
    report.add(&table);
    let (table, starts) = if quick { start::measure(&variants, 3, 20)? } else { start::measure(&variants, 10, 50)? };
    report.add(&table);
    let start = starts.into_iter().zip(&variants).find_map(|(added, variant)| variant.is_nostray().then_some(added));
    let start = start.ok_or("no nostray")?;
    let (table, sizes) = memory::measure(&variants, &programs, if quick { 2 } else { 5 })?;
    report.add(&table);
    let (_, pss) = sizes.into_iter().find(|(name, _)| *name == "nostray run").ok_or("no nostray")?;
    report.add(&quiet::measure(&variants, &programs)?);

    let unknown = teardown::Survivors::unknown();
    let (tables, teardown) = if quick {
        teardown::measure(&with_both_tiers, &programs, &[1, 10, 100], |_| 5, &unknown)?
    } else {
        let runs = |size| if size < 1000 { 25 } else { 7 };
        teardown::measure(&with_both_tiers, &programs, &[1, 10, 100, 1000], runs, &unknown)?
    };
    tables.iter().for_each(|table| report.add(table));
    report.add(&targets::check(&Measured { latency, pss, start, teardown }));
    report.write(options.markdown.as_deref())
}
