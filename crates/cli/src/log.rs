//! `nostray log`: the journal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nostray_registry::{Entry, Journal, Output, Place, Story, census};
use nostray_sys::text::escaped_json;
use nostray_terminal::table::moment;
use nostray_terminal::{self as terminal, ExitCode};

use crate::which::{Entries, unknown_session};

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
  nostray log memory           (an id, a key, a slot, a session, or a name)
  nostray log --since 2026-01-31T12:00:00Z --json | jq .event

JSON: a line each, with time (Unix time in milliseconds), id, event (started,
ready, stopping, exited, killed, empty, swept, unproved, refused; of a
supervised child also respawning, tripped, asleep, answering) and what belongs
to it.")]
pub(crate) struct Args {
    /// Only this: an id or its beginning, a key, a slot, a session, or a name as `ps` shows it
    #[arg(value_name = "WHICH")]
    which: Option<String>,

    /// Only children of this session
    #[arg(long, value_name = "SESSION", conflicts_with = "which")]
    session: Option<String>,

    /// Keep running, and show new entries
    #[arg(short, long)]
    follow: bool,

    /// Only what happened since then: a time ago (10m) or a moment (2026-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<u64>,

    /// Show what a supervised child printed on its stdout that is no message, and why it was not passed on; of a held daemon, all of its
    /// stdout and stderr
    #[arg(long, requires = "which", conflicts_with_all = ["follow", "since", "json"])]
    output: bool,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let journals: Vec<Journal> = Place::all().iter().map(Journal::at).collect();
    let mut followers: Vec<_> = journals.iter().map(Journal::follow).collect();
    let mut entries: Vec<Entry> = journals.iter().flat_map(Journal::read).collect();
    entries.sort_by_key(|entry| entry.time);
    let about = About::new(args, &entries);
    if let Some(word) = args.which.as_ref().filter(|_| args.output) {
        return show_output(word, about);
    }
    let mut about = match about {
        Ok(about) => about,
        Err(why) => {
            terminal::complain(&why);
            return ExitCode::FAILURE;
        }
    };
    if show(args, &mut about, entries).is_err() {
        return ExitCode::SUCCESS; // the reader has closed the pipe
    }
    if !args.follow {
        return ExitCode::SUCCESS;
    }
    loop {
        // Lines are rare, and inotify does not work on every file system, so poll.
        std::thread::sleep(Duration::from_millis(200));
        let entries = followers.iter_mut().flat_map(nostray_registry::Follower::more).collect();
        if show(args, &mut about, entries).is_err() {
            return ExitCode::SUCCESS;
        }
    }
}

/// What the entries are to be about; everything if nothing is said.
struct About(Option<Entries>);

impl About {
    fn new(args: &Args, entries: &[Entry]) -> Result<Self, String> {
        let all = census();
        let about = match (&args.which, &args.session) {
            (Some(word), _) => Some(Entries::about(word, &all, entries)?),
            (None, Some(session)) => {
                Some(Entries::of_session(session, &all, entries).ok_or_else(|| unknown_session(session, &all))?)
            }
            (None, None) => None,
        };
        Ok(Self(about))
    }

    fn includes(&mut self, entry: &Entry) -> bool {
        self.0.as_mut().is_none_or(|entries| entries.include(entry))
    }
}

fn show(args: &Args, about: &mut About, mut entries: Vec<Entry>) -> std::io::Result<()> {
    entries.sort_by_key(|entry| entry.time);
    entries.retain(|entry| about.includes(entry));
    entries.retain(|entry| args.since.is_none_or(|since| entry.time >= since));
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
fn show_output(word: &str, about: Result<About, String>) -> ExitCode {
    let of = |id: &str| Place::all().iter().flat_map(|place| Output::all(place, id)).collect::<Vec<_>>();
    let mut outputs = of(word);
    if outputs.is_empty() {
        match about {
            Ok(about) => outputs = about.0.iter().flat_map(Entries::ids).flat_map(|id| of(id)).collect(),
            Err(why) => {
                terminal::complain(&why);
                return ExitCode::FAILURE;
            }
        }
    }
    match outputs.as_slice() {
        [] => {
            terminal::complain(&format_args!("'{word}' has printed nothing that was not passed on"));
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
            terminal::complain(&format_args!("'{word}' means more than one: {}", ids.join(", ")));
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
