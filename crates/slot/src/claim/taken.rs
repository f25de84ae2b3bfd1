//! A slot that another pen holds: finding out about the holder, and waiting for it, asking it, or ending it.

use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_registry::{Holder, State};
use nostray_sys::Signal;
use nostray_sys::identity::{Identity, World};

use super::Claim;
use crate::decide::{self, Action, Observation, RefusalReason, decide};
use crate::history::{Changes, History, Moment};
use crate::queue::Kind;
use crate::request::{IfTaken, Step};
use crate::{Error, look};

/// A prober, which only tests whether the lock is free, holds it no longer than this.
const PROBE_TIME: Duration = Duration::from_millis(100);
/// A prober may be descheduled while it holds the lock. If no holder is known, wait this long before reporting "taken".
const MAX_PROBE_TIME: Duration = Duration::from_secs(5);

impl Claim {
    /// Decides what to do about a slot that is held, and does it.
    pub(super) fn taken(&mut self, is_behind: bool, holder: Option<Holder>) -> Result<Step, Error> {
        let if_taken = if self.only_waits { IfTaken::Wait } else { self.request.if_taken };
        // A new holder has not been asked.
        self.asked.take_if(|(id, _)| holder.as_ref().is_some_and(|holder| holder.record.id != *id));
        self.look_for_frozen(if_taken, holder.as_ref());
        let changes = self.excessive_handovers();
        self.was_replaced |= if_taken == IfTaken::Replace && self.host_was_replaced();
        let is_superseded =
            if_taken == IfTaken::Replace && (is_behind || self.is_too_late_to_replace(holder.as_ref()));
        let seen = Observation {
            is_behind,
            is_superseded,
            is_loop: changes.is_some(),
            was_replaced: self.was_replaced,
            // A thread may wait until another thread of its program releases the slot; it cannot replace it.
            is_our_own: holder.as_ref().is_some_and(|holder| {
                holder.is_around_us() && !(if_taken == IfTaken::Wait && holder.is_this_process())
            }),
            holder: holder.as_ref().map_or(decide::HolderState::Unknown, |holder| self.state_of(holder)),
            asked: self.asked.as_ref().map(|(_, asked)| self.looked_at.saturating_duration_since(*asked)),
            frozen: self.frozen.map(|since| self.looked_at.saturating_duration_since(since)),
            is_young: self.began.elapsed() < if if_taken == IfTaken::Fail { MAX_PROBE_TIME } else { PROBE_TIME },
            is_late: self.request.wait_timeout.is_some_and(|time| self.began.elapsed() >= time),
        };
        let slot = &self.request.slot;
        let by = look::describe_holder(holder.as_ref().map(|holder| &holder.record));
        Ok(match decide(if_taken, &seen) {
            Action::Wait => {
                let verb = if if_taken == IfTaken::Replace && !seen.was_replaced {
                    "waiting to replace it"
                } else {
                    "waiting"
                };
                let news = (!self.has_told && !seen.is_young).then(|| format!("slot {slot} is {by}; {verb}"));
                self.has_told |= news.is_some();
                Step::Waiting(news)
            }
            Action::Ask => {
                self.asked = holder.as_ref().map(|holder| (holder.record.id.clone(), Instant::now()));
                let was_heard = holder.is_some_and(|holder| holder.ask(Ask::HandOver));
                let news = format!("slot {slot} is {by}, and was asked to hand over");
                self.has_told = true;
                self.tell(&format!(
                    "{by}; asked to hand over{}",
                    if was_heard { "" } else { ", but no keeper of it lives" }
                ));
                Step::Waiting(Some(news))
            }
            Action::Wake => {
                match holder {
                    Some(holder) => holder.wake(),
                    None => drop(self.signal_frozen(Signal::CONT, None)),
                }
                Step::Waiting(None)
            }
            Action::EndFromOutside if holder.is_none() => {
                self.tell("its holder is stopped, and not on record; it is killed");
                self.signal_frozen(Signal::KILL, None);
                Step::Waiting(None)
            }
            // A stopped keeper that holds the lock keeps the others from ending.
            Action::EndFromOutside
                if matches!(seen.holder, decide::HolderState::Stopping { .. })
                    && self.signal_frozen(Signal::KILL, holder.as_ref()) =>
            {
                self.tell(&format!("{by}; one of its keepers is stopped, and is killed"));
                Step::Waiting(None)
            }
            Action::EndFromOutside if self.helper.is_some() => Step::Waiting(None),
            Action::EndFromOutside => {
                let news = format!("slot {slot} is {by}, which does not answer, and is ended from outside");
                self.tell(&format!("{by}; it does not answer, and is ended from outside"));
                self.help(holder.as_ref());
                self.asked = holder.map(|holder| (holder.record.id, Instant::now()));
                Step::Waiting(Some(news))
            }
            Action::OnlyWait => {
                let limit = self.request.max_handovers;
                let (why, until) = match changes.filter(|_| !seen.was_replaced) {
                    Some(changes) => (
                        format!("{changes} (limit {limit}), so the holder is not asked to hand over"),
                        " instead".to_owned(),
                    ),
                    None => (
                        "this host was replaced and does not replace in turn".to_owned(),
                        format!(" until it ends, or a person says `nostray slot release {slot}`"),
                    ),
                };
                if let Some(ticket) = &mut self.ticket {
                    ticket.downgrade_to_wait();
                    self.only_waits = ticket.kind() == Kind::Wait;
                }
                self.has_told = true;
                self.tell(&format!("{by}; {why}"));
                Step::Waiting(Some(format!("slot {slot} is {by}; {why}; waiting{until}")))
            }
            Action::GiveUp(because) => {
                let why = match because {
                    RefusalReason::Taken => String::new(),
                    RefusalReason::TooLate => {
                        let time = self.request.wait_timeout.unwrap_or_default();
                        format!(", and was not free after {}", humantime::format_duration(time))
                    }
                    RefusalReason::Superseded => ", and somebody who came later replaces it instead".to_owned(),
                    RefusalReason::OurOwn => ", and this was started by it: it would wait for itself".to_owned(),
                };
                let text = format!("slot {slot} is {by}{why}; `nostray slot show {slot}` tells more");
                Step::Refused(self.refuse(text))
            }
        })
    }

