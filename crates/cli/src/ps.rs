//! `nostray ps`: every pen, with what its tree uses.

use nostray_registry::{Entry, Journal, Pen, Place, Record, Story, Unreadable, census, describe};
use nostray_sys::identity::Identity;
use nostray_sys::process::Pid;
use nostray_sys::text::escaped_json;
use nostray_terminal::table::{Table, ago, bytes, moment, span};
use nostray_terminal::{self as terminal, ExitCode};
use serde_json::{Value, json};

use crate::selection::Selection;

/// Show the children that are contained, with what their trees use
///
/// One line for each: its state and since when, who started it, its session, and what the whole tree uses: processes,
/// memory (each process's proportional share), open files and processor time. `orphaned` means that all of nostray's own
/// processes were killed; `nostray sweep` ends what is left. `unproved` means the same, and that some processes may or may not belong
/// to the tree; --tree and `nostray sweep` name them, and no command touches them. `frozen` means that all of nostray's own processes are
/// stopped.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Show the processes of each tree
    #[arg(long)]
    tree: bool,

    /// Show children that have ended, too, as far as the journal goes back
    #[arg(long)]
    all: bool,

    /// Print a JSON object
    #[arg(long, conflicts_with = "quiet")]
    json: bool,

    /// Print ids only; exit with 1 if there is none
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  nostray ps
  nostray ps --tree
  nostray ps -q --session chat-17 && echo \"still active\"
  nostray ps --json | jq '.pens[] | select(.memory > 500000000) | .id'

