//! `nostray slot`: the holder of a slot, its waiters, and its earlier holders.

use std::time::{Duration, Instant};

use clap::Subcommand;
use nostray_pen::Ask;
use nostray_registry::census;
use nostray_slot::{HolderEntry, Kind, Name, Slot, slot, slots};
use nostray_sys::text::escaped;
use nostray_terminal::table::{Table, ago, span};
use nostray_terminal::{self as terminal, ExitCode, Progress};
use serde_json::{Value, json};

use crate::slot_hold::{self, HoldArgs};
use crate::which::{self, ByName};

/// Show, release or hold slots, as those of `nostray run --slot`
///
/// A slot is a name that at most one live tree holds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray slot list
  nostray slot show memory
  nostray slot release memory
  nostray slot hold memory
  nostray slot list --json | jq '.slots[].name'")]
pub(crate) struct SlotCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Slots that have a holder or waiters
    #[command(after_long_help = "Examples:\n  nostray slot list\n  nostray slot list --all --json")]
    List {
        /// Also slots without a holder and waiters
        #[arg(short, long)]
        all: bool,

        /// For scripts
        #[arg(long)]
        json: bool,
    },

    /// One slot: its holder, its waiters, and its earlier holders
    ///
    /// Exits with 1 if the name was never used.
    #[command(after_long_help = "Examples:\n  nostray slot show memory\n  nostray slot show memory --json")]
    Show {
        /// Which slot
        name: Name,

        /// For scripts
        #[arg(long)]
        json: bool,
    },

    /// Ask the holder of a slot to end, and wait until nothing is left of its tree
    ///
    /// The holder's tree gets the graces that it was started with. The next waiter gets the slot then. Exits with 1 if the slot was
    /// not released.
    #[command(after_long_help = "Examples:\n  nostray slot release memory\n  nostray slot release --now memory")]
    Release {
        /// Which slot
        name: Name,

        /// Without any grace
        #[arg(long)]
        now: bool,
    },

    Hold(HoldArgs),
}

pub(crate) fn run(args: &SlotCommand) -> ExitCode {
    let done = match &args.what {
        What::List { all, json } => list(*all, *json),
        What::Show { name, json } => find(name).map(|slot| show(&slot, *json)),
        What::Release { name, now } => find(name).and_then(|slot| release(&slot, *now)),
        What::Hold(args) => slot_hold::run(args),
    };
    done.unwrap_or_else(|why| {
        terminal::complain(&why);
        ExitCode::FAILURE
    })
}

fn find(name: &Name) -> Result<Slot, String> {
    let found = slot(name).map_err(|error| error.to_string())?;
    if let Some(found) = found {
        return Ok(found);
    }
    let all = slots().map_err(|error| error.to_string())?;
    let names: Vec<String> = all.iter().map(|slot| slot.name.to_string()).collect();
    let pens = census();
    let meant =
        which::find(&name.to_string(), &pens, ByName::One).map_or_else(|_| Vec::new(), |meant| meant.ids().to_vec());
    let holds = |slot: &Slot| slot.holder.as_ref().is_some_and(|record| meant.contains(&record.id));
    all.into_iter().find(holds).ok_or_else(|| match names.len() {
        0 => format!("there is no slot {name}, and no other slot"),
        _ => format!("there is no slot {name}; there are {}", names.join(", ")),
    })
}

fn list(all: bool, as_json: bool) -> Result<ExitCode, String> {
    let mut slots = slots().map_err(|error| error.to_string())?;
    slots.retain(|slot| all || slot.is_taken || !slot.waiting.is_empty());
    let text = if as_json {
        let slots: Vec<Value> = slots.iter().map(in_json).collect();
        return Ok(terminal::print_json(&json!({ "version": 1, "slots": slots })));
    } else {
        let mut table = Table::new(&["SLOT", "STATE", "FOR", "HOLDER", "HELD", "WAITING", "COMMAND"]);
        for slot in &slots {
            let known = slot.holder.as_ref();
            table.row(vec![
                slot.name.to_string(),
                state(slot).to_owned(),
                known.map_or_else(String::new, |record| span(ago(record.since))),
                known.map_or_else(String::new, |record| record.id.clone()),
                known.map_or_else(String::new, |record| span(ago(record.started))),
                slot.waiting.len().to_string(),
                known.map_or_else(String::new, |record| record.command.join(" ")),
            ]);
        }
        table.render(terminal::width())
    };
    Ok(terminal::print(text.as_bytes()))
}

/// The state of the slot in one word.
fn state(slot: &Slot) -> &'static str {
    match &slot.holder {
        _ if !slot.is_taken => "free",
        Some(record) => record.state.word(),
        None => "taken",
    }
}

