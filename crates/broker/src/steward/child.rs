//! The child: starting it, ending it, and telling those who hold it what has become of it.

use std::time::{Duration, Instant};

use nostray_pen::OWN_FAILURE;
use nostray_registry::{Story, masked};
use nostray_slot::{Claim, IfTaken, MAX_HANDOVERS, NOT_NOW, Refusal, SlotRequest, Step};
use nostray_supervise::lifecycle::Effect;
use nostray_supervise::wire::ToFront;
use nostray_supervise::{Cause, Generation, Happened, MachineEvent as Event, State, Why};

use super::Steward;
use super::sitting::Hearing;

/// How soon to look again whether what was there before is gone, at first and at most.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const LOOK_AT_LEAST: Duration = Duration::from_millis(20);
/// And how often somebody is to end what nobody keeps any more.
const SWEEP_AGAIN: u32 = 50;

impl Steward {
    /// Lets the lifecycle take in an event, and performs what follows.
    pub(super) fn drive(&mut self, event: Event) {
        let effects = self.lifecycle.on(event, self.now());
        self.perform(effects);
    }

    pub(super) fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start(generation) => self.start(generation),
                Effect::TearDown(_, why) => self.tear_down(why),
                Effect::CutOff(cause) => self.child_is_gone(&cause),
                Effect::Refuse(cause) => self.refuse(&cause),
                Effect::Ended => self.it_is_over(),
            }
        }
        self.put_on_record();
    }

    fn put_on_record(&mut self) {
        let now = self.now();
        let Self { lifecycle, ward, .. } = self;
        let limit = lifecycle.policy().max_failures;
        ward.put_on_record(lifecycle.state(), lifecycle.generation(), || lifecycle.pause(now), limit);
    }

    fn start(&mut self, generation: Generation) {
        // Only what others have left can still be there; of our own nothing is, or there would be no start.
        if self.predecessors.is_none() {
            let found = self.ward.record().map(|record| record.predecessors()).unwrap_or_default();
            (self.predecessors, self.looks) = (Some((found, Instant::now())), 0);
        }
        self.waits_to_start = Some(generation);
        self.go_on_with_start();
    }

    /// Starts the child that waits for it, as soon as it has its slot and nothing is left of what was there before.
    pub(super) fn go_on_with_start(&mut self) {
        let Some(generation) = self.waits_to_start else { return };
        if !self.has_slot(generation) {
            return;
        }
        if let Some((predecessors, look_at)) = &mut self.predecessors {
            let now = Instant::now();
            if *look_at > now {
                return;
            }
            if !predecessors.are_gone() {
                self.looks += 1;
                if self.looks % SWEEP_AGAIN == 1
                    && let Some(sweeper) = predecessors.sweep()
                {
                    self.ward.opener.is_sweeper(sweeper);
                }
                *look_at = now + (LOOK_AGAIN * self.looks).min(LOOK_AT_LEAST);
                return;
            }
            self.predecessors = None;
        }
        self.waits_to_start = None;
        if *self.lifecycle.state() != State::Starting(generation) {
            // It is to end before it was there.
            return self.drive(Event::Emptied(generation, Why::Released.cause()));
        }
        let mut not_for_it = self.sittings.connections();
        not_for_it.extend(self.control.as_ref().map(std::os::fd::AsFd::as_fd));
        match self.ward.start(generation, &not_for_it) {
            Ok(()) => {
                self.is_up = true;
                self.lifecycle.child_started(self.now());
                let seats: Vec<_> = self.sittings.all().map(|sitting| sitting.seat).collect();
                seats.into_iter().for_each(|seat| self.tell_of_child(seat));
            }
            Err(cause) => self.drive(Event::Emptied(generation, cause)),
        }
    }

    /// Whether it has the slot that it needs, or needs none any more.
    fn has_slot(&mut self, generation: Generation) -> bool {
        let Some(slot) = self.slot.as_ref().filter(|_| !self.ward.holds_slot()) else { return true };
        if *self.lifecycle.state() != State::Starting(generation) {
            self.claim = None; // nobody waits for it any more
            return true;
        }
        let broken = |error: nostray_slot::Error| (Refusal(error.to_string()), OWN_FAILURE);
        let step = match &mut self.claim {
            Some(claim) => claim.step().map_err(broken),
            None => Claim::new(
                SlotRequest {
                    slot: slot.name.clone(),
                    if_taken: IfTaken::Wait,
                    wait_timeout: slot.wait_timeout,
                    max_handovers: MAX_HANDOVERS,
                    command: masked(&self.ward.keeping().spec.command),
                    session: self.sittings.all().find_map(|sitting| sitting.lease.session.clone()),
                },
                self.ward.id(),
            )
            .and_then(|claim| self.claim.insert(claim).step())
            .map_err(broken),
        };
        match step {
            Ok(Step::Waiting(news)) => {
                self.slot_news = news.or_else(|| self.slot_news.take());
                if let Some(text) = &self.slot_news {
                    // Those who come later are told when they sit down.
                    for sitting in self.sittings.all_mut().filter(|sitting| !sitting.knows_of_slot) {
                        sitting.knows_of_slot = true;
                        sitting.tell(&ToFront::News { text: text.clone() });
                    }
                }
                false
            }
            Ok(Step::Taken(tenancy)) => {
                self.claim = None;
                match self.ward.hold(tenancy) {
                    Ok(()) => true,
                    Err(why) => self.has_no_slot(generation, Refusal(why), OWN_FAILURE),
                }
            }
            Ok(Step::Refused(refusal)) => self.has_no_slot(generation, refusal, NOT_NOW),
            Err((refusal, code)) => self.has_no_slot(generation, refusal, code),
        }
    }

    /// It will not get its slot, and those who wait for it are told.
    fn has_no_slot(&mut self, generation: Generation, Refusal(why): Refusal, code: u8) -> bool {
        (self.claim, self.waits_to_start) = (None, None);
        self.ward.code = code;
        self.last_words = Some(why.clone());
        self.drive(Event::Hopeless(generation, Cause(why)));
        false
    }

    fn tear_down(&mut self, why: Why) {
        if self.waits_to_start.is_some() {
            return; // it is not there, and will be said so as soon as its time has come
        }
        // After a stop the child may still answer what it has been given.
        if why != Why::Stop {
            self.child_is_gone(&why.cause());
        }
        let patience = self.ward.keeping().spec.graces.eof();
        self.ward.tear_down(why, if self.sittings.is_empty() { Duration::ZERO } else { patience });
    }

    /// The front of each session answers the calls that the child had read; the others go back to it.
    fn child_is_gone(&mut self, cause: &Cause) {
        if !self.is_up {
            return;
        }
        self.tell_if_never_routed();
        self.give_back_unread();
        self.is_up = false;
        // A child that is put to sleep or replaced has done nothing wrong; the fronts answer what needs no work.
        let is_rest = matches!(self.lifecycle.state(), State::Stopping { .. });
        let for_good = self.lifecycle.ends_for_good();
        let (cause, stderr) = self.obituary(cause);
        for sitting in self.sittings.all_mut().filter(|sitting| sitting.hearing == Hearing::Heard) {
            let seat = sitting.seat;
            let orderly = self.router.has_nothing_of(seat) || is_rest && self.router.has_only_light_of(seat);
            sitting.hearing = Hearing::Back;
            sitting.tell(&ToFront::Down { cause: cause.clone(), stderr: stderr.clone(), orderly, for_good });
        }
        self.router.child_gone();
    }

    fn tell_if_never_routed(&mut self) {
        if let Some(by) = self.router.never_matched()
            && let Some(record) = self.ward.record()
        {
            record.tell(Story::NeverRouted { by });
        }
    }

    /// Gives back to each session the calls that the child has not read, and now never will.
    fn give_back_unread(&mut self) {
        self.perform_routing();
        let mut unread = self.ward.take_unread();
        unread.append(&mut self.to_child);
        for line in unread.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Some((seat, line)) = self.router.take_back(line)
                && let Some(sitting) = self.sittings.of(seat)
            {
                sitting.give_back(&line);
            }
        }
        for sitting in self.sittings.all_mut().filter(|sitting| sitting.hearing == Hearing::Heard) {
            self.router.take_waiting(sitting.seat).iter().for_each(|line| sitting.give_back(line));
        }
    }

    fn refuse(&mut self, cause: &Cause) {
        if self.is_daemon() {
            return self.tell_if_given_up(cause);
        }
        let (cause, stderr) = self.obituary(cause);
        for sitting in self.sittings.all_mut() {
            sitting.tell(&ToFront::Refused { cause: cause.clone(), stderr: stderr.clone() });
        }
    }

    /// A daemon's sessions have no call to which an error could be the answer.
    fn tell_if_given_up(&mut self, cause: &Cause) {
        if let State::Tripped { .. } = self.lifecycle.state() {
            let limit = self.lifecycle.policy().max_failures;
            let text = format!("{cause}; the daemon failed too often ({limit}), and is started again after a while");
            for sitting in self.sittings.all_mut() {
                sitting.tell(&ToFront::News { text: text.clone() });
            }
        }
    }

    /// It never comes back: those who hold it have nothing to hold.
    fn it_is_over(&mut self) {
        self.tell_if_never_routed();
        let (code, why) = (self.ward.code, self.last_words.take());
        for sitting in self.sittings.all_mut() {
            sitting.tell(&ToFront::Over { code, why: why.clone() });
            sitting.gone = Some("the child has ended for good".to_owned());
        }
        self.is_leaving = true;
    }

    /// Takes in what the pen's processes have told.
    pub(super) fn hear_child(&mut self) {
        if let Some(happened) = self.ward.hear() {
            self.on_child(happened);
        }
        self.look_after_pen();
    }

    pub(super) fn look_after_pen(&mut self) {
        if let Some(happened) = self.ward.look_after() {
            self.on_child(happened);
        }
    }

    /// What the child has said before counts.
    pub(super) fn on_child(&mut self, happened: Happened) {
        self.read_child(true);
        for _ in 0..64 {
            if !self.read_errors() {
                break;
            }
        }
        self.settle();
        // Before the child is buried, so that its record says that no session held it.
        let effects = self.lifecycle.end_linger(self.now());
        self.perform(effects);
        match happened {
            Happened::Lost(generation, cause) => self.drive(Event::Died(generation, cause)),
            Happened::Empty => {
                let Some(buried) = self.ward.bury(self.lifecycle.state()) else { return };
                if buried.was_stopped {
                    self.drive(Event::Stop);
                }
                self.last_words = Some(buried.cause.0.clone());
                self.drive(if buried.is_hopeless {
                    Event::Hopeless(buried.generation, buried.cause)
                } else {
                    Event::Emptied(buried.generation, buried.cause)
                });
            }
        }
    }
}
