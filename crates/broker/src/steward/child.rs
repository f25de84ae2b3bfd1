//! Starts and ends the child, and tells its sessions what has become of it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_pen::OWN_FAILURE;
use nostray_registry::{Story, masked};
use nostray_slot::{Claim, IfTaken, MAX_HANDOVERS, NOT_NOW, Refusal, SlotRequest, Step};
use nostray_supervise::lifecycle::Effect;
use nostray_supervise::wire::ToFront;
use nostray_supervise::{Cause, ChildLoss, Generation, MachineEvent as Event, State, Why};

use super::Steward;
use super::attachments::Inbound;

/// How soon to look again whether predecessors of the child are gone, at first and at most.
const LOOK_INTERVAL_FIRST: Duration = Duration::from_millis(1);
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(20);
/// Every so many looks, sweep what has no guard any more.
const SWEEP_EVERY: u32 = 50;

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
        let Self { lifecycle, keeper, .. } = self;
        let limit = lifecycle.policy().max_failures;
        keeper.put_on_record(lifecycle.state(), lifecycle.generation(), || lifecycle.pause(now), limit);
    }

    fn start(&mut self, generation: Generation) {
        // Only what another steward has left can still be there: the machine starts nothing before the own child's tree is empty.
        if self.predecessors.is_none() {
            let beside = std::mem::take(&mut self.beside);
            let found = self.keeper.record().map(|record| record.predecessors(&beside)).unwrap_or_default();
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
                if self.looks % SWEEP_EVERY == 1
                    && let Some(sweeper) = predecessors.sweep()
                {
                    self.keeper.opener.is_sweeper(sweeper);
                }
                *look_at = now + (LOOK_INTERVAL_FIRST * self.looks).min(LOOK_INTERVAL_MAX);
                return;
            }
            self.predecessors = None;
        }
        self.waits_to_start = None;
        if *self.lifecycle.state() != State::Starting(generation) {
            // It is to end before it was there.
            return self.drive(Event::Emptied(generation, Why::Released.cause()));
        }
        let mut not_for_it = self.attachments.connections();
        not_for_it.extend(self.control.as_ref().map(AsFd::as_fd));
        not_for_it.extend(self.router.traffic().map(AsFd::as_fd));
        match self.keeper.start(generation, &not_for_it) {
            Ok(()) => {
                self.is_up = true;
                self.lifecycle.child_started(self.now());
                let session_ids: Vec<_> = self.attachments.all().map(|attachment| attachment.session_id).collect();
                session_ids.into_iter().for_each(|session_id| self.tell_of_child(session_id));
            }
            Err(cause) => self.drive(Event::Emptied(generation, cause)),
        }
    }

    /// Whether the child has the slot that it needs, or needs none any more.
    fn has_slot(&mut self, generation: Generation) -> bool {
        let Some(slot) = self.slot.as_ref().filter(|_| !self.keeper.holds_slot()) else { return true };
        if *self.lifecycle.state() != State::Starting(generation) {
            self.claim = None; // no start needs it any more
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
                    command: masked(&self.keeper.config().spec.command),
                    session: self.attachments.all().find_map(|attachment| attachment.lease.session.clone()),
                },
                self.keeper.id(),
            )
            .and_then(|claim| self.claim.insert(claim).step())
            .map_err(broken),
        };
        match step {
            Ok(Step::Waiting(news)) => {
                self.slot_news = news.or_else(|| self.slot_news.take());
                if let Some(text) = &self.slot_news {
                    // Tell each session once, also a session that attaches later.
                    for attachment in self.attachments.all_mut().filter(|attachment| !attachment.knows_of_slot) {
                        attachment.knows_of_slot = true;
                        attachment.tell(&ToFront::News { text: text.clone() });
                    }
                }
                false
            }
            Ok(Step::Taken(tenancy)) => {
                self.claim = None;
                match self.keeper.hold(tenancy) {
                    Ok(()) => true,
                    Err(why) => self.has_no_slot(generation, Refusal(why), OWN_FAILURE),
                }
            }
            Ok(Step::Refused(refusal)) => self.has_no_slot(generation, refusal, NOT_NOW),
            Err((refusal, code)) => self.has_no_slot(generation, refusal, code),
        }
    }

    /// The child does not get its slot: tells the sessions that wait for it.
    fn has_no_slot(&mut self, generation: Generation, Refusal(why): Refusal, code: u8) -> bool {
        (self.claim, self.waits_to_start) = (None, None);
        self.keeper.code = code;
        let cause = Cause::not_started(why);
        self.last_cause = Some(cause.clone());
        self.drive(Event::Hopeless(generation, cause));
        false
    }

    fn tear_down(&mut self, why: Why) {
        if self.waits_to_start.is_some() {
            return; // it is not there, and will be said so as soon as its time has come
        }
        // Not if everything ends, which is another reason, nor if the child has ended by itself meanwhile.
        if why == Why::Released && !self.is_leaving && self.keeper.has_live_child() {
            let linger = u64::try_from(self.last_linger.as_millis()).unwrap_or(u64::MAX);
            if let Some(record) = self.keeper.record() {
                record.tell(Story::Unheld { linger });
            }
        }
        // After a stop the child may still answer what it has been given.
        if why != Why::Stop {
            self.child_is_gone(&why.cause());
        }
        let patience = self.keeper.config().spec.graces.eof();
        self.keeper.tear_down(why, if self.attachments.is_empty() { Duration::ZERO } else { patience });
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
        let stderr = self.lifecycle.last_words();
        for attachment in self.attachments.all_mut().filter(|attachment| attachment.inbound == Inbound::Routed) {
            let session_id = attachment.session_id;
            let orderly =
                self.router.has_nothing_of(session_id) || is_rest && self.router.has_only_light_of(session_id);
            attachment.inbound = Inbound::GivenBack;
            attachment.tell(&ToFront::Down { cause: cause.clone(), stderr: stderr.clone(), orderly, for_good });
        }
        self.router.child_gone();
    }

    fn tell_if_never_routed(&mut self) {
        if let Some(by) = self.router.never_matched()
            && let Some(record) = self.keeper.record()
        {
            record.tell(Story::NeverRouted { by });
        }
    }

    /// Gives back to each session the calls that the child has not read, and now never will.
    fn give_back_unread(&mut self) {
        self.perform_routing();
        let mut unread = self.keeper.take_unread();
        unread.append(&mut self.to_child);
        for line in unread.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Some((session_id, line)) = self.router.take_back(line)
                && let Some(attachment) = self.attachments.of(session_id)
            {
                attachment.give_back(&line);
            }
        }
        for attachment in self.attachments.all_mut().filter(|attachment| attachment.inbound == Inbound::Routed) {
            self.router.take_waiting(attachment.session_id).iter().for_each(|line| attachment.give_back(line));
        }
    }

    fn refuse(&mut self, cause: &Cause) {
        if self.is_daemon() {
            return self.tell_if_given_up(cause);
        }
        let (stderr, outlook) = (self.lifecycle.last_words(), self.lifecycle.outlook(self.now()));
        for attachment in self.attachments.all_mut() {
            attachment.tell(&ToFront::Refused { cause: cause.clone(), stderr: stderr.clone(), outlook });
        }
    }

    /// A daemon's sessions have no call to which an error could be the answer.
    fn tell_if_given_up(&mut self, cause: &Cause) {
        if let State::Tripped { .. } = self.lifecycle.state() {
            let limit = self.lifecycle.policy().max_failures;
            let text = format!("{cause}; the daemon failed too often ({limit}), and is started again after a while");
            for attachment in self.attachments.all_mut() {
                attachment.tell(&ToFront::News { text: text.clone() });
            }
        }
    }

    /// No child will ever be started again: tells the sessions, and detaches them.
    fn it_is_over(&mut self) {
        self.tell_if_never_routed();
        let (code, why) = (self.keeper.code, self.last_cause.take());
        for attachment in self.attachments.all_mut() {
            attachment.tell(&ToFront::Over { code, why: why.clone() });
            attachment.gone = Some("the child has ended for good".to_owned());
        }
        self.is_leaving = true;
    }

    /// Takes in what the pen's processes have told.
    pub(super) fn hear_child(&mut self) {
        if let Some(loss) = self.keeper.hear() {
            self.on_child_lost(loss);
        }
        self.look_after_pen();
    }

    pub(super) fn look_after_pen(&mut self) {
        if let Some(loss) = self.keeper.look_after() {
            self.on_child_lost(loss);
        }
    }

    /// What the child has said before counts.
    pub(super) fn on_child_lost(&mut self, loss: ChildLoss) {
        self.read_child(true);
        for _ in 0..64 {
            if !self.read_errors() {
                break;
            }
        }
        self.settle();
        // Before the child's end, so that its record says that no session held it.
        let effects = self.lifecycle.end_linger(self.now());
        self.perform(effects);
        match loss {
            ChildLoss::Died(generation, cause) => self.drive(Event::Died(generation, cause)),
            ChildLoss::TreeEmpty => {
                // As long as there is a child from which it can be taken.
                if self.is_up {
                    self.give_back_unread();
                }
                let Some(end) = self.keeper.take_end(self.lifecycle.state()) else { return };
                if end.was_stopped {
                    self.drive(Event::Stop);
                }
                self.last_cause = Some(end.cause.clone());
                self.drive(if end.is_hopeless {
                    Event::Hopeless(end.generation, end.cause)
                } else {
                    Event::Emptied(end.generation, end.cause)
                });
            }
        }
    }
}
