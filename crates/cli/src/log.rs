//! `nostray log`: the journal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nostray_registry::{Entry, Journal, Output, Place, Story};
use nostray_sys::text::escaped_json;
use nostray_terminal::table::moment;
use nostray_terminal::{self as terminal, ExitCode};

/// Show what happened to children, and why
///
/// When each child was started, became ready and began to stop; which event stopped it, and which process sent that; how it ended; how many
/// processes had to be killed; what was swept and what was refused.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray log
  nostray log k7f3 --follow
  nostray log --since 10m
  nostray log k7f3 --output
  nostray log --since 2026-01-31T12:00:00Z --json | jq 'select(.event == \"stopping\")'

JSON: a line each, with time (Unix time in milliseconds), id, event (started, ready, stopping, exited, killed, empty, swept,
unproved, refused; of a supervised child also respawning, tripped, asleep, answering) and what belongs to it.")]
pub(crate) struct Args {
    /// Only this child, by its id or the beginning of it
    #[arg(value_name = "ID")]
    id: Option<String>,

    /// Keep running, and show new entries
    #[arg(short, long)]
    follow: bool,

    /// Only what happened since then: a time ago (10m) or a moment (2026-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<u64>,

    /// Show what a supervised child printed on its stdout that is no message, and why it was not passed on; of a held daemon, all of its
    /// stdout and stderr
    #[arg(long, requires = "id", conflicts_with_all = ["follow", "since", "json"])]
    output: bool,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    if let Some(id) = args.id.as_ref().filter(|_| args.output) {
        return show_output(id);
    }
    let journals: Vec<Journal> = Place::all().iter().map(Journal::at).collect();
    let mut followers: Vec<_> = journals.iter().map(Journal::follow).collect();
    let entries = journals.iter().flat_map(Journal::read).collect();
    if show(args, entries).is_err() {
        return ExitCode::SUCCESS; // the reader has closed the pipe
    }
    if !args.follow {
        return ExitCode::SUCCESS;
    }
    loop {
        // Lines are rare, and inotify does not work on every file system, so poll.
        std::thread::sleep(Duration::from_millis(200));
        let entries = followers.iter_mut().flat_map(nostray_registry::Follower::more).collect();
        if show(args, entries).is_err() {
            return ExitCode::SUCCESS;
        }
    }
}

fn show(args: &Args, mut entries: Vec<Entry>) -> std::io::Result<()> {
    entries.retain(|entry| args.id.as_ref().is_none_or(|id| entry.id.starts_with(id.as_str())));
    entries.retain(|entry| args.since.is_none_or(|since| entry.time >= since));
    entries.sort_by_key(|entry| entry.time);
    let mut text = String::new();
    for entry in &entries {
        if args.json {
            text += &(escaped_json(&serde_json::to_string(entry).unwrap_or_default()).into_owned() + "\n");
        } else {
            let story = in_words(&entry.story);
            text += &terminal::line(&format_args!("{}  {}  {story}", moment(entry.time), entry.id));
        }
    }
    terminal::write(text.as_bytes())
}

/// Finds outputs by their files, since the output of a child is kept for a while after the child's end.
fn show_output(beginning: &str) -> ExitCode {
    let outputs: Vec<_> = Place::all().iter().flat_map(|place| Output::all(place, beginning)).collect();
    match outputs.as_slice() {
        [] => {
            terminal::complain(&format_args!("'{beginning}' has printed nothing that was not passed on"));
            ExitCode::FAILURE
        }
        [(_, output)] => terminal::print(
            output
                .read()
                .iter()
                .map(|line| terminal::line(&format_args!("{}  {}", moment(line.time), line.text)))
                .collect::<String>()
                .as_bytes(),
        ),
        many => {
            let ids: Vec<_> = many.iter().map(|(id, _)| id.as_str()).collect();
            terminal::complain(&format_args!("more than one begins with '{beginning}': {}", ids.join(", ")));
            ExitCode::FAILURE
        }
    }
}

fn in_words(story: &Story) -> String {
    match story {
        Story::Started { command, session, host } => {
            let session = session.as_ref().map_or_else(String::new, |session| format!(" for session {session}"));
            let host = host.as_ref().map_or_else(String::new, |host| format!(", by {host}"));
            format!("started{session}: {}{host}", command.join(" "))
        }
        Story::Ready { child: Some(child) } => format!("ready: child {child}"),
        Story::Ready { child: None } => "ready".to_owned(),
        Story::Forked { child: Some(child) } => format!("forked into the background: the child is {child} now"),
        Story::Forked { child: None } => "forked into the background".to_owned(),
        Story::Stopping(cause) => format!("stopping: {cause}"),
        Story::Exited { how, .. } => format!("the child {how}"),
        Story::Killed { processes } => format!("{processes} did not end when asked, and are killed"),
        Story::Empty => "nothing is left of it".to_owned(),
        Story::Swept { survivors, left: 0 } => format!("swept: {survivors} were left of it"),
        Story::Swept { survivors, left } => format!("swept: {survivors} were left of it, and {left} still are"),
        Story::Unproved { candidates } => {
            format!("not proved that nothing is left: {candidates} may be of it; `nostray sweep` names them")
        }
        Story::Respawning { generation, pause, cause } => {
            let pause = humantime::format_duration(Duration::from_millis(*pause));
            format!("{cause}; number {generation} starts in {pause}")
        }
        Story::Tripped { cause } => format!("given up for a while, since it failed too often: {cause}"),
        Story::Asleep => "asleep until the next call".to_owned(),
        Story::Answering { generation, after } => format!("number {generation} answers, {after} ms after its start"),
        Story::Attached { front, leases, session } => {
            let session = session.as_ref().map_or_else(String::new, |session| format!(" ({session})"));
            format!("held by {front}{session}; {leases} in all")
        }
        Story::Detached { front, leases, why } => format!("let go by {front}: {why}; {leases} are left"),
        Story::NeverRouted { by } => {
            format!("--route-by {by} never matched: no message of the child has named a session there")
        }
        Story::Apart { why } => format!("a child of its own for some sessions: {why}"),
        Story::Slot { slot, what } => format!("slot {slot}: {what}"),
        Story::Refused { why } => format!("refused: {why}"),
        _ => "something that a later version knows of".to_owned(),
    }
}

fn since(text: &str) -> Result<u64, String> {
    let moment = match humantime::parse_rfc3339_weak(text) {
        Ok(moment) => Some(moment),
        Err(_) => SystemTime::now().checked_sub(crate::args::duration(text)?),
    };
    let since = moment.unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).map_err(|_| "too far away".to_owned())
}
