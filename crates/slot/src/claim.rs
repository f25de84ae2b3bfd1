//! The state of one attempt to get a slot: it tries the lock, waits in the queue, and starts helpers. Nothing here blocks: the caller has
//! a host to watch meanwhile. `taken` deals with a holder, `clear` with what a dead one has left.

mod clear;
mod taken;

use std::time::{Duration, Instant};

use nostray_pen::PenId;
use nostray_registry::{Holder, Journal, Place, Process, Story, why_no_world};
use nostray_sys::Pidfd;
use nostray_sys::identity::Identity;
use nostray_sys::process::getppid;

use crate::decide;
use crate::helper::Helper;
use crate::history::{History, Moment};
use crate::lock::{Held, Lock, Watch};
use crate::look;
use crate::queue::{self, Kind, Ticket, Waiter};
use crate::request::{IfTaken, Refusal, SlotRequest, Step};
use crate::{Error, place_of, time};

/// An attempt to get a slot. Its place in the queue is given up when it is dropped.
#[derive(Debug)]
pub struct Claim {
    request: SlotRequest,
    id: String,
    place: Place,
    lock: Lock,
    ticket: Option<Ticket>,
    /// The process that started this one.
    host: Option<Process>,
    /// A child of this host was replaced before this claim.
    was_replaced: bool,
    /// It was a request to replace, and only waits now.
    only_waits: bool,
    /// The lock, once it is held. Something may still be left of the holder before.
    held: Option<Held>,
    /// Hangs up when the holder has ended.
    pub(crate) watch: Watch,
    /// The waiter that comes first.
    pub(crate) before: Option<Pidfd>,
    /// Ends a holder, or sweeps what is left of one.
    pub(crate) helper: Option<Helper>,
    /// Whether the helper may be a process. A program with more than one thread must not fork.
    may_fork: bool,
    sweeps: u32,
    looks: u64,
    looked_at: Instant,
    began: Instant,
    /// The pen that was asked to hand over, and when.
    asked: Option<(String, Instant)>,
    /// Since when the keepers of a holder that is not ready are stopped.
    frozen: Option<Instant>,
    has_told: bool,
    pause: Duration,
    next_look: Instant,
}

/// What sends no event is polled: soon after something has happened, and then less and less often.
const MIN_PAUSE: Duration = Duration::from_millis(1);

impl Claim {
    /// Nothing is done before the first [`Claim::step`].
    pub fn new(request: SlotRequest, id: &PenId) -> Result<Self, Error> {
        let place = place_of(&request.slot)?;
        let lock = Lock::open(&place)?;
        let watch = lock.watch()?;
        Ok(Self {
            request,
            id: id.to_string(),
            place,
            lock,
            ticket: None,
            host: getppid().and_then(Process::of),
            was_replaced: false,
            only_waits: false,
            held: None,
            watch,
            before: None,
            helper: None,
            may_fork: true,
            sweeps: 0,
            looks: 0,
            looked_at: Instant::now(),
            began: Instant::now(),
            asked: None,
            frozen: None,
            has_told: false,
            pause: MIN_PAUSE,
            next_look: Instant::now(),
        })
    }

    /// On behalf of this host, which is not the parent of this process if a launcher is between the two.
    #[must_use]
    pub(crate) fn for_host(self, host: Option<Identity>) -> Self {
        Self { host: host.map(Process::from), ..self }
    }

    /// For a program with more than one thread.
    #[must_use]
    pub fn without_forking(self) -> Self {
        Self { may_fork: false, ..self }
    }

    /// Does what can be done now.
    pub fn step(&mut self) -> Result<Step, Error> {
        self.looks += 1;
        // Taken before the first look: if this process is stopped in between, what it has seen is older than it seems.
        self.looked_at = Instant::now();
        self.refresh()?;
        if self.held.is_none() {
            self.draw_ticket()?;
            let is_behind = self.look_at_queue();
            if !is_behind {
                self.held = self.lock.try_take()?;
            }
            if self.held.is_none() {
                let holder = self.holder();
                return self.taken(is_behind, holder);
            }
        }
        self.clear()
    }

