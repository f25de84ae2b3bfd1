//! `nostray ps`: every pen, with who uses it and what its tree uses.

mod ended;
mod table;

use std::collections::HashSet;
use std::time::Duration;

use nostray_registry::{Pen, Unreadable, census};
use nostray_sys::text::escaped_json;
use nostray_terminal::fit::wrapped;
use nostray_terminal::{self as terminal, ExitCode};
use nostray_view::{Listed, Looker, SortOption, explain, json};

use crate::selection::Selection;
use crate::watch;
use crate::which::{self, ByName};
use table::Layout;

/// Show contained children, who uses them, and what their trees use
///
/// One line for each: its name, its state, who uses it (of a shared child, the hosts that hold it), the memory of the whole tree (each
/// process's proportional share), its use of the processor since its start, its age, how often it was restarted (RST, if any was), and its
/// command.
///
/// `lingering` is a shared child that no session holds, and that is kept for the next one (--linger). `orphaned` means that all of nostray's
/// own processes were killed; `nostray sweep` ends what is left. `unproved` means the same, and that some processes may or may not belong to
/// the tree; --tree and `nostray sweep` name them, and no command touches them. `frozen` means that all of nostray's own processes are
/// stopped.
///
/// Lines fit the terminal, or the variable COLUMNS; without both, and with --wide, nothing is cut.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only these: an id, a key, a slot, a session, or a name
    #[arg(value_name = "WHICH")]
    which: Vec<String>,

    #[command(flatten)]
    selection: Selection,

    /// Show holders, keepers and the tree of each child
    #[arg(long)]
    tree: bool,

    /// Show all columns, and cut nothing
    #[arg(long)]
    wide: bool,

    #[command(flatten)]
    order: SortOption,

    /// Show it again every 2 seconds, or as given, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = terminal::interval)]
    #[arg(conflicts_with = "quiet")]
    watch: Option<Duration>,

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
  nostray ps memory            (an id, a key, a slot, a session, or a name)
  nostray ps --sort memory --watch
  nostray ps --wide --all
  nostray ps -q --session chat-17 && echo \"still active\"
  nostray ps --json | jq '.pens[] | select(.memory > 500000000) | .id'

