//! What a wrapper holds while it waits: the memory of its own processes, shared pages counted in shares.

use std::io::BufRead;
use std::time::Duration;

use badchild::Found;

use crate::programs::Programs;
use crate::report::Table;
use crate::stats::{Spread, median};
use crate::variants::Variant;
use crate::{Failure, screen};

/// By then start-up is over, and memory that is given back has been.
const SETTLED: Duration = Duration::from_millis(200);

/// One process, in KiB.
pub(crate) struct Held {
    pub(crate) name: String,
    pub(crate) pss: f64,
    private: f64,
}

impl Held {
    pub(crate) fn of(process: &Found) -> Result<Self, Failure> {
        let path = format!("/proc/{}/smaps_rollup", process.stat.pid);
        let rollup = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let kib = |key: &str| -> Result<f64, Failure> {
            let line =
                rollup.lines().find_map(|line| line.strip_prefix(key)).ok_or(format!("{path} has no {key}"))?;
            Ok(line.trim().trim_end_matches("kB").trim().parse()?)
        };
        let private = kib("Private_Clean:")? + kib("Private_Dirty:")?;
        Ok(Self { name: process.stat.name.clone(), pss: kib("Pss:")?, private })
    }
}

/// What one wrapper holds, in KiB.
pub(crate) type Size = (&'static str, Spread);

/// Measures all wrappers. Returns the table, and what each of them holds.
pub(crate) fn measure(
    variants: &[Variant],
    programs: &Programs,
    passes: usize,
) -> Result<(Table, Vec<Size>), Failure> {
    let wrappers: Vec<&Variant> = variants.iter().filter(|variant| !variant.is_direct()).collect();
    let mut all: Vec<Vec<Vec<Held>>> = wrappers.iter().map(|_| Vec::new()).collect();
    for pass in 0..passes {
        screen::progress(format_args!("memory: pass {} of {passes}", pass + 1));
        for (variant, seen) in wrappers.iter().zip(&mut all) {
            seen.push(one(variant, programs)?);
        }
    }
    let title = "Memory of the wrapper's own processes, idle, 200 ms after the start";
    let mut table = Table::new(title, &["", "PSS KiB", "private KiB", "PSS of each, KiB"]);
    let sums = |seen: &[Vec<Held>], of: fn(&Held) -> f64| -> Vec<f64> {
        // A wrapper that becomes its child has no process: an empty sum of floats would be -0.
        seen.iter().map(|held| held.iter().map(of).fold(0.0, |sum, kib| sum + kib)).collect()
    };
    let mut sizes = Vec::new();
    for (variant, seen) in wrappers.iter().zip(&all) {
        let pss = Spread::of(&sums(seen, |held| held.pss));
        sizes.push((variant.name, pss));
        table.row([
            variant.name.to_owned(),
            pss.show(0),
            format!("{:.0}", median(&sums(seen, |held| held.private))),
            each(seen),
        ]);
    }
    table.note(format!(
        "Median of {passes} passes (lowest-highest). PSS counts a page that n processes share as 1/n in each, so pages \
         of the C library that the rest of the machine uses too count for little."
    ));
    Ok((table, sizes))
}

fn one(variant: &Variant, programs: &Programs) -> Result<Vec<Held>, Failure> {
    let child = [programs.badchild.clone().into_os_string(), "pause".into()];
    let mut started = variant.start(&child)?;
    started.output.read_line(&mut String::new())?;
    // Wrappers tidy up a moment after the start; what they use when idle is the question.
    std::thread::sleep(SETTLED);
    started.wrappers_own(&child).iter().map(Held::of).collect()
}

/// Each process by its name and the median over the passes.
pub(crate) fn each(seen: &[Vec<Held>]) -> String {
    let Some(first) = seen.first() else { return String::new() };
    let of = |at: usize| seen.iter().filter_map(|held| held.get(at)).map(|held| held.pss).collect::<Vec<_>>();
    let each = first.iter().enumerate().map(|(at, held)| format!("{} {:.0}", held.name, median(&of(at))));
    each.collect::<Vec<_>>().join(", ")
}
