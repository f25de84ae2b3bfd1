//! `nostray wait`: waits until a process has ended, by its identity and without polling; for programs that are children themselves, and
//! whose language has no handle on a process.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_pen::PenOpener;
use nostray_sys::descriptors::standard_input;
use nostray_sys::identity::Identity;
use nostray_sys::poll::{self, Until};
use nostray_sys::proc::Stat;
use nostray_sys::process::{Ended, Pid};
use nostray_sys::{Pidfd, Signal};
use nostray_terminal::{self as terminal, ExitCode};
use serde_json::json;

use crate::args::duration;

/// Wait until a process has ended
///
/// Any process of this machine, also one that is no child of the caller. The process is known by a handle from the kernel, so a number
/// that is used again does not matter, and nothing is polled. It stops waiting when the process that started it ends,
/// or closes its stdin.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray wait 4711
  nostray wait --timeout 30s 4711 || echo 'it is still there'
  nostray wait --parent-of $$ --end-caller &
      In a script that must not outlive the program that started it: the script
      gets SIGTERM when that program has ended, and SIGKILL five seconds later.

Lines on stdout with --json:
  {\"event\":\"watching\",\"pid\":PID}, {\"event\":\"ended\",\"pid\":PID}

Exit codes:
  0 when the process has ended; 1 if there is no such process, or the process
  that started this one has ended; 75 if the time is over.")]
pub(crate) struct WaitArgs {
    /// Which process
    #[arg(required_unless_present = "parent_of", conflicts_with = "parent_of")]
    pid: Option<u32>,

    /// The process that is the parent of this one now
    ///
    /// A parent that has ended before cannot be told from the process that its children were handed to; call it early.
    #[arg(long, value_name = "PID")]
    parent_of: Option<u32>,

    /// Then end the process that started this one: SIGTERM, and SIGKILL after --term-grace
    #[arg(long)]
    end_caller: bool,

    /// With --end-caller: time from SIGTERM to SIGKILL (0s: at once)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, requires = "end_caller")]
    term_grace: Duration,

    /// Wait no longer than this, then exit with 75 [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,

    /// For programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &WaitArgs) -> ExitCode {
    wait(args).unwrap_or_else(|why| {
        terminal::complain(&why);
        ExitCode::FAILURE
    })
}

fn wait(args: &WaitArgs) -> Result<ExitCode, String> {
    let opener = PenOpener::open(&[]).map_err(|error| error.to_string())?;
    let (pid, watched) = match (args.pid, args.parent_of) {
        (Some(number), _) => handle_on(number)?,
        (None, number) => {
            let number = number.unwrap_or_default();
            let (child, _open) = handle_on(number)?;
            let gone = || format!("the parent of process {number} has ended, or is in another pid namespace");
            parent(|| Stat::of(child).and_then(|stat| stat.parent)).ok_or_else(gone)?
        }
    };
    let caller = opener.host().filter(|_| args.end_caller).and_then(Identity::open);
    if args.end_caller && caller.is_none() {
        return Err("the process that started this one cannot be seen, so it cannot be ended".to_owned());
    }
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let has_ended = || watched.has_ended().unwrap_or(true);
    say(args, "watching", pid);
    while !has_ended() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(ExitCode::from(nostray_slot::NOT_NOW));
        }
        let mut events = vec![(watched.as_fd(), Until::Readable), (opener.signals(), Until::Readable)];
        let own = events.len();
        events.extend(opener.ends().map(|end| (end, Until::Readable)));
        if opener.stdin_tells() {
            events.push((standard_input(), Until::HungUp));
        }
        let fired = poll::wait(&events, left).map_err(|error| format!("cannot wait: {error}"))?;
        while let Some(arrived) = opener.next_signal() {
            if PenOpener::is_the_end(arrived) {
                return Ok(ExitCode::from(Ended::Killed(arrived.signal).shell_code()));
            }
        }
        if fired[own..].contains(&true) && !has_ended() {
            return Ok(ExitCode::FAILURE); // the caller has ended
        }
    }
    say(args, "ended", pid);
    if let Some(caller) = caller {
        caller.send(Signal::TERM).ok();
        poll::wait(&[(caller.as_fd(), Until::Readable)], Some(args.term_grace)).ok();
        caller.send(Signal::KILL).ok();
    }
    Ok(ExitCode::SUCCESS)
}

/// A handle on a parent: opened by number, so it counts only if the number is still the parent's then.
fn parent(parent: impl Fn() -> Option<Pid>) -> Option<(Pid, Pidfd)> {
    let pid = parent()?;
    let handle = Pidfd::open(pid).ok()?;
    (parent() == Some(pid)).then_some((pid, handle))
}

fn handle_on(number: u32) -> Result<(Pid, Pidfd), String> {
    Pidfd::of_user(number).map_err(|why| format!("process {number}: {why}"))
}

fn say(args: &WaitArgs, event: &str, pid: Pid) {
    if args.json {
        // A caller that does not listen is still to be ended.
        terminal::write(format!("{}\n", json!({ "event": event, "pid": pid.as_raw_nonzero().get() })).as_bytes())
            .ok();
    }
}
