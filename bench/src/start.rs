//! How long a start takes: from the call that starts the command to the first byte that its child writes.

use std::io::Read;
use std::time::Instant;

use crate::report::Table;
use crate::stats::{Spread, median, percentile};
use crate::variants::Variant;
use crate::{Failure, screen};

/// A value for each pass, and every value.
#[derive(Default)]
struct Passes {
    medians: Vec<f64>,
    all: Vec<f64>,
    to_the_end: Vec<f64>,
}

/// Measures all variants, in turns, direct first. Returns the table, and the milliseconds that each of them adds.
pub(crate) fn measure(variants: &[Variant], passes: usize, starts: usize) -> Result<(Table, Vec<Spread>), Failure> {
    let mut all: Vec<Passes> = variants.iter().map(|_| Passes::default()).collect();
    for pass in 0..passes {
        screen::progress(format_args!("starts: pass {} of {passes}", pass + 1));
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); variants.len()];
        for round in 0..starts {
            for turn in 0..variants.len() {
                let at = (round + turn) % variants.len();
                let (first_byte, end) = one(&variants[at])?;
                times[at].push(first_byte);
                all[at].to_the_end.push(end);
            }
        }
        for (passes, times) in all.iter_mut().zip(times) {
            passes.medians.push(median(&times));
            passes.all.extend(times);
        }
    }
    let direct = &all.first().ok_or("no direct")?.medians;
    let added = |passes: &Passes| {
        Spread::of(&passes.medians.iter().zip(direct).map(|(own, direct)| own - direct).collect::<Vec<_>>())
    };
    let added: Vec<Spread> = all.iter().map(added).collect();
    let title = format!("Start: {} starts of /bin/echo, each variant", passes * starts);
    let columns = ["", "p50 ms", "p90 ms", "above direct, p50 ms", "to its end, p50 ms"];
    let mut table = Table::new(title, &columns);
    for ((variant, passes), added) in variants.iter().zip(&all).zip(&added) {
        table.row([
            variant.name.to_owned(),
            format!("{:.2}", median(&passes.all)),
            format!("{:.2}", percentile(&passes.all, 0.9)),
            if variant.is_direct() { "-".to_owned() } else { added.show(2) },
            format!("{:.2}", median(&passes.to_the_end)),
        ]);
    }
    table.note(format!(
        "From the start to the child's first byte. Above direct: median of {passes} passes (lowest-highest). To its \
         end: until the wrapper itself has ended and been reaped."
    ));
    Ok((table, added))
}

/// Milliseconds to the first byte, and to the end.
fn one(variant: &Variant) -> Result<(f64, f64), Failure> {
    let start = Instant::now();
    let mut started = variant.start(&["/bin/echo".into(), "ready".into()])?;
    started.output.read_exact(&mut [0]).map_err(|error| format!("{}: {error}", variant.name))?;
    let first_byte = start.elapsed();
    started.wait()?;
    Ok((first_byte.as_secs_f64() * 1e3, start.elapsed().as_secs_f64() * 1e3))
}