JSON: {\"version\": 1, \"pens\": [...], \"unreadable\": [{\"id\", \"why\"}], \"ended\": [...] (with --all)}. A pen has: id, state
(starting, ready, stopping, orphaned, unproved, frozen; of a supervised child also asleep, backing-off, tripped), reason (of stopping,
backing-off, tripped), status (what the child says of itself with --ready-notify), generation (how many children there have been; null unless supervised), restarts (one less), shared (of a shared child: key,
any_dir if set, because (why it is not shared with another one), and leases, each {\"front\", \"session\", \"labels\", \"since\"}; otherwise null), since and started (Unix time in milliseconds), command, cwd,
session, labels, host, front, spare, guard, child (each {\"pid\", \"start\"} or null; start is in kernel ticks since boot), tier
(cgroup, pid-namespace, subreaper; none without a child), candidates (of unproved: processes that may be of it, like host), eof_grace and term_grace (milliseconds), processes, memory (bytes), open_files, cpu
(milliseconds), tree (each {\"pid\", \"parent\", \"command\"}). Fields may be added; these stay.";

pub(crate) fn run(args: &Args) -> ExitCode {
    let pens: Vec<Pen> = census().into_iter().filter(|pen| args.selection.includes(pen)).collect();
    let text = if args.quiet {
        pens.iter().map(|pen| terminal::line(&pen.id)).collect()
    } else if args.json {
        let object = as_json(&pens, args.all.then(ended));
        escaped_json(&format!("{object:#}\n")).into_owned()
    } else {
        let mut text = as_table(&pens, args.tree) + &apart(&pens);
        if args.all {
            text += &ended_table(&ended());
        }
        text
    };
    let printed = terminal::print(text.as_bytes());
    for pen in &pens {
        if let Err(why) = &pen.record {
            terminal::complain(&format_args!("pen {}: {}", pen.id, explain(why)));
        }
    }
    if args.quiet && pens.is_empty() { ExitCode::from(1) } else { printed }
}

/// What is wrong with a record, and what to do.
pub(crate) fn explain(why: &Unreadable) -> String {
    match why {
        Unreadable::Gone => "it has just ended".to_owned(),
        Unreadable::OtherVersion(version) => {
            format!("its record is of version {version}; use the nostray that started it")
        }
        Unreadable::Damaged(what) => format!("its record is damaged ({what}); `nostray sweep` sets it aside"),
        Unreadable::NotOurs(what) => format!("its record {what}; it is left alone"),
    }
}

fn state(pen: &Pen) -> String {
    match &pen.record {
        Ok(record) if !pen.owner_alive && !record.candidates.is_empty() => "unproved".to_owned(),
        _ if !pen.owner_alive => "orphaned".to_owned(),
        Ok(_) if pen.is_frozen() => "frozen".to_owned(),
        Ok(record) => record.state.word().to_owned(),
        Err(_) => "unreadable".to_owned(),
    }
}

fn as_table(pens: &[Pen], with_tree: bool) -> String {
    // Most users have no slots.
    let slot_of = |pen: &Pen| pen.record.as_ref().ok().and_then(|record| record.slot.clone());
    let with_slots = pens.iter().any(|pen| slot_of(pen).is_some());
    let mut head = vec!["ID", "STATE", "FOR", "HOST", "SESSION", "AGE", "PROCS", "MEM", "FILES", "CPU"];
    head.extend(with_slots.then_some("SLOT"));
    let blank = || vec![String::new(); head.len()];
    let mut table = Table::new(&[&head[..], &["COMMAND"]].concat());
    for pen in pens {
        let tally = pen.tally();
        let Ok(record) = &pen.record else {
            table.row(vec![pen.id.clone(), state(pen)]);
            continue;
        };
        let host = record.host.map_or_else(String::new, |host| format!("{} {}", host.pid, name_of(host.pid)));
        let mut cells = vec![
            pen.id.clone(),
            state(pen),
            span(ago(record.since)),
            host,
            sessions(record),
            span(ago(record.started)),
            tally.processes.to_string(),
            bytes(tally.memory),
            tally.files.to_string(),
            span(tally.cpu),
        ];
        cells.extend(with_slots.then(|| slot_of(pen).unwrap_or_default()));
        cells.push(record.command.join(" "));
        table.row(cells);
        if with_tree {
            for lease in record.shared.iter().flat_map(|shared| &shared.leases) {
                let mut cells = blank();
                let session = lease.session.as_deref().unwrap_or("a session");
                cells.push(format!("┌ held by {session} ({}) for {}", lease.front.pid, span(ago(lease.since))));
                table.row(cells);
            }
            for candidate in candidates(record) {
                let mut cells = blank();
                cells.push(format!("? {} {} may be of it", candidate.pid, describe(candidate.pid)));
                table.row(cells);
            }
            for (depth, stat) in with_depth(pen) {
                let mut cells = blank();
                cells.push(format!("{}└ {} {}", "  ".repeat(depth), stat.pid, describe(stat.pid)));
                table.row(cells);
            }
        }
    }
    table.render(terminal::width())
}

/// The live processes that may or may not be left of the tree.
fn candidates(record: &Record) -> Vec<Identity> {
    let all = record.candidates.iter().copied().filter_map(nostray_registry::Process::identity);
    all.filter(|who| who.is_alive()).collect()
}

/// Why there is more than one shared child of a command.
fn apart(pens: &[Pen]) -> String {
    let shared = |pen: &Pen| Some((pen.id.clone(), pen.record.as_ref().ok()?.clone()));
    let shared: Vec<_> = pens.iter().filter_map(shared).filter(|(_, record)| record.shared.is_some()).collect();
    let has_company = |id: &str, record: &Record| {
        shared.iter().any(|(other, there)| other != id && there.command == record.command)
    };
    let line = |(id, record): &(String, Record)| {
        let why = record.shared.as_ref()?.because.as_ref().filter(|_| has_company(id, record))?;
        Some(format!("{id} is a child of its own: {why}\n"))
    };
    shared.iter().filter_map(line).collect()
}

/// The child's session; of a shared child, its key and how many sessions hold it.
fn sessions(record: &Record) -> String {
    match &record.shared {
        None => record.session.clone().unwrap_or_default(),
        Some(shared) => {
            let count = shared.leases.len();
            let key = shared.key.as_ref().map_or_else(String::new, |key| format!("{key}: "));
            format!("{key}{count} session{}", if count == 1 { "" } else { "s" })
        }
    }
}

/// The processes of a tree, each with its distance from the child.
fn with_depth(pen: &Pen) -> Vec<(usize, &nostray_sys::proc::Stat)> {
    let mut depths: Vec<(usize, &nostray_sys::proc::Stat)> = Vec::new();
    for stat in &pen.tree {
        let parent = depths.iter().find(|(_, above)| Some(above.pid) == stat.parent);
        depths.push((parent.map_or(0, |(depth, _)| depth + 1), stat));
    }
    depths
}

fn name_of(pid: i32) -> String {
    Pid::from_raw(pid).and_then(nostray_sys::proc::Stat::of).map_or_else(|| "(gone)".to_owned(), |stat| stat.name)
}

fn as_json(pens: &[Pen], ended: Option<Vec<Ended>>) -> Value {
    let mut object = json!({ "version": 1, "pens": [], "unreadable": [] });
    for pen in pens {
        match &pen.record {
            Ok(record) => {
                let tally = pen.tally();
                let tree: Vec<_> = pen
                    .tree
                    .iter()
                    .map(|stat| {
                        let parent = stat.parent.map(|parent| parent.as_raw_nonzero().get());
                        json!({ "pid": stat.pid.as_raw_nonzero().get(), "parent": parent, "command": describe(stat.pid) })
                    })
                    .collect();
                use nostray_registry::State;
                let reason = match &record.state {
                    State::Stopping { reason } => Some(reason),
                    State::BackingOff { cause } | State::Tripped { cause } => Some(cause),
                    State::Starting | State::Ready | State::Asleep => None,
                };
                push(
                    &mut object["pens"],
                    json!({
                        "id": pen.id, "state": state(pen), "reason": reason, "generation": record.generation,
                        "restarts": record.generation.map(|generation| generation.saturating_sub(1)), "shared": record.shared,
                        "slot": record.slot, "status": record.status, "candidates": record.candidates,
                        "since": record.since,
                        "started": record.started, "command": record.command, "cwd": record.cwd,
                        "session": record.session, "labels": record.labels, "host": record.host, "front": record.front,
                        "spare": record.spare, "guard": record.guard, "child": record.child, "tier": record.tier,
                        "eof_grace": record.eof_grace, "term_grace": record.term_grace, "processes": tally.processes,
                        "memory": tally.memory, "open_files": tally.files, "cpu": tally.cpu.as_millis() as u64, "tree": tree,
                    }),
                );
            }
            Err(why) => push(&mut object["unreadable"], json!({ "id": pen.id, "why": explain(why) })),
        }
    }
    if let Some(ended) = ended {
        object["ended"] = ended.iter().map(Ended::as_json).collect();
    }
    object
}

fn push(array: &mut Value, value: Value) {
    if let Value::Array(values) = array {
        values.push(value);
    }
}

/// A pen that has ended, as the journal tells it.
struct Ended {
    id: String,
    command: Vec<String>,
    session: Option<String>,
    started: u64,
    ended: u64,
    why: Option<String>,
    how: Option<String>,
}

impl Ended {
    fn as_json(&self) -> Value {
        json!({ "id": self.id, "command": self.command, "session": self.session, "started": self.started,
                "ended": self.ended, "why": self.why, "how": self.how })
    }
}

fn ended() -> Vec<Ended> {
    let mut pens: Vec<(Ended, bool)> = Vec::new();
    for Entry { time, id, story } in Place::all().iter().flat_map(|place| Journal::at(place).read()) {
        if let Story::Started { command, session, .. } = story {
            let ended = Ended { id, command, session, started: time, ended: time, why: None, how: None };
            pens.push((ended, false));
            continue;
        }
        let Some((pen, over)) = pens.iter_mut().rev().find(|(pen, _)| pen.id == id) else { continue };
        match story {
            Story::Stopping(cause) => pen.why = Some(cause.detail),
            Story::Exited { how, .. } => pen.how = Some(how),
            Story::Empty | Story::Swept { left: 0, .. } => {
                pen.ended = time;
                *over = true;
            }
            _ => {}
        }
    }
    pens.into_iter().filter(|(_, over)| *over).map(|(pen, _)| pen).collect()
}

fn ended_table(ended: &[Ended]) -> String {
    let mut table = Table::new(&["ENDED", "ID", "SESSION", "LASTED", "HOW", "WHY", "COMMAND"]);
    for pen in ended {
        table.row(vec![
            moment(pen.ended),
            pen.id.clone(),
            pen.session.clone().unwrap_or_default(),
            span(std::time::Duration::from_millis(pen.ended.saturating_sub(pen.started))),
            pen.how.clone().unwrap_or_default(),
            pen.why.clone().unwrap_or_default(),
            pen.command.join(" "),
        ]);
    }
    format!("\n{}", table.render(terminal::width()))
}
