//! What the host has asked and the child has not answered yet.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use nostray_rpc::Id;

use crate::machine::Moment;
use crate::memory::Note;

/// One request on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What its answer will mean.
    pub(crate) note: Note,
    /// Those that came in one batch are answered in one, if it must be by us.
    pub(crate) batch: Option<u64>,
    /// Nobody waits for it any more, or nobody waits for it to end: it keeps no child awake and is not missed.
    pub(crate) idle: bool,
    serial: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    by_id: HashMap<Id, Flight, BuildHasherDefault<Quick>>,
    /// A host that uses an id twice at a time gets two answers; which is which is its own affair.
    twice: VecDeque<(Id, Flight)>,
    /// Those that somebody waits for.
    waited_for: usize,
    serial: u64,
    deadlines: VecDeque<(Moment, Id, u64)>,
}

/// Ids are counted up by the host itself, so nobody gains by making them collide.
#[derive(Debug, Default)]
pub(crate) struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn finish(&self) -> u64 {
        // The map looks at the highest bits and at the lowest.
        self.0 ^ (self.0 >> 32)
    }
}

impl Flights {
    pub(crate) fn add(&mut self, id: Id, note: Note, batch: Option<u64>, deadline: Option<Moment>) {
        self.serial += 1;
        let idle = note.is_stream();
        if !idle {
            self.waited_for += 1;
            if let Some(deadline) = deadline {
                self.deadlines.push_back((deadline, id.clone(), self.serial));
            }
        }
        let flight = Flight { note, batch, idle, serial: self.serial };
        match self.by_id.entry(id) {
            Entry::Occupied(first) => self.twice.push_back((first.key().clone(), flight)),
            Entry::Vacant(place) => drop(place.insert(flight)),
        }
    }

    /// Whether somebody waits for an answer.
    pub(crate) fn is_busy(&self) -> bool {
        self.waited_for > 0
    }

    /// Whether its answer means nothing to us.
    pub(crate) fn is_plain(&self, id: &Id) -> bool {
        self.by_id.get(id).is_some_and(|flight| flight.note == Note::Nothing)
    }

    /// The child has answered.
    pub(crate) fn answered(&mut self, id: &Id) -> Option<Flight> {
        let flight = self.by_id.remove(id)?;
        if !flight.idle {
            self.waited_for -= 1;
        }
        if let Some(at) = self.twice.iter().position(|(other, _)| other == id)
            && let Some((id, next)) = self.twice.remove(at)
        {
            self.by_id.insert(id, next);
        }
        if self.by_id.is_empty() {
            self.deadlines.clear();
        }
        Some(flight)
    }

    /// Takes out a handshake that is not answered yet.
    pub(crate) fn take_handshake(&mut self) -> Option<(Id, Note)> {
        let is_one =
            |flight: &Flight| matches!(flight.note, Note::Initialize(_)) && flight.batch.is_none() && !flight.idle;
        let id = self.by_id.iter().find(|(_, flight)| is_one(flight)).map(|(id, _)| id.clone())?;
        self.answered(&id).map(|flight| (id, flight.note))
    }

    fn all_with<'a>(&'a mut self, id: &'a Id) -> impl Iterator<Item = &'a mut Flight> {
        let twice = self.twice.iter_mut().filter(move |(other, _)| other == id).map(|(_, flight)| flight);
        self.by_id.get_mut(id).into_iter().chain(twice)
    }

    /// The host waits no longer. An answer that comes all the same is passed on, as it would be without us.
    pub(crate) fn cancelled(&mut self, id: &Id) {
        let waited_for = self.all_with(id).find(|flight| !flight.idle).map(|flight| flight.idle = true);
        self.waited_for -= usize::from(waited_for.is_some());
    }

    /// When the next one has taken too long.
    pub(crate) fn deadline(&mut self) -> Option<Moment> {
        while let Some((at, id, serial)) = self.deadlines.front().cloned() {
            if self.all_with(&id).any(|flight| flight.serial == serial && !flight.idle) {
                return Some(at);
            }
            self.deadlines.pop_front();
        }
        None
    }

