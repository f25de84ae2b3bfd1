//! The holder of a slot, as far as records tell: its state, its keepers, and how it is ended if its keepers do not act.

use nostray_pen::{Ask, PenId};
use nostray_sys::Signal;
use nostray_sys::identity::{Identity, World, signal_each};
use nostray_sys::proc::{StartTime, Stat};
use nostray_sys::process;

use crate::owner::owner_is_alive;
use crate::policy::Policy;
use crate::record::{self, Record};
use crate::sweep;
use crate::{Place, ending};

/// A pen that holds a slot, or of which something may be left that did.
#[derive(Debug, Clone)]
pub struct Holder {
    place: Place,
    /// What is known of it.
    pub record: Record,
}

impl Holder {
    /// Every pen on record that holds this slot, without the generations of a series, whose front is on record. `elsewhere` names further
    /// directories with records: a pen that was started in another environment writes to another one.
    #[must_use]
    pub fn all_of(slot: &str, elsewhere: &[Place]) -> Vec<Self> {
        let on_record = on_record(slot, elsewhere);
        let is_inner = |id: &str| {
            PenId::series_of(id).is_some_and(|series| on_record.iter().any(|other| other.record.id == series))
        };
        let outer: Vec<bool> = on_record.iter().map(|holder| !is_inner(&holder.record.id)).collect();
        on_record.into_iter().zip(outer).filter(|(_, outer)| *outer).map(|(holder, _)| holder).collect()
    }

    /// Whether its pids are of this boot and this pid namespace.
    #[must_use]
    pub fn is_of_this_world(&self) -> bool {
        World::current() == Some(self.record.world())
    }

    /// Whether something may be left of it: not if the machine was rebooted since, nor if its pid namespace is gone.
    #[must_use]
    pub fn may_be_left(&self) -> bool {
        let Some(world) = World::current() else { return true };
        let since = StartTime(self.record.front.start);
        let is_there = || nostray_sys::proc::namespace_has_process(self.record.pid_namespace, since);
        self.is_owned() || world.boot == self.record.boot && (world == self.record.world() || is_there())
    }

    /// Whether a live keeper owns it, and not only a sweep.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_owned() && (!self.is_of_this_world() || self.keepers().into_iter().any(Identity::is_alive))
    }

    /// Whether it is this very process, and no pen.
    #[must_use]
    pub fn is_this_process(&self) -> bool {
        Identity::of(process::getpid()).is_some_and(|this| self.keepers().contains(&this))
    }

    /// Whether this process is one of its keepers, or descends from one.
    #[must_use]
    pub fn has(&self, process: Identity) -> bool {
        let keepers = self.keepers();
        let parent_of = |stat: &Stat| stat.parent.and_then(Stat::of);
        let itself = Stat::of(process.pid).filter(|stat| Identity::from(stat) == process);
        std::iter::successors(itself, parent_of).any(|stat| keepers.contains(&Identity::from(&stat)))
    }

    /// Whether this process was started inside it.
    #[must_use]
    pub fn is_around_us(&self) -> bool {
        let mark = std::env::var(nostray_pen::MARK).unwrap_or_default();
        let mut names = mark.split('/').filter_map(|part| part.split('@').next());
        let is_its = |id: &str| id == self.record.id || PenId::series_of(id) == Some(self.record.id.as_str());
        if names.any(is_its) {
            return true;
        }
        // A host may leave the mark out of the environment that it gives to its children.
        Identity::of(process::getpid()).is_some_and(|this| self.has(this))
    }

    /// Whether front, spare or guard is alive, or a sweep is just ending what is left.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        owner_is_alive(&self.place, &self.record.id)
    }

    /// Asks its keeper. Stopped keepers are continued, or they would not act. False if no keeper lives.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> bool {
        let asked = sweep::ask(&self.record, ask);
        self.wake();
        asked
    }

    /// Continues its keepers, if they were stopped.
    pub fn wake(&self) {
        signal_each(&self.keepers(), Signal::CONT);
    }

    /// Whether one of its keepers is stopped, so that they may not act.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        let is_stopped = |keeper: &Identity| Stat::of(keeper.pid).is_some_and(|stat| stat.is_stopped());
        self.keepers().iter().any(|keeper| keeper.is_alive() && is_stopped(keeper))
    }

    /// nostray's own processes around its child.
    fn keepers(&self) -> Vec<Identity> {
        if !self.is_of_this_world() {
            return Vec::new();
        }
        let inner = members(&self.place, &self.record.id).into_iter();
        inner.chain([self.record.clone()]).flat_map(|record| record.keepers()).collect()
    }
}

/// The records of a slot.
fn on_record(slot: &str, elsewhere: &[Place]) -> Vec<Holder> {
    let mut holders = Vec::new();
    for place in Place::all_and(elsewhere) {
        for id in record::ids(&place).unwrap_or_default() {
            if let Ok(record) = Record::read(&record::path(&place, &id))
                && record.slot.as_deref() == Some(slot)
            {
                holders.push(Holder { place: place.clone(), record });
            }
        }
    }
    holders
}

/// The children on record of a front that starts one after the other.
fn members(place: &Place, series: &str) -> Vec<Record> {
    let ids = record::ids(place).unwrap_or_default().into_iter();
    let ids = ids.filter(|id| PenId::series_of(id) == Some(series));
    ids.filter_map(|id| Record::read(&record::path(place, &id)).ok()).collect()
}

/// Ends a holder whose keepers do not act, if one is named, and sweeps what dead holders of this slot have left. Blocks.
pub fn sweep_slot_here(slot: &str, elsewhere: &[Place], from_outside: Option<&str>) {
    if let Some(id) = from_outside {
        end_from_outside(slot, id, elsewhere);
    }
    sweep_slot(slot, elsewhere);
}

pub(crate) fn sweep_slot(slot: &str, elsewhere: &[Place]) {
    let is_meant = |place: &Place, id: &str| {
        Record::read(&record::path(place, id)).is_ok_and(|record| record.slot.as_deref() == Some(slot))
    };
    sweep::sweep_those(&Policy::thorough(), &Place::all_and(elsewhere), is_meant);
}

pub(crate) fn end_from_outside(slot: &str, id: &str, elsewhere: &[Place]) {
    let Some(world) = World::current() else { return };
    let is_its = |record: &Record| record.id == id || PenId::series_of(&record.id) == Some(id);
    let records = on_record(slot, elsewhere).into_iter().map(|holder| holder.record);
    let records: Vec<Record> = records.filter(|record| record.world() == world && is_its(record)).collect();
    ending::end_from_outside(&records, records.iter().map(Record::promised_grace).max().unwrap_or_default());
}
