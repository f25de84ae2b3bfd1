//! What the host has asked and the child has not answered yet.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use nostray_registry::{Method, Traffic};
use nostray_rpc::Id;

use crate::machine::Moment;
use crate::memory::Note;

/// How many requests that were cancelled are remembered. Most servers never answer them.
const MAX_GIVEN_UP: usize = 1024;
/// So many deadlines are kept although nothing is in flight, and so many places for what is.
const FEW: usize = 64;
/// So many places are kept for a while after more were in flight: many calls at a time tend to come again at once, and a table that grows
/// moves everything in it.
const KEPT_FOR_A_WHILE: usize = 512;

/// One request on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What its answer will mean; none if that is [`Note::Nothing`], as for nearly all of them.
    note: Option<Box<Note>>,
    /// Requests of one batch are answered in one batch, if nostray has to answer them.
    pub(crate) batch: Option<u64>,
    pub(crate) hold: Hold,
    /// The host has cancelled it, and waits for its answer all the same: if no child has read it, it is not made.
    pub(crate) is_withdrawn: bool,
    serial: u64,
    method: Method,
    /// When the child was given it.
    since: Moment,
}

impl Flight {
    /// What its answer means.
    pub(crate) fn note(&self) -> &Note {
        self.note.as_deref().unwrap_or(&Note::Nothing)
    }

    /// The same for the caller to keep.
    pub(crate) fn into_note(self) -> Note {
        self.note.map_or(Note::Nothing, |note| *note)
    }
}

/// A request of the host.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) id: Id,
    /// What its answer will mean.
    pub(crate) note: Note,
    pub(crate) method: Method,
}

/// What waits for the end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The host does, and the child is kept awake for it.
    Work,
    /// The host does, but no work is done for it, so it keeps no child awake.
    Light,
    /// Nothing: it is a stream, or was cancelled. It keeps no child awake and is not missed.
    Nothing,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    by_id: HashMap<Id, Flight, BuildHasherDefault<Quick>>,
    /// A host that uses an id twice at a time gets two answers; which is which is its own affair.
    twice: VecDeque<(Id, Flight)>,
    /// How many the child is kept awake for, and how many the host waits for beside them.
    work: usize,
    light: usize,
    serial: u64,
    deadlines: VecDeque<(Moment, Id, u64)>,
    /// The cancelled requests, oldest first.
    given_up: VecDeque<(Id, u64)>,
    /// Counts them when they end, if they are counted here.
    pub(crate) traffic: Option<Traffic>,
}

