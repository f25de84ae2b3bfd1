//! `nostray log`: the journal.

use std::time::{SystemTime, UNIX_EPOCH};

use nostray_registry::{Entry, Followers, Output, Place, census};
use nostray_sys::text::{escaped, escaped_json};
use nostray_terminal::{self as terminal, ExitCode, Ink, Zone};
use nostray_view::story_text;

use crate::following::Following;
use crate::which::{Entries, unknown_session};

/// Show what happened to children, and why
///
/// When each child was started, became ready and began to stop; which event stopped it, and which process sent that; how it ended; how many
/// processes had to be killed; what was swept and what was refused.
///
/// On a terminal, times are local; otherwise they are in UTC.
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
ready, not-executed, stopping, exited, killed, empty, swept, unproved, refused;
of a supervised child also respawning, tripped, asleep, answering; of a shared
child also attached, detached, unheld) and what belongs to it.")]
pub(crate) struct Args {
    /// Only this: an id or its beginning, a key, a slot, a session, or a name as `ps` shows it
    #[arg(value_name = "WHICH")]
    which: Option<String>,

    /// Only children of this session, and shared children that it has held
    #[arg(long, value_name = "SESSION", conflicts_with = "which")]
    session: Option<String>,

    /// Keep running, and show new entries
    #[arg(short, long)]
    follow: bool,

    /// Only what happened since then: a time ago (10m) or a moment (2026-01-31T12:00:00Z)
    ///
    /// A moment may have an offset, as `log` shows it on a terminal (2026-01-31T13:00:00+01:00). Without one it is in UTC.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<u64>,

    /// Show what a supervised child printed on its stdout that is no message, and why it was not passed on; of a shared child also its
    /// stderr; of a held daemon, all of its stdout and stderr
    #[arg(long, requires = "which", conflicts_with_all = ["follow", "since", "json"])]
    output: bool,

    /// Show times in UTC on a terminal, too
    #[arg(long)]
    utc: bool,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

/// How entries look.
#[derive(Debug, Clone, Copy)]
struct Style {
    zone: Zone,
    in_colour: bool,
}

impl Style {
    fn of(args: &Args) -> Self {
        let zone = if args.utc { Zone::Utc } else { Zone::of_output() };
        Self { zone, in_colour: terminal::colours() }
    }

    fn time(self, milliseconds: u64) -> String {
        Ink::Dim.paint(&self.zone.show(milliseconds), self.in_colour)
    }

    fn entry(self, entry: &Entry) -> String {
        let words = story_text::of(&entry.story);
        let head = words.ink.paint(&escaped(&words.head), self.in_colour);
        format!("{}  {}  {head}{}\n", self.time(entry.time), escaped(&entry.id), escaped(&words.tail))
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let style = Style::of(args);
    let mut followers = Followers::from_start();
    let entries = followers.more();
    let about = About::new(args, &entries);
    if let Some(word) = args.which.as_ref().filter(|_| args.output) {
        return show_output(word, about, style);
    }
    let mut about = match about {
        Ok(about) => about,
        Err(why) => {
            terminal::complain(&why);
            return ExitCode::FAILURE;
        }
    };
    if show(args, style, &mut about, entries).is_err() {
        return ExitCode::SUCCESS; // the reader has closed the pipe
    }
    if !args.follow {
        return ExitCode::SUCCESS;
    }
    let mut following = Following::new();
    loop {
        if show(args, style, &mut about, followers.more()).is_err() || !following.wait() {
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

fn show(args: &Args, style: Style, about: &mut About, mut entries: Vec<Entry>) -> std::io::Result<()> {
    entries.retain(|entry| about.includes(entry));
    entries.retain(|entry| args.since.is_none_or(|since| entry.time >= since));
    let mut text = String::new();
    for entry in &entries {
        if args.json {
            text += &(escaped_json(&serde_json::to_string(entry).unwrap_or_default()).into_owned() + "\n");
        } else {
            text += &style.entry(entry);
        }
    }
    if text.is_empty() { Ok(()) } else { terminal::write(text.as_bytes()) }
}

/// Finds outputs by their files, since the output of a child is kept for a while after the child's end.
fn show_output(word: &str, about: Result<About, String>, style: Style) -> ExitCode {
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
                .map(|line| format!("{}  {}\n", style.time(line.time), escaped(&line.text)))
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

fn since(text: &str) -> Result<u64, String> {
    if let Some(moment) = terminal::read_moment(text) {
        return Ok(moment);
    }
    let moment = SystemTime::now().checked_sub(crate::args::duration(text)?).unwrap_or(UNIX_EPOCH);
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).map_err(|_| "too far away".to_owned())
}