    /// The state of a holder, as far as the decision needs it.
    fn state_of(&self, holder: &Holder) -> decide::HolderState {
        let record = &holder.record;
        match record.state {
            State::Starting => decide::HolderState::Starting,
            State::Stopping { .. } => {
                let promised = record.eof_grace.saturating_add(record.term_grace);
                let since = Moment::now().time.saturating_sub(record.since);
                let is_frozen = || holder.is_frozen() || !self.lock.frozen_holders().is_empty();
                let overdue = since.checked_sub(promised).filter(|_| is_frozen());
                decide::HolderState::Stopping { overdue: overdue.map(Duration::from_millis) }
            }
            State::Ready | State::Asleep | State::BackingOff { .. } | State::Tripped { .. } => {
                decide::HolderState::Settled
            }
        }
    }

    /// Notes since when a holder that is not ready is stopped. One on record is a matter of a request to replace alone: it may have been
    /// stopped by its user.
    fn look_for_frozen(&mut self, if_taken: IfTaken, holder: Option<&Holder>) {
        let is_frozen = self.began.elapsed() >= PROBE_TIME
            && match (if_taken, holder) {
                (IfTaken::Fail, _) | (IfTaken::Wait, Some(_)) => false,
                (IfTaken::Replace, Some(holder)) => holder.record.state == State::Starting && holder.is_frozen(),
                // A scan of all processes.
                (IfTaken::Wait | IfTaken::Replace, None) => !self.lock.frozen_holders().is_empty(),
            };
        self.frozen = is_frozen.then(|| self.frozen.unwrap_or(self.looked_at));
    }

    /// Signals stopped processes that hold the lock; each by its identity, and only if it still holds it and is of `holder`, or no holder is
    /// on record. False if there is none.
    fn signal_frozen(&self, signal: Signal, holder: Option<&Holder>) -> bool {
        let is_meant = |process: Identity| {
            holder.map_or_else(|| self.holder().is_none(), |holder| holder.has(process))
                && self.lock.frozen_holders().contains(&process)
        };
        let frozen = self.lock.frozen_holders().into_iter();
        frozen.filter(|process| process.signal(signal, |_| is_meant(*process)).is_ok()).count() > 0
    }

    /// Whether the holder was a later request to replace. It has superseded this one between two looks.
    fn is_too_late_to_replace(&self, holder: Option<&Holder>) -> bool {
        let (Some(holder), Some(ticket)) = (holder, &self.ticket) else { return false };
        let history = History::read(&self.place);
        let entry = history.entries.iter().rev().find(|entry| entry.id == holder.record.id);
        entry.and_then(|entry| entry.replaced).is_some_and(|since| since > ticket.turn.since())
    }

    pub(super) fn host_was_replaced(&self) -> bool {
        let (Some(host), Some(world)) = (self.host, World::current()) else { return false };
        History::read(&self.place).was_replaced(host, &world.boot)
    }

    fn excessive_handovers(&self) -> Option<Changes> {
        if self.request.if_taken != IfTaken::Replace {
            return None;
        }
        let world = World::current()?;
        History::read(&self.place).excessive_handovers(self.request.max_handovers, Moment::now(), &world.boot)
    }
}
