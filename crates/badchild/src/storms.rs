//! Programs that use up a machine. All of them are bounded, and end by themselves if no test kills them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nostray_sys::process::{Reaped, Side, exit_now, fork, reap, setsid};

use crate::trees::ignore_everything;
use crate::{Args, Failure};

/// No storm outlives its test by more than this.
const BOUND: Duration = Duration::from_secs(60);

/// Ignores the end of its input and every signal that can be ignored, at full speed.
pub(crate) fn spin() -> Result<ExitCode, Failure> {
    ignore_everything()?;
    println!("ready");
    let end = Instant::now() + BOUND;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    Ok(ExitCode::SUCCESS)
}

/// `storm WIDTH`: so many processes, each of which forks short-lived children as fast as it can, and replaces itself now
/// and then by a child in a new session.
pub(crate) fn storm(mut args: Args) -> Result<ExitCode, Failure> {
    let width = args.number("a width")?;
    ignore_everything()?;
    let end = Instant::now() + BOUND;
    for _ in 0..width {
        if let Side::Child = fork()? {
            fork_until(end);
        }
    }
    println!("ready");
    while Instant::now() < end {
        bury(0);
        std::thread::yield_now();
    }
    Ok(ExitCode::SUCCESS)
}

/// How many children a process of the storm has before it waits for them. Without a bound the storm would use up all the
/// process numbers there are, and hit the machine instead of nostray.
const BURST: usize = 16;

fn fork_until(end: Instant) -> ! {
    let mut children = 0;
    while Instant::now() < end {
        match fork() {
            Ok(Side::Child) if children == BURST => {
                setsid().ok();
                children = 0;
            }
            Ok(Side::Child) => exit_now(0),
            Ok(Side::Parent(_)) if children == BURST => {
                bury(children);
                exit_now(0);
            }
            Ok(Side::Parent(_)) => children += 1,
            Err(_) => std::thread::yield_now(),
        }
    }
    exit_now(0)
}

/// Reaps at least so many children.
fn bury(mut count: usize) {
    loop {
        match reap() {
            Ok(Reaped::News(_)) => count = count.saturating_sub(1),
            Ok(Reaped::Quiet) if count > 0 => std::thread::yield_now(),
            _ => return,
        }
    }
}

/// `chain COUNT`: so many chains in which each process forks the next one, in a session of its own, and ends at once.
pub(crate) fn chain(mut args: Args) -> Result<ExitCode, Failure> {
    let count = args.number("a count")?;
    ignore_everything()?;
    let end = Instant::now() + BOUND;
    for _ in 0..count {
        if let Side::Child = fork()? {
            while Instant::now() < end {
                match fork() {
                    Ok(Side::Parent(_)) => exit_now(0),
                    Ok(Side::Child) => drop(setsid()),
                    Err(_) => {}
                }
            }
            exit_now(0);
        }
    }
    println!("ready");
    crate::exits::pause_for_ever()
}
