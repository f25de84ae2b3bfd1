//! The sweep: removing the records of fronts that have ended. Their trees have ended with them.
//!
//! An owner is dead when its lock is free, which the kernel guarantees.

use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_sys::Signal;
use nostray_sys::identity::{Identity, signal_each, wait_for_end};

use crate::journal::{Journal, Story};
use crate::owner::{Owner, owner_is_alive, take_over};
use crate::policy::{Outcome, Policy, Swept};
use crate::record::{self, Process, Record, Unreadable};
use crate::survivors::{Found, survivors};
use crate::{Place, witness};

/// The kernel ends the processes of a job one after the other, and the lock of its front may be free before the last of them is gone.
const LAST_MOMENT: Duration = Duration::from_secs(2);
/// A young lock without a record is of a pen that is just starting.
const MIN_DEBRIS_AGE: Duration = Duration::from_secs(60);

/// What every start does a moment later.
pub(crate) fn beside_a_start() {
    sweep(&Policy::in_the_background());
}

/// Drops the record of a pen whose owner is dead, even if something is left of it. Nothing is ended. False if its owner is alive.
pub fn forget(place: &Place, id: &str) -> bool {
    let Owner::Us(lock) = take_over(place, id) else { return false };
    remove(place, id, lock);
    true
}

/// Sweeps every record.
pub fn sweep(policy: &Policy) -> Vec<Swept> {
    sweep_those(policy, &Place::all(), |_, _| true)
}

/// Sweeps what is left of one pen, if its front is dead.
pub fn sweep_pen(place: &Place, id: &str) {
    sweep_those(&Policy::thorough(), std::slice::from_ref(place), |_, other| other == id);
}

/// Sweeps the records that are meant.
pub(crate) fn sweep_those(policy: &Policy, places: &[Place], is_meant: impl Fn(&Place, &str) -> bool) -> Vec<Swept> {
    let mut swept = Vec::new();
    for place in places {
        for id in record::ids(place).unwrap_or_default().into_iter().filter(|id| is_meant(place, id)) {
            swept.push(look_at(place, id, policy));
        }
        if !policy.dry_run {
            remove_debris(place);
        }
    }
    swept
}

fn look_at(place: &Place, id: String, policy: &Policy) -> Swept {
    let owner = take_over(place, &id);
    let (command, outcome) = match (Record::read(&record::path(place, &id)), owner) {
        (Err(why), owner) => {
            if let (Unreadable::Damaged(_), Owner::Us(lock), false) = (&why, owner, policy.dry_run) {
                drop(lock);
                std::fs::rename(record::path(place, &id), place.file(&format!("{id}.damaged"))).ok();
                std::fs::remove_file(record::lock_path(place, &id)).ok();
            }
            (Vec::new(), Outcome::Unreadable(why))
        }
        (Ok(record), Owner::Alive) if policy.include_active && !policy.dry_run => {
            ask(&record, Ask::Stop);
            (record.command, Outcome::Asked)
        }
        (Ok(record), Owner::Alive) => (record.command, Outcome::Active),
        (Ok(record), Owner::Us(lock)) => {
            let command = record.command.clone();
            (command, clear(place, &record, lock, policy))
        }
    };
    Swept { id, command, outcome }
}

/// Removes the record of a dead front, once its child is seen to be gone.
fn clear(place: &Place, record: &Record, lock: Option<std::fs::File>, policy: &Policy) -> Outcome {
    let child: Vec<Identity> = record.child.and_then(Process::identity).into_iter().collect();
    wait_for_end(&child, Instant::now() + LAST_MOMENT);
    let found: Vec<Found> = survivors(record);
    if found.is_empty() {
        if !policy.dry_run {
            remove(place, &record.id, lock);
            Journal::at(place).add(&record.id, Story::Swept { survivors: 0, left: 0 });
        }
        return Outcome::Clean;
    }
    if policy.dry_run {
        let left = found.len();
        return Outcome::Survivors { found, left };
    }
    let processes: Vec<Identity> = found.iter().map(|one| one.process).collect();
    signal_each(&processes, Signal::KILL);
    wait_for_end(&processes, Instant::now() + LAST_MOMENT);
    let left = processes.iter().filter(|process| process.is_alive()).count();
    if left == 0 {
        remove(place, &record.id, lock);
    }
    Journal::at(place).add(&record.id, Story::Swept { survivors: found.len(), left });
    Outcome::Survivors { found, left }
}

/// A file that is open is not gone before it is closed, so the lock is closed first.
fn remove(place: &Place, id: &str, lock: Option<std::fs::File>) {
    std::fs::remove_file(record::path(place, id)).ok();
    drop(lock);
    witness::remove(place, id);
}

/// Removes files that belong to no record: locks and half-written records of processes that died in between.
fn remove_debris(place: &Place) {
    for entry in std::fs::read_dir(place.path()).into_iter().flatten().flatten() {
        let path = entry.path();
        let (Some(id), Some(kind)) = (path.file_stem().and_then(|s| s.to_str()), path.extension()) else { continue };
        let is_old = entry
            .metadata()
            .and_then(|found| found.modified())
            .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MIN_DEBRIS_AGE));
        if (kind == "lock" || kind == "new")
            && is_old
            && !record::path(place, id).exists()
            && !owner_is_alive(place, id)
        {
            std::fs::remove_file(&path).ok();
        }
    }
}

/// Asks the front of a pen to end it. False if it has none that lives.
pub(crate) fn ask(record: &Record, ask: Ask) -> bool {
    record.keepers().into_iter().any(Identity::is_alive) && nostray_pen::ask(&record.id, ask).is_ok()
}
