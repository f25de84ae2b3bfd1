//! `nostray sweep`: ends what is left of pens whose front, spare and guard were all killed.

use nostray_registry::{Found, Outcome, Policy, Swept, census, sweep};
use nostray_sys::proc::age_of;
use nostray_terminal::table::span;
use nostray_terminal::{self as terminal, ExitCode, Progress, line};
use nostray_view::explain;
use serde_json::{Value, json};

/// End what is left of children whose guards were killed, and nothing else
///
/// Acts on records whose lock is free: the kernel releases it when front, spare and guard are all gone. Names the evidence for
/// each process that it finds. Never touches children that are guarded, unless you give --include-active.
/// Every `nostray run` does this by itself, a moment after its start. Exits with 1 if something is left, or may be.
///
/// Without a control group, a process that has cleared its environment cannot be told from a stranger. Where such a process may be
/// left of a dead child, it is named and not touched, and the child stays on record (`unproved` in `nostray ps`) until it has ended.
///
/// A child whose front, spare and guard are all stopped is not guarded, so this command ends it, too. A `nostray run` does not.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray sweep --dry-run
  nostray sweep
  nostray sweep --json
  nostray sweep --forget k7f39q2x

The object that --json prints:
  version      1
  swept        a list of id, command, outcome (active, asked, clean, survivors,
               unproved, frozen, unreadable, elsewhere), left, survivors (a list
               of pid, command, evidence), candidates (the same)")]
pub(crate) struct Args {
    /// Only look
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Stop children that are guarded, too
    #[arg(long)]
    include_active: bool,

    /// Drop the record of a child whose guards are dead, by id, whatever may be left of it; no process is signalled
    #[arg(long, value_name = "ID", conflicts_with_all = ["dry_run", "include_active", "json"])]
    forget: Option<String>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    if let Some(id) = &args.forget {
        return forget(id);
    }
    let policy = Policy {
        dry_run: args.dry_run,
        include_active: args.include_active,
        include_frozen: true,
        ..Policy::thorough()
    };
    let progress =
        Progress::start(|since| format!("sweeping for {} s; what is left of a tree gets its grace", since.as_secs()));
    let swept = sweep(&policy);
    drop(progress);
    let printed = if args.json {
        let all: Vec<Value> = swept.iter().map(as_json).collect();
        terminal::print_json(&json!({ "version": 1, "swept": all }))
    } else {
        terminal::print(as_text(&swept, args.dry_run).as_bytes())
    };
    if swept.iter().any(|one| left(&one.outcome) > 0) { ExitCode::from(1) } else { printed }
}

/// Needs the whole id, since a dropped record cannot be restored.
fn forget(id: &str) -> ExitCode {
    let Some(pen) = census().into_iter().find(|pen| pen.id == id) else {
        terminal::complain(&format_args!("there is no '{id}'; `nostray ps` shows what there is"));
        return ExitCode::from(1);
    };
    if !nostray_registry::forget(&pen.place, id) {
        terminal::complain(&format_args!("{id} is guarded, and stays on record; `nostray stop {id}` ends it"));
        return ExitCode::from(1);
    }
    terminal::print(line(&format_args!("{id}  is on record no more; nothing was signalled")).as_bytes())
}

fn left(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Survivors { left, .. } => *left,
        Outcome::Unproved { candidates, .. } => candidates.len(),
        Outcome::Frozen { ended } => usize::from(!ended),
        _ => 0,
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Active => "active",
        Outcome::Asked => "asked",
        Outcome::Clean => "clean",
        Outcome::Survivors { .. } => "survivors",
        Outcome::Unproved { .. } => "unproved",
        Outcome::Frozen { .. } => "frozen",
        Outcome::Unreadable(_) => "unreadable",
        _ => "elsewhere",
    }
}

fn as_json(one: &Swept) -> Value {
    let (found, candidates): (&[Found], &[Found]) = match &one.outcome {
        Outcome::Survivors { found, .. } => (found, &[]),
        Outcome::Unproved { found, candidates } => (found, candidates),
        _ => (&[], &[]),
    };
    let in_json = |found: &Found| {
        json!({ "pid": found.process.pid.as_raw_nonzero().get(), "command": found.command,
                "evidence": found.evidence.to_string() })
    };
    json!({ "id": one.id, "command": one.command, "outcome": word(&one.outcome), "left": left(&one.outcome),
            "survivors": found.iter().map(in_json).collect::<Vec<_>>(),
            "candidates": candidates.iter().map(in_json).collect::<Vec<_>>() })
}

fn as_text(swept: &[Swept], dry_run: bool) -> String {
    let mut text = String::new();
    let mut active = 0;
    for one in swept {
        let command = one.command.join(" ");
        match &one.outcome {
            Outcome::Active => active += 1,
            Outcome::Asked => text += &line(&format_args!("{}  was asked to stop  ({command})", one.id)),
            Outcome::Clean => text += &line(&format_args!("{}  nothing was left of it  ({command})", one.id)),
            Outcome::Survivors { found, left } => {
                let done = match (dry_run, left) {
                    (true, _) => "would be ended",
                    (false, 0) => "ended",
                    _ => "not all could be ended",
                };
                text += &line(&format_args!("{}  {} left of it, {done}  ({command})", one.id, found.len()));
                for found in found {
                    text += &line(&format_args!("    {}  {}: {}", found.process.pid, found.command, found.evidence));
                }
            }
            Outcome::Unproved { found, candidates } => {
                text += &line(&format_args!(
                    "{}  {} left of it, ended; {} may be of it, not proved, and not touched  ({command})",
                    one.id,
                    found.len(),
                    candidates.len()
                ));
                for one in candidates {
                    let age =
                        age_of(one.process.start).map_or_else(String::new, |age| format!(", {} old", span(age)));
                    text += &line(&format_args!("    {}  {}{age}: {}", one.process.pid, one.command, one.evidence));
                }
                let pids: Vec<_> = candidates.iter().map(|one| one.process.pid.to_string()).collect();
                text += &line(&format_args!(
                    "    if one is of it, end it (kill {}); if none is: nostray sweep --forget {}",
                    pids.join(" "),
                    one.id
                ));
            }
            Outcome::Frozen { ended } => {
                let done = match (dry_run, ended) {
                    (true, _) => "would be ended",
                    (false, true) => "ended",
                    _ => "could not be ended",
                };
                text += &line(&format_args!("{}  all of its guards were stopped; {done}  ({command})", one.id));
            }
            Outcome::Unreadable(why) => text += &line(&format_args!("{}  {}", one.id, explain(why))),
            _ => text += &line(&format_args!("{}  belongs to another pid namespace; sweep it there", one.id)),
        }
    }
    text + &format!("{active} active, not touched\n")
}
