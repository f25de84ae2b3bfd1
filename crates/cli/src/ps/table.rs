//! The table for people: narrow enough for a terminal, or with all columns.

use nostray_registry::Record;
use nostray_sys::proc::memory_of;
use nostray_terminal::fit::wrapped;
use nostray_terminal::fitted::{Cell, Column, FittedTable};
use nostray_terminal::line;
use nostray_terminal::table::{ago, bytes, percent, short_span, span};

use nostray_view::{Listed, tree};

/// In place of a number that there is none of.
const NONE: &str = "-";
/// Terminals from this width on have room for sessions, and for whole headings.
const ROOMY: usize = 120;
/// The least and the most that a column gets on a terminal without room for all. With the widest numbers and states, the least of all
/// make 80.
const NAME: (usize, usize) = (11, 20);
const USED_BY: (usize, usize) = (12, 20);
const SESSION: (usize, usize) = (12, 24);
const COMMAND: (usize, usize) = (7, 10);

/// How to show it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// No line is wider.
    pub(super) width: Option<usize>,
    pub(super) colours: bool,
    /// With all columns.
    pub(super) wide: bool,
    /// With the processes of each child below it.
    pub(super) tree: bool,
}

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Id,
    Name,
    State,
    /// For how long it has been in its state.
    For,
    UsedBy,
    Session,
    Slot,
    /// The pids of those who use it.
    Host,
    Processes,
    Memory,
    Files,
    Cpu,
    /// Processor time.
    Time,
    Age,
    Restarts,
    Tier,
    Command,
}

pub(super) fn text(children: &[Listed], layout: &Layout) -> String {
    let fields = fields(children, layout);
    let mut table = FittedTable::new(fields.iter().map(|field| field.column(layout)).collect());
    for child in children {
        table.row(fields.iter().map(|field| field.cell(child, layout)).collect());
        if layout.tree {
            tree::lines(child, layout.width, &|stat| memory_of(stat.pid)).iter().for_each(|line| table.line(line));
        }
    }
    table.render(layout.width, layout.colours) + &apart(children, layout.width)
}

fn fields(children: &[Listed], layout: &Layout) -> Vec<Field> {
    use Field::*;
    if layout.wide {
        return vec![
            Id, Name, State, For, UsedBy, Session, Slot, Host, Processes, Memory, Files, Cpu, Time, Age, Restarts,
            Tier, Command,
        ];
    }
    let has_room = layout.width.is_none_or(|width| width >= ROOMY);
    let with_sessions = has_room && children.iter().any(|child| !child.session_names().is_empty());
    let with_restarts = children.iter().any(|child| child.restarts() > Some(0));
    let mut fields = vec![Id, Name, State, UsedBy];
    fields.extend(with_sessions.then_some(Session));
    fields.extend([Memory, Cpu, Age]);
    fields.extend(with_restarts.then_some(Restarts));
    fields.push(Command);
    fields
}

impl Field {
    fn column(self, layout: &Layout) -> Column {
        let is_narrow = layout.width.is_some_and(|width| width < ROOMY);
        match self {
            Self::Id => Column::whole("ID"),
            Self::Name => Column::giving_way("NAME", NAME.0, NAME.1),
            Self::State => Column::whole("STATE"),
            Self::For => Column::number("FOR"),
            Self::UsedBy => Column::giving_way("USED BY", USED_BY.0, USED_BY.1),
            Self::Session => Column::giving_way("SESSION", SESSION.0, SESSION.1),
            Self::Slot => Column::whole("SLOT"),
            Self::Host => Column::whole("HOST"),
            Self::Processes => Column::number("PROCS"),
            Self::Memory => Column::number("MEM"),
            Self::Files => Column::number("FILES"),
            Self::Cpu => Column::number("CPU"),
            Self::Time => Column::number("TIME"),
            Self::Age => Column::number("AGE"),
            Self::Restarts => Column::number(if is_narrow { "RST" } else { "RESTARTS" }),
            Self::Tier => Column::whole("TIER"),
            Self::Command => Column::giving_way("COMMAND", COMMAND.0, COMMAND.1),
        }
    }

    fn cell(self, child: &Listed, layout: &Layout) -> Cell {
        let of_record = |tell: &dyn Fn(&Record) -> String| child.record().map_or_else(|| NONE.to_owned(), tell);
        let measured = |tell: &dyn Fn() -> String| if child.is_running() { tell() } else { NONE.to_owned() };
        let tally = &child.tally;
        let text = match self {
            Self::Id => child.pen.id.clone(),
            Self::Name if child.name.is_empty() => NONE.to_owned(),
            Self::Name => child.name.clone(),
            Self::State => return Cell::inked(child.condition.word(), Some(child.condition.ink())),
            Self::For => of_record(&|record| span(ago(record.since))),
            Self::UsedBy => return with_shorter(&child.programs(), NONE),
            Self::Session => return with_shorter(&child.session_names(), ""),
            Self::Slot => child.record().and_then(|record| record.slot.clone()).unwrap_or_default(),
            Self::Host => pids(child).join(", "),
            Self::Processes => measured(&|| tally.processes.to_string()),
            Self::Memory => measured(&|| bytes(tally.memory)),
            Self::Files => measured(&|| tally.files.to_string()),
            Self::Cpu => child.cpu_percent.map_or_else(|| NONE.to_owned(), percent),
            Self::Time => measured(&|| span(tally.cpu)),
            Self::Age if layout.wide => of_record(&|record| span(ago(record.started))),
            Self::Age => of_record(&|record| short_span(ago(record.started))),
            Self::Restarts => child.restarts().filter(|times| *times > 0).map_or_else(String::new, |n| n.to_string()),
            Self::Tier => of_record(&|record| record.tier.clone()),
            Self::Command => child.record().map_or_else(String::new, |record| record.command.join(" ")),
        };
        text.into()
    }
}

/// The processes of the programs that use it, each once.
fn pids(child: &Listed) -> Vec<String> {
    let mut pids: Vec<String> = Vec::new();
    for pid in child.used_by.iter().map(|one| one.process.pid.to_string()) {
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    pids
}

/// A list: `claude ×3, hermes`. Where that has no room, its beginning and how many more there are: `claude ×3 +1`.
fn with_shorter(texts: &[String], none: &str) -> Cell {
    if texts.is_empty() {
        return none.to_owned().into();
    }
    let shorter = |shown: usize| format!("{} +{}", texts[..shown].join(", "), texts.len() - shown);
    Cell::from(texts.join(", ")).with_shorter((1..texts.len()).rev().map(shorter))
}

/// Why there is more than one shared child of a command.
fn apart(children: &[Listed], width: Option<usize>) -> String {
    let shared = |child: &&Listed| child.record().is_some_and(|record| record.shared.is_some());
    let shared: Vec<&Listed> = children.iter().filter(shared).collect();
    let has_company = |child: &Listed| {
        let is_another = |other: &&Listed| other.pen.id != child.pen.id;
        let command = |child: &Listed| child.record().map(|record| record.command.clone());
        shared.iter().filter(|other| is_another(other)).any(|other| command(other) == command(child))
    };
    let told = |child: &&Listed| {
        let why = child.record()?.shared.as_ref()?.because.as_ref().filter(|_| has_company(child))?;
        let told = line(&format_args!("{} is a child of its own: {why}", child.pen.id));
        Some(wrapped(told.trim_end(), width, 2))
    };
    shared.iter().filter_map(told).collect()
}
