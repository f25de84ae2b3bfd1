//! Lists every pen on record, with what its tree uses.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_sys::files::{Stamp, stamp_of};
use nostray_sys::identity::{Identity, World};
use nostray_sys::proc::{self, Stat, children_of, memory_of, open_files_of};
use nostray_sys::process::{Pid, cpu_time};

use crate::owner::owner_is_alive;
use crate::record::{self, Process, Record, Unreadable};
use crate::survivors::Found;
use crate::{Place, ending, sweep};

/// What a tree uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many processes.
    pub processes: usize,
    /// Bytes of memory: each process's proportional share where that can be read, otherwise what it has resident.
    pub memory: u64,
    /// Open files.
    pub files: usize,
    /// Processor time.
    pub cpu: Duration,
}

/// A pen on record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Pen {
    /// Its name.
    pub id: String,
    /// Where its record is.
    pub place: Place,
    /// Whether front, spare or guard is alive. If not, what is left waits for a sweep.
    pub owner_alive: bool,
    /// What is known of it.
    pub record: Result<Record, Unreadable>,
    /// The processes of its tree: the child and its descendants, parents before children.
    pub tree: Vec<Stat>,
    /// The innermost keeper that lives, if that was looked at.
    keeper: Option<Stat>,
}

impl Pen {
    /// Counts what its tree uses.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { processes: self.tree.len(), ..Tally::default() };
        for stat in &self.tree {
            tally.memory += memory_of(stat.pid).unwrap_or(0);
            tally.files += open_files_of(stat.pid).unwrap_or(0);
            tally.cpu += Duration::from_nanos(cpu_time(stat.pid).unwrap_or(0));
        }
        tally
    }

    /// Asks its keeper to end it. False if no keeper lives.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> bool {
        self.record.as_ref().is_ok_and(|record| sweep::ask(record, ask))
    }

    /// Waits for its end, after it was asked at that moment, and ends it from outside if its keepers are stopped. `tick` is called
    /// several times a second. False if it is still there.
    pub fn see_to_its_end(&self, ask: Ask, since: Instant, tick: &mut dyn FnMut()) -> bool {
        match &self.record {
            Ok(record) => ending::ensure_end(&self.place, record, ask, since, tick),
            Err(_) => !self.is_there(),
        }
    }

    /// Whether it is still on record with a live owner.
    #[must_use]
    pub fn is_there(&self) -> bool {
        record::is_on_record(&self.place, &self.id) && owner_is_alive(&self.place, &self.id)
    }

    /// Whether all its keepers are stopped: it acts on nothing until they are continued.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        // Nearly always there is a keeper that runs.
        let runs = self.keeper.as_ref().is_some_and(|keeper| !keeper.is_stopped());
        !runs && self.owner_alive && self.record.as_ref().is_ok_and(|record| ending::is_frozen(&self.place, record))
    }

    /// Every process of it that lives, nostray's own included.
    #[must_use]
    pub fn who_is_left(&self) -> Vec<Found> {
        ending::who_is_left(&self.place, &self.id)
    }
}

/// Lists pens again and again: reads only the records that have changed, and looks at the processes of pens alone. For people: while a
/// process ends, the kernel may leave a sibling out of what this reads.
#[derive(Debug, Default)]
pub struct Census {
    known: HashMap<PathBuf, (Stamp, Record)>,
}

impl Census {
    /// Every pen on record.
    #[must_use]
    pub fn take(&mut self) -> Vec<Pen> {
        let world = World::current();
        let mut before = std::mem::take(&mut self.known);
        let read = &mut |path: &Path| {
            let stamp = stamp_of(path);
            let known = before.remove(path).filter(|(stamp_before, _)| Some(*stamp_before) == stamp);
            let record = known.map_or_else(|| Record::read(path), |(_, record)| Ok(record));
            if let (Some(stamp), Ok(record)) = (stamp, &record) {
                self.known.insert(path.to_owned(), (stamp, record.clone()));
            }
            record
        };
        let mut pens = on_record(read);
        for pen in &mut pens {
            let record = pen.record.as_ref().ok().filter(|record| world.as_ref() == Some(&record.world()));
            pen.keeper = record.and_then(|record| record.keepers().iter().find_map(alive));
            // Each keeper holds the lock for as long as it lives.
            pen.owner_alive = pen.keeper.is_some() || owner_is_alive(&pen.place, &pen.id);
            if let Some(record) = record.filter(|record| record.generation.is_none()) {
                pen.tree = tree_below(record, pen.keeper.clone());
            }
        }
        folded(pens)
    }
}

/// Every record that is there, without its owner and its tree.
fn on_record(read: &mut dyn FnMut(&Path) -> Result<Record, Unreadable>) -> Vec<Pen> {
    let mut pens = Vec::new();
    for place in Place::all() {
        for id in record::ids(&place).unwrap_or_default() {
            let record = read(&record::path(&place, &id));
            if record != Err(Unreadable::Gone) {
                let (owner_alive, tree, keeper) = (false, Vec::new(), None);
                pens.push(Pen { id, place: place.clone(), owner_alive, record, tree, keeper });
            }
        }
    }
    pens
}