fn in_json(slot: &Slot) -> Value {
    let holder = slot.holder.as_ref().map(|record| {
        json!({
            "id": record.id, "state": record.state.word(), "since": record.since, "started": record.started,
            "command": record.command, "session": record.session, "host": record.host, "front": record.front,
            "guard": record.guard, "child": record.child,
        })
    });
    let waiting: Vec<Value> = slot
        .waiting
        .iter()
        .map(|(kind, who)| {
            json!({
                "id": who.id, "for": kind, "pid": who.process.pid, "since": who.since, "command": who.command,
                "session": who.session,
            })
        })
        .collect();
    json!({ "name": slot.name.as_str(), "state": state(slot), "holder": holder, "waiting": waiting, "history": slot.history })
}

fn show(slot: &Slot, as_json: bool) -> ExitCode {
    if as_json {
        return terminal::print_json(&in_json(slot));
    }
    let mut text = format!("slot {}: {}\n", slot.name, state(slot));
    if let Some(record) = &slot.holder {
        let reason = match &record.state {
            nostray_registry::State::Stopping { reason } => format!(" ({})", escaped(reason)),
            _ => String::new(),
        };
        let pid = |process: Option<nostray_registry::Process>| {
            process.map_or_else(|| "?".to_owned(), |process| process.pid.to_string())
        };
        text += &format!(
            "  held by   {} for {}, {} for {}{reason}\n  command   {}\n  processes child {}, guard {}, front {}\n",
            record.id,
            span(ago(record.started)),
            record.state.word(),
            span(ago(record.since)),
            escaped(&record.command.join(" ")),
            pid(record.child),
            pid(record.guard),
            record.front.pid,
        );
    }
    for (at, (kind, who)) in slot.waiting.iter().enumerate() {
        let what = match kind {
            Kind::Wait => "waits",
            Kind::Replace => "wants to replace it",
        };
        let head = if at == 0 { "waiting" } else { "" };
        text += &format!(
            "  {head:<9} {} (process {}) {what} for {}: {}\n",
            escaped(&who.id),
            who.process.pid,
            span(ago(who.since)),
            escaped(&who.command.join(" "))
        );
    }
    let mut table = Table::new(&["HISTORY", "TAKEN", "READY AFTER", "HELD", "WHY IT ENDED"]);
    for entry in slot.history.iter().rev() {
        table.row(row(entry));
    }
    if !slot.history.is_empty() {
        text += &format!("\n{}", table.render(terminal::width()));
    }
    terminal::print(text.as_bytes())
}

fn row(entry: &HolderEntry) -> Vec<String> {
    let between = |from: nostray_slot::Moment, to: nostray_slot::Moment| {
        span(Duration::from_millis(to.since_boot.saturating_sub(from.since_boot)))
    };
    vec![
        entry.id.clone(),
        format!("{} ago", span(ago(entry.taken.time))),
        entry.ready.map_or_else(|| "never".to_owned(), |ready| between(entry.taken, ready)),
        entry.ended.map_or_else(|| "still".to_owned(), |ended| between(entry.taken, ended)),
        entry.why.clone().unwrap_or_default(),
    ]
}

/// How long a holder may take beyond its graces.
const MARGIN: Duration = Duration::from_secs(15);

fn release(slot: &Slot, now: bool) -> Result<ExitCode, String> {
    let name = &slot.name;
    if !slot.is_taken {
        terminal::print(format!("slot {name} is free\n").as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(holder) = &slot.holder else {
        return Err(format!("slot {name} is just being taken or released; try again"));
    };
    if !slot.ask(if now { Ask::StopNow } else { Ask::HandOver }) {
        return Err(format!(
            "{} holds slot {name} and could not be signalled; `nostray sweep` tells more",
            holder.id
        ));
    }
    let begun = Instant::now();
    let limit = Duration::from_millis(holder.eof_grace.saturating_add(holder.term_grace)) + MARGIN;
    let line = format!("{} ({}) hands over slot {name}", holder.id, holder.name());
    let progress = Progress::start(move |since| format!("{line}, for {} s", since.as_secs()));
    // A waiter may take the slot before the next look, so compare the last entry's id. The entry's end alone is not enough: the
    // holder records it a moment before the lock is free, and the next command could still find the slot taken.
    while let Some(still) = self::slot(name).map_err(|error| error.to_string())?
        && still.is_taken
        && let Some(last) = still.history.last().filter(|last| last.id == holder.id)
    {
        if begun.elapsed() > limit {
            if last.ended.is_some() {
                break; // the holder's tree is empty; the next holder has the lock, but was descheduled before it recorded itself
            }
            let next = if now { format!("stop --now {}", holder.id) } else { format!("slot release --now {name}") };
            let since = span(begun.elapsed());
            return Err(format!("{} still holds slot {name} after {since}; try `nostray {next}`", holder.id));
        }
        // flock cannot be polled.
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(progress);
    let text = format!("slot {name} was released by {} after {}\n", holder.id, span(begun.elapsed()));
    Ok(terminal::print(text.as_bytes()))
}