JSON: {\"version\": 1, \"pens\": [...], \"unreadable\": [{\"id\", \"why\"}]},
with --all also \"ended\": [...]. A pen has these fields. More may be added;
these stay.
  id
  name         its key, its slot, its label `name`, or short for its command
  state        starting, ready, stopping, orphaned, unproved, frozen; of a
               supervised child also asleep, backing-off, tripped
  lingering    it is shared and ready, and no session holds it
  used_by      the programs that use it: {\"program\", \"pid\", \"session\"} each
  reason       of stopping, backing-off, tripped
  status       what the child says of itself with --ready-notify
  generation   how many children there have been; null unless supervised
  restarts     one less
  shared       of a shared child: key, any_dir if set, because (why it is not
               shared with another one), and leases, {\"front\", \"session\",
               \"labels\", \"since\"} each; otherwise null
  slot
  since        Unix time in milliseconds, of the state
  started      Unix time in milliseconds
  command, cwd, session, labels
  host, front, spare, guard, child
               {\"pid\", \"start\"} each, or null; start is in kernel ticks since
               boot
  tier         cgroup, pid-namespace, subreaper; none without a child
  candidates   of unproved: processes that may be of it, like host
  eof_grace, term_grace
               milliseconds
  processes, open_files
  memory       bytes
  cpu          milliseconds
  cpu_percent  of one processor, since the start of each process; with --watch
               since the last time; null without a process
  tree         {\"pid\", \"parent\", \"command\"} each
  traffic      of a supervised or shared child, since its keeper was started:
               messages in both directions, calls that have ended, errors (of
               them, those answered with an error), and methods, {\"name\",
               \"calls\", \"errors\", \"milliseconds\"} each; otherwise null
  last_exit    how the child before this one ended: {\"time\", \"how\"}, or null
  saved        bytes of memory: sharing (each session beyond the first would
               have a child of this size), sleeping (what it had when it fell
               asleep)";

pub(crate) fn run(args: &Args) -> ExitCode {
    let mut looker = Looker::default();
    if let Some(interval) = args.watch {
        if let Some(complaint) = look(args, &mut looker).complaint(args) {
            terminal::complain(&complaint);
            return ExitCode::from(1);
        }
        return watch::watch(interval, !args.json, &mut || look(args, &mut looker).text(args));
    }
    let seen = look(args, &mut looker);
    if let Some(complaint) = seen.complaint(args) {
        terminal::complain(&complaint);
        return ExitCode::from(1);
    }
    let printed = terminal::print(seen.text(args).as_bytes());
    for (id, why) in seen.unreadable() {
        terminal::complain(&format_args!("pen {id}: {}", explain(why)));
    }
    if args.quiet && seen.children.is_empty() { ExitCode::from(1) } else { printed }
}

/// What there was to see at one moment.
struct Seen {
    /// The selected ones, in order.
    children: Vec<Listed>,
    /// How many there were to select from.
    total: usize,
    /// A word that names nothing, or a session that no child has, and what there is.
    unknown: Option<String>,
}

fn look(args: &Args, looker: &mut Looker) -> Seen {
    let all = census();
    let total = all.len();
    let (mut meant, mut unknown) = (HashSet::new(), None);
    for word in &args.which {
        match which::find(word, &all, ByName::All) {
            Ok(found) => meant.extend(found.ids().iter().cloned()),
            Err(why) => unknown = Some(why),
        }
    }
    let is_selected = |pen: &Pen| (args.which.is_empty() || meant.contains(&pen.id)) && args.selection.includes(pen);
    // A script knows that a selection may be empty.
    let is_for_script = args.json || args.quiet;
    if unknown.is_none() && !is_for_script && args.selection.session.is_some() && !all.iter().any(is_selected) {
        unknown = Some(args.selection.complaint(&all));
    }
    let selected = all.into_iter().filter(is_selected).collect();
    let mut children = match !args.quiet || args.order.sort.needs_measures() {
        true => looker.thorough(selected),
        false => selected.into_iter().map(Listed::on_record).collect(),
    };
    args.order.sort.sort(&mut children);
    Seen { children, total, unknown }
}

impl Seen {
    /// What is wrong with the words of the command.
    fn complaint(&self, args: &Args) -> Option<String> {
        self.unknown.clone().filter(|_| !args.quiet)
    }

    fn text(&self, args: &Args) -> String {
        if args.quiet {
            return self.children.iter().map(|child| terminal::line(&child.pen.id)).collect();
        }
        if args.json {
            let mut object = json::object(&self.children);
            if args.all {
                object["ended"] = ended::ended().iter().map(ended::Ended::as_json).collect();
            }
            return escaped_json(&format!("{object:#}\n")).into_owned();
        }
        let width = terminal::line_width();
        let layout = Layout {
            width: width.filter(|_| !args.wide),
            colours: terminal::colours(),
            wide: args.wide,
            tree: args.tree,
        };
        let mut text = if self.children.is_empty() {
            wrapped(&self.why_empty(), width, 0)
        } else {
            table::text(&self.children, &layout)
        };
        if args.all {
            text += &ended::table(&ended::ended(), layout.width);
        }
        text
    }

    fn why_empty(&self) -> String {
        match self.total {
            0 => "Nothing runs under nostray. `nostray wrap` puts it in front of the servers of your hosts; `nostray run` starts \
                  one."
                .to_owned(),
            1 => "No child matches. `nostray ps` without a selection shows the only one there is.".to_owned(),
            total => format!("No child matches. `nostray ps` without a selection shows all {total}."),
        }
    }

    fn unreadable(&self) -> impl Iterator<Item = (&str, &Unreadable)> {
        self.children.iter().filter_map(|child| Some((child.pen.id.as_str(), child.pen.record.as_ref().err()?)))
    }
}
