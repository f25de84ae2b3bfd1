//! The sweep: ending what a dead owner left behind, and nothing else.
//!
//! An owner is dead when its lock is free. Its survivors are found by proof: a recorded process that is still the same one, a
//! member of the pen's own control group, or a process that bears the pen's mark and has been handed to one of those above the
//! pen (or to the first process), as the kernel does with orphans; and whatever descends from these. A recorded number that
//! now belongs to somebody else is nobody's business.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_sys::cgroup::Cgroup;
use nostray_sys::identity::{Identity, World};
use nostray_sys::poll::{self, Until};
use nostray_sys::proc::{self, Stat, describe, environment_of};
use nostray_sys::process::{Pid, getpid};
use nostray_sys::{Pidfd, Signal};

use crate::journal::{Journal, Story};
use crate::record::{self, Process, Record, Unreadable};
use crate::{Place, witness};

/// How a sweep is done.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Only look.
    pub dry_run: bool,
    /// End pens whose owner is alive, too, by asking them.
    pub include_active: bool,
    /// No more time than this for all of it, but for the last SIGKILL.
    pub budget: Duration,
}

impl Policy {
    /// Everything that is dead, with all the patience that was promised to it.
    #[must_use]
    pub fn thorough() -> Self {
        Self { dry_run: false, include_active: false, budget: Duration::from_secs(120) }
    }

    /// The same, beside the start of another pen.
    #[must_use]
    pub fn in_the_background() -> Self {
        Self { budget: Duration::from_secs(30), ..Self::thorough() }
    }
}

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

/// What came of one record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Outcome {
    /// Its owner is alive: not touched.
    Active,
    /// Its owner was alive and has been asked to stop.
    Asked,
    /// Its owner is dead and nobody is left; the record has been removed.
    Clean,
    /// These were found, and this many of them are still there.
    Survivors {
        /// Who.
        found: Vec<Found>,
        /// How many could not be ended (or were only looked at).
        left: usize,
    },
    /// It cannot be acted on.
    Unreadable(Unreadable),
    /// Its numbers belong to another pid namespace, where it must be swept.
    Elsewhere,
}

/// A record, and what came of it.
#[derive(Debug, Clone)]
pub struct Swept {
    /// The pen.
    pub id: String,
    /// Its command line, if it could be read.
    pub command: Vec<String>,
    /// What came of it.
    pub outcome: Outcome,
}

/// Whether there is a record whose owner is dead: cheap enough for every start.
#[must_use]
pub(crate) fn is_anybody_dead() -> bool {
    Place::all().iter().any(|place| {
        let ids = record::ids(place).unwrap_or_default();
        ids.iter().any(|id| !matches!(take_over(place, id), Owner::Alive))
    })
}

/// Who owns a record.
enum Owner {
    Alive,
    /// We do, as long as we hold its lock.
    Us(Option<File>),
}

fn take_over(place: &Place, id: &str) -> Owner {
    match File::options().write(true).open(record::lock_path(place, id)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => Owner::Us(Some(lock)),
            Err(_) => Owner::Alive,
        },
        // The lock is made before the record and removed after it, so this is no pen that is just starting or ending.
        Err(_) => Owner::Us(None),
    }
}

/// Whether the owner of a record lives.
#[must_use]
pub(crate) fn owner_is_alive(place: &Place, id: &str) -> bool {
    matches!(take_over(place, id), Owner::Alive)
}

/// Sweeps every record.
pub fn sweep(policy: &Policy) -> Vec<Swept> {
    let deadline = Instant::now() + policy.budget;
    let mut swept = Vec::new();
    for place in Place::all() {
        for id in record::ids(&place).unwrap_or_default() {
            swept.push(sweep_one(&place, id, policy, deadline));
        }
        if !policy.dry_run {
            remove_debris(&place);
        }
    }
    swept
}

