//! The life of one supervised child, without I/O: the [`Machine`] that decides when the child is started and ended, and everything
//! that drives it. A shell tells it what happens and performs the [`Effect`]s that come back. There are three shells: the front's
//! session, the steward of a shared child, and the library's driver.
//!
//! What is decided here, once for all three:
//! - Timers and the jitter of a backoff.
//! - When the child is idle, and from when on a start takes time ([`Activity`]).
//! - When the child counts as ready ([`Lifecycle::child_answered`], [`Lifecycle::child_runs`]).
//! - How long the child is kept without a holder ([`Lifecycle::release`]).
//! - Which in-flight requests are cut off, and when ([`Effect::CutOff`], [`Effect::TearDown`]).
//! - The last lines of the child's stderr, for the error that a caller gets.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::error_text::{Outlook, Trip};
use crate::machine::{Action, Cause, Event, Generation, Machine, Moment, Policy, State, Timer, Why};
use crate::stderr_tail::StderrTail;
use crate::timers::Timers;
use nostray_sys::random::Random;

/// How long a start may take that no holder waits for, unless `--start-timeout` says otherwise.
const START_WITHOUT_HOLDER: Duration = Duration::from_secs(120);
/// How long a caller that has announced a call may take to make it, before the child may go to sleep again.
const ANNOUNCED_CALL: Duration = Duration::from_secs(1);

/// What a shell has to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Start this generation. Call [`Lifecycle::child_started`] once its process exists.
    Start(Generation),
    /// Tear this generation down, with its graces. Unless [`Why::lets_child_answer`], take back first what the child has not read, and
    /// answer what else is in flight with an error that names [`Why::cause`].
    TearDown(Generation, Why),
    /// The child is dead or gone: take back what it has not read, and answer what else is in flight with an error.
    CutOff(Cause),
    /// Answer everything that waits for a child with an error.
    Refuse(Cause),
    /// No child will ever be started again. Comes once.
    Ended,
}

/// What a shell sees of the traffic with its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    /// A request is in flight. A child that was not asked anything cannot have answered, so the start timeout counts from here.
    pub asked: bool,
    /// Something is in flight or waits that keeps the child awake.
    pub busy: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Lifecycle {
    machine: Machine,
    timers: Timers,
    jitter: Random,
    stderr: StderrTail,
    is_busy: bool,
    /// When the process of the current generation was started.
    started: Option<Moment>,
    /// The last holder has released the child, and the next one may still find it.
    linger: Option<Linger>,
    /// A caller has announced a call, and until when the child stays awake for it.
    announced: Option<Moment>,
}

/// How long the child is kept without a holder.
#[derive(Debug, Clone, Copy)]
struct Linger {
    until: Moment,
    /// The child has not answered yet: from its first answer on it is kept for this long.
    from_ready: Option<Duration>,
}