/// The host counts up its ids itself, so it gains nothing by making them collide.
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
    pub(crate) fn add(&mut self, ask: Ask, hold: Hold, batch: Option<u64>, deadline: Option<Moment>, since: Moment) {
        let Ask { id, note, method } = ask;
        self.serial += 1;
        let hold = if note.is_stream() { Hold::Nothing } else { hold };
        self.count(hold, 1);
        if let Some(deadline) = deadline.filter(|_| hold != Hold::Nothing) {
            self.deadlines.push_back((deadline, id.clone(), self.serial));
        }
        let note = (note != Note::Nothing).then(|| Box::new(note));
        let flight = Flight { note, batch, hold, is_withdrawn: false, serial: self.serial, method, since };
        match self.by_id.entry(id) {
            Entry::Occupied(first) => self.twice.push_back((first.key().clone(), flight)),
            Entry::Vacant(place) => drop(place.insert(flight)),
        }
        if self.deadlines.len() > FEW + 2 * (self.by_id.len() + self.twice.len()) {
            self.forget_deadlines();
        }
    }

    /// Behind the deadline of a call that takes long, those of calls pile up that were answered meanwhile.
    fn forget_deadlines(&mut self) {
        let all = self.by_id.values().chain(self.twice.iter().map(|(_, flight)| flight));
        let due: HashSet<u64> =
            all.filter(|flight| flight.hold != Hold::Nothing).map(|flight| flight.serial).collect();
        self.deadlines.retain(|(_, _, serial)| due.contains(serial));
    }

    /// One of them has come, or has gone.
    fn count(&mut self, hold: Hold, by: isize) {
        let counted = match hold {
            Hold::Work => &mut self.work,
            Hold::Light => &mut self.light,
            Hold::Nothing => return,
        };
        *counted = counted.wrapping_add_signed(by);
    }

    /// Whether the child is to be kept awake.
    pub(crate) fn is_busy(&self) -> bool {
        self.work > 0
    }

    /// How many of this kind are in flight.
    pub(crate) fn count_of(&self, is_it: impl Fn(&Note) -> bool) -> usize {
        let twice = self.twice.iter().map(|(_, flight)| flight);
        self.by_id.values().chain(twice).filter(|flight| is_it(flight.note())).count()
    }

    /// What the answers to these mean is of no interest any more.
    pub(crate) fn forget(&mut self, is_it: impl Fn(&Note) -> bool) {
        let twice = self.twice.iter_mut().map(|(_, flight)| flight);
        for flight in self.by_id.values_mut().chain(twice).filter(|flight| is_it(flight.note())) {
            flight.note = None;
        }
    }

    /// Whether the host waits for an answer.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.work + self.light > 0
    }

    /// The ids of those that the host waits for, in their order, if each is a call that means nothing else and is answered alone.
    pub(crate) fn usual(&self) -> Option<Vec<Id>> {
        let is_unusual = |flight: &Flight| {
            flight.note.is_some() || flight.batch.is_some() || flight.hold == Hold::Light || flight.is_withdrawn
        };
        if !self.twice.is_empty() || self.by_id.values().any(is_unusual) {
            return None;
        }
        let waited_for = self.by_id.iter().filter(|(_, flight)| flight.hold == Hold::Work);
        let mut all: Vec<_> = waited_for.map(|(id, flight)| (flight.serial, id)).collect();
        all.sort_unstable_by_key(|(serial, _)| *serial);
        Some(all.into_iter().map(|(_, id)| id.clone()).collect())
    }

    /// Those are in flight elsewhere from now on.
    pub(crate) fn hand_over_usual(&mut self) {
        self.by_id.retain(|_, flight| flight.hold != Hold::Work);
        self.work = 0;
        if self.by_id.is_empty() {
            self.are_over();
        }
    }

    /// The child has answered this one, if its answer means nothing to us. Otherwise it stays.
    pub(crate) fn answered_plainly(&mut self, id: Id) -> Option<Flight> {
        let Entry::Occupied(place) = self.by_id.entry(id) else { return None };
        if place.get().note.is_some() {
            return None;
        }
        let (id, flight) = place.remove_entry();
        self.has_left(&id, &flight);
        Some(flight)
    }

    /// The child has answered.
    pub(crate) fn answered(&mut self, id: &Id) -> Option<Flight> {
        let flight = self.by_id.remove(id)?;
        self.has_left(id, &flight);
        Some(flight)
    }

    /// This one is in flight no more, and another one with its id takes its place.
    fn has_left(&mut self, id: &Id, flight: &Flight) {
        self.count(flight.hold, -1);
        if let Some(at) = self.twice.iter().position(|(other, _)| other == id)
            && let Some((id, next)) = self.twice.remove(at)
        {
            self.by_id.insert(id, next);
        }
        if self.by_id.is_empty() {
            self.are_over();
        }
    }

    /// The method that a request names, to be counted.
    pub(crate) fn method(&mut self, name: impl AsRef<[u8]>) -> Method {
        self.traffic.as_mut().map(|traffic| traffic.method(name)).unwrap_or_default()
    }

    /// The child has answered this one, now.
    pub(crate) fn count_answer(&self, flight: &Flight, is_error: bool, now: Moment) {
        if let Some(traffic) = &self.traffic {
            traffic.answered(flight.method, now.saturating_sub(flight.since), is_error);
        }
    }

    /// It has ended without an answer of the child.
    fn count_failure(&self, flight: &Flight) {
        if let Some(traffic) = &self.traffic {
            traffic.failed(flight.method);
        }
    }

    /// Nothing is in flight: gives back what very many have needed.
    fn are_over(&mut self) {
        self.deadlines.clear();
        self.given_up.clear();
        self.by_id.shrink_to(KEPT_FOR_A_WHILE);
        self.twice.shrink_to(FEW);
        self.deadlines.shrink_to(FEW);
        self.given_up.shrink_to(FEW);
    }

    /// Whether memory is kept that only many at a time need.
    pub(crate) fn holds_spare_memory(&self) -> bool {
        self.by_id.capacity() > 2 * FEW
    }

    /// Gives back what many at a time have needed.
    pub(crate) fn tidy(&mut self) {
        self.by_id.shrink_to(FEW);
    }

    /// Takes out the last one with this id: it has not been made.
    pub(crate) fn take_last(&mut self, id: &Id) -> Option<Flight> {
        let last = self.all_with(id).map(|flight| flight.serial).max()?;
        self.take(id, last)
    }

    /// Takes out this one of those with the same id.
    fn take(&mut self, id: &Id, serial: u64) -> Option<Flight> {
        if self.by_id.get(id).is_some_and(|flight| flight.serial == serial) {
            return self.answered(id);
        }
        let at = self.twice.iter().position(|(_, flight)| flight.serial == serial)?;
        let (_, flight) = self.twice.remove(at)?;
        self.count(flight.hold, -1);
        Some(flight)
    }

    /// Takes out a handshake that is not answered yet.
    pub(crate) fn take_handshake(&mut self) -> Option<(Id, Note)> {
        let is_one = |flight: &Flight| {
            matches!(flight.note(), Note::Initialize(_)) && flight.batch.is_none() && flight.hold == Hold::Work
        };
        let id = self.by_id.iter().find(|(_, flight)| is_one(flight)).map(|(id, _)| id.clone())?;
        self.answered(&id).map(|flight| (id, flight.into_note()))
    }

    fn all_with<'a>(&'a mut self, id: &'a Id) -> impl Iterator<Item = &'a mut Flight> {
        let twice = self.twice.iter_mut().filter(move |(other, _)| other == id).map(|(_, flight)| flight);
        self.by_id.get_mut(id).into_iter().chain(twice)
    }

    /// The host waits no longer. An answer that comes all the same is passed on, as it would be without us, unless too many
    /// were cancelled since.
    pub(crate) fn cancelled(&mut self, id: &Id) {
        let Some(flight) = self.all_with(id).find(|flight| flight.hold != Hold::Nothing) else { return };
        let (hold, serial) = (std::mem::replace(&mut flight.hold, Hold::Nothing), flight.serial);
        self.count(hold, -1);
        self.given_up.push_back((id.clone(), serial));
        if self.given_up.len() > MAX_GIVEN_UP
            && let Some((id, serial)) = self.given_up.pop_front()
        {
            self.take(&id, serial);
        }
    }

    /// The host has cancelled it, in a protocol in which a cancelled request is answered.
    pub(crate) fn withdrawn(&mut self, id: &Id) {
        if let Some(flight) = self.all_with(id).find(|flight| !flight.is_withdrawn) {
            flight.is_withdrawn = true;
        }
    }

    /// Takes out the requests that need no work.
    pub(crate) fn take_light(&mut self) -> Vec<(Id, Note)> {
        let light = |(id, flight): (&Id, &Flight)| (flight.hold == Hold::Light).then(|| (flight.serial, id.clone()));
        let twice = self.twice.iter().map(|(id, flight)| (id, flight));
        let mut all: Vec<_> = self.by_id.iter().chain(twice).filter_map(light).collect();
        all.sort_unstable_by_key(|(serial, _)| *serial);
        all.into_iter()
            .filter_map(|(serial, id)| self.take(&id, serial).map(|flight| (id, flight.into_note())))
            .collect()
    }

    /// When the next one has taken too long.
    pub(crate) fn deadline(&mut self) -> Option<Moment> {
        while let Some((at, id, serial)) = self.deadlines.front().cloned() {
            if self.all_with(&id).any(|flight| flight.serial == serial && flight.hold != Hold::Nothing) {
                return Some(at);
            }
            self.deadlines.pop_front();
        }
        None
    }

    /// Takes out one request whose deadline has passed.
    pub(crate) fn overdue(&mut self, now: Moment) -> Option<Id> {
        if self.deadline()? > now {
            return None;
        }
        let (_, id, serial) = self.deadlines.pop_front()?;
        let flight = self.take(&id, serial)?;
        self.count_failure(&flight);
        Some(id)
    }

    /// Takes out all requests that the host waits for, in their order; those of one batch together. Forgets the cancelled ones. Streams
    /// are opened again with the next child.
    pub(crate) fn cut_off(&mut self) -> Vec<(Option<u64>, Vec<Id>)> {
        let mut all: Vec<(u64, Option<u64>, Id)> = Vec::new();
        let (by_id, twice) = (std::mem::take(&mut self.by_id), std::mem::take(&mut self.twice));
        for (id, flight) in by_id.into_iter().chain(twice).filter(|(_, flight)| flight.hold != Hold::Nothing) {
            self.count_failure(&flight);
            all.push((flight.serial, flight.batch, id));
        }
        all.sort_unstable_by_key(|(serial, ..)| *serial);
        (self.work, self.light) = (0, 0);
        self.are_over();
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

    fn ask(id: Id) -> Ask {
        Ask { id, note: Note::Nothing, method: Method::default() }
    }

    fn at(seconds: u64) -> Option<Moment> {
        Some(Moment::from_secs(seconds))
    }

    #[test]
    fn each_request_is_answered_once_and_in_the_end_none_waits() {
        let mut flights = Flights::default();
        flights.add(ask(Id::Int(1)), Hold::Work, None, at(5), Moment::ZERO);
        flights.add(ask(Id::Int(1)), Hold::Work, None, at(6), Moment::ZERO);
        flights.add(ask(Id::Text("1".into())), Hold::Work, Some(7), None, Moment::ZERO);
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
    fn the_requests_of_a_batch_are_cut_off_together_and_in_order() {
        let mut flights = Flights::default();
        for (id, batch) in [(1, None), (2, Some(1)), (3, None), (4, Some(1)), (5, Some(2))] {
            flights.add(ask(Id::Int(id)), Hold::Work, batch, None, Moment::ZERO);
        }
        flights.cancelled(&Id::Int(3));
        let ids = |ids: &[i64]| ids.iter().map(|id| Id::Int(*id)).collect::<Vec<_>>();
        assert_eq!(flights.cut_off(), [(None, ids(&[1])), (Some(1), ids(&[2, 4])), (Some(2), ids(&[5]))]);
    }

    /// Most servers never answer what was cancelled, and a host may cancel for as long as it lives.
    #[test]
    fn what_was_cancelled_and_is_never_answered_takes_a_bounded_amount_of_memory() {
        let mut flights = Flights::default();
        // In flight for all this time, so that nothing is given back because all is over.
        flights.add(ask(Id::Int(0)), Hold::Work, None, at(1), Moment::ZERO);
        for id in 1..=20_000 {
            flights.add(ask(Id::Int(id)), Hold::Work, None, at(1), Moment::ZERO);
            flights.cancelled(&Id::Int(id));
            // The same id again and again, as a host that does not count may do.
            flights.add(ask(Id::Text("x".into())), Hold::Work, None, at(1), Moment::ZERO);
            flights.cancelled(&Id::Text("x".into()));
        }
        let kept = flights.by_id.capacity() + flights.twice.capacity() + flights.deadlines.capacity();
        assert!(kept < 8 << 10, "{kept}");
        assert!(flights.is_busy());
        // What was cancelled last may still be answered; what was forgotten is an answer to nothing.
        assert!(flights.answered(&Id::Int(20_000)).is_some());
        assert!(flights.answered(&Id::Int(1)).is_none());
        // An id that was forgotten is free, and means one call.
        flights.add(ask(Id::Int(1)), Hold::Work, None, None, Moment::ZERO);
        assert!(flights.answered(&Id::Int(1)).is_some());
        assert!(flights.answered(&Id::Int(1)).is_none());
    }

    #[test]
    fn what_was_answered_long_ago_is_not_kept_for_its_deadline() {
        let mut flights = Flights::default();
        flights.add(ask(Id::Int(0)), Hold::Work, None, at(1), Moment::ZERO);
        for id in 1..=100_000 {
            flights.add(ask(Id::Int(id)), Hold::Work, None, at(2), Moment::ZERO);
            flights.answered(&Id::Int(id));
        }
        assert!(flights.deadlines.capacity() < 1024, "{}", flights.deadlines.capacity());
        assert_eq!(flights.deadline(), at(1));
    }

    #[test]
    fn memory_goes_back_when_many_have_been_in_flight() {
        let mut flights = Flights::default();
        (0..100_000).for_each(|id| flights.add(ask(Id::Int(id)), Hold::Work, None, at(1), Moment::ZERO));
        (0..100_000).for_each(|id| drop(flights.answered(&Id::Int(id))));
        assert!(flights.by_id.capacity() + flights.deadlines.capacity() < 8192);
    }

    #[test]
    fn what_takes_too_long_is_taken_out_and_what_was_cancelled_is_not() {
        let mut flights = Flights::default();
        for id in 1..=3 {
            flights.add(ask(Id::Int(id)), Hold::Work, None, at(10 + u64::try_from(id).expect("small")), Moment::ZERO);
        }
        flights.cancelled(&Id::Int(1));
        assert_eq!(flights.deadline(), at(12));
        assert_eq!(flights.overdue(Moment::from_secs(11)), None);
        assert_eq!(flights.overdue(Moment::from_secs(12)), Some(Id::Int(2)));
        assert_eq!(flights.overdue(Moment::from_secs(12)), None);
        assert!(flights.is_busy());
    }
}
