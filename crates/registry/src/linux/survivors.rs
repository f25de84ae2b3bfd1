//! Finds what is left of a dead pen, on evidence, and signals it.
//!
//! Survivors are found by proof: a recorded process that is still the same one, a member of the pen's own control group, or a
//! process that bears the pen's mark and has been handed to a subreaper above the pen (or to the first process), as the
//! kernel does with orphans; and all descendants of these. A recorded pid that now belongs to another process is left
//! alone.
//!
//! What has cleared its environment is not found so. The proof that no such process is left is that there is no
//! *candidate*: an orphan that was handed on since the pen was started, and of which no fact says that it is a stranger. A candidate is
//! named and never signalled, and the pen stays on record.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use nostray_sys::Signal;
use nostray_sys::cgroup::Cgroup;
use nostray_sys::identity::{Identity, wait_for_end};
use nostray_sys::proc::{self, Stat};
use nostray_sys::process::{Pid, getpid};

use crate::record::{Process, Record};
use nostray_sys::secrets::describe;

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
    /// No proof: it was handed to this process after the pen was started, and bears no mark.
    Orphan(Pid),
    /// No proof: it bears the pen's mark, but its parent, which has this number, cannot be looked at.
    HiddenParent(Pid),
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Recorded => write!(f, "it is on record"),
            Self::Group => write!(f, "it is in the pen's control group"),
            Self::MarkedOrphan(reaper) => write!(f, "it bears the pen's mark and was handed to {reaper}"),
            Self::DescendsFrom(parent) => write!(f, "it descends from {parent}"),
            Self::Orphan(reaper) => write!(f, "it was handed to {reaper} since, and bears no mark"),
            Self::HiddenParent(parent) => {
                write!(f, "it bears the pen's mark, but its parent {parent} cannot be looked at")
            }
        }
    }
}

/// A survivor.
#[derive(Debug, Clone)]
pub struct Found {
    /// The process.
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
    /// The sweeper and its ancestors are not swept, though they may have been started inside a dead pen.
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

    /// Every process that is left of a pen whose owner is dead.
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

    /// The process that an orphan was handed to, if that is one of those above the pen. The first process is known by its number: where /proc hides
    /// other users' processes, there is nothing else to know it by.
    fn was_handed_to(&self, stat: &Stat, reapers: &HashSet<Identity>) -> Option<Pid> {
        let parent = stat.parent?;
        let is_above = || self.stat(parent).is_some_and(|parent| reapers.contains(&Identity::from(parent)));
        (parent == Pid::INIT || is_above()).then_some(parent)
    }

    /// Processes that may be of a pen whose owner is dead and of which no survivor is left: nothing proves it, and nothing proves the
    /// opposite. `keepers` are nostray's own processes, of any pen.
    pub(crate) fn candidates(&self, record: &Record, keepers: &HashSet<Identity>) -> Vec<Found> {
        // A process leaves neither a pid namespace, nor (by itself) a control group of its pen's own. And a record without a tree has the
        // records of its pens beside it.
        if record.tier != "subreaper" {
            return Vec::new();
        }
        let known: HashSet<Identity> = record.candidates.iter().copied().filter_map(Process::identity).collect();
        // What was none the last time is none now, unless a candidate has ended since: it may have been its parent.
        let ended = record.candidates.iter().filter(|one| one.identity().is_none_or(|one| !one.is_alive()));
        let since = match (known.is_empty(), ended.map(|one| one.start).min()) {
            (true, _) => record.front.start,
            (false, Some(start)) => start,
            (false, None) => u64::MAX,
        };
        let reapers = self.known_reapers(record);
        let user = nostray_sys::process::user();
        let mut found = Vec::new();
        for stat in self.all.iter().filter(|stat| !stat.is_zombie() && !self.ourselves.contains(&stat.pid)) {
            let process = Identity::from(stat);
            let (Some(parent), true) = (stat.parent, stat.start.0 >= since || known.contains(&process)) else {
                continue;
            };
            let is_hidden = || parent != Pid::INIT && self.stat(parent).is_none() && Stat::of(parent).is_none();
            let evidence = if reapers.contains(&parent) {
                Evidence::Orphan(parent)
            } else if is_hidden() && nostray_pen::is_marked(stat.pid, &record.id) {
                Evidence::HiddenParent(parent)
            } else {
                continue;
            };
            if proc::real_user_of(stat.pid) == Some(user)
                && !self.is_stranger(stat, record)
                && !keepers.contains(&process)
            {
                found.push(Found { process, command: describe(stat.pid), evidence });
            }
        }
        found.retain(|one| one.process.is_alive());
        found
    }

