//! One child as it is listed: what is on record of it, who uses it, and what its tree uses.

use std::cmp::Reverse;

use nostray_registry::{Pen, Record, State, Tally, TrafficSeen, Unreadable, UsedBy};
use nostray_terminal::Ink;

use crate::saved::Saved;

/// One child.
#[derive(Debug)]
pub struct Listed {
    /// What is on record of it, and its processes.
    pub pen: Pen,
    /// Its state, as people are told it.
    pub condition: Condition,
    /// What people call it.
    pub name: String,
    /// The programs that use it.
    pub used_by: Vec<UsedBy>,
    /// What its tree uses.
    pub tally: Tally,
    /// Of one processor; none without a process.
    pub cpu_percent: Option<f64>,
    /// What has passed between it and its sessions, if that is counted.
    pub traffic: Option<TrafficSeen>,
}

impl Listed {
    /// As it is on record, which is quick.
    #[must_use]
    pub fn on_record(pen: Pen) -> Self {
        let condition = Condition::of(&pen);
        let name = pen.record.as_ref().map(Record::name).unwrap_or_default();
        let (used_by, tally) = (Vec::new(), Tally::default());
        Self { pen, condition, name, used_by, tally, cpu_percent: None, traffic: None }
    }

    /// What is on record, if that can be read.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        self.pen.record.as_ref().ok()
    }

    /// Whether it has processes, so that what they use is a number.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.tally.processes > 0
    }

    /// How often it was started again; none if it cannot be.
    #[must_use]
    pub fn restarts(&self) -> Option<u64> {
        self.record()?.generation.map(|generation| generation.saturating_sub(1))
    }

    /// How many sessions use it: of a shared child, those that hold it; of another one, the one of its host.
    #[must_use]
    pub fn sessions(&self) -> usize {
        match self.record().and_then(|record| record.shared.as_ref()) {
            Some(shared) => shared.leases.len(),
            None => usize::from(!self.used_by.is_empty()),
        }
    }

    /// The programs that use it, each once, those with the most processes first: `claude ×3`, `hermes`.
    #[must_use]
    pub fn programs(&self) -> Vec<String> {
        let mut counted: Vec<(&str, usize)> = Vec::new();
        for one in &self.used_by {
            match counted.iter_mut().find(|(program, _)| *program == one.program) {
                Some((_, times)) => *times += 1,
                None => counted.push((&one.program, 1)),
            }
        }
        counted.sort_by_key(|(program, times)| (std::cmp::Reverse(*times), *program));
        let told = |(program, times): (&str, usize)| {
            if times > 1 { format!("{program} ×{times}") } else { program.to_owned() }
        };
        counted.into_iter().map(told).collect()
    }

    /// The names of the sessions that use it, each once.
    #[must_use]
    pub fn session_names(&self) -> Vec<String> {
        let Some(record) = self.record() else { return Vec::new() };
        let of_leases =
            record.shared.iter().flat_map(|shared| &shared.leases).filter_map(|lease| lease.session.as_ref());
        let mut names: Vec<String> = Vec::new();
        for name in of_leases.chain(&record.session) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// What sharing it, or putting it to sleep, saves.
    #[must_use]
    pub fn saved(&self) -> Saved {
        let Some(record) = self.record() else { return Saved::default() };
        let sharing = record.shared.as_ref().map_or(1, |shared| shared.leases.len());
        match self.condition {
            Condition::Asleep => Saved::by(sharing, record.slept_with.unwrap_or(0), true),
            _ => Saved::by(sharing, self.tally.memory, false),
        }
    }
}

/// The state of a child as people are told it. Those that need a person come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Its record cannot be read.
    Unreadable,
    /// All of nostray's own processes were killed.
    Orphaned,
    /// The same, and some processes may or may not belong to it.
    Unproved,
    /// All of nostray's own processes are stopped.
    Frozen,
    /// It failed too often.
    Tripped,
    /// It ended by itself, and is started again soon.
    BackingOff,
    /// Its tree is being torn down.
    Stopping,
    /// It is being started.
    Starting,
    /// It runs.
    Ready,
    /// It is shared, and no session holds it.
    Lingering,
    /// The next call starts it.
    Asleep,
}

impl Condition {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Unreadable,
        Self::Orphaned,
        Self::Unproved,
        Self::Frozen,
        Self::Tripped,
        Self::BackingOff,
        Self::Stopping,
        Self::Starting,
        Self::Ready,
        Self::Lingering,
        Self::Asleep,
    ];

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

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
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
    #[must_use]
    pub fn word_for_scripts(self) -> &'static str {
        if self == Self::Lingering { Self::Ready.word() } else { self.word() }
    }

    /// Its colour.
    #[must_use]
    pub fn ink(self) -> Ink {
        match self {
            Self::Unreadable | Self::Orphaned | Self::Unproved | Self::Frozen | Self::Tripped => Ink::Red,
            Self::BackingOff | Self::Stopping | Self::Starting => Ink::Yellow,
            Self::Ready => Ink::Green,
            Self::Lingering => Ink::Cyan,
            Self::Asleep => Ink::Dim,
        }
    }
}

/// The option by which a user chooses the order.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct SortOption {
    /// Sort by name, memory, cpu, age, state or restarts, not by start
    ///
    /// By memory, cpu and restarts, the highest come first; by age, the youngest; by state, those that need you.
    #[arg(
        long,
        value_name = "KEY",
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub sort: Sort,
}

/// What children are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
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
    #[must_use]
    pub fn needs_measures(self) -> bool {
        matches!(self, Self::Memory | Self::Cpu)
    }

    /// Sorts them so.
    pub fn sort(self, children: &mut [Listed]) {
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

/// What is wrong with a record, and what to do.
#[must_use]
pub fn explain(why: &Unreadable) -> String {
    match why {
        Unreadable::Gone => "it has just ended".to_owned(),
        Unreadable::OtherVersion(version) => {
            format!("its record is of version {version}; use the nostray that started it")
        }
        Unreadable::Damaged(what) => format!("its record is damaged ({what}); `nostray sweep` sets it aside"),
        Unreadable::NotOurs(what) => format!("its record {what}; it is left alone"),
    }
}