fn sweep_one(place: &Place, id: String, policy: &Policy, deadline: Instant) -> Swept {
    let owner = take_over(place, &id);
    let record = match Record::read(&record::path(place, &id)) {
        Ok(record) => record,
        Err(why) => {
            if let (Unreadable::Damaged(_), Owner::Us(_), false) = (&why, &owner, policy.dry_run) {
                set_aside(place, &id);
            }
            return Swept { id, command: Vec::new(), outcome: Outcome::Unreadable(why) };
        }
    };
    let command = record.command.clone();
    let outcome = match owner {
        Owner::Alive if policy.include_active && !policy.dry_run => {
            ask_to_stop(&record, false);
            Outcome::Asked
        }
        Owner::Alive => Outcome::Active,
        // The lock stays ours until all is done: another sweep sees an owner, and leaves it to us.
        Owner::Us(_lock) => end_survivors(place, &record, policy, deadline),
    };
    Swept { id, command, outcome }
}

/// Asks whoever keeps a pen to end it. False when nobody is left to be asked.
pub(crate) fn ask_to_stop(record: &Record, now: bool) -> bool {
    if World::current() != Some(record.world()) {
        return false;
    }
    record
        .keepers()
        .into_iter()
        .find_map(Identity::open)
        .is_some_and(|keeper| nostray_pen::ask_to_stop(&keeper, now).is_ok())
}

fn end_survivors(place: &Place, record: &Record, policy: &Policy, deadline: Instant) -> Outcome {
    match World::current() {
        Some(world) if world == record.world() => {}
        Some(world) if world.boot == record.boot => return Outcome::Elsewhere,
        // The machine has been started anew since: nobody can have survived that.
        _ => {
            if !policy.dry_run {
                witness::remove(place, &record.id);
            }
            return Outcome::Clean;
        }
    }
    let found = survivors(record);
    if policy.dry_run {
        let left = found.len();
        return if found.is_empty() { Outcome::Clean } else { Outcome::Survivors { found, left } };
    }
    let left = if found.is_empty() { 0 } else { end(record, &found, deadline) };
    if left == 0 {
        if let Some(group) = record.cgroup.as_deref().and_then(|path| Cgroup::open(path.as_ref()).ok()) {
            group.remove();
        }
        witness::remove(place, &record.id);
    }
    Journal::at(place).add(&record.id, Story::Swept { survivors: found.len(), left });
    if found.is_empty() { Outcome::Clean } else { Outcome::Survivors { found, left } }
}

/// Everybody who is left of a pen whose owner is dead.
fn survivors(record: &Record) -> Vec<Found> {
    let all = proc::scan().unwrap_or_default();
    let ours = nostray_sys::process::user();
    let group: HashSet<Pid> = record
        .cgroup
        .as_deref()
        .and_then(|path| Cgroup::open(path.as_ref()).ok())
        .map(|group| group.members().into_iter().collect())
        .unwrap_or_default();
    let recorded: HashSet<Identity> =
        record.keepers().into_iter().chain(record.child.and_then(Process::identity)).collect();
    let reapers: HashSet<Identity> = record.ancestors.iter().copied().filter_map(Process::identity).collect();
    let by_pid: HashMap<Pid, &Stat> = all.iter().map(|stat| (stat.pid, stat)).collect();
    let was_handed_over = |stat: &Stat| {
        let parent = stat.parent.and_then(|parent| by_pid.get(&parent))?;
        (parent.pid == Pid::INIT || reapers.contains(&Identity::from(*parent))).then_some(parent.pid)
    };
    let mut found: Vec<Found> = Vec::new();
    let mut seen: HashSet<Pid> = ourselves_and_above(&by_pid);
    for stat in all.iter().filter(|stat| !stat.is_zombie() && !seen.contains(&stat.pid)) {
        let evidence = if recorded.contains(&Identity::from(stat)) {
            Evidence::Recorded
        } else if group.contains(&stat.pid) {
            Evidence::Group
        } else if stat.start.0 >= record.front.start
            && let Some(reaper) = was_handed_over(stat)
            && proc::user_of(stat.pid) == Some(ours)
            && bears_mark(stat.pid, &record.id)
        {
            Evidence::MarkedOrphan(reaper)
        } else {
            continue;
        };
        found.push(Found { process: stat.into(), command: describe(stat.pid), evidence });
    }
    seen.extend(found.iter().map(|found| found.process.pid));
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|found| found.process.pid) {
        for stat in all.iter().filter(|stat| stat.parent == Some(parent) && !stat.is_zombie()) {
            if seen.insert(stat.pid) {
                let evidence = Evidence::DescendsFrom(parent);
                found.push(Found { process: stat.into(), command: describe(stat.pid), evidence });
            }
        }
        next += 1;
    }
    found
}