    /// Takes out one that has taken too long by now.
    pub(crate) fn overdue(&mut self, now: Moment) -> Option<Id> {
        if self.deadline()? > now {
            return None;
        }
        let (_, id, serial) = self.deadlines.pop_front()?;
        if self.by_id.get(&id).is_some_and(|flight| flight.serial == serial) {
            self.answered(&id)?;
        } else {
            self.twice.retain(|(_, flight)| flight.serial != serial);
            self.waited_for -= 1;
        }
        Some(id)
    }

    /// Takes out all that somebody waits for, in the order in which they came; those of one batch together. What nobody waits
    /// for is forgotten, and streams are left to whoever starts them again.
    pub(crate) fn cut_off(&mut self) -> Vec<(Option<u64>, Vec<Id>)> {
        let mut all: Vec<(u64, Option<u64>, Id)> = Vec::new();
        for (id, flight) in self.by_id.drain().chain(self.twice.drain(..)).filter(|(_, flight)| !flight.idle) {
            all.push((flight.serial, flight.batch, id));
        }
        all.sort_unstable_by_key(|(serial, ..)| *serial);
        self.waited_for = 0;
        self.deadlines.clear();
        let mut groups: Vec<(Option<u64>, Vec<Id>)> = Vec::new();
        for (_, batch, id) in all {
            match groups.iter_mut().find(|(of, _)| batch.is_some() && *of == batch) {
                Some((_, ids)) => ids.push(id),
                None => groups.push((batch, vec![id])),
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Option<Moment> {
        Some(Moment::from_secs(seconds))
    }

    #[test]
    fn each_is_answered_once_and_in_the_end_nobody_waits() {
        let mut flights = Flights::default();
        flights.add(Id::Int(1), Note::Nothing, None, at(5));
        flights.add(Id::Int(1), Note::Nothing, None, at(6));
        flights.add(Id::Text("1".into()), Note::Nothing, Some(7), None);
        assert!(flights.answered(&Id::Int(1)).is_some());
        assert_eq!(flights.deadline(), at(6));
        assert!(flights.answered(&Id::Int(1)).is_some());
        assert!(flights.answered(&Id::Int(1)).is_none());
        assert!(flights.is_busy());
        assert_eq!(flights.cut_off(), [(Some(7), vec![Id::Text("1".into())])]);
        assert!(!flights.is_busy());
        assert_eq!(flights.deadline(), None);
    }

    #[test]
    fn those_of_a_batch_are_cut_off_together_and_in_order() {
        let mut flights = Flights::default();
        for (id, batch) in [(1, None), (2, Some(1)), (3, None), (4, Some(1)), (5, Some(2))] {
            flights.add(Id::Int(id), Note::Nothing, batch, None);
        }
        flights.cancelled(&Id::Int(3));
        let ids = |ids: &[i64]| ids.iter().map(|id| Id::Int(*id)).collect::<Vec<_>>();
        assert_eq!(flights.cut_off(), [(None, ids(&[1])), (Some(1), ids(&[2, 4])), (Some(2), ids(&[5]))]);
    }

    #[test]
    fn what_takes_too_long_is_taken_out_and_what_was_cancelled_is_not() {
        let mut flights = Flights::default();
        for id in 1..=3 {
            flights.add(Id::Int(id), Note::Nothing, None, at(10 + u64::try_from(id).expect("small")));
        }
        flights.cancelled(&Id::Int(1));
        assert_eq!(flights.deadline(), at(12));
        assert_eq!(flights.overdue(Moment::from_secs(11)), None);
        assert_eq!(flights.overdue(Moment::from_secs(12)), Some(Id::Int(2)));
        assert_eq!(flights.overdue(Moment::from_secs(12)), None);
        assert!(flights.is_busy());
    }
}
