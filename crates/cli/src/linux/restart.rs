//! `nostray restart`: restarts a supervised child as soon as nothing is in flight, while its sessions go on.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_pen::Order;
use nostray_registry::{Pen, Process, Record, State, census};
use nostray_sys::identity::Identity;
use nostray_sys::poll::{Until, wait};
use nostray_terminal::{self as terminal, ExitCode};

use crate::which::{self, ByName};

/// Restart supervised children, while their sessions go on
///
/// For children of `nostray share` and `nostray hold`, and of `nostray run` with --respawn or another option for a supervised child. As soon
/// as nothing is in flight, the child is ended with the graces that it was started with, and a new child is started, which gets the
/// sessions' handshakes. A child that failed too often (`tripped`) is started once more.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray restart k7f39q2x
  nostray restart memory        (the --key of a shared child)
  nostray restart --wait 1m k7f3")]
pub(crate) struct Args {
    /// Which children: an id or its beginning, a key, a slot, a session, or a name as `ps` shows it
    #[arg(value_name = "WHICH", required = true)]
    which: Vec<String>,

    /// How long to wait until nothing is in flight and the new child runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::args::duration)]
    wait: Duration,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let mut failed = false;
    for which in &args.which {
        let restarted = find(which).and_then(|pens| pens.iter().try_for_each(|pen| restart(pen, args.wait)));
        if let Err(why) = restarted {
            terminal::complain(&why);
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A key may name several children, if their sessions' handshakes differ; a session may use several.
fn find(word: &str) -> Result<Vec<Pen>, String> {
    let all = census();
    let meant = which::find(word, &all, ByName::One)?;
    Ok(all.into_iter().filter(|pen| meant.ids().contains(&pen.id)).collect())
}

fn restart(pen: &Pen, timeout: Duration) -> Result<(), String> {
    let not = |why: &str| format!("{}: {why}", pen.id);
    let record = pen.record.as_ref().map_err(|why| not(&nostray_view::explain(why)))?;
    if record.generation.is_none() {
        return Err(not(
            "it is not supervised, so its host would have to start it again; see `nostray run --respawn`",
        ));
    }
    let keeper = record.front.identity().and_then(Identity::open);
    let keeper = keeper.ok_or_else(|| not("the process that keeps it has ended"))?;
    if matches!(record.state, State::Asleep) {
        terminal::print(format!("{}  asleep: the next call starts a new one\n", pen.id).as_bytes());
        return Ok(());
    }
    let before = record.generation;
    let sent = nostray_pen::send(&keeper, Order::Restart, record.takes());
    sent.map_err(|error| not(&format!("it could not be asked: {error}")))?;
    let since = Instant::now();
    loop {
        let ended = wait(&[(keeper.as_fd(), Until::Readable)], Some(Duration::from_millis(20))).unwrap_or_default();
        if ended.contains(&true) {
            return Err(not("it has ended meanwhile"));
        }
        let now = census().into_iter().find(|other| other.id == pen.id);
        if let Some(Ok(now)) = now.map(|now| now.record)
            && now.generation > before
        {
            let child = child_of(&now);
            terminal::print(format!("{}  number {} runs{child}\n", pen.id, now.generation.unwrap_or(0)).as_bytes());
            return Ok(());
        }
        if since.elapsed() > timeout {
            return Err(not("it is not quiet; it will be restarted as soon as nothing is in flight"));
        }
    }
}

fn child_of(record: &Record) -> String {
    record.child.map_or_else(String::new, |Process { pid, .. }| format!(": child {pid}"))
}
