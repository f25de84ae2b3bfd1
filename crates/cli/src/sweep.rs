//! `nostray sweep`: ends what pens have left whose every process was killed.

use crate::exit::ExitCode;

use nostray_registry::{Outcome, Policy, Swept, sweep};
use serde_json::{Value, json};

use crate::{ps, terminal};

/// End what is left of children whose guards were killed, and nothing else
///
/// Acts on records whose lock is free, which the kernel guarantees to mean that front, spare and guard are all gone. Says for
/// each process that it finds on what evidence. Children that are guarded are never touched, unless --include-active says so.
/// Every `nostray run` does this by itself, a moment after its start. Exits with 1 if something is left.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray sweep --dry-run
  nostray sweep
  nostray sweep --json

JSON: {\"version\": 1, \"swept\": [{\"id\", \"command\", \"outcome\", \"left\", \"survivors\": [{\"pid\", \"command\",
\"evidence\"}]}]}; outcome is one of active, asked, clean, survivors, unreadable, elsewhere.")]
pub(crate) struct Args {
    /// Only look
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Stop children that are guarded, too
    #[arg(long)]
    include_active: bool,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let policy = Policy { dry_run: args.dry_run, include_active: args.include_active, ..Policy::thorough() };
    let swept = sweep(&policy);
    let text = if args.json {
        let all: Vec<Value> = swept.iter().map(as_json).collect();
        format!("{:#}\n", json!({ "version": 1, "swept": all }))
    } else {
        as_text(&swept, args.dry_run)
    };
    let printed = terminal::print(text.as_bytes());
    if swept.iter().any(|one| left(&one.outcome) > 0) { ExitCode::from(1) } else { printed }
}

fn left(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Survivors { left, .. } => *left,
        _ => 0,
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Active => "active",
        Outcome::Asked => "asked",
        Outcome::Clean => "clean",
        Outcome::Survivors { .. } => "survivors",
        Outcome::Unreadable(_) => "unreadable",
        _ => "elsewhere",
    }
}

fn as_json(one: &Swept) -> Value {
    let survivors: Vec<Value> = match &one.outcome {
        Outcome::Survivors { found, .. } => found
            .iter()
            .map(|found| {
                json!({ "pid": found.process.pid.as_raw_nonzero().get(), "command": found.command,
                        "evidence": found.evidence.to_string() })
            })
            .collect(),
        _ => Vec::new(),
    };
    json!({ "id": one.id, "command": one.command, "outcome": word(&one.outcome), "left": left(&one.outcome),
            "survivors": survivors })
}

fn as_text(swept: &[Swept], dry_run: bool) -> String {
    let mut text = String::new();
    let mut active = 0;
    for one in swept {
        let command = one.command.join(" ");
        match &one.outcome {
            Outcome::Active => active += 1,
            Outcome::Asked => text += &format!("{}  was asked to stop  ({command})\n", one.id),
            Outcome::Clean => text += &format!("{}  nobody was left of it  ({command})\n", one.id),
            Outcome::Survivors { found, left } => {
                let done = match (dry_run, left) {
                    (true, _) => "would be ended",
                    (false, 0) => "ended",
                    _ => "not all could be ended",
                };
                text += &format!("{}  {} left of it, {done}  ({command})\n", one.id, found.len());
                for found in found {
                    text += &format!("    {}  {}: {}\n", found.process.pid, found.command, found.evidence);
                }
            }
            Outcome::Unreadable(why) => text += &format!("{}  {}\n", one.id, ps::explain(why)),
            _ => text += &format!("{}  belongs to another pid namespace; sweep it there\n", one.id),
        }
    }
    text + &format!("{active} active, not touched\n")
}
