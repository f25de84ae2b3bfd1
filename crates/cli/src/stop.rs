//! `nostray stop`: ends pens, on the path on which every pen ends.

use crate::exit::ExitCode;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_registry::{Journal, Pen, Story, census};
use nostray_sys::Pidfd;
use nostray_sys::identity::Identity;
use nostray_sys::poll::{Until, wait};

use crate::selection::Selection;
use crate::terminal;

/// End children, with their whole trees
///
/// Each is ended by its own guard, as when its host ends: SIGTERM to every process, the grace that it was started with,
/// SIGKILL. Waits until nothing is left and says how each of them ended. Exits with 1 if there was nothing to stop, or
/// something did not end.
///
/// Of a shared child, `--session` and `--label` end the sessions that they name; the child goes with the last one. Named by its id,
/// the child is ended with all its sessions.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray stop k7f39q2x
  nostray stop k7f3            (any beginning that only one has)
  nostray stop --session chat-17
  nostray stop --all --now")]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true).args(["ids", "session", "labels", "all"]))]
pub(crate) struct Args {
    /// Which ones, by id or the beginning of one
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    #[command(flatten)]
    selection: Selection,

    /// All of them
    #[arg(long)]
    all: bool,

    /// Without any grace
    #[arg(long)]
    now: bool,
}

impl Args {
    fn ask(&self) -> Ask {
        if self.now { Ask::StopNow } else { Ask::Stop }
    }
}

/// How long a pen may take beyond what it was promised.
const MARGIN: Duration = Duration::from_secs(15);
/// How soon somebody is asked again who should have ended at once.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &Args) -> ExitCode {
    let pens = match chosen(args, census()) {
        Ok(pens) if pens.is_empty() => {
            terminal::complain(&"nothing to stop; `nostray ps` shows what there is");
            return ExitCode::from(1);
        }
        Ok(pens) => pens,
        Err(error) => {
            terminal::complain(&error);
            return ExitCode::from(1);
        }
    };
    let mut failed = false;
    // A session that shares a child with others ends alone; the child goes with the last of them.
    let by_session = args.ids.is_empty() && !args.all;
    let (shared, pens): (Vec<_>, Vec<_>) = pens
        .into_iter()
        .partition(|pen| by_session && pen.record.as_ref().is_ok_and(|record| record.shared.is_some()));
    for pen in &shared {
        failed |= !end_leases(pen, args);
    }
    let asked: Vec<_> = pens.iter().map(|pen| (pen, Instant::now(), handles(pen), pen.ask(args.ask()))).collect();
    for (pen, since, handles, was_asked) in asked {
        let text = if !pen.owner_alive {
            failed = true;
            "its owner is dead; `nostray sweep` ends what is left".to_owned()
        } else if !was_asked {
            failed = true;
            "it could not be asked".to_owned()
        } else if ended(pen, handles, since, args.now) {
            format!("{} after {:.1} s", how_it_ended(pen), since.elapsed().as_secs_f64())
        } else {
            failed = true;
            format!("still there after {:.0} s; try `nostray stop --now {}`", since.elapsed().as_secs_f64(), pen.id)
        };
        let command = pen.record.as_ref().map_or_else(|_| String::new(), |record| record.command.join(" "));
        terminal::print(format!("{}  {text}  ({command})\n", pen.id).as_bytes());
    }
    if failed { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

/// Ends the sessions that are meant, of those that share a child. False if one did not end.
fn end_leases(pen: &Pen, args: &Args) -> bool {
    let Ok(record) = &pen.record else { return true };
    let mut all_ended = true;
    for lease in args.selection.leases(record) {
        let Some(front) = lease.front.identity().and_then(Identity::open) else { continue };
        let asked = nostray_pen::ask(&front, args.ask()).is_ok();
        let ended = asked && wait(&[(front.as_fd(), Until::Readable)], Some(MARGIN)).is_ok_and(|ended| ended[0]);
        all_ended &= ended;
        let name = lease.session.clone().unwrap_or_default();
        let text = if ended { "let go of it" } else { "has not let go of it" };
        let command = record.command.join(" ");
        terminal::print(format!("{}  session {name} ({}) {text}  ({command})\n", pen.id, lease.front.pid).as_bytes());
    }
    all_ended
}

fn chosen(args: &Args, all: Vec<Pen>) -> Result<Vec<Pen>, String> {
    if args.ids.is_empty() {
        return Ok(all.into_iter().filter(|pen| args.all || args.selection.includes(pen)).collect());
    }
    for beginning in &args.ids {
        match all.iter().filter(|pen| pen.id.starts_with(beginning.as_str())).count() {
            0 => return Err(format!("there is no '{beginning}'; `nostray ps` shows what there is")),
            1 => {}
            _ => return Err(format!("more than one begins with '{beginning}'; write more of it")),
        }
    }
    let is_meant =
        |pen: &Pen| args.ids.iter().any(|id| pen.id.starts_with(id.as_str())) && args.selection.includes(pen);
    Ok(all.into_iter().filter(is_meant).collect())
}

/// Handles on those whose end is the end of the pen.
fn handles(pen: &Pen) -> Vec<Pidfd> {
    let keepers = pen.record.as_ref().map(nostray_registry::Record::keepers).unwrap_or_default();
    keepers.into_iter().filter_map(Identity::open).collect()
}

/// Waits for the end of a pen, and shows on a terminal that it does.
fn ended(pen: &Pen, mut handles: Vec<Pidfd>, since: Instant, now: bool) -> bool {
    let promised = pen.record.as_ref().map_or(0, |record| record.term_grace);
    let deadline = since + Duration::from_millis(promised) + MARGIN;
    let (mut shown, mut asked) = (false, since);
    while !handles.is_empty() && Instant::now() < deadline {
        let events: Vec<_> = handles.iter().map(|handle| (handle.as_fd(), Until::Readable)).collect();
        let ended = wait(&events, Some(Duration::from_millis(500))).unwrap_or_default();
        let mut ended = ended.into_iter();
        handles.retain(|_| !ended.next().unwrap_or(false));
        // Of two requests that wait to be heard the kernel keeps the first one, and that may have been a more patient one.
        if now && !handles.is_empty() && asked.elapsed() >= AGAIN && pen.ask(Ask::StopNow) {
            asked = Instant::now();
        }
        if terminal::is_live() && !handles.is_empty() {
            shown = true;
            let line = format!("\r{}  stopping, {:.0} s", pen.id, since.elapsed().as_secs_f64());
            terminal::write(line.as_bytes()).ok();
        }
    }
    if shown {
        terminal::write(b"\r\x1b[K").ok();
    }
    handles.is_empty() || !pen.is_there()
}

/// What the journal says of a pen's end.
fn how_it_ended(pen: &Pen) -> String {
    let entries = Journal::at(&pen.place).read();
    let (mut text, mut killed) = ("stopped".to_owned(), String::new());
    // Of a front that starts one child after the other, the one that was there.
    let generation = pen.record.as_ref().ok().and_then(|record| record.generation.filter(|_| record.child.is_some()));
    let id = generation.map_or_else(|| pen.id.clone(), |number| format!("{}.{number}", pen.id));
    for story in entries.into_iter().filter(|entry| entry.id == id).map(|entry| entry.story) {
        match story {
            Story::Exited { how, .. } => text = format!("stopped: the child {how}"),
            Story::Killed { processes } => killed = format!(", {processes} had to be killed"),
            _ => {}
        }
    }
    text + &killed
}
