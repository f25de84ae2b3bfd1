//! How fast messages pass: round trips of short lines, and the throughput of long ones.

use std::ffi::OsString;
use std::io::{BufRead, Read, Write};
use std::time::{Duration, Instant};

use crate::programs::Programs;
use crate::report::Table;
use crate::stats::{Spread, median, percentile, ratios};
use crate::variants::{Started, Variant, control};
use crate::{Failure, screen};

const SHORT: usize = 200;
const LONG: usize = 1 << 20;

/// How much of it.
pub(crate) struct Amount {
    /// Each with new processes: where the kernel happens to put them matters.
    pub(crate) passes: usize,
    /// In each pass, in each of which every variant has its turn.
    pub(crate) rounds: usize,
    /// In each round.
    pub(crate) round_trips: usize,
    /// In each pass.
    pub(crate) long_lines: usize,
}

/// A server that sends back what it is sent.
pub(crate) struct Echo {
    started: Started,
    short: Vec<u8>,
    answer: Vec<u8>,
}

impl Echo {
    pub(crate) fn command(programs: &Programs) -> Vec<OsString> {
        vec![programs.badchild.clone().into(), "echo".into()]
    }

    pub(crate) fn start(variant: &Variant, programs: &Programs) -> Result<Self, Failure> {
        let mut short = vec![b'm'; SHORT - 1];
        short.push(b'\n');
        Ok(Self { started: variant.start(&Self::command(programs))?, short, answer: Vec::with_capacity(SHORT) })
    }

    pub(crate) fn started(&self) -> &Started {
        &self.started
    }

    /// Sends a short line, and waits for it to come back.
    pub(crate) fn round_trip(&mut self) -> Result<Duration, Failure> {
        let input = self.started.input.as_mut().ok_or("no input")?;
        self.answer.clear();
        let start = Instant::now();
        input.write_all(&self.short)?;
        self.started.output.read_until(b'\n', &mut self.answer)?;
        let time = start.elapsed();
        if self.answer == self.short { Ok(time) } else { Err("the echo is not what was sent".into()) }
    }

    /// Mebibytes a second, there and back.
    fn throughput(&mut self, lines: usize) -> Result<f64, Failure> {
        let mut line = vec![b'l'; LONG - 1];
        line.push(b'\n');
        let mut input = self.started.input.take().ok_or("no input")?;
        let start = Instant::now();
        let input = std::thread::scope(|scope| -> Result<_, Failure> {
            // On a thread of its own: a pipe takes far less than a line, and the answer begins before its end.
            let writer = scope.spawn(move || (0..lines).try_for_each(|_| input.write_all(&line)).map(|()| input));
            let expected = u64::try_from(lines * LONG)?;
            let got = std::io::copy(&mut (&mut self.started.output).take(expected), &mut std::io::sink())?;
            if got != expected {
                return Err("the echo ended early".into());
            }
            Ok(writer.join().map_err(|_| "the writer failed")??)
        })?;
        let time = start.elapsed();
        self.started.input = Some(input);
        Ok((lines * LONG) as f64 / f64::from(1 << 20) / time.as_secs_f64())
    }
}

/// What one variant came to, a value for each pass.
#[derive(Default)]
struct Passes {
    p50: Vec<f64>,
    p99: Vec<f64>,
    throughput: Vec<f64>,
}

/// Measures all variants, in turns. Returns the table, and how many times longer a message takes with nostray.
pub(crate) fn measure(
    variants: &[Variant],
    programs: &Programs,
    amount: &Amount,
) -> Result<(Table, Spread), Failure> {
    let mut variants = variants.to_vec();
    variants.insert(1, control());
    let mut all: Vec<Passes> = variants.iter().map(|_| Passes::default()).collect();
    for pass in 0..amount.passes {
        screen::progress(format_args!("messages: pass {} of {}", pass + 1, amount.passes));
        one_pass(&variants, programs, amount, &mut all)?;
    }
    let direct = all.first().ok_or("no direct")?;
    let title = format!(
        "Messages: {} round trips of {SHORT} bytes, {} lines of 1 MiB, each variant",
        amount.passes * amount.rounds * amount.round_trips,
        amount.passes * amount.long_lines,
    );
    let columns = ["", "p50 us", "p50 / direct", "p99 us", "p99 / direct", "MiB/s", "MiB/s / direct"];
    let mut table = Table::new(title, &columns);
    for (variant, passes) in variants.iter().zip(&all) {
        let relative = |values, base| Spread::of(&ratios(values, base)).show(2);
        table.row([
            variant.name.to_owned(),
            format!("{:.2}", median(&passes.p50)),
            relative(&passes.p50, &direct.p50),
            format!("{:.1}", median(&passes.p99)),
            relative(&passes.p99, &direct.p99),
            format!("{:.0}", median(&passes.throughput)),
            relative(&passes.throughput, &direct.throughput),
        ]);
    }
    table.note(format!(
        "Medians of {} passes, each with new processes; in brackets the lowest and the highest pass. Ratios are \
         within a pass, in which the variants take turns. `direct, again` is the noise of this machine.",
        amount.passes
    ));
    let nostray = variants.iter().zip(&all).find(|(variant, _)| variant.is_nostray()).ok_or("no nostray")?;
    Ok((table, Spread::of(&ratios(&nostray.1.p50, &direct.p50))))
}

fn one_pass(variants: &[Variant], programs: &Programs, amount: &Amount, all: &mut [Passes]) -> Result<(), Failure> {
    let mut servers = variants.iter().map(|variant| Echo::start(variant, programs)).collect::<Result<Vec<_>, _>>()?;
    for server in &mut servers {
        for _ in 0..50 {
            server.round_trip()?;
        }
    }
    // What the wrappers have to tidy up after a start is measured elsewhere.
    std::thread::sleep(Duration::from_millis(200));
    let count = servers.len();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); count];
    for round in 0..amount.rounds {
        for turn in 0..count {
            let at = (round + turn) % count;
            for _ in 0..amount.round_trips {
                times[at].push(servers[at].round_trip()?.as_secs_f64() * 1e6);
            }
        }
    }
    let mut speeds: Vec<Vec<f64>> = vec![Vec::new(); count];
    let turns = 4;
    for round in 0..turns {
        for turn in 0..count {
            let at = (round + turn) % count;
            speeds[at].push(servers[at].throughput(amount.long_lines.div_ceil(turns))?);
        }
    }
    for ((passes, times), speeds) in all.iter_mut().zip(&times).zip(&speeds) {
        passes.p50.push(median(times));
        passes.p99.push(percentile(times, 0.99));
        passes.throughput.push(median(speeds));
    }
    Ok(())
}