/// This very process, if it has not ended.
fn alive(who: &Identity) -> Option<Stat> {
    Stat::of(who.pid).filter(|stat| stat.start == who.start && !stat.is_zombie())
}

/// Every pen on record.
#[must_use]
pub fn census() -> Vec<Pen> {
    let world = World::current();
    let mut pens = on_record(&mut Record::read);
    for pen in &mut pens {
        pen.owner_alive = owner_is_alive(&pen.place, &pen.id);
    }
    if pens.is_empty() {
        return pens; // and not a look at the processes of the whole machine
    }
    let all = proc::scan().unwrap_or_default();
    let mut by_parent: HashMap<Pid, Vec<&Stat>> = HashMap::new();
    for stat in all.iter().filter(|stat| !stat.is_zombie()) {
        if let Some(parent) = stat.parent {
            by_parent.entry(parent).or_default().push(stat);
        }
    }
    let by_pid: HashMap<Pid, &Stat> = all.iter().map(|stat| (stat.pid, stat)).collect();
    for pen in &mut pens {
        if let Ok(record) = &pen.record
            && world.as_ref() == Some(&record.world())
        {
            pen.tree = tree_of(record, &by_pid, &by_parent);
        }
    }
    folded(pens)
}

/// A front that starts one child after the other is one pen to a person: what is known of the child that it has now is shown
/// with it. (There may be two for a moment, when all keepers of the last one were killed.)
fn folded(pens: Vec<Pen>) -> Vec<Pen> {
    let is_member = |pen: &Pen| nostray_pen::PenId::series_of(&pen.id).is_some();
    let (mut members, mut rest): (Vec<_>, Vec<_>) = pens.into_iter().partition(is_member);
    members.sort_by_key(|pen| (pen.owner_alive, number_in_series(&pen.id)));
    for pen in rest.iter_mut().filter(|pen| pen.record.as_ref().is_ok_and(|record| record.generation.is_some())) {
        // Everything below such a front is of nostray's own making, or of the pen below.
        pen.tree.clear();
    }
    for member in members {
        let series = nostray_pen::PenId::series_of(&member.id);
        let front = rest.iter_mut().find(|pen| Some(pen.id.as_str()) == series && pen.owner_alive);
        match front.and_then(|pen| pen.record.as_mut().ok().map(|record| (record, &mut pen.tree))) {
            Some((record, tree)) => {
                if let Ok(inner) = member.record {
                    (record.spare, record.guard, record.child) = (inner.spare, inner.guard, inner.child);
                    (record.tier, record.cgroup) = (inner.tier, inner.cgroup);
                    if !record.front.identity().is_some_and(Identity::is_alive) {
                        // Its front was killed, and its guard ends it.
                        (record.state, record.since) = (inner.state, inner.since);
                    }
                }
                *tree = member.tree;
            }
            None => rest.push(member),
        }
    }
    rest
}

fn number_in_series(id: &str) -> u64 {
    id.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The same tree as [`tree_of`] finds it, by the kernel's lists of children.
fn tree_below(record: &Record, keeper: Option<Stat>) -> Vec<Stat> {
    let keepers = record.keepers();
    let mut tree = Vec::new();
    let mut parents = Vec::from_iter(keeper);
    if parents.is_empty() {
        parents.extend(record.child.and_then(Process::identity).as_ref().and_then(alive));
        tree.clone_from(&parents);
    }
    while let Some(parent) = parents.pop() {
        for stat in children_of(&parent).into_iter().filter_map(Stat::of) {
            // The number may be another process's by now.
            if stat.parent != Some(parent.pid) || stat.is_zombie() {
                continue;
            }
            if !keepers.contains(&Identity::from(&stat)) {
                tree.push(stat.clone());
            }
            parents.push(stat);
        }
    }
    tree
}

/// The tree below the guard, or below the spare or front that has taken over; if all of them are dead, below the child.
fn tree_of(record: &Record, by_pid: &HashMap<Pid, &Stat>, by_parent: &HashMap<Pid, Vec<&Stat>>) -> Vec<Stat> {
    let keepers = record.keepers();
    let is_same = |keeper: &Identity| {
        by_pid.get(&keeper.pid).is_some_and(|stat| stat.start == keeper.start && !stat.is_zombie())
    };
    let mut tree: Vec<Stat> = Vec::new();
    let mut parents = Vec::new();
    if let Some(keeper) = keepers.iter().find(|keeper| is_same(keeper)) {
        parents.push(keeper.pid);
    } else if let Some(child) = record.child.and_then(Process::identity).filter(is_same) {
        tree.extend(by_pid.get(&child.pid).map(|stat| (*stat).clone()));
        parents.push(child.pid);
    }
    while let Some(parent) = parents.pop() {
        for stat in by_parent.get(&parent).into_iter().flatten() {
            if !keepers.contains(&Identity::from(*stat)) {
                tree.push((*stat).clone());
            }
            parents.push(stat.pid);
        }
    }
    tree
}
