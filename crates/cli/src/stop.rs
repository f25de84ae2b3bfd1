//! `nostray stop`: asks guards to end their trees, with the same tear-down as when a host ends.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_registry::{Journal, Pen, Story, census, is_on_record};
use nostray_terminal::{self as terminal, ExitCode, Progress};

use crate::leases;
use crate::selection::Selection;
use crate::which::{self, ByName, Meant};

/// End children, with their whole trees
///
/// Each is ended by its own guard, as when its host ends: SIGTERM to every process, the grace that it was started with,
/// SIGKILL. Waits until nothing is left and says how each child ended. If a child's guards are stopped (SIGSTOP, a debugger), this
/// command ends the child itself. Exits with 1 if there was nothing to stop, or something did not end.
///
/// Of a shared child, a session or `--label` ends the sessions that it names; the child ends after its last session. By its id, key or name,
/// the child is ended with all its sessions.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "nostray stop [OPTIONS] <WHICH>...\n       nostray stop [OPTIONS] --session <SESSION>|--label <NAME=VALUE>|--all"
)]
#[command(after_long_help = "\
Examples:
  nostray stop k7f39q2x
  nostray stop k7f3            (the beginning of one id only)
  nostray stop memory          (a key, a slot, a session, or a name)
  nostray stop --session chat-17
  nostray stop --all --now")]
#[command(group = clap::ArgGroup::new("chosen").required(true).multiple(true).args(["which", "session", "labels", "all"]))]
pub(crate) struct Args {
    /// Which children: an id or its beginning, a key, a slot, a session, or a name as `ps` shows it
    #[arg(value_name = "WHICH")]
    which: Vec<String>,

    #[command(flatten)]
    selection: Selection,

    /// All children
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

pub(crate) fn run(args: &Args) -> ExitCode {
    let targets = match chosen(args, census()) {
        Ok(targets) => targets,
        Err(error) => {
            terminal::complain(&error);
            return ExitCode::from(1);
        }
    };
    let mut failed = false;
    for Target { pen, sessions } in &targets {
        if let Some(sessions) = sessions {
            failed |= !leases::end(pen, sessions, args.ask());
        }
    }
    let whole = targets.iter().filter(|target| target.sessions.is_none());
    let asked: Vec<_> = whole.map(|Target { pen, .. }| (pen, Instant::now(), pen.ask(args.ask()))).collect();
    for (pen, since, was_asked) in asked {
        let text = if !pen.owner_alive {
            failed = true;
            dead_owner(pen)
        } else if !was_asked && has_just_ended(pen) {
            "has ended by itself".to_owned()
        } else if !was_asked {
            failed = true;
            "its guard could not be asked".to_owned()
        } else if ended(pen, since, args.ask()) {
            format!("{} after {:.1} s", how_it_ended(pen), since.elapsed().as_secs_f64())
        } else {
            failed = true;
            still_there(pen, since, args.now)
        };
        let command = pen.record.as_ref().map_or_else(|_| String::new(), |record| record.command.join(" "));
        terminal::print(terminal::line(&format_args!("{}  {text}  ({command})", pen.id)).as_bytes());
    }
    if failed { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

/// A child to be ended.
struct Target {
    pen: Pen,
    /// Of a shared child, the sessions to be ended instead. The child ends after its last session.
    sessions: Option<Selection>,
}

fn chosen(args: &Args, all: Vec<Pen>) -> Result<Vec<Target>, String> {
    if all.is_empty() {
        return Err("nothing runs under nostray, so there is nothing to stop".to_owned());
    }
    let mut whole = HashSet::new();
    let mut by_session = HashMap::new();
    for word in &args.which {
        match which::find(word, &all, ByName::One)? {
            Meant::Children(ids) => whole.extend(ids),
            Meant::Session(ids) => by_session.extend(ids.into_iter().map(|id| (id, Selection::of_session(word)))),
        }
    }
    if args.all {
        whole.extend(all.iter().map(|pen| pen.id.clone()));
    } else if args.which.is_empty() {
        let selected = all.iter().filter(|pen| args.selection.includes(pen));
        by_session.extend(selected.map(|pen| (pen.id.clone(), args.selection.clone())));
    }
    let complaint = args.selection.complaint(&all);
    let target = |pen: Pen| {
        let is_shared = pen.record.as_ref().is_ok_and(|record| record.shared.is_some());
        let sessions = by_session.remove(&pen.id).filter(|_| !whole.contains(&pen.id));
        let is_meant = whole.contains(&pen.id) || sessions.is_some();
        let is_selected = args.all || args.selection.includes(&pen);
        (is_meant && is_selected).then(|| Target { pen, sessions: sessions.filter(|_| is_shared) })
    };
    let targets: Vec<Target> = all.into_iter().filter_map(target).collect();
    if targets.is_empty() { Err(complaint) } else { Ok(targets) }
}

/// Whether a pen without a live keeper is one that was just ending: its record goes a moment later.
fn has_just_ended(pen: &Pen) -> bool {
    let until = Instant::now() + Duration::from_secs(1);
    while is_on_record(&pen.place, &pen.id) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5)); // a file that goes has no event worth a watch
    }
    true
}

/// Waits for the end of a pen, and shows on a terminal that it does, and until when at most.
fn ended(pen: &Pen, since: Instant, ask: Ask) -> bool {
    let name = pen.record.as_ref().map_or_else(|_| String::new(), |record| format!(" ({})", record.name()));
    let grace = match (&pen.record, ask) {
        (Ok(record), Ask::Stop) => {
            let grace = Duration::from_millis(record.term_grace);
            format!("; SIGKILL after {} at the latest", humantime::format_duration(grace))
        }
        _ => String::new(),
    };
    let id = pen.id.clone();
    let _progress =
        Progress::start(move |_| format!("{id}{name}  stopping for {} s{grace}", since.elapsed().as_secs()));
    pen.see_to_its_end(ask, since, &mut || {})
}

/// What the user can do about a pen whose owner is dead.
fn dead_owner(pen: &Pen) -> String {
    if pen.record.as_ref().is_ok_and(|record| !record.candidates.is_empty()) {
        return "its owner is dead, and it is not proved that nothing is left; `nostray sweep` tells what may be"
            .to_owned();
    }
    "its owner is dead; `nostray sweep` ends what is left".to_owned()
}

/// What is left of a pen that has not ended, and what the user can do.
fn still_there(pen: &Pen, since: Instant, now: bool) -> String {
    let left: Vec<_> = pen.who_is_left().iter().map(|one| format!("{} ({})", one.process.pid, one.command)).collect();
    let left = if left.is_empty() { String::new() } else { format!(": {}", left.join(", ")) };
    let next = if now { String::new() } else { format!("; try `nostray stop --now {}`", pen.id) };
    format!("still there after {:.0} s{left}{next}", since.elapsed().as_secs_f64())
}

/// What the journal says of a pen's end.
fn how_it_ended(pen: &Pen) -> String {
    let entries = Journal::at(&pen.place).read();
    let (mut text, mut killed) = ("stopped".to_owned(), String::new());
    // A supervised child's entries have its generation in their id.
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