    /// How often [`Claim::step`] was called. What is to be watched may differ after each call.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// When to look again.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let late = self.request.wait_timeout.map(|time| self.began + time);
        let answer =
            self.asked.as_ref().map(|(_, asked)| *asked + decide::ANSWER_TIMEOUT).filter(|at| *at > Instant::now());
        [Some(self.next_look), late, answer].into_iter().flatten().min().unwrap_or(self.next_look)
    }

    /// Who holds the slot and since when, and for how long this claim has waited, in one line.
    #[must_use]
    pub fn progress(&self) -> String {
        let slot = &self.request.slot;
        let holder = look::slot(slot).ok().flatten().and_then(|slot| slot.holder);
        let waited = humantime::format_duration(Duration::from_secs(self.began.elapsed().as_secs()));
        format!("slot {slot} is {}; waiting for {waited}", look::name_holder(holder.as_ref()))
    }

    /// Withdraws the claim.
    pub fn give_up(&mut self, why: &str) -> Refusal {
        self.ticket = None;
        self.refuse(format!("nothing was started, since {why} while it waited"))
    }

    /// Takes note of events, and sets the pause until the next look.
    fn refresh(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if self.watch.has_hung_up() {
            self.watch = self.lock.watch()?;
            self.pause = MIN_PAUSE;
        } else if now >= self.next_look {
            self.pause = (self.pause * 2).min(time::MAX_PAUSE);
        } else {
            self.pause = MIN_PAUSE;
        }
        self.helper.take_if(|helper| helper.is_done());
        if let Some(helper) = &self.helper {
            helper.wake();
        }
        self.next_look = now + self.pause;
        Ok(())
    }

    fn draw_ticket(&mut self) -> Result<(), Error> {
        if self.ticket.is_none() {
            let kind = match self.request.if_taken {
                IfTaken::Fail => return Ok(()),
                IfTaken::Wait => Kind::Wait,
                IfTaken::Replace => {
                    // The replacer may still be in the queue. A ticket of the same kind would supersede it.
                    self.was_replaced = self.host_was_replaced();
                    if self.was_replaced { Kind::Wait } else { Kind::Replace }
                }
            };
            let SlotRequest { command, session, .. } = &self.request;
            let waiter = Waiter::new(self.id.clone(), command.clone(), session.clone(), Moment::now().time);
            let ticket = Ticket::draw(&self.place, kind, &waiter.ok_or_else(|| Error::NoProc(why_no_world()))?)?;
            if kind == Kind::Replace {
                // Earlier requests to replace are superseded.
                queue::waiters(&self.place).iter().filter(|seen| seen.kind == kind).for_each(queue::QueueEntry::wake);
            }
            self.ticket = Some(ticket);
        }
        Ok(())
    }

    /// Whether another waiter comes first. A request to replace comes before requests to wait; of several to replace, the last one.
    fn look_at_queue(&mut self) -> bool {
        let all = queue::waiters(&self.place);
        let all: Vec<_> = all.into_iter().filter(|seen| !seen.is_stopped()).collect();
        let is_before = |seen: &&queue::QueueEntry| match &self.ticket {
            None => true,
            Some(ticket) => match (ticket.kind(), seen.kind) {
                (Kind::Wait, Kind::Replace) => true,
                (Kind::Wait, Kind::Wait) => seen.turn < ticket.turn,
                (Kind::Replace, Kind::Replace) => seen.turn > ticket.turn,
                (Kind::Replace, Kind::Wait) => false,
            },
        };
        let before = all.iter().rfind(is_before);
        self.before = before.and_then(queue::QueueEntry::identity).and_then(Identity::open);
        before.is_some()
    }

    /// The holder, if it is known: the last entry of the history, if it is on record and a keeper of it lives. If none does, what has the
    /// lock is not on record: a process of that holder which was stopped before it could end, or the next holder, which has just got it.
    fn holder(&self) -> Option<Holder> {
        let mut history = History::read(&self.place);
        let mut holders = Holder::all_of(self.request.slot.as_str(), &history.places());
        holders.retain(Holder::is_kept);
        let last = history.entries.pop().filter(|entry| entry.ended.is_none()).map(|entry| entry.id);
        // A history may be lost; a live pen on record holds the slot all the same.
        let said = holders.iter().position(|holder| Some(&holder.record.id) == last.as_ref());
        let holder = said.or((!holders.is_empty()).then_some(0))?;
        Some(holders.swap_remove(holder))
    }

    /// Starts a helper that ends a holder, or sweeps the slot. If it cannot be started, the next step tries again.
    fn help(&mut self, to_end: Option<&Holder>) {
        let (slot, places) = (self.request.slot.to_string(), History::read(&self.place).places());
        self.helper = Helper::start(to_end, slot, places, self.may_fork);
    }

    fn refuse(&self, text: String) -> Refusal {
        self.tell(&text);
        Refusal(text)
    }

    fn tell(&self, what: &str) {
        if let Ok(place) = Place::for_writing() {
            let slot = self.request.slot.to_string();
            Journal::at(&place).add(&self.id, Story::Slot { slot, what: what.to_owned() });
        }
    }
}
