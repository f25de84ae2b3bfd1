//! When a child is started, torn down, started again, and given up: a function from a state and an event to the next state and
//! what is to be done. No clock, no process and no message in it, so that a test can show every event to every state.
//!
//! Its invariants:
//! 1. At most one live generation. The next one starts only when the tree of the last one is empty.
//! 2. No holder, no child: a child without a holder is neither started nor started again.
//! 3. A child that is still starting is torn down only because its last holder has gone (a linger releases it only when the child has
//!    answered, or has had its time to), because the user stops or restarts it, or because of a limit that the user set; never for a
//!    new holder.
//! 4. Starts that fail back off exponentially; after a child that was ready the pause is the first one again, and there is none after its
//!    first crash. Failures of both kinds are forgotten only after a sustained time in *ready*, and trip.
//! 5. What was in flight when its child died is cut off at once.
//! 6. Stopping beats starting.

mod types;

use std::time::Duration;

use nostray_sys::rate::Rate;
pub use types::{Action, Cause, Event, Generation, Moment, Policy, State, Timer, Why};

/// The state of a child, and what its past means for its future.
#[derive(Debug, Clone)]
pub struct Machine {
    policy: Policy,
    state: State,
    last: Generation,
    holders: usize,
    /// Something waits for the child.
    demanded: bool,
    busy: bool,
    /// Failures that are not forgotten yet.
    failures: Vec<Moment>,
    /// How many in a row, for the backoff.
    in_a_row: u32,
    /// The last child has answered: its end is no failed start.
    was_ready: bool,
    /// Tripped before, and not proved better since: one more failure is enough.
    on_probation: bool,
}

