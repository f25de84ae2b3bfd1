//! Whether a wrapper stays out of the way: what its own processes do while messages pass and while nothing does.
//!
//! The kernel counts their context switches; where there is strace, it counts the system calls as well.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use badchild::Found;
use nostray_sys::{Pidfd, Signal};

use crate::messages::Echo;
use crate::programs::{Programs, in_path};
use crate::report::Table;
use crate::variants::Variant;
use crate::wakeups::Switches;
use crate::{Failure, screen};

const MESSAGES: usize = 10_000;
const IDLE: Duration = Duration::from_secs(2);
/// Start-up is over by then.
const SETTLED: Duration = Duration::from_millis(200);

/// What all of a wrapper's processes did together.
struct Seen {
    processes: usize,
    switches: (u64, u64),
    calls: Option<(usize, usize)>,
}

/// Looks at all wrappers.
pub(crate) fn measure(variants: &[Variant], programs: &Programs) -> Result<Table, Failure> {
    let strace = in_path("strace");
    let title = format!("Wake-ups of the wrapper's own processes: {MESSAGES} messages, and {IDLE:?} of nothing");
    let columns = ["", "processes", "switches, messages", "idle", "system calls, messages", "idle"];
    let mut table = Table::new(title, &columns);
    for variant in variants.iter().filter(|variant| !variant.is_direct()) {
        screen::progress(format_args!("wake-ups: {}", variant.name));
        let seen = one(variant, programs, strace.as_ref())?;
        let calls = |count: Option<usize>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        table.row([
            variant.name.to_owned(),
            seen.processes.to_string(),
            seen.switches.0.to_string(),
            seen.switches.1.to_string(),
            calls(seen.calls.map(|(messages, _)| messages)),
            calls(seen.calls.map(|(_, idle)| idle)),
        ]);
    }
    table.note(
        "Context switches, voluntary and not, after 200 ms to settle; system calls that were begun under strace.",
    );
    if strace.is_none() {
        table.note("strace is not in PATH, so system calls were not counted.");
    }
    Ok(table)
}

fn one(variant: &Variant, programs: &Programs, strace: Option<&PathBuf>) -> Result<Seen, Failure> {
    let mut echo = Echo::start(variant, programs)?;
    echo.round_trip()?;
    std::thread::sleep(SETTLED);
    let child: Vec<OsString> = Echo::command(programs);
    let own = echo.started().wrappers_own(&child);
    let pass_messages = |echo: &mut Echo| (0..MESSAGES).try_for_each(|_| echo.round_trip().map(drop));

    let start = Switches::of(&own)?;
    pass_messages(&mut echo)?;
    let after_messages = Switches::of(&own)?;
    std::thread::sleep(IDLE); // the time in which nothing may happen is what is measured
    let after_idle = Switches::of(&own)?;
    let calls = match strace {
        None => None,
        Some(strace) => {
            let tracer = Tracer::attach(strace, &own)?;
            pass_messages(&mut echo)?;
            let messages = tracer.calls()?;
            let tracer = Tracer::attach(strace, &own)?;
            std::thread::sleep(IDLE);
            Some((messages, tracer.calls()?))
        }
    };
    let switches = (after_messages.since(&start), after_idle.since(&after_messages));
    Ok(Seen { processes: own.len(), switches, calls })
}

/// strace at work, ended with the value.
struct Tracer {
    process: Child,
    /// Held open: it says that it lets go, too.
    _says: Option<BufReader<ChildStderr>>,
    file: PathBuf,
    /// One for each process: the call in which it was found waiting.
    found_waiting: usize,
}

impl Tracer {
    fn attach(strace: &PathBuf, processes: &[Found]) -> Result<Self, Failure> {
        let file = std::env::temp_dir().join("strace.txt");
        let mut command = Command::new(strace);
        command.arg("-f").arg("-o").arg(&file).stderr(Stdio::piped());
        for found in processes {
            command.args(["-p", &found.stat.pid.to_string()]);
        }
        let mut tracer = Self { process: command.spawn()?, _says: None, file, found_waiting: processes.len() };
        let mut says = BufReader::new(tracer.process.stderr.take().ok_or("no pipe")?);
        let mut attached = 0;
        while attached < processes.len() {
            let mut line = String::new();
            if says.read_line(&mut line)? == 0 {
                return Err("strace could not attach".into());
            }
            attached += usize::from(line.trim_end().ends_with("attached"));
        }
        tracer._says = Some(says);
        // It resumes them one by one after it has said so.
        std::thread::sleep(SETTLED);
        Ok(tracer)
    }

    /// Lets go, and says how many system calls it has seen begin.
    fn calls(mut self) -> Result<usize, Failure> {
        Pidfd::open(badchild::pid(i32::try_from(self.process.id())?))?.send(Signal::INT)?;
        self.process.wait()?;
        let seen = std::fs::read_to_string(&self.file)?;
        // A call in which nothing ended is on one line, or on two of which the second says that it is resumed.
        let begun = seen.lines().filter(|line| line.contains('(') && !line.contains(" resumed>")).count();
        Ok(begun.saturating_sub(self.found_waiting))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
