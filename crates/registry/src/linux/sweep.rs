//! The sweep: ending what a dead owner left behind, and nothing else.
//!
//! An owner is dead when its lock is free, which the kernel guarantees. `survivors` finds what is left of it.

use std::collections::HashSet;
use std::fs::File;
use std::time::{Duration, Instant};

use nostray_pen::{Ask, PenId};
use nostray_sys::cgroup::Cgroup;
use nostray_sys::escalation::{Escalation, KILL_WAIT, Step};
use nostray_sys::identity::{Identity, World, wait_for_end};
use nostray_sys::process::{self, Pid};
use nostray_sys::{Pidfd, Signal};

use crate::debris::{remove_debris, remove_groups_without_record, set_aside};
use crate::journal::{Journal, Story};
use crate::owner::{Owner, owner_is_alive, take_over};
use crate::policy::{Outcome, Policy, Swept};
use crate::record::{self, Process, Record, Unreadable};
use crate::survivors::{Found, Machine, signal_found, wait_for_found};
use crate::{Place, ending, witness};

/// What every start does a moment later, so it must be cheap: removes control groups that no record knows of, and looks for a record
/// whose owner is dead. If there is one, another process sweeps. Returns that process; without one, the next start has to do it.
pub(crate) fn beside_a_start() -> Option<Pid> {
    let places = Place::all();
    let ids: Vec<_> = places.iter().map(|place| record::ids(place).unwrap_or_default()).collect();
    remove_groups_without_record(ids.iter().flatten());
    let has_dead_owner = places.iter().zip(&ids).any(|(place, ids)| {
        // A pen that has ended since the list was made has no lock, and nothing to be swept either.
        let is_dead = |id: &str| !matches!(take_over(place, id), Owner::Alive) && record::is_on_record(place, id);
        ids.iter().any(|id| is_dead(id) && !belongs_to_live_series(place, id) && !candidates_all_live(place, id))
    });
    if has_dead_owner { sweep_apart().ok() } else { None }
}

/// Whether a pen is one of a series whose front lives: that front ends what is left of it.
fn belongs_to_live_series(place: &Place, id: &str) -> bool {
    PenId::series_of(id).is_some_and(|series| owner_is_alive(place, series))
}

/// Whether the last sweep has found candidates, and all of them are still there: the next one would find no more.
fn candidates_all_live(place: &Place, id: &str) -> bool {
    let record = Record::read(&record::path(place, id));
    let candidates = record.map(|record| record.candidates).unwrap_or_default();
    !candidates.is_empty() && candidates.into_iter().filter_map(Process::identity).all(Identity::is_alive)
}

/// Drops the record of a pen whose owner is dead, even if something is left of it. Nothing is signalled. False if its
/// owner is alive.
pub fn forget(place: &Place, id: &str) -> bool {
    let Owner::Us(_lock) = take_over(place, id) else { return false };
    witness::remove(place, id);
    true
}

/// Sweeps in a process of its own: the dead may need all of their graces. Returns that process.
pub(crate) fn sweep_apart() -> std::io::Result<Pid> {
    process::fork_apart("nostray-sweep", "", |_| drop(sweep(&Policy::in_the_background())))
}

/// A record whose owner is dead, and what is left of its pen.
struct Dead {
    place: Place,
    record: Record,
    found: Vec<Found>,
    /// Processes that may be of it, or not.
    candidates: Vec<Found>,
    /// Nothing is left, and no exiting process might have been of it.
    is_clean: bool,
    escalation: Escalation,
    /// Held until all is done: another sweep sees an owner, and leaves the record to this one.
    _lock: Option<File>,
    position: usize,
}

/// Sweeps every record. All dead pens get SIGTERM together, so that it takes as long as the longest grace.
pub fn sweep(policy: &Policy) -> Vec<Swept> {
    let places = Place::all();
    let swept = sweep_those(policy, &places, |_, _| true);
    if !policy.dry_run {
        let left: Vec<_> = places.iter().flat_map(|place| record::ids(place).unwrap_or_default()).collect();
        remove_groups_without_record(left.iter());
    }
    swept
}

/// Sweeps what is left of one pen, if all its keepers are dead.
pub fn sweep_pen(place: &Place, id: &str) {
    sweep_those(&Policy::thorough(), std::slice::from_ref(place), |_, other| other == id);
}

