//! One child as it is listed: what is on record of it, who uses it, and what its tree uses.

use std::cmp::Reverse;

use nostray_registry::{Hosts, Pen, Record, State, Tally, UsedBy};
use nostray_terminal::Ink;

use super::meter::Meter;

/// One child.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) pen: Pen,
    pub(super) condition: Condition,
    pub(super) name: String,
    pub(super) used_by: Vec<UsedBy>,
    pub(super) tally: Tally,
    /// Of one processor; none without a process.
    pub(super) cpu_percent: Option<f64>,
}

impl Listed {
    /// As it is on record, which is quick.
    pub(super) fn on_record(pen: Pen) -> Self {
        let condition = Condition::of(&pen);
        let name = pen.record.as_ref().map(Record::name).unwrap_or_default();
        Self { pen, condition, name, used_by: Vec::new(), tally: Tally::default(), cpu_percent: None }
    }

    /// With who uses it, and what it uses.
    pub(super) fn measured(self, hosts: &mut Hosts, meter: &mut Meter) -> Self {
        let (used_by, tally, cpu_percent) = (hosts.of(&self.pen), self.pen.tally(), meter.percent(&self.pen.tree));
        Self { used_by, tally, cpu_percent, ..self }
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.pen.record.as_ref().ok()
    }

    /// Whether it has processes, so that what they use is a number.
    pub(super) fn is_running(&self) -> bool {
        self.tally.processes > 0
    }

    /// How often it was started again; none if it cannot be.
    pub(super) fn restarts(&self) -> Option<u64> {
        self.record()?.generation.map(|generation| generation.saturating_sub(1))
    }
}

/// The state of a child as people are told it. Those that need a person come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    Unreadable,
    Orphaned,
    Unproved,
    Frozen,
    Tripped,
    BackingOff,
    Stopping,
    Starting,
    Ready,
    Lingering,
    Asleep,
}

impl Condition {
    fn of(pen: &Pen) -> Self {
        match &pen.record {
            Ok(record) if !pen.owner_alive && !record.candidates.is_empty() => Self::Unproved,
            _ if !pen.owner_alive => Self::Orphaned,
            Ok(_) if pen.is_frozen() => Self::Frozen,
            Ok(record) if record.is_lingering() => Self::Lingering,
            Ok(record) => match record.state {
                State::Starting => Self::Starting,
                State::Ready => Self::Ready,
                State::Stopping { .. } => Self::Stopping,
                State::Asleep => Self::Asleep,
                State::BackingOff { .. } => Self::BackingOff,
                State::Tripped { .. } => Self::Tripped,
            },
            Err(_) => Self::Unreadable,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Orphaned => "orphaned",
            Self::Unproved => "unproved",
            Self::Frozen => "frozen",
            Self::Tripped => "tripped",
            Self::BackingOff => "backing-off",
            Self::Stopping => "stopping",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Lingering => "lingering",
            Self::Asleep => "asleep",
        }
    }

    /// The word that scripts know. They see that a child is lingering in a field of its own.
    pub(super) fn word_for_scripts(self) -> &'static str {
        if self == Self::Lingering { Self::Ready.word() } else { self.word() }
    }

    pub(super) fn ink(self) -> Ink {
        match self {
            Self::Unreadable | Self::Orphaned | Self::Unproved | Self::Frozen | Self::Tripped => Ink::Red,
            Self::BackingOff | Self::Stopping | Self::Starting => Ink::Yellow,
            Self::Ready => Ink::Green,
            Self::Lingering => Ink::Cyan,
            Self::Asleep => Ink::Dim,
        }
    }
}

/// What children are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Sort {
    /// The oldest first
    #[default]
    Started,
    /// By name
    Name,
    /// The largest first
    Memory,
    /// The busiest first
    Cpu,
    /// The youngest first
    Age,
    /// Those that need a person first
    State,
    /// The most often restarted first
    Restarts,
}

impl Sort {
    /// Whether what a child uses decides its place.
    pub(super) fn needs_measures(self) -> bool {
        matches!(self, Self::Memory | Self::Cpu)
    }

    pub(super) fn sort(self, children: &mut [Listed]) {
        // A record that cannot be read tells no time; it comes last. The sorts below keep this order among equals.
        let started = |child: &Listed| child.record().map_or(u64::MAX, |record| record.started);
        children.sort_by(|a, b| (started(a), &a.pen.id).cmp(&(started(b), &b.pen.id)));
        match self {
            Self::Started => {}
            Self::Name => children.sort_by(|a, b| (a.name.is_empty(), &a.name).cmp(&(b.name.is_empty(), &b.name))),
            Self::Memory => children.sort_by_key(|child| Reverse(child.tally.memory)),
            Self::Cpu => {
                let percent = |child: &Listed| child.cpu_percent.unwrap_or(-1.0);
                children.sort_by(|a, b| percent(b).total_cmp(&percent(a)));
            }
            Self::Age => children.sort_by_key(|child| Reverse(child.record().map(|record| record.started))),
            Self::State => children.sort_by_key(|child| child.condition),
            Self::Restarts => children.sort_by_key(|child| Reverse(child.restarts())),
        }
    }
}
