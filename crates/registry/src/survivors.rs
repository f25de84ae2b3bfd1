//! Who is left of a dead pen, and on what evidence.
//!
//! Survivors are found by proof: a recorded process that is still the same one, a member of the pen's own control group, or a
//! process that bears the pen's mark and has been handed to one of those above the pen (or to the first process), as the
//! kernel does with orphans; and whatever descends from these. A recorded number that now belongs to somebody else is nobody's
//! business.

use std::collections::{HashMap, HashSet};

use nostray_sys::cgroup::Cgroup;
use nostray_sys::identity::Identity;
use nostray_sys::proc::{self, Stat, describe};
use nostray_sys::process::{Pid, getpid};

use crate::record::{Process, Record};

/// Why a process is a survivor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// It is the very process that was recorded.
    Recorded,
    /// It is in the pen's own control group.
    Group,
    /// It bears the pen's mark, and was handed to this process, which was above the pen.
    MarkedOrphan(Pid),
    /// It descends from another survivor.
    DescendsFrom(Pid),
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Recorded => write!(f, "it is on record"),
            Self::Group => write!(f, "it is in the pen's control group"),
            Self::MarkedOrphan(reaper) => write!(f, "it bears the pen's mark and was handed to {reaper}"),
            Self::DescendsFrom(parent) => write!(f, "it descends from {parent}"),
        }
    }
}

/// A survivor.
#[derive(Debug, Clone)]
pub struct Found {
    /// Who.
    pub process: Identity,
    /// What it runs.
    pub command: String,
    /// Why it is one.
    pub evidence: Evidence,
}

/// The processes of the machine at one moment.
pub(crate) struct Machine {
    all: Vec<Stat>,
    by_pid: HashMap<Pid, usize>,
    /// Who sweeps is not swept, though it may have been started inside of a dead pen.
    ourselves: HashSet<Pid>,
}

impl Machine {
    pub(crate) fn now() -> Self {
        let all = proc::scan().unwrap_or_default();
        let by_pid: HashMap<Pid, usize> = all.iter().enumerate().map(|(at, stat)| (stat.pid, at)).collect();
        let mut machine = Self { all, by_pid, ourselves: HashSet::new() };
        let mut next = Some(getpid());
        while let Some(pid) = next.filter(|pid| machine.ourselves.insert(*pid)) {
            next = machine.stat(pid).and_then(|stat| stat.parent);
        }
        machine
    }

    fn stat(&self, pid: Pid) -> Option<&Stat> {
        self.by_pid.get(&pid).and_then(|at| self.all.get(*at))
    }

    /// Everybody who is left of a pen whose owner is dead.
    pub(crate) fn survivors(&self, record: &Record) -> Vec<Found> {
        let user = nostray_sys::process::user();
        let group = record.cgroup.as_deref().and_then(|path| Cgroup::open(path.as_ref()).ok());
        let group: HashSet<Pid> = group.map(|group| group.members().into_iter().collect()).unwrap_or_default();
        let recorded: HashSet<Identity> =
            record.keepers().into_iter().chain(record.child.and_then(Process::identity)).collect();
        let reapers = reapers_of(record);
        let mut found: Vec<Found> = Vec::new();
        for stat in self.all.iter().filter(|stat| !stat.is_zombie() && !self.ourselves.contains(&stat.pid)) {
            let evidence = if recorded.contains(&Identity::from(stat)) {
                Evidence::Recorded
            } else if group.contains(&stat.pid) {
                Evidence::Group
            } else if stat.start.0 >= record.front.start
                && let Some(reaper) = self.was_handed_to(stat, &reapers)
                && proc::user_of(stat.pid) == Some(user)
                && nostray_pen::is_marked(stat.pid, &record.id)
            {
                Evidence::MarkedOrphan(reaper)
            } else {
                continue;
            };
            found.push(Found { process: stat.into(), command: describe(stat.pid), evidence });
        }
        self.add_descendants(&mut found);
        found
    }

    /// To whom an orphan was handed, if that is one of those above the pen.
    fn was_handed_to(&self, stat: &Stat, reapers: &HashSet<Identity>) -> Option<Pid> {
        let parent = stat.parent.and_then(|parent| self.stat(parent))?;
        (parent.pid == Pid::INIT || reapers.contains(&Identity::from(parent))).then_some(parent.pid)
    }

    /// Those on their way out of whom nobody can say any more whether they were of a pen: the mark goes with the memory, and with much
    /// of that it may take long until the files go, with their locks. They can be waited for, and nothing else. To be asked after
    /// [`Machine::survivors`]: whoever had its mark no more by then is among these, or gone.
    pub(crate) fn leaving(&self, record: &Record) -> Vec<Identity> {
        let (user, reapers) = (nostray_sys::process::user(), reapers_of(record));
        let may_be_its = |stat: &&Stat| {
            stat.start.0 >= record.front.start
                && self.was_handed_to(stat, &reapers).is_some()
                && proc::user_of(stat.pid) == Some(user)
        };
        let is_leaving = |who: &Identity| {
            let now = Stat::of(who.pid).filter(|now| now.start == who.start);
            now.is_some_and(|now| now.is_ending() && !now.is_zombie())
        };
        self.all.iter().filter(may_be_its).map(Identity::from).filter(is_leaving).collect()
    }

    fn add_descendants(&self, found: &mut Vec<Found>) {
        let mut seen: HashSet<Pid> = found.iter().map(|found| found.process.pid).collect();
        seen.extend(&self.ourselves);
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|found| found.process.pid) {
            for stat in self.all.iter().filter(|stat| stat.parent == Some(parent) && !stat.is_zombie()) {
                if seen.insert(stat.pid) {
                    let evidence = Evidence::DescendsFrom(parent);
                    found.push(Found { process: stat.into(), command: describe(stat.pid), evidence });
                }
            }
            next += 1;
        }
    }
}

/// Those above a pen, to whom the kernel hands its orphans.
fn reapers_of(record: &Record) -> HashSet<Identity> {
    record.ancestors.iter().copied().filter_map(Process::identity).collect()
}
