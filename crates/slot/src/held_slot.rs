//! A slot that is held, and its witness, which keeps the slot's history.

use std::fmt;

use nostray_pen::{Ask, Event, Objection, Opening, Ready, Reason, Witness};
use nostray_registry::{Journal, Place, Story};

use crate::Name;
use crate::history::{History, Moment};
use crate::lock::Held;
use crate::queue;

/// A slot that this process holds, together with the processes that it forks, until the last of them has ended.
#[derive(Debug)]
pub struct HeldSlot {
    held: Held,
    place: Place,
    slot: Name,
    id: String,
    is_ready: bool,
    /// It was asked to hand over.
    hands_over: bool,
    /// Why it will end, or would if nothing else is said.
    why: Option<Why>,
}

#[derive(Debug)]
enum Why {
    Firm(String),
    Provisional(String),
}

impl HeldSlot {
    pub(crate) fn new(held: Held, place: Place, slot: Name, id: String) -> Self {
        Self { held, place, slot, id, is_ready: false, hands_over: false, why: None }
    }

    /// Which slot.
    #[must_use]
    pub fn slot(&self) -> &Name {
        &self.slot
    }

    /// The child is ready: from now on it may be asked to hand over. Waiters are woken.
    pub fn is_ready(&mut self) {
        if !std::mem::replace(&mut self.is_ready, true) {
            History::amend(&self.place, &self.id, |entry| entry.ready = Some(Moment::now()));
            self.wake_waiters();
        }
    }

    /// Why it will end. The first reason counts.
    pub fn ends_because(&mut self, why: &dyn fmt::Display) {
        if !matches!(self.why, Some(Why::Firm(_))) {
            self.why = Some(Why::Firm(why.to_string()));
        }
    }

    /// It ends because it was asked to hand over: the host of a child that was replaced does not replace its replacer.
    pub fn hands_over(&mut self) {
        self.hands_over = true;
    }

    /// Why it would end, if it did now. The last reason counts.
    pub fn would_end_because(&mut self, why: &dyn fmt::Display) {
        if !matches!(self.why, Some(Why::Firm(_))) {
            self.why = Some(Why::Provisional(why.to_string()));
        }
    }

    /// Its tree is being torn down. Waiters are woken.
    pub fn is_stopping(&self) {
        self.wake_waiters();
    }

    /// Nothing is left of the tree, and nothing is on record of it. The slot is free.
    pub fn is_over(&mut self) {
        let why = self.why.take().map(|(Why::Firm(why) | Why::Provisional(why))| why);
        let hands_over = self.hands_over;
        History::amend(&self.place, &self.id, |entry| {
            entry.ended = Some(Moment::now());
            entry.handed_over |= hands_over;
            entry.why = why.or(entry.why.take());
        });
        self.held.release();
        self.wake_waiters();
    }

    /// A waiter may wait for the holder to be ready, or to begin to end.
    fn wake_waiters(&self) {
        queue::waiters(&self.place).iter().for_each(queue::QueueEntry::wake);
    }
}

/// A witness that keeps a slot's history, around the witness that keeps the pen's record.
#[derive(Debug)]
pub struct SlotWitness {
    held: HeldSlot,
    inner: Box<dyn Witness>,
    /// Whether it is ready as soon as it runs.
    ready_at_start: bool,
}

impl SlotWitness {
    /// For a pen that is about to be opened.
    #[must_use]
    pub fn new(held: HeldSlot, inner: Box<dyn Witness>) -> Self {
        Self { held, inner, ready_at_start: true }
    }
}

impl Witness for SlotWitness {
    /// A pen that is not on record is refused: the next claim could not find it if all its keepers were killed.
    fn opens(&mut self, opening: &Opening<'_>) -> Result<(), Objection> {
        self.ready_at_start = matches!(opening.spec.ready, Ready::Started);
        let slot = self.held.slot().clone();
        self.inner.opens(opening).map_err(|objection| match objection {
            Objection::Warning(why) => {
                self.held.ends_because(&why);
                self.held.is_over();
                Objection::Refusal(format!("slot {slot} is only for a child that can be put on record: {why}"))
            }
            refusal @ Objection::Refusal(_) => refusal,
        })?;
        if let Ok(place) = Place::for_writing() {
            Journal::at(&place)
                .add(&opening.id.to_string(), Story::Slot { slot: slot.to_string(), what: "taken".to_owned() });
        }
        Ok(())
    }

    fn settled(&mut self) {
        self.inner.settled();
    }

    fn sees(&mut self, event: &Event) {
        // Waiters go by the record, so it is written first.
        self.inner.sees(event);
        match event {
            Event::Executed if self.ready_at_start => self.held.is_ready(),
            Event::Ready => self.held.is_ready(),
            Event::Stopping(reason) => {
                if matches!(reason, Reason::Asked { ask: Ask::HandOver, .. }) {
                    self.held.hands_over();
                }
                self.held.ends_because(reason);
                self.held.is_stopping();
            }
            Event::ChildEnded(how) => self.held.ends_because(&format_args!("the child {how}")),
            Event::NotExecuted { why, .. } => self.held.ends_because(why),
            Event::Empty => self.held.is_over(),
            _ => {}
        }
    }
}
