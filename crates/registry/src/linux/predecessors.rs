//! Earlier children for the same key as a shared child, whose broker or steward is dead, and which may not have ended yet. The next child
//! is not started before they have: a new instance that opens a database which the old one still holds is how restart loops begin.

use std::collections::HashSet;
use std::time::Instant;

use nostray_pen::PenId;
use nostray_sys::Signal;
use nostray_sys::identity::{Identity, World, signal_each};
use nostray_sys::process::Pid;
use nostray_sys::standstill::Standstill;

use crate::owner::owner_is_alive;
use crate::record::{self, Process, Record};
use crate::{Place, sweep};

/// Pens that have to be gone before a shared child starts.
#[derive(Debug, Default)]
pub struct Predecessors {
    series: Vec<(Place, String)>,
    /// The processes that keep them.
    keepers: Vec<Standstill>,
}

impl Predecessors {
    /// Of the shared child on this record. `beside` are children for other keys.
    pub(crate) fn of(own: &Record, beside: &HashSet<String>) -> Self {
        let Some(world) = World::current() else { return Self::default() };
        let is_dead = |process: Option<Process>| {
            process.and_then(Process::identity).is_some_and(|identity| !Identity::is_alive(identity))
        };
        let is_one = |other: &Record| {
            let (Some(ours), Some(theirs)) = (&own.shared, &other.shared) else { return false };
            let for_the_same = match (&ours.key, &theirs.key) {
                (Some(ours), Some(theirs)) => ours == theirs,
                (None, None) => {
                    let is_there = own.cwd == other.cwd || ours.any_dir || theirs.any_dir;
                    own.command == other.command && is_there
                }
                _ => false,
            };
            other.id != own.id
                && other.world() == world
                && for_the_same
                && (is_dead(other.host) || is_dead(Some(other.front)))
        };
        let mut series = Vec::new();
        for place in Place::all() {
            // The record of a series says whom it is for; those of its children need not be read.
            let may_be_one = |id: &String| PenId::series_of(id).is_none() && !beside.contains(id);
            for id in record::ids(&place).unwrap_or_default().into_iter().filter(may_be_one) {
                if Record::read(&record::path(&place, &id)).is_ok_and(|record| is_one(&record)) {
                    series.push((place.clone(), id));
                }
            }
        }
        Self { series, keepers: Vec::new() }
    }

    /// Whether nothing is left of any of them. A pen of which only candidates are left has no child any more: the child is on record.
    pub fn are_gone(&mut self) -> bool {
        let is_unproved = |place: &Place, id: &str| {
            let record = Record::read(&record::path(place, id));
            record.is_ok_and(|record| !record.candidates.is_empty()) && !owner_is_alive(place, id)
        };
        self.series.retain(|(place, id)| members(place, id).iter().any(|id| !is_unproved(place, id)));
        self.series.is_empty()
    }

    /// Ends them: continues stopped keepers, and sweeps trees without keepers in a process of its own, which it returns. To be called about
    /// once a second.
    #[must_use]
    pub fn sweep(&mut self) -> Option<Pid> {
        self.see_to_keepers();
        let is_left_alone =
            |(place, id): &(Place, String)| members(place, id).iter().all(|id| !owner_is_alive(place, id));
        if self.series.iter().any(is_left_alone) { sweep::sweep_apart().ok() } else { None }
    }

    /// Continues a stopped keeper, so that it ends its tree. Kills a keeper that stays stopped because a debugger holds it.
    fn see_to_keepers(&mut self) {
        for keeper in self.series.iter().flat_map(|(place, id)| keepers(place, id)) {
            if !self.keepers.iter().any(|known| known.who() == keeper) {
                self.keepers.push(Standstill::of(keeper));
            }
        }
        for keeper in &mut self.keepers {
            let is_proved = keeper.look(Instant::now());
            if keeper.is_suspected() {
                signal_each(&[keeper.who()], if is_proved { Signal::KILL } else { Signal::CONT });
            }
        }
    }
}

/// nostray's own processes around the children of a series.
pub(crate) fn keepers(place: &Place, series: &str) -> Vec<Identity> {
    let records = members(place, series).into_iter().filter_map(|id| Record::read(&record::path(place, &id)).ok());
    records.flat_map(|record| record.keepers()).collect()
}

/// What is on record of a series.
fn members(place: &Place, series: &str) -> Vec<String> {
    let ids = record::ids(place).unwrap_or_default();
    ids.into_iter().filter(|id| id == series || PenId::series_of(id) == Some(series)).collect()
}
