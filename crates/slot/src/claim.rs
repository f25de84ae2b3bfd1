//! Getting a slot: trying, waiting, asking, and not taking it before the old tree is gone. Nothing here blocks: whoever wants a slot
//! has a host to watch meanwhile.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nostray_pen::{Ask, PenId, Rate};
use nostray_registry::{
    Holder, Journal, Place, Process, State, Story, describe, end_holder_apart, sweep_slot_apart, sweep_slot_here,
    why_no_world,
};
use nostray_sys::identity::{Identity, World};
use nostray_sys::poll::{self, Until};
use nostray_sys::process::getppid;
use nostray_sys::{Pidfd, Signal};

use crate::decide::{self, Because, Move, Sight, decide};
use crate::history::{Changes, History, HolderEntry, Moment};
use crate::lock::{Held, Lock};
use crate::queue::{self, Kind, Ticket, Waiter};
use crate::tenancy::Tenancy;
use crate::{Error, Name, look, place_of};

/// What to do if somebody holds the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfTaken {
    /// Wait until it is free.
    Wait,
    /// Give up.
    Fail,
    /// Ask the holder to hand over.
    Replace,
}

/// What somebody wants.
#[derive(Debug, Clone)]
pub struct SlotRequest {
    /// Which slot.
    pub slot: Name,
    /// What to do if somebody holds it.
    pub if_taken: IfTaken,
    /// How long to wait at most.
    pub wait_timeout: Option<Duration>,
    /// If it changed hands more often than this, no holder is asked to hand over.
    pub max_handovers: Rate,
    /// The command line, with secrets masked.
    pub command: Vec<String>,
    /// The session that it is for.
    pub session: Option<String>,
}

/// How far it has come.
#[derive(Debug)]
pub enum Step {
    /// The slot is ours, and nothing is left of whoever had it before.
    Taken(Tenancy),
    /// To be looked at again when something has happened; and what a person should know.
    Waiting(Option<String>),
    /// It is not to be had.
    Refused(Refusal),
}

/// Why a slot is not to be had, in a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// A process that may be left of a holder, for a person.
fn in_words(process: &Process) -> Option<String> {
    let who = process.identity().filter(|who| who.is_alive())?;
    Some(format!("process {} ({})", who.pid, describe(who.pid)))
}

/// As many as a sentence can bear.
fn shortened(candidates: &[String]) -> String {
    const ENOUGH: usize = 3;
    let more = candidates.len().saturating_sub(ENOUGH);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    candidates.iter().take(ENOUGH).cloned().collect::<Vec<_>>().join(", ") + &more
}

/// Who ends something for us: it takes its time.
#[derive(Debug)]
enum Helper {
    Process(Pidfd),
    Thread(std::thread::JoinHandle<()>),
}

/// An attempt to get a slot. Its place in the queue is given up when it is dropped.
#[derive(Debug)]
pub struct Claim {
    wish: SlotRequest,
    id: String,
    place: Place,
    lock: Lock,
    ticket: Option<Ticket>,
    /// The process that started this one.
    host: Option<Process>,
    /// It was replaced before we came.
    was_replaced: bool,
    /// It wanted to replace, and only waits now.
    has_settled: bool,
    /// Ours, but something may be left of whoever had it before.
    held: Option<Held>,
    /// Hangs up when the holder has ended.
    watch: OwnedFd,
    /// Whoever comes before us.
    before: Option<Pidfd>,
    /// Who ends something for us.
    helper: Option<Helper>,
    /// Whether that may be another process. A program with more than one thread must not fork.
    may_fork: bool,
    sweeps: u32,
    looks: u64,
    looked_at: Instant,
    began: Instant,
    /// Whom we have asked to hand over, and when.
    asked: Option<(String, Instant)>,
    /// Since when those are stopped who would have to get the holder ready.
    frozen: Option<Instant>,
    has_told: bool,
    pause: Duration,
    next_look: Instant,
}

/// What has no event is looked for: soon after something has happened, and then less and less often.
const SOON: Duration = Duration::from_millis(1);
const SELDOM: Duration = Duration::from_secs(1);
/// Whoever only looks whether the lock is free has it no longer than this.
const A_LOOK: Duration = Duration::from_millis(100);
/// Unless it comes to a halt in the middle of it, on a busy machine. A slot is not called taken before, if nobody is known to have it.
const A_LONG_LOOK: Duration = Duration::from_secs(5);
/// So often what a dead holder has left is swept, before it is given up.
const SWEEPS: u32 = 3;