impl Lifecycle {
    /// The life of a child that has no holder yet. `seed` is for the jitter.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self {
            machine: Machine::new(policy),
            timers: Timers::default(),
            jitter: Random::new(seed),
            stderr: StderrTail::default(),
            is_busy: false,
            started: None,
            linger: None,
            announced: None,
        }
    }

    /// Replaces the policy.
    pub fn adopt(&mut self, policy: Policy) {
        self.machine.adopt(policy);
    }

    /// The policy that holds now.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.machine.policy()
    }

    /// The state of the child.
    #[must_use]
    pub fn state(&self) -> &State {
        self.machine.state()
    }

    /// The newest generation, alive or not.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.machine.generation()
    }

    /// Whether the child is ending and the policy does not start it again.
    #[must_use]
    pub fn ends_for_good(&self) -> bool {
        self.machine.ends_for_good()
    }

    /// How long it is until the next start, if the child backs off.
    #[must_use]
    pub fn pause(&self, now: Moment) -> Duration {
        self.timers.at(Timer::Backoff).map_or(Duration::ZERO, |at| at.saturating_sub(now))
    }

    /// What a caller can expect whose call is [refused](Effect::Refuse).
    #[must_use]
    pub fn outlook(&self, now: Moment) -> Outlook {
        match self.state() {
            State::Ended => Outlook::ForGood,
            State::Tripped { .. } => {
                let left = self.timers.at(Timer::Cooled).map_or(Duration::ZERO, |at| at.saturating_sub(now));
                Outlook::Tripped(Trip { limit: self.policy().max_failures, left })
            }
            _ => Outlook::Open,
        }
    }

    /// When [`Lifecycle::tick`] wants to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        [self.timers.next(), self.linger.map(|linger| linger.until), self.announced].into_iter().flatten().min()
    }

    /// Takes in one event.
    #[must_use]
    pub fn on(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        let mut effects = match &event {
            // A child without a holder is not started again, however it ended.
            Event::Emptied(..) | Event::Hopeless(..) => self.end_linger(now),
            Event::Stop => {
                self.linger = None;
                Vec::new()
            }
            _ => Vec::new(),
        };
        let had_ended = *self.state() == State::Ended;
        let jitter = self.jitter.fraction();
        for action in self.machine.on(event, now, jitter) {
            match action {
                // At once, so that a start that fails while the shell performs it finds no timer of its own armed afterwards.
                Action::Arm(timer, after) => self.timers.arm(timer, after, now),
                Action::Disarm(timer) => self.timers.disarm(timer),
                Action::Start(generation) => {
                    self.stderr.clear();
                    self.started = None;
                    effects.push(Effect::Start(generation));
                }
                Action::TearDown(generation, why) => {
                    // The machine cuts off before it tears down. What the child has not read must be taken back before either.
                    effects.pop_if(|effect| matches!(effect, Effect::CutOff(_)));
                    effects.push(Effect::TearDown(generation, why));
                }
                Action::CutOff(cause) => effects.push(Effect::CutOff(cause)),
                Action::Refuse(cause) => effects.push(Effect::Refuse(cause)),
            }
        }
        match self.machine.state() {
            State::Ready { .. } => {
                if let Some(linger) = &mut self.linger
                    && let Some(time) = linger.from_ready.take()
                {
                    linger.until = now.saturating_add(time);
                }
            }
            State::Ended if !had_ended => {
                self.linger = None;
                effects.push(Effect::Ended);
            }
            _ => {}
        }
        effects
    }

    /// Takes in one timer that has fired, or the end of a linger; to be called until there is none. Call [`Lifecycle::observe`] first,
    /// so that a child that has just been asked something is not put to sleep.
    pub fn tick(&mut self, now: Moment) -> Option<Vec<Effect>> {
        self.announced.take_if(|until| *until <= now);
        if let Some(timer) = self.timers.fired(now) {
            return Some(self.on(Event::Fired(timer), now));
        }
        self.linger.filter(|linger| linger.until <= now).map(|_| self.end_linger(now))
    }

    /// Takes in what the shell sees of the traffic. To be called with every message, so it costs nothing while nothing changes.
    #[must_use]
    pub fn observe(&mut self, activity: Activity, now: Moment) -> Vec<Effect> {
        if activity.asked {
            self.timers.asked(now);
        }
        self.announced = self.announced.filter(|until| !activity.asked && *until > now);
        // A start that is kept for the next holder does not fall asleep before its first answer.
        let is_kept = self.linger.is_some_and(|linger| linger.from_ready.is_some());
        let is_busy = activity.busy || is_kept || self.announced.is_some();
        if std::mem::replace(&mut self.is_busy, is_busy) == is_busy || self.machine.takes_note(is_busy) {
            return Vec::new();
        }
        self.on(if is_busy { Event::Busy } else { Event::Quiet }, now)
    }

    /// Whether the child counted as busy when [`Lifecycle::observe`] was last called.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// A caller is about to make a call: start the child, and keep it awake for a moment.
    #[must_use]
    pub fn call_announced(&mut self, now: Moment) -> Vec<Effect> {
        self.announced = Some(now + ANNOUNCED_CALL);
        self.on(Event::Demanded, now)
    }

    /// The process of the current generation was started.
    pub fn child_started(&mut self, now: Moment) {
        self.started = Some(now);
    }

    /// The child has answered a request, or has met its ready condition: if it was starting, it is ready.
    #[must_use]
    pub fn child_answered(&mut self, now: Moment) -> Vec<Effect> {
        match *self.state() {
            State::Starting(generation) => self.on(Event::Answered(generation), now),
            _ => Vec::new(),
        }
    }

    /// The child runs, and nothing more can be known of it: it has no protocol and no ready condition. If it was starting, it is ready,
    /// but a crash still counts as a failed start.
    #[must_use]
    pub fn child_runs(&mut self, now: Moment) -> Vec<Effect> {
        match *self.state() {
            State::Starting(generation) => self.on(Event::Runs(generation), now),
            _ => Vec::new(),
        }
    }

    /// One holder more. A holder that comes during a linger takes the place of the last one.
    #[must_use]
    pub fn take(&mut self, now: Moment) -> Vec<Effect> {
        match self.linger.take() {
            Some(_) => Vec::new(),
            None => self.on(Event::Taken, now),
        }
    }

    /// One holder less. If it was the last one, the child is kept for `linger`; none, if there is no child to keep.
    ///
    /// A linger counts from *ready*. A child that `is_asked` and has not answered yet is kept until it has: if it were ended, a host
    /// that tries again sooner than the child starts would never find a start finished.
    #[must_use]
    pub fn release(&mut self, linger: Option<Duration>, is_asked: bool, now: Moment) -> Vec<Effect> {
        let Some(time) = linger.filter(|time| !time.is_zero() && self.machine.holders() == 1) else {
            return self.on(Event::Released, now);
        };
        let from_ready = (is_asked && matches!(self.state(), State::Starting(_))).then_some(time);
        let within = self.policy().start_timeout.unwrap_or(START_WITHOUT_HOLDER);
        let start_ends = self.started.filter(|_| from_ready.is_some()).map(|at| at.saturating_add(within));
        let ends = now.saturating_add(time);
        self.linger = Some(Linger { until: start_ends.map_or(ends, |at| at.max(ends)), from_ready });
        Vec::new()
    }

    /// Whether the child is kept without a holder.
    #[must_use]
    pub fn is_lingering(&self) -> bool {
        self.linger.is_some()
    }

    /// Ends a linger, as if its time were over.
    #[must_use]
    pub fn end_linger(&mut self, now: Moment) -> Vec<Effect> {
        match self.linger.take() {
            Some(_) => self.on(Event::Released, now),
            None => Vec::new(),
        }
    }

    /// The child, or its steward, has written this to stderr.
    pub fn stderr(&mut self, bytes: &[u8]) {
        self.stderr.add(bytes);
    }

    /// The last lines that the newest generation wrote to stderr, the newest last.
    pub fn last_words(&mut self) -> Vec<String> {
        self.stderr.lines()
    }
}