    /// The ancestors of a pen that get orphans. The kernel does not say which process is a subreaper, so it is known only of the first
    /// process, of a service manager, of nostray's own, and of a process with a child from another session, which it cannot have started.
    fn known_reapers(&self, record: &Record) -> HashSet<Pid> {
        let above = reapers_of(record);
        let has_got_orphans = |reaper: &Stat| {
            self.all.iter().any(|child| {
                child.parent == Some(reaper.pid)
                    && child.session != reaper.session
                    && child.session != Some(child.pid)
            })
        };
        let is_reaper = |stat: &&Stat| {
            above.contains(&Identity::from(*stat))
                && (stat.name == "systemd" || stat.name.starts_with("nostray") || has_got_orphans(stat))
        };
        self.all.iter().filter(is_reaper).map(|stat| stat.pid).chain([Pid::INIT]).collect()
    }

    /// Whether a process is certainly not of this pen.
    fn is_stranger(&self, stat: &Stat, record: &Record) -> bool {
        // A process can make a session, and cannot join one.
        let number = stat.session.map_or(0, |session| session.as_raw_nonzero().get());
        let leader = stat.session.and_then(|session| self.stat(session));
        let is_older = leader.map_or(number == 0, |leader| leader.start.0 < record.front.start);
        if is_older && record.sid.is_some_and(|sid| sid != number) {
            return true;
        }
        // A service manager has put it into a unit of its own, and sees to its end.
        let is_below = |group: &str, around: &str| {
            group
                .strip_prefix(around.trim_end_matches('/'))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let (Some(around), Some(group)) = (&record.around, proc::group_of(stat.pid))
            && !group.starts_with("/..")
            && !is_below(&group, around)
        {
            return true;
        }
        // The kernel hands the limit of a pen's child down to all that it starts.
        if record.limited && nostray_pen::is_certainly_of_no_such_pen(stat.pid, &record.id) {
            return true;
        }
        // It is of another pen, which has a record of its own.
        let mark = proc::environment_of(stat.pid, nostray_pen::MARK).unwrap_or_default();
        let is_of_another = !mark.is_empty() && !nostray_pen::is_marked(stat.pid, &record.id);
        is_of_another || is_nostray(stat)
    }

    /// Exiting processes that may have been of a pen: the mark goes with the memory, and a large process may hold its files and locks long
    /// after that. They can only be waited for. To be called after [`Machine::survivors`]: a process that had lost its mark by then is
    /// among these, or gone.
    pub(crate) fn leaving(&self, record: &Record) -> Vec<Identity> {
        let (user, reapers) = (nostray_sys::process::user(), reapers_of(record));
        let may_be_its = |stat: &&Stat| {
            stat.start.0 >= record.front.start
                && self.was_handed_to(stat, &reapers).is_some()
                && proc::user_of(stat.pid) == Some(user)
        };
        let is_leaving = |process: &Identity| {
            let now = Stat::of(process.pid).filter(|now| now.start == process.start);
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

/// A broker, a sweep, or a front: of this program, or of another one with the library in it.
fn is_nostray(stat: &Stat) -> bool {
    let is_ours = |program: &String| program == "nostray" || Some(program) == proc::program_of(getpid()).as_ref();
    stat.name.starts_with("nostray") && proc::program_of(stat.pid).is_some_and(|program| is_ours(&program))
}

/// The ancestors of a pen, to which the kernel hands its orphans.
fn reapers_of(record: &Record) -> HashSet<Identity> {
    record.ancestors.iter().copied().filter_map(Process::identity).collect()
}

/// Signals processes that were found, each by its identity.
pub(crate) fn signal_found(found: &[Found], signal: Signal) {
    signal_some(found, signal, |_| true);
}

/// Signals some of the processes that were found.
pub(crate) fn signal_some(found: &[Found], signal: Signal, is_meant: impl Fn(&Found) -> bool) {
    for one in found.iter().filter(|one| is_meant(one)) {
        one.process.signal(signal, |_| is_still_meant(one, found)).ok();
    }
}

/// Whether a survivor by descent is still a child of the survivor that it was found by. A scan of `/proc` is no picture of one moment, and
/// pids may have been reused during it. In doubt the process is left to the next round, which scans again.
fn is_still_meant(one: &Found, found: &[Found]) -> bool {
    let Evidence::DescendsFrom(parent) = one.evidence else { return true };
    let above = found.iter().find(|other| other.process.pid == parent);
    let now = Stat::of(one.process.pid).and_then(|stat| stat.parent);
    above.is_some_and(|above| now == Some(parent) && above.process.is_alive())
}

/// Waits until all of these have ended, but not beyond `deadline`.
pub(crate) fn wait_for_found(found: &[Found], deadline: Instant) {
    wait_for_end(found.iter().map(|one| &one.process), deadline);
}
