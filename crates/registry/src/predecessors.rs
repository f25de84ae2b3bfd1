//! What was started for the same purpose as a shared child, by a broker or a steward that is dead, and may not have ended yet. The
//! next one is not started before that: a new instance that opens a database which the old one still holds is how restart loops
//! begin.

use nostray_pen::PenId;
use nostray_sys::identity::{Identity, World};
use nostray_sys::process::Pid;

use crate::record::{self, Process, Record};
use crate::{Place, sweep};

/// Those that have to be gone.
#[derive(Debug, Default)]
pub struct Predecessors {
    series: Vec<(Place, String)>,
}

impl Predecessors {
    /// Of the shared child on this record.
    pub(crate) fn of(own: &Record) -> Self {
        let Some(world) = World::current() else { return Self::default() };
        let is_dead = |process: Option<Process>| {
            process.and_then(Process::identity).is_some_and(|identity| !Identity::is_alive(identity))
        };
        let is_one = |other: &Record| {
            let (Some(ours), Some(theirs)) = (&own.shared, &other.shared) else { return false };
            let for_the_same = match (&ours.key, &theirs.key) {
                (Some(ours), Some(theirs)) => ours == theirs,
                (None, None) => own.command == other.command && own.cwd == other.cwd,
                _ => false,
            };
            other.id != own.id
                && other.world() == world
                && for_the_same
                && (is_dead(other.host) || is_dead(Some(other.front)))
        };
        let mut series = Vec::new();
        for place in Place::all() {
            for id in record::ids(&place).unwrap_or_default() {
                if Record::read(&record::path(&place, &id)).is_ok_and(|record| is_one(&record)) {
                    series.push((place.clone(), id));
                }
            }
        }
        Self { series }
    }

    /// Whether nothing is left of any of them.
    pub fn are_gone(&mut self) -> bool {
        self.series.retain(|(place, id)| !members(place, id).is_empty());
        self.series.is_empty()
    }

    /// Ends what nobody keeps any more of them, in a process of its own, if there is such.
    #[must_use]
    pub fn sweep(&self) -> Option<Pid> {
        let is_left_alone =
            |(place, id): &(Place, String)| members(place, id).iter().all(|id| !sweep::owner_is_alive(place, id));
        if self.series.iter().any(is_left_alone) { sweep::sweep_apart().ok() } else { None }
    }
}

/// What is on record of a series.
fn members(place: &Place, series: &str) -> Vec<String> {
    let ids = record::ids(place).unwrap_or_default();
    ids.into_iter().filter(|id| id == series || PenId::series_of(id) == Some(series)).collect()
}