/// Sweeps the records that are meant.
pub(crate) fn sweep_those(policy: &Policy, places: &[Place], is_meant: impl Fn(&Place, &str) -> bool) -> Vec<Swept> {
    let deadline = Instant::now() + policy.budget;
    let mut swept = Vec::new();
    let mut dead = Vec::new();
    for place in places {
        let mut ids = record::ids(place).unwrap_or_default();
        // One with its series. Looked at before anything is taken over: what we hold ourselves seems to have an owner.
        ids.retain(|id| is_meant(place, id) && !belongs_to_live_series(place, id));
        for id in ids {
            look_at(place, id, policy, &mut swept, &mut dead);
        }
        if !policy.dry_run {
            remove_debris(place);
        }
    }
    if dead.is_empty() {
        return swept; // and not a look at the processes of the whole machine
    }
    let (machine, keepers) = (Machine::now(), all_keepers(places));
    for one in &mut dead {
        one.found = machine.survivors(&one.record);
        one.candidates = machine.candidates(&one.record, &keepers);
        one.is_clean = one.found.is_empty() && one.candidates.is_empty() && machine.leaving(&one.record).is_empty();
    }
    if !policy.dry_run {
        terminate_all(&mut dead, deadline);
    }
    for one in dead {
        let position = one.position;
        swept[position].outcome = if policy.dry_run { as_found(one) } else { finish(one, &keepers) };
    }
    swept
}

/// Looks at one record, and puts it to the dead if its owner is.
fn look_at(place: &Place, id: String, policy: &Policy, swept: &mut Vec<Swept>, dead: &mut Vec<Dead>) {
    let owner = take_over(place, &id);
    let (command, outcome) = match (Record::read(&record::path(place, &id)), owner) {
        (Err(why), owner) => {
            if let (Unreadable::Damaged(_), Owner::Us(_), false) = (&why, &owner, policy.dry_run) {
                set_aside(place, &id);
            }
            (Vec::new(), Outcome::Unreadable(why))
        }
        (Ok(record), Owner::Alive) if policy.include_frozen && ending::is_frozen(place, &record) => {
            let asked = Instant::now();
            let ended = !policy.dry_run && {
                ask(&record, Ask::Stop);
                ending::ensure_end(place, &record, Ask::Stop, asked, &mut || {})
            };
            (record.command, Outcome::Frozen { ended })
        }
        (Ok(record), Owner::Alive) if policy.include_active && !policy.dry_run => {
            ask(&record, Ask::Stop);
            (record.command, Outcome::Asked)
        }
        (Ok(record), Owner::Alive) => (record.command, Outcome::Active),
        (Ok(record), Owner::Us(lock)) => match World::current() {
            Some(world) if world == record.world() => {
                let command = record.command.clone();
                let escalation = Escalation::Asked { until: Instant::now(), term_grace: record.promised_grace() };
                let position = swept.len();
                dead.push(Dead {
                    place: place.clone(),
                    record,
                    found: Vec::new(),
                    candidates: Vec::new(),
                    is_clean: false,
                    escalation,
                    _lock: lock,
                    position,
                });
                (command, Outcome::Clean)
            }
            Some(world) if world.boot == record.boot => (record.command, Outcome::Elsewhere),
            // The machine was rebooted since: no process can have survived that.
            _ => {
                if !policy.dry_run {
                    witness::remove(place, &id);
                }
                (record.command, Outcome::Clean)
            }
        },
    };
    swept.push(Swept { id, command, outcome });
}

fn as_found(dead: Dead) -> Outcome {
    let Dead { found, candidates, .. } = dead;
    match found.len() {
        0 if candidates.is_empty() => Outcome::Clean,
        0 => Outcome::Unproved { found, candidates },
        left => Outcome::Survivors { found, left },
    }
}

/// nostray's own processes, of every pen on record.
fn all_keepers(places: &[Place]) -> HashSet<Identity> {
    let mut keepers = HashSet::new();
    for place in Place::all_and(places) {
        for id in record::ids(&place).unwrap_or_default() {
            keepers.extend(Record::read(&record::path(&place, &id)).iter().flat_map(Record::keepers));
        }
    }
    keepers
}