impl Claim {
    /// Nothing is done before the first [`Claim::step`].
    pub fn new(wish: SlotRequest, id: &PenId) -> Result<Self, Error> {
        let place = place_of(&wish.slot)?;
        let lock = Lock::open(&place)?;
        let watch = lock.watch()?;
        Ok(Self {
            wish,
            id: id.to_string(),
            place,
            lock,
            ticket: None,
            host: getppid().and_then(Process::of),
            was_replaced: false,
            has_settled: false,
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
            pause: SOON,
            next_look: Instant::now(),
        })
    }

    /// For a program with more than one thread.
    #[must_use]
    pub fn without_forking(self) -> Self {
        Self { may_fork: false, ..self }
    }

    /// Does what can be done now.
    pub fn step(&mut self) -> Result<Step, Error> {
        self.looks += 1;
        // Before anything is looked at: if we are stopped in the middle of it, what we have seen is older than we think.
        self.looked_at = Instant::now();
        self.take_notice()?;
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

    /// What to wait for, beside the time.
    pub fn watches(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Until)> {
        let helper = self.helper.as_ref().and_then(|helper| match helper {
            Helper::Process(handle) => Some(handle),
            Helper::Thread(_) => None,
        });
        let handles = [self.before.as_ref(), helper];
        let handles = handles.into_iter().flatten().map(|handle| (handle.as_fd(), Until::Readable));
        handles.chain([(self.watch.as_fd(), Until::HungUp)])
    }

    /// At most so many.
    pub const EVENTS: usize = 3;

    /// How often it was looked at. What there is to wait for may be something else each time.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// When to look again.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let late = self.wish.wait_timeout.map(|time| self.began + time);
        let answer = self.asked.as_ref().map(|(_, asked)| *asked + decide::ANSWER).filter(|at| *at > Instant::now());
        [Some(self.next_look), late, answer].into_iter().flatten().min().unwrap_or(self.next_look)
    }

    /// Nobody wants it any more.
    pub fn give_up(&mut self, why: &str) -> Refusal {
        self.ticket = None;
        self.refuse(format!("nothing was started, since {why} while it waited"))
    }

