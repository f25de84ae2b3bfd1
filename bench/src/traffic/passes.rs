//! Round trips and throughput of every kind of traffic on every way, the ways taking turns, in several passes.

use super::busy::Busy;
use super::load::Turn;
use super::processor::OneProcessor;
use super::{Limits, Load, Server, Session, Way, watch};
use crate::Failure;
use crate::stats::{median, percentile};

/// How many times as long as a turn a way may be warmed up.
const WARMING: u32 = 3;

/// How much of it.
pub(crate) struct Amount {
    /// Each with new processes: where the kernel happens to put them matters.
    pub(crate) passes: usize,
    /// In each pass, of each load on each way.
    pub(crate) turns: usize,
    /// Calls before anything is measured; an interpreter needs some to become what it will be.
    pub(crate) warm_up: usize,
    /// Of each turn.
    pub(crate) limits: Option<Limits>,
}

/// A value for each pass.
#[derive(Default, Clone)]
pub(crate) struct Passes {
    pub(crate) p50: Vec<f64>,
    pub(crate) p99: Vec<f64>,
    pub(crate) messages_a_second: Vec<f64>,
    /// Microseconds of processor time for each message.
    pub(crate) busy: Vec<f64>,
    /// How many were seen to be answered.
    pub(crate) answers: usize,
    /// Why it is not tried any more.
    pub(crate) end: Option<End>,
}

#[derive(Clone)]
pub(crate) enum End {
    /// It did not carry the load; why.
    Failed(String),
    /// So many were still on the way when it was given up; what came until then counts.
    Slow(usize),
}

/// A turn, and what the way itself did in it.
struct Borne {
    turn: Turn,
    busy: Option<f64>,
}

impl Passes {
    fn add(&mut self, turns: &[Borne]) {
        if turns.is_empty() {
            return;
        }
        let times: Vec<f64> = turns.iter().flat_map(|borne| borne.turn.times.iter().copied()).collect();
        let speeds: Vec<f64> = turns.iter().map(|borne| borne.turn.messages_a_second).collect();
        let busy: Vec<f64> = turns.iter().filter_map(|borne| borne.busy).collect();
        self.p50.push(median(&times));
        self.p99.push(percentile(&times, 0.99));
        self.messages_a_second.push(median(&speeds));
        if !busy.is_empty() {
            self.busy.push(median(&busy));
        }
        self.answers += times.len();
    }

    pub(crate) fn why_it_failed(&self) -> Option<&str> {
        match &self.end {
            Some(End::Failed(why)) => Some(why),
            _ => None,
        }
    }
}

/// What one kind of traffic came to, on every way.
pub(crate) struct Seen {
    pub(crate) load: Load,
    pub(crate) ways: Vec<Passes>,
}

impl Seen {
    pub(crate) fn name(&self) -> [String; 2] {
        [self.load.size(), self.load.in_flight.to_string()]
    }
}

/// Sends all loads over all ways. A way that does not carry one fails it.
pub(crate) fn measure(ways: &[Way], server: &Server, loads: &[Load], amount: &Amount) -> Result<Vec<Seen>, Failure> {
    let all = measure_leniently(ways, server, loads, amount)?;
    match all.iter().flat_map(|seen| &seen.ways).find_map(Passes::why_it_failed) {
        Some(why) => Err(why.into()),
        None => Ok(all),
    }
}

/// The same; what a way does not carry is said of it.
pub(crate) fn measure_leniently(
    ways: &[Way],
    server: &Server,
    loads: &[Load],
    amount: &Amount,
) -> Result<Vec<Seen>, Failure> {
    let nothing = || ways.iter().map(|_| Passes::default()).collect();
    let mut all: Vec<Seen> = loads.iter().map(|&load| Seen { load, ways: nothing() }).collect();
    let first = *loads.first().ok_or("no load")?;
    for pass in 0..amount.passes {
        let doing =
            |what: &str| watch::doing(format!("{}: pass {} of {}, {what}", server.name, pass + 1, amount.passes));
        let mut lanes: Vec<Lane<'_>> =
            ways.iter().map(|way| Lane { way, server, amount, first, state: None }).collect();
        for lane in &mut lanes {
            doing(&format!("{} starts", lane.way.name));
            lane.open().ok(); // It is tried again with every load, which then says why.
        }
        for seen in &mut all {
            let mut turns: Vec<Vec<Borne>> = ways.iter().map(|_| Vec::new()).collect();
            for turn in 0..amount.turns {
                for offset in 0..ways.len() {
                    let at = (turn + pass + offset) % ways.len();
                    if seen.ways[at].end.is_some() {
                        continue;
                    }
                    doing(&format!("{}, {} in flight, {}", seen.load.size(), seen.load.in_flight, ways[at].name));
                    match lanes[at].bear(&seen.load) {
                        Ok(borne) => {
                            let given_up = borne.turn.given_up;
                            seen.ways[at].end = (given_up > 0).then_some(End::Slow(given_up));
                            turns[at].push(borne);
                        }
                        Err(error) => seen.ways[at].end = Some(End::Failed(error.to_string())),
                    }
                }
            }
            for (passes, turns) in seen.ways.iter_mut().zip(&turns) {
                passes.add(turns);
            }
        }
    }
    Ok(all)
}

/// A way in one pass.
struct Lane<'a> {
    way: &'a Way,
    server: &'a Server,
    amount: &'a Amount,
    first: Load,
    state: Option<(Session, Busy)>,
}

impl Lane<'_> {
    /// As it is, or new if the last one has ended.
    fn open(&mut self) -> Result<&mut (Session, Busy), Failure> {
        let state = match self.state.take() {
            Some(state) => state,
            None => {
                let mut session = self.way.open(self.server)?;
                let limits = self.amount.limits.map(|limits| Limits { sending: WARMING * limits.sending, ..limits });
                session.bear(&Load { messages: self.amount.warm_up, ..self.first }, limits)?;
                let busy = Busy::of(&session);
                (session, busy)
            }
        };
        Ok(self.state.insert(state))
    }

    fn bear(&mut self, load: &Load) -> Result<Borne, Failure> {
        let limits = self.amount.limits;
        let (session, busy) = self.open()?;
        let one_processor = load.on_one_processor.then(|| OneProcessor::of(session)).transpose()?;
        let before = busy.microseconds();
        let turn = session.bear(load, limits);
        drop(one_processor);
        let spent = busy.microseconds() - before;
        if turn.as_ref().map_or(true, |turn| turn.given_up > 0) {
            self.state = None;
        }
        let turn = turn?;
        // The processor time of a session that was ended cannot be read any more.
        let busy = (turn.given_up == 0).then_some(spent / turn.times.len() as f64);
        Ok(Borne { turn, busy })
    }
}