/// Who sweeps is not swept, though it may have been started inside of a dead pen.
fn ourselves_and_above(by_pid: &HashMap<Pid, &Stat>) -> HashSet<Pid> {
    let mut chain = HashSet::new();
    let mut next = Some(getpid());
    while let Some(pid) = next.filter(|pid| chain.insert(*pid)) {
        next = by_pid.get(&pid).and_then(|stat| stat.parent);
    }
    chain
}

fn bears_mark(pid: Pid, id: &str) -> bool {
    let mark = environment_of(pid, nostray_pen::MARK).unwrap_or_default();
    mark.split(|&b| b == b'/').any(|part| part.split(|&b| b == b'@').next() == Some(id.as_bytes()))
}

/// Ends survivors: SIGTERM, the pen's own grace, SIGKILL, and again for those who were born meanwhile. Returns how many are
/// left.
fn end(record: &Record, found: &[Found], deadline: Instant) -> usize {
    let grace = Duration::from_millis(record.term_grace);
    signal(found, Signal::TERM);
    signal(found, Signal::CONT);
    wait_for_the_end(found, (Instant::now() + grace).min(deadline));
    for _ in 0..ROUNDS {
        let left = survivors(record);
        if left.is_empty() {
            return 0;
        }
        if let Some(group) = record.cgroup.as_deref().and_then(|path| Cgroup::open(path.as_ref()).ok()) {
            group.kill().ok();
        }
        signal(&left, Signal::KILL);
        wait_for_the_end(&left, Instant::now() + Duration::from_millis(500));
    }
    survivors(record).len()
}

/// Rounds of killing. Each waits for those who were killed; more are needed only for a tree that forks as it dies.
const ROUNDS: usize = 20;

fn signal(found: &[Found], signal: Signal) {
    for handle in found.iter().filter_map(|found| found.process.open()) {
        handle.send(signal).ok();
    }
}

fn wait_for_the_end(found: &[Found], deadline: Instant) {
    let mut handles: Vec<Pidfd> = found.iter().filter_map(|found| found.process.open()).collect();
    while !handles.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let events: Vec<_> = handles.iter().map(|handle| (handle.as_fd(), Until::Readable)).collect();
        let ended = poll::wait(&events, Some(left)).unwrap_or_default();
        if !ended.contains(&true) {
            return;
        }
        let mut ended = ended.into_iter();
        handles.retain(|_| !ended.next().unwrap_or(false));
    }
}

/// Keeps a damaged record for whoever wants to look, and out of the way.
fn set_aside(place: &Place, id: &str) {
    std::fs::rename(record::path(place, id), place.file(&format!("{id}.damaged"))).ok();
    std::fs::remove_file(record::lock_path(place, id)).ok();
}

/// Files that belong to no record: locks, and half-written records, of those who died in between. And damaged records that
/// nobody has wanted to look at for a week.
fn remove_debris(place: &Place) {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    for entry in std::fs::read_dir(place.path()).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some((id, kind)) =
            path.file_stem().and_then(|s| s.to_str()).zip(path.extension().and_then(|e| e.to_str()))
        else {
            continue;
        };
        let old =
            || entry.metadata().and_then(|m| m.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > WEEK));
        let debris = match kind {
            "lock" | "new" => !record::path(place, id).exists() && !owner_is_alive(place, id),
            "damaged" => old(),
            _ => false,
        };
        if debris {
            std::fs::remove_file(&path).ok();
        }
    }
}