    /// Forgets what has happened, and looks the sooner for what has not.
    fn take_notice(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        let has_happened = |handle: BorrowedFd<'_>, until| {
            poll::wait(&[(handle, until)], Some(Duration::ZERO)).is_ok_and(|came| came.contains(&true))
        };
        if has_happened(self.watch.as_fd(), Until::HungUp) {
            self.watch = self.lock.watch()?;
            self.pause = SOON;
        } else if now >= self.next_look {
            self.pause = (self.pause * 2).min(SELDOM);
        } else {
            self.pause = SOON;
        }
        self.helper.take_if(|helper| match helper {
            Helper::Process(handle) => has_happened(handle.as_fd(), Until::Readable),
            Helper::Thread(thread) => thread.is_finished(),
        });
        if let Some(Helper::Process(helper)) = &self.helper {
            helper.send(Signal::CONT).ok(); // one that is stopped would keep all of us waiting
        }
        self.next_look = now + self.pause;
        Ok(())
    }

    fn draw_ticket(&mut self) -> Result<(), Error> {
        if self.ticket.is_none() {
            let kind = match self.wish.if_taken {
                IfTaken::Fail => return Ok(()),
                IfTaken::Wait => Kind::Wait,
                IfTaken::Replace => {
                    // The replacer may still be in the queue. With a ticket like its own we would supersede it.
                    self.was_replaced = self.host_was_replaced();
                    if self.was_replaced { Kind::Wait } else { Kind::Replace }
                }
            };
            let SlotRequest { command, session, .. } = &self.wish;
            let who = Waiter::new(self.id.clone(), command.clone(), session.clone(), Moment::now().time);
            let ticket = Ticket::draw(&self.place, kind, &who.ok_or_else(|| Error::NoProc(why_no_world()))?)?;
            if kind == Kind::Replace {
                // Those who wanted the same are superseded.
                queue::everybody(&self.place).iter().filter(|seen| seen.kind == kind).for_each(queue::Seen::wake);
            }
            self.ticket = Some(ticket);
        }
        Ok(())
    }

    /// Whether somebody comes first. One who replaces comes before those who wait; of several, the last one.
    fn look_at_queue(&mut self) -> bool {
        let all = queue::everybody(&self.place);
        let all: Vec<_> = all.into_iter().filter(|seen| !seen.is_stopped()).collect();
        let is_before = |seen: &&queue::Seen| match &self.ticket {
            None => true,
            Some(ticket) => match (ticket.kind(), seen.kind) {
                (Kind::Wait, Kind::Replace) => true,
                (Kind::Wait, Kind::Wait) => seen.turn < ticket.turn,
                (Kind::Replace, Kind::Replace) => seen.turn > ticket.turn,
                (Kind::Replace, Kind::Wait) => false,
            },
        };
        let before = all.iter().rfind(is_before);
        self.before = before.and_then(queue::Seen::identity).and_then(Identity::open);
        before.is_some()
    }

    /// The slot could not be had just now.
    fn taken(&mut self, is_behind: bool, holder: Option<Holder>) -> Result<Step, Error> {
        let if_taken = if self.has_settled { IfTaken::Wait } else { self.wish.if_taken };
        // What one holder was asked is nothing that the next one has heard of.
        self.asked.take_if(|(id, _)| holder.as_ref().is_some_and(|holder| holder.record.id != *id));
        self.look_for_frozen(if_taken, holder.as_ref());
        let changes = self.goes_from_hand_to_hand();
        self.was_replaced |= if_taken == IfTaken::Replace && self.host_was_replaced();
        let is_superseded =
            if_taken == IfTaken::Replace && (is_behind || self.is_too_late_to_replace(holder.as_ref()));
        let sight = Sight {
            is_behind,
            is_superseded,
            is_loop: changes.is_some(),
            was_replaced: self.was_replaced,
            // Another thread of a program that guards itself may wait until the first one lets go; it cannot be replaced by it.
            is_our_own: holder.as_ref().is_some_and(|holder| {
                holder.is_around_us() && !(if_taken == IfTaken::Wait && holder.is_this_process())
            }),
            holder: holder.as_ref().map_or(decide::Seen::Unknown, |holder| self.seen(holder)),
            asked: self.asked.as_ref().map(|(_, asked)| self.looked_at.saturating_duration_since(*asked)),
            frozen: self.frozen.map(|since| self.looked_at.saturating_duration_since(since)),
            is_young: self.began.elapsed() < if if_taken == IfTaken::Fail { A_LONG_LOOK } else { A_LOOK },
            is_late: self.wish.wait_timeout.is_some_and(|time| self.began.elapsed() >= time),
        };
        let slot = &self.wish.slot;
        let by = look::by_whom(holder.as_ref().map(|holder| &holder.record));
        Ok(match decide(if_taken, &sight) {
            Move::Wait => {
                let verb = if if_taken == IfTaken::Replace && !sight.was_replaced {
                    "waiting to replace it"
                } else {
                    "waiting"
                };
                let news = (!self.has_told && !sight.is_young).then(|| format!("slot {slot} is {by}; {verb}"));
                self.has_told |= news.is_some();
                Step::Waiting(news)
            }
            Move::Ask => {
                self.asked = holder.as_ref().map(|holder| (holder.record.id.clone(), Instant::now()));
                let heard = holder.is_some_and(|holder| holder.ask(Ask::HandOver));
                let news = format!("slot {slot} is {by}, and was asked to hand over");
                self.has_told = true;
                self.tell(&format!(
                    "{by}; asked to hand over{}",
                    if heard { "" } else { ", but nobody was there to hear" }
                ));
                Step::Waiting(Some(news))
            }
            Move::Wake => {
                match holder {
                    Some(holder) => holder.wake(),
                    None => drop(self.signal_frozen(Signal::CONT, None)),
                }
                Step::Waiting(None)
            }
            Move::EndFromOutside if holder.is_none() => {
                self.tell("whoever has it is stopped, and not on record; it is killed");
                self.signal_frozen(Signal::KILL, None);
                Step::Waiting(None)
            }
            // Whoever of its keepers is stopped and has the lock keeps the others from ending.
            Move::EndFromOutside
                if matches!(sight.holder, decide::Seen::Stopping { .. })
                    && self.signal_frozen(Signal::KILL, holder.as_ref()) =>
            {
                self.tell(&format!("{by}; one who keeps it is stopped, and is killed"));
                Step::Waiting(None)
            }
            Move::EndFromOutside if self.helper.is_some() => Step::Waiting(None),
            Move::EndFromOutside => {
                let news = format!("slot {slot} is {by}, which does not answer, and is ended from outside");
                self.tell(&format!("{by}; it does not answer, and is ended from outside"));
                self.help(holder.as_ref());
                self.asked = holder.map(|holder| (holder.record.id, Instant::now()));
                Step::Waiting(Some(news))
            }
            Move::SettleForWaiting => {
                let limit = self.wish.max_handovers;
                let (why, until) = match changes.filter(|_| !sight.was_replaced) {
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
                    ticket.settle_for_waiting();
                    self.has_settled = ticket.kind() == Kind::Wait;
                }
                self.has_told = true;
                self.tell(&format!("{by}; {why}"));
                Step::Waiting(Some(format!("slot {slot} is {by}; {why}; waiting{until}")))
            }
            Move::GiveUp(because) => {
                let why = match because {
                    Because::Taken => String::new(),
                    Because::TooLate => {
                        let time = self.wish.wait_timeout.unwrap_or_default();
                        format!(", and was not free after {}", humantime::format_duration(time))
                    }
                    Because::Superseded => ", and somebody who came later replaces it instead".to_owned(),
                    Because::OurOwn => ", and this was started by it: it would wait for itself".to_owned(),
                };
                let text = format!("slot {slot} is {by}{why}; `nostray slot show {slot}` tells more");
                Step::Refused(self.refuse(text))
            }
        })
    }

    /// A holder, as far as it matters.
    fn seen(&self, holder: &Holder) -> decide::Seen {
        let record = &holder.record;
        match record.state {
            State::Starting => decide::Seen::Starting,
            State::Stopping { .. } => {
                let promised = record.eof_grace.saturating_add(record.term_grace);
                let since = Moment::now().time.saturating_sub(record.since);
                let is_frozen = || holder.is_frozen() || !self.lock.frozen_holders().is_empty();
                let overdue = since.checked_sub(promised).filter(|_| is_frozen());
                decide::Seen::Stopping { overdue: overdue.map(Duration::from_millis) }
            }
            State::Ready | State::Asleep | State::BackingOff { .. } | State::Tripped { .. } => decide::Seen::Settled,
        }
    }

    /// Whether a holder is stopped that is not ready. Only who wants to replace it wants to know: it is a look at all processes.
    fn look_for_frozen(&mut self, if_taken: IfTaken, holder: Option<&Holder>) {
        let is_frozen = if_taken == IfTaken::Replace
            && self.began.elapsed() >= A_LOOK
            && match holder {
                Some(holder) => holder.record.state == State::Starting && holder.is_frozen(),
                None => !self.lock.frozen_holders().is_empty(),
            };
        self.frozen = is_frozen.then(|| self.frozen.unwrap_or(self.looked_at));
    }

    /// Signals those who are stopped and have the lock; each by its identity, and only if it still has it, and is one of `holder`'s, or
    /// nobody is on record who could have it. False if there is none.
    fn signal_frozen(&self, signal: Signal, holder: Option<&Holder>) -> bool {
        let is_meant = |who: Identity| {
            holder.map_or_else(|| self.holder().is_none(), |holder| holder.has(who))
                && self.lock.frozen_holders().contains(&who)
        };
        let frozen = self.lock.frozen_holders().into_iter();
        frozen.filter(|who| who.signal(signal, |_| is_meant(*who)).is_ok()).count() > 0
    }

    /// The slot is ours. Nothing is started before the old tree is gone: if all who kept it were killed, it may not be.
    fn clear(&mut self) -> Result<Step, Error> {
        let places = History::read(&self.place).places();
        let before = Holder::all_of(self.wish.slot.as_str(), &places);
        let before: Vec<Holder> = before.into_iter().filter(|holder| holder.record.id != self.id).collect();
        let before: Vec<Holder> = before.into_iter().filter(Holder::may_be_left).collect();
        if let Some(kept) = before.iter().find(|holder| holder.is_kept()) {
            // It has another lock: somebody has removed the directory of the slot, or it has another one.
            return self.taken(false, Some(kept.clone()));
        }
        let Some(last) = before.first() else { return self.take() };
        if self.wish.wait_timeout.is_some_and(|time| self.began.elapsed() >= time) {
            return self.taken(false, Some(last.clone()));
        }
        if self.helper.is_some() || before.iter().any(Holder::is_owned) {
            return Ok(Step::Waiting(None)); // somebody sees to it
        }
        let candidates: Vec<String> = last.record.candidates.iter().filter_map(in_words).collect();
        if candidates.is_empty() && !last.record.candidates.is_empty() {
            self.sweeps = self.sweeps.min(SWEEPS - 1); // all that may have been left of it has ended since
        }
        if self.sweeps == SWEEPS {
            self.held = None;
            let (slot, id) = (&self.wish.slot, &last.record.id);
            let text = if candidates.is_empty() {
                format!(
                    "slot {slot} is free, but something is left of {id} that had it, and cannot be ended; `nostray sweep` tells what"
                )
            } else {
                format!(
                    "slot {slot} is free, but it is not proved that nothing is left of {id}, which had it: {} may be; end what is, or \
                     say `nostray sweep --forget {id}`",
                    shortened(&candidates)
                )
            };
            return Ok(Step::Refused(self.refuse(text)));
        }
        self.sweeps += 1;
        self.tell(&format!("all who kept {} were killed; what is left of it is ended first", last.record.id));
        self.help(None);
        Ok(Step::Waiting(None))
    }

    fn take(&mut self) -> Result<Step, Error> {
        let Some(held) = self.held.take() else { return Ok(Step::Waiting(None)) };
        let SlotRequest { slot, command, session, .. } = self.wish.clone();
        let replaced = self.ticket.as_ref().filter(|ticket| ticket.kind() == Kind::Replace);
        let replaced = replaced.map(|ticket| ticket.turn.since());
        let mut entry = HolderEntry::begin(&self.id, command, session);
        (entry.host, entry.replaced) = (self.host, replaced);
        History::add(&self.place, entry, self.asked.as_ref().map(|(id, _)| id.as_str()))?;
        self.ticket = None;
        Ok(Step::Taken(Tenancy::new(held, self.place.clone(), slot, self.id.clone())))
    }

    /// Whoever holds it, if that is known: the last one who said so, if it is on record.
    fn holder(&self) -> Option<Holder> {
        let mut history = History::read(&self.place);
        let holders = Holder::all_of(self.wish.slot.as_str(), &history.places());
        let last = history.entries.pop().filter(|entry| entry.ended.is_none()).map(|entry| entry.id);
        // A history may be lost; whoever is on record and lives has it all the same.
        let said = holders.iter().find(|holder| Some(&holder.record.id) == last.as_ref());
        said.or_else(|| holders.iter().find(|holder| holder.is_kept())).cloned()
    }

    /// Whether the holder wanted to replace somebody, too, and came later than we did. It has superseded us, though we were not looking.
    fn is_too_late_to_replace(&self, holder: Option<&Holder>) -> bool {
        let (Some(holder), Some(ticket)) = (holder, &self.ticket) else { return false };
        let history = History::read(&self.place);
        let entry = history.entries.iter().rev().find(|entry| entry.id == holder.record.id);
        entry.and_then(|entry| entry.replaced).is_some_and(|since| since > ticket.turn.since())
    }

    fn host_was_replaced(&self) -> bool {
        let (Some(host), Some(world)) = (self.host, World::current()) else { return false };
        History::read(&self.place).was_replaced(host, &world.boot)
    }

    fn goes_from_hand_to_hand(&self) -> Option<Changes> {
        if self.wish.if_taken != IfTaken::Replace {
            return None;
        }
        let world = World::current()?;
        History::read(&self.place).goes_from_hand_to_hand(self.wish.max_handovers, Moment::now(), &world.boot)
    }

    /// Somebody ends something for us; without another process, it is tried again the next time.
    fn help(&mut self, to_end: Option<&Holder>) {
        let (slot, places) = (self.wish.slot.to_string(), History::read(&self.place).places());
        self.helper = if self.may_fork {
            let helper = match to_end {
                Some(holder) => end_holder_apart(holder, &places),
                None => sweep_slot_apart(&slot, &places),
            };
            helper.and_then(Pidfd::open).ok().map(Helper::Process)
        } else {
            let id = to_end.map(|holder| holder.record.id.clone());
            let work = move || sweep_slot_here(&slot, &places, id.as_deref());
            std::thread::Builder::new().spawn(work).ok().map(Helper::Thread)
        };
    }

    fn refuse(&self, text: String) -> Refusal {
        self.tell(&text);
        Refusal(text)
    }

    fn tell(&self, what: &str) {
        if let Ok(place) = Place::for_writing() {
            let slot = self.wish.slot.to_string();
            Journal::at(&place).add(&self.id, Story::Slot { slot, what: what.to_owned() });
        }
    }
}
