//! `pen`: every measurement in one run, so that all of them saw the same machine.

use crate::programs::Programs;
use crate::report::Table;
use crate::targets::Measured;
use crate::{Failure, args, memory, messages, quiet, screen, start, targets, teardown, variants};

pub(crate) fn run(options: &args::Pen) -> Result<(), Failure> {
    screen::progress("building");
    let programs = Programs::build()?;
    let (variants, missing) = variants::find(&programs);
    let quick = options.quick;
    let mut report = Report { markdown: format!("# nostray run, measured\n\n{}", machine()) };
    screen::clear();
    screen::print(machine());
    for line in &missing {
        screen::print(line);
        report.markdown.push_str(&format!("\n{line}\n"));
    }

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
    let (table, start) = if quick { start::measure(&variants, 3, 20)? } else { start::measure(&variants, 10, 50)? };
    report.add(&table);
    let (table, pss) = memory::measure(&variants, &programs, if quick { 2 } else { 5 })?;
    report.add(&table);
    report.add(&quiet::measure(&variants, &programs)?);

    let (tables, teardown) = if quick {
        teardown::measure(&with_both_tiers, &programs, &[1, 10, 100], |_| 5)?
    } else {
        teardown::measure(&with_both_tiers, &programs, &[1, 10, 100, 1000], |size| if size < 1000 { 25 } else { 7 })?
    };
    tables.iter().for_each(|table| report.add(table));
    report.add(&targets::check(&Measured { latency, pss, start, teardown }));
    if let Some(file) = &options.markdown {
        std::fs::write(file, &report.markdown).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// What is shown and what is written are the same.
struct Report {
    markdown: String,
}

impl Report {
    fn add(&mut self, table: &Table) {
        screen::clear();
        screen::print(table.text().trim_end_matches('\n'));
        self.markdown.push_str(&table.markdown());
    }
}

/// Where this was measured.
fn machine() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let gib = kib.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or_default() / f64::from(1 << 20);
    let user = if badchild::User::all().len() > 1 { "root" } else { "an ordinary user" };
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("Linux {}, {cores} cores of {model}, {gib:.1} GiB, as {user}", kernel.trim())
}