impl Machine {
    /// A machine without a child and without a holder.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            state: State::Asleep,
            last: Generation::default(),
            holders: 0,
            demanded: false,
            busy: false,
            failures: Vec::new(),
            in_a_row: 0,
            was_ready: false,
            on_probation: false,
        }
    }

    /// The policy that holds now.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Replaces the policy.
    pub fn adopt(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Where it is.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How many hold it.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.holders
    }

    /// How many generations there have been.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.last
    }

    /// Whether the child's end is the end of everything, by its user's wish: it is ending, and is not started again.
    #[must_use]
    pub fn ends_for_good(&self) -> bool {
        let is_ending = match &self.state {
            State::Falling { .. } | State::Ended => true,
            State::Stopping { why, .. } => matches!(why, Why::Stop | Why::StartTimeout | Why::BadStart),
            _ => false,
        };
        is_ending && !self.policy.respawn
    }

    /// [`Event::Busy`] or [`Event::Quiet`], where nothing would follow from it; with every message, so it should cost nothing.
    /// False if something may: then the event is to be taken in.
    #[must_use]
    pub fn takes_note(&mut self, busy: bool) -> bool {
        let indifferent = self.policy.hibernate.is_none()
            && matches!(self.state, State::Starting(_) | State::Ready { recycle: None, .. });
        if indifferent {
            self.busy = busy;
        }
        indifferent
    }

    /// Takes an event in. `jitter`, from 0 to 1, spreads the pause of a backoff.
    #[must_use]
    pub fn on(&mut self, event: Event, now: Moment, jitter: f64) -> Vec<Action> {
        let mut todo = Vec::new();
        if self.state == State::Ended {
            return todo;
        }
        match event {
            Event::Taken => {
                self.holders += 1;
                if self.state == State::Asleep && !self.policy.on_demand {
                    self.start(&mut todo);
                }
            }
            Event::Released => {
                self.holders = self.holders.saturating_sub(1);
                if self.holders == 0 {
                    self.demanded = false;
                    self.let_go(Why::Released, &mut todo);
                }
            }
            Event::Stop => {
                self.demanded = false;
                self.let_go(Why::Stop, &mut todo);
            }
            Event::Demanded => self.on_demand(&mut todo),
            Event::Busy => {
                self.busy = true;
                todo.push(Action::Disarm(Timer::Hibernate));
            }
            Event::Quiet => {
                self.busy = false;
                self.look_for_rest(&mut todo);
            }
            Event::Answered(generation) | Event::Runs(generation) => {
                if self.state == State::Starting(generation) {
                    self.state = State::Ready { generation, recycle: None };
                    // That it runs does not prove that its start has succeeded: if it crashes, the pauses grow.
                    self.was_ready = matches!(event, Event::Answered(_));
                    todo.push(Action::Disarm(Timer::Start));
                    todo.push(Action::Arm(Timer::Sustained, self.policy.sustained));
                    self.look_for_rest(&mut todo);
                }
            }
            Event::Died(generation, cause) => self.on_death(generation, cause, &mut todo),
            Event::Emptied(generation, cause) => self.on_empty(generation, cause, now, jitter, &mut todo),
            Event::Hopeless(generation, cause) => self.on_hopeless(generation, cause, &mut todo),
            Event::Restart => self.on_restart(&mut todo),
            Event::Rested(generation) => {
                if self.state.live() == Some(generation) {
                    todo.extend([Timer::Start, Timer::Sustained, Timer::Hibernate, Timer::Age].map(Action::Disarm));
                    self.on_rest(&mut todo);
                }
            }
            Event::BadStart(generation) => {
                if self.state == State::Starting(generation) {
                    self.tear_down(generation, Why::BadStart, &mut todo);
                }
            }
            Event::OverMemory(generation) => self.recycle(generation, Why::Memory, &mut todo),
            Event::FarOverMemory(generation) => {
                if matches!(self.state, State::Starting(g) | State::Ready { generation: g, .. } if g == generation) {
                    self.tear_down(generation, Why::Memory, &mut todo);
                }
            }
            Event::Fired(timer) => self.on_timer(timer, &mut todo),
        }
        todo
    }

    fn start(&mut self, todo: &mut Vec<Action>) {
        debug_assert!(self.holders > 0 && self.state.live().is_none());
        self.last = self.last.next();
        (self.demanded, self.was_ready) = (false, false);
        self.state = State::Starting(self.last);
        todo.extend([Timer::Backoff, Timer::Cooled].map(Action::Disarm));
        todo.push(Action::Start(self.last));
        if let Some(limit) = self.policy.start_timeout {
            todo.push(Action::Arm(Timer::Start, limit));
        }
        if let Some(limit) = self.policy.max_age {
            todo.push(Action::Arm(Timer::Age, limit));
        }
        self.look_for_rest(todo);
    }

    fn on_demand(&mut self, todo: &mut Vec<Action>) {
        match &self.state {
            State::Asleep if self.holders > 0 => self.start(todo),
            State::Tripped { cause } => todo.push(Action::Refuse(cause.clone())),
            State::Stopping { .. } | State::Falling { .. } | State::BackingOff { .. } => {
                self.demanded = self.holders > 0;
            }
            State::Asleep | State::Starting(_) | State::Ready { .. } | State::Ended => {}
        }
    }

    /// Tears down the live child, for good or for want of a holder.
    fn let_go(&mut self, why: Why, todo: &mut Vec<Action>) {
        match &self.state {
            State::Starting(generation) | State::Ready { generation, .. } => {
                self.tear_down(*generation, why, todo);
            }
            State::Stopping { generation, why: before } => {
                let why = if *before == Why::Stop { Why::Stop } else { why };
                self.state = State::Stopping { generation: *generation, why };
            }
            // Without a holder it stays down by itself; a failure that is cut short is still one.
            State::Falling { generation, .. } if why == Why::Stop => {
                self.state = State::Stopping { generation: *generation, why };
            }
            State::Asleep | State::BackingOff { .. } | State::Tripped { .. } => {
                todo.extend([Timer::Backoff, Timer::Cooled].map(Action::Disarm));
                todo.push(Action::Refuse(why.cause()));
                self.state = if why == Why::Stop { State::Ended } else { State::Asleep };
            }
            State::Falling { .. } | State::Ended => {}
        }
    }

    fn tear_down(&mut self, generation: Generation, why: Why, todo: &mut Vec<Action>) {
        self.state = State::Stopping { generation, why };
        todo.extend([Timer::Start, Timer::Sustained, Timer::Hibernate, Timer::Age].map(Action::Disarm));
        // A caller that a limit cuts off is told so.
        if !why.lets_child_answer() {
            todo.push(Action::CutOff(why.cause()));
        }
        todo.push(Action::TearDown(generation, why));
    }

    /// At the next quiet moment, which may be now.
    fn recycle(&mut self, which: Generation, why: Why, todo: &mut Vec<Action>) {
        match &mut self.state {
            State::Ready { generation, recycle } if *generation == which => {
                recycle.get_or_insert(why);
                self.look_for_rest(todo);
            }
            _ => {}
        }
    }

    fn on_restart(&mut self, todo: &mut Vec<Action>) {
        match &self.state {
            State::Ready { generation, .. } => self.recycle(*generation, Why::Restart, todo),
            // A child that hangs in its start is never quiet, and is what a user mostly means to restart.
            State::Starting(generation) => self.tear_down(*generation, Why::Restart, todo),
            // The user has mended what was wrong.
            State::BackingOff { .. } | State::Tripped { .. } if self.holders > 0 => {
                self.failures.clear();
                (self.in_a_row, self.on_probation) = (0, false);
                self.start(todo);
            }
            _ => {}
        }
    }

    /// What there is to do when nothing is in flight.
    fn look_for_rest(&mut self, todo: &mut Vec<Action>) {
        if self.busy {
            return;
        }
        // A child that was not asked anything since it started may sleep, too.
        let (generation, recycle) = match &self.state {
            State::Ready { generation, recycle } => (generation, *recycle),
            State::Starting(generation) => (generation, None),
            _ => return,
        };
        match (recycle, self.policy.hibernate) {
            (Some(why), _) => self.tear_down(*generation, why, todo),
            (None, Some(after)) => todo.push(Action::Arm(Timer::Hibernate, after)),
            (None, None) => {}
        }
    }

    fn on_death(&mut self, which: Generation, cause: Cause, todo: &mut Vec<Action>) {
        match &self.state {
            State::Starting(generation) | State::Ready { generation, .. } if *generation == which => {
                todo.extend([Timer::Start, Timer::Sustained, Timer::Hibernate, Timer::Age].map(Action::Disarm));
                todo.push(Action::CutOff(cause.clone()));
                self.state = State::Falling { generation: which, cause };
            }
            _ => {}
        }
    }

    fn on_empty(&mut self, which: Generation, cause: Cause, now: Moment, jitter: f64, todo: &mut Vec<Action>) {
        if self.state.live() != Some(which) {
            return;
        }
        // The end may come without a death that was reported before.
        self.on_death(which, cause.clone(), todo);
        // What was not answered while it went down never will be.
        match &self.state {
            State::Stopping { why, .. } => todo.push(Action::CutOff(why.cause())),
            _ => todo.push(Action::CutOff(cause)),
        }
        match self.state.clone() {
            State::Stopping { why: Why::Stop, .. } => {
                todo.push(Action::Refuse(Why::Stop.cause()));
                self.state = State::Ended;
            }
            State::Stopping { why: Why::Hibernate, .. } if self.holders > 0 => self.rest(self.demanded, todo),
            State::Stopping { why: Why::Memory | Why::Age | Why::Restart, .. } if self.holders > 0 => {
                self.rest(self.demanded || !self.policy.on_demand, todo);
            }
            State::Stopping { why: why @ (Why::StartTimeout | Why::BadStart), .. } if self.holders > 0 => {
                self.on_failure(why.cause(), now, jitter, todo);
            }
            // A new holder has come while the child was torn down.
            State::Stopping { why: Why::Released, .. } if self.holders > 0 => {
                self.rest(self.demanded || !self.policy.on_demand, todo);
            }
            State::Falling { cause, .. } if self.holders > 0 => self.on_failure(cause, now, jitter, todo),
            _ => {
                todo.push(Action::Refuse(Why::Released.cause()));
                self.state = State::Asleep;
            }
        }
    }

    /// A steward has put its child to rest. That is no failure, and there is nothing to tear down.
    fn on_rest(&mut self, todo: &mut Vec<Action>) {
        match &self.state {
            State::Stopping { why: Why::Stop, .. } => {
                todo.push(Action::Refuse(Why::Stop.cause()));
                self.state = State::Ended;
            }
            _ if self.holders > 0 => self.rest(self.demanded, todo),
            _ => self.state = State::Asleep,
        }
    }

    fn rest(&mut self, start: bool, todo: &mut Vec<Action>) {
        self.state = State::Asleep;
        if start {
            self.start(todo);
        }
    }

    fn on_failure(&mut self, cause: Cause, now: Moment, jitter: f64, todo: &mut Vec<Action>) {
        if !self.policy.respawn {
            todo.push(Action::Refuse(cause));
            self.state = State::Ended;
            return;
        }
        let Rate { times, within } = self.policy.max_failures;
        self.failures.retain(|at| *at + within > now);
        self.failures.push(now);
        if self.on_probation || self.failures.len() >= times as usize {
            self.on_probation = true;
            self.demanded = false;
            todo.push(Action::Refuse(cause.clone()));
            todo.push(Action::Arm(Timer::Cooled, within.max(self.policy.backoff.longest())));
            self.state = State::Tripped { cause };
        } else {
            // The pause is for starts that fail. Growing with every crash, it would cost a host whose child serves it in between.
            if self.was_ready {
                self.in_a_row = 0;
            }
            // The first crash of a child that served is no sign of the next one: its callers wait for no more than the new start.
            let pause = match self.was_ready && self.failures.len() == 1 {
                true => Duration::ZERO,
                false => self.policy.backoff.pause(self.in_a_row, jitter),
            };
            self.in_a_row = self.in_a_row.saturating_add(1);
            todo.push(Action::Arm(Timer::Backoff, pause));
            self.state = State::BackingOff { cause };
        }
    }

    fn on_hopeless(&mut self, which: Generation, cause: Cause, todo: &mut Vec<Action>) {
        if self.state.live() == Some(which) {
            todo.push(Action::CutOff(cause.clone()));
            todo.push(Action::Refuse(cause));
            self.state = State::Ended;
        }
    }

    fn on_timer(&mut self, timer: Timer, todo: &mut Vec<Action>) {
        match (timer, &self.state) {
            (Timer::Backoff, State::BackingOff { .. }) if self.holders > 0 => {
                self.state = State::Asleep;
                self.start(todo);
            }
            (Timer::Start, State::Starting(generation)) => self.tear_down(*generation, Why::StartTimeout, todo),
            (Timer::Sustained, State::Ready { .. }) => {
                self.failures.clear();
                self.in_a_row = 0;
                self.on_probation = false;
            }
            (Timer::Hibernate, State::Starting(generation) | State::Ready { generation, .. }) if !self.busy => {
                self.tear_down(*generation, Why::Hibernate, todo);
            }
            (Timer::Age, State::Ready { generation, .. }) => self.recycle(*generation, Why::Age, todo),
            // It grew old while it was starting: nothing is in flight that could not wait for its first answer.
            (Timer::Age, State::Starting(_)) => todo.push(Action::Arm(Timer::Age, Duration::from_secs(1))),
            // The next call may try again.
            (Timer::Cooled, State::Tripped { .. }) => self.state = State::Asleep,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
