//! `spawn`: what starting a child costs a host that has much memory, with the library, with `posix_spawn`, and with `fork` and `execve`.
//! The same program, in the same run, taking turns.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use nostray::{Pen, PenSpec};
use tokio::io::AsyncReadExt;
use tokio::runtime::{Builder, Runtime};

use crate::report::{Report, Table};
use crate::stats::{Spread, median, percentile};
use crate::targets::Targets;
use crate::{Failure, args, screen};

/// What the host holds in memory, besides what it has anyway.
const SIZES: [(&str, usize); 2] = [("little memory", 0), ("1 GiB resident", 1 << 30)];
/// What is started: it says a word and ends.
const PROGRAM: [&str; 2] = ["/bin/echo", "ready"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    PosixSpawn,
    Fork,
    Pen,
}

const WAYS: [(Way, &str); 3] =
    [(Way::PosixSpawn, "posix_spawn"), (Way::Pen, "Pen::spawn"), (Way::Fork, "fork and execve")];

/// Microseconds of the call that starts a child, and until its first byte.
#[derive(Default)]
struct Times {
    call: Vec<f64>,
    first_byte: Vec<f64>,
    /// The middle of each pass.
    passes: Vec<f64>,
}

pub(crate) fn run(options: &args::Shown) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        return Err("what is not optimised is not worth measuring: run with `cargo run --release`".into());
    }
    let (passes, starts) = if options.quick { (3, 20) } else { (10, 50) };
    let mut report = Report::new("Starting a child from a large host, measured");
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let spec = PenSpec::builder(PROGRAM[0]).args(&PROGRAM[1..]).build()?;
    let mut all: [[Times; 3]; 2] = Default::default();
    for pass in 0..passes {
        screen::progress(format_args!("pass {} of {passes}", pass + 1));
        // In turns, too: the machine has other things to do, more at one time than at another.
        for (times, (_, size)) in all.iter_mut().zip(SIZES) {
            // Written to, or it would not be there.
            let memory = vec![1u8; size];
            let mut of_pass: [Vec<f64>; 3] = Default::default();
            for round in 0..starts {
                for turn in 0..WAYS.len() {
                    let at = (round + turn) % WAYS.len();
                    let (call, first_byte) = one(WAYS[at].0, &runtime, &spec)?;
                    of_pass[at].push(call);
                    times[at].call.push(call);
                    times[at].first_byte.push(first_byte);
                }
            }
            for (times, of_pass) in times.iter_mut().zip(of_pass) {
                times.passes.push(median(&of_pass));
            }
            drop(std::hint::black_box(memory));
        }
    }
    for (times, (name, _)) in all.iter().zip(SIZES) {
        report.add(&table(name, passes * starts, times));
    }
    report.add(&check(&all));
    report.write(options.markdown.as_deref())
}

fn one(way: Way, runtime: &Runtime, spec: &PenSpec) -> Result<(f64, f64), Failure> {
    let begun = Instant::now();
    let elapsed = || begun.elapsed().as_secs_f64() * 1e6;
    if way == Way::Pen {
        return runtime.block_on(async {
            let mut pen = Pen::spawn(spec)?;
            let call = elapsed();
            pen.stdout.as_mut().ok_or("no pipe")?.read_exact(&mut [0]).await?;
            let first_byte = elapsed();
            // Nothing of the last one runs while the next one is measured.
            pen.wait().await?;
            Ok((call, first_byte))
        });
    }
    let mut command = Command::new(PROGRAM[0]);
    command.args(&PROGRAM[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if way == Way::Fork {
        // `posix_spawn` cannot set a user, so the standard library forks when one is given, even if it is the current
        // user.
        command.uid(nostray_sys::process::user());
    }
    let mut child = command.spawn()?;
    let call = elapsed();
    child.stdout.as_mut().ok_or("no pipe")?.read_exact(&mut [0])?;
    let first_byte = elapsed();
    child.wait()?;
    Ok((call, first_byte))
}

fn table(host: &str, starts: usize, all: &[Times; 3]) -> Table {
    let title = format!("A host with {host}: {starts} starts of /bin/echo, each way");
    let columns = ["", "the call, p50 us", "p90 us", "/ posix_spawn, p50", "to the first byte, p50 us"];
    let mut table = Table::new(title, &columns);
    for ((_, name), times) in WAYS.iter().zip(all) {
        table.row([
            (*name).to_owned(),
            Spread::of(&times.passes).show(0),
            format!("{:.0}", percentile(&times.call, 0.9)),
            format!("{:.2}", median(&times.call) / median(&all[0].call)),
            format!("{:.0}", median(&times.first_byte)),
        ]);
    }
    table.note(
        "The call: how long the host's own thread is kept. p50: median of the medians of the passes (lowest-highest). To the \
         first byte: of the child; with Pen::spawn its guard is started before it, and it is on record by then.",
    );
    table
}

fn check(all: &[[Times; 3]; 2]) -> Table {
    let call = |size: usize, way: usize| median(&all[size][way].call);
    let mut targets = Targets::new("Targets for Pen::spawn");
    // What the guard is: another program to be started in place of the child's, a look for the child's program, a socket, a handle.
    let above = call(1, 1) - call(1, 0);
    targets.line("the call at 1 GiB above posix_spawn", "<= 200 us", format!("{above:.0} us"), above <= 200.0);
    let ratio = |size: usize| call(size, 1) / call(size, 0);
    let grown = ratio(1) / ratio(0);
    let what = "the call / posix_spawn, at 1 GiB / with little memory";
    targets.line(what, "<= 1.15", format!("{grown:.2}"), grown <= 1.15);
    let fork = call(1, 2) / call(1, 1);
    targets.line("what fork would cost at 1 GiB / Pen::spawn", ">= 5", format!("{fork:.1}"), fork >= 5.0);
    let guard = median(&all[1][1].first_byte) - median(&all[1][0].first_byte);
    targets.line("first byte at 1 GiB above posix_spawn", "<= 5 ms", format!("{:.2} ms", guard / 1e3), guard <= 5e3);
    targets.table()
}