/// Asks the keeper of a pen to end it. False if no keeper lives.
pub(crate) fn ask(record: &Record, ask: Ask) -> bool {
    if World::current() != Some(record.world()) {
        return false;
    }
    let ask = |keeper: Pidfd| {
        let asked = nostray_pen::send(&keeper, ask, record.takes()).is_ok();
        if record.generation.is_some() {
            keeper.send(Signal::CONT).ok(); // a stopped front would not act on it, and no other process can
        }
        asked
    };
    // A front that starts one child after the other must know, or it would start the next one.
    let front = record.front.identity().filter(|_| record.generation.is_some());
    front.into_iter().chain(record.keepers()).find_map(Identity::open).is_some_and(ask)
}

/// SIGTERM to every survivor of every pen, and the grace that each pen was promised.
fn terminate_all(dead: &mut [Dead], deadline: Instant) {
    let mut waits = Vec::new();
    for one in dead {
        if let Step::Terminate(until) = one.escalation.next(Instant::now(), one.found.len()) {
            signal_found(&one.found, Signal::TERM);
            signal_found(&one.found, Signal::CONT);
            waits.push((&one.found, until));
        }
    }
    for (found, until) in waits {
        wait_for_found(found, until.min(deadline));
    }
}

/// SIGKILL to what is left of a pen, and again to processes that were born meanwhile.
fn finish(dead: Dead, keepers: &HashSet<Identity>) -> Outcome {
    let Dead { place, mut record, found, is_clean, mut escalation, .. } = dead;
    let group = record.cgroup.as_deref().and_then(|path| Cgroup::open(path.as_ref()).ok());
    let mut left = if is_clean { Vec::new() } else { who_is_left(&record) };
    while let Step::Kill = escalation.next(Instant::now(), left.len()) {
        if let Some(group) = &group {
            group.kill().ok();
        }
        signal_found(&left, Signal::KILL);
        wait_for_found(&left, Instant::now() + KILL_WAIT);
        left = who_is_left(&record);
    }
    let candidates = if is_clean || !left.is_empty() { Vec::new() } else { candidates_of(&record, keepers) };
    if !candidates.is_empty() {
        let processes: Vec<Process> = candidates.iter().map(|one| one.process.into()).collect();
        if record.candidates != processes {
            Journal::at(&place).add(&record.id, Story::Unproved { candidates: processes.len() });
            record.candidates = processes;
            // If this fails, a later sweep finds the candidates again.
            record.write(&place).ok();
        }
        if !found.is_empty() {
            Journal::at(&place).add(&record.id, Story::Swept { survivors: found.len(), left: 0 });
        }
        return Outcome::Unproved { found, candidates };
    }
    if left.is_empty() {
        if let Some(group) = &group {
            group.remove();
        }
        witness::remove(&place, &record.id);
    }
    Journal::at(&place).add(&record.id, Story::Swept { survivors: found.len(), left: left.len() });
    if found.is_empty() { Outcome::Clean } else { Outcome::Survivors { found, left: left.len() } }
}

/// The candidates of a pen, after a short wait: most orphans end within a moment.
fn candidates_of(record: &Record, keepers: &HashSet<Identity>) -> Vec<Found> {
    let first = Machine::now().candidates(record, keepers);
    if !first.is_empty() {
        wait_for_found(&first, Instant::now() + CANDIDATE_SETTLE_TIME);
    }
    if first.is_empty() { first } else { Machine::now().candidates(record, keepers) }
}

const CANDIDATE_SETTLE_TIME: Duration = Duration::from_millis(300);

/// What is left of a pen. If that is nothing, exiting processes that might have been of it are gone, too.
fn who_is_left(record: &Record) -> Vec<Found> {
    let until = Instant::now() + EXITING_TIMEOUT;
    loop {
        let machine = Machine::now();
        let left = machine.survivors(record);
        let leaving = if left.is_empty() { machine.leaving(record) } else { Vec::new() };
        if leaving.is_empty() || Instant::now() >= until {
            return left;
        }
        wait_for_end(&leaving, until);
    }
}

/// How long to wait for an exiting process, which may be a stranger. The kernel frees a gigabyte in a fraction of a second.
const EXITING_TIMEOUT: Duration = Duration::from_secs(5);
