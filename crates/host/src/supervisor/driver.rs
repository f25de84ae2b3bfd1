//! The driver of a child: a task that performs what the lifecycle says, and carries messages. It holds no lease. It ends with its
//! runtime, and the child with it. The next call then starts another driver, which starts nothing before that child is gone.

mod calls;
mod serving;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use nostray_registry::{masked, short_name};
use nostray_supervise::error_text::ServerLabel;
use nostray_supervise::lifecycle::{Activity, Effect};
use nostray_supervise::{Cause, Generation as Number, Lifecycle, MachineEvent as Event, Policy, State, Why};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::Generation;
use super::core::{DriverControls, QueuedBytes};
use super::handlers::HandlerError;
use super::live::{ChildEvent, Due, Live};
use crate::error::with_causes;
use crate::trace;
use crate::{CallError, Cause as ExitCause, Exit};
use calls::Queued;
use serving::InboundRequest;

/// What a driver is told.
#[derive(Debug)]
pub(super) enum Command {
    Taken,
    Released(u64),
    Call(Call),
    Notify { line: Vec<u8>, bytes: QueuedBytes },
    Cancel(u64),
    Ready(oneshot::Sender<Result<Generation, CallError>>),
    Restart,
    Stop,
}

/// A call of a lease.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) method: String,
    pub(super) params: Box<RawValue>,
    pub(super) answer: Answer,
}

type Answer = oneshot::Sender<Result<Box<RawValue>, CallError>>;

struct Driver {
    controls: DriverControls,
    lifecycle: Lifecycle,
    began: Instant,
    live: Option<Live>,
    /// A start that waits until nothing is left of what another driver had.
    starting: Option<Number>,
    waiting: VecDeque<Queued>,
    /// Callers that wait for a child that is ready.
    ready_waiters: Vec<oneshot::Sender<Result<Generation, CallError>>>,
    in_flight: HashMap<u64, Answer>,
    inbound: HashMap<tokio::task::Id, InboundRequest>,
    handlers: JoinSet<Result<Value, HandlerError>>,
    is_busy: bool,
    /// What errors call the child.
    label: ServerLabel,
    /// How the last child ended.
    last_exit: Option<String>,
    was_ready: bool,
}

impl Drop for Driver {
    fn drop(&mut self) {
        for (_, answer) in self.in_flight.drain() {
            let cause = Cause::because("was lost", "the runtime that kept it has ended");
            answer.send(Err(CallError::CutOff(self.label.during_call(&cause)))).ok();
        }
        if let Some(Live { pen, tree_guard, .. }) = self.live.take() {
            let core = self.controls.core.clone();
            pen.end_in_background(Box::new(move || {
                drop(tree_guard);
                core.tidy();
            }));
        }
    }
}

pub(super) async fn run(controls: DriverControls, mut inbox: mpsc::UnboundedReceiver<Command>) {
    let keeping = controls.core.spec.keeping.clone();
    let policy = Policy {
        respawn: keeping.respawn,
        backoff: keeping.backoff,
        max_failures: keeping.max_failures,
        hibernate: keeping.hibernate,
        max_age: keeping.max_age,
        start_timeout: keeping.start_timeout,
        ..Policy::default()
    };
    let name = short_name(&masked(&controls.core.spec.child.command));
    let mut driver = Driver {
        label: ServerLabel { name, details: None },
        was_ready: controls.before > 0,
        controls,
        lifecycle: Lifecycle::new(policy, nostray_sys::process::random()),
        began: Instant::now(),
        live: None,
        starting: None,
        waiting: VecDeque::new(),
        ready_waiters: Vec::new(),
        in_flight: HashMap::new(),
        inbound: HashMap::new(),
        handlers: JoinSet::new(),
        is_busy: false,
        last_exit: None,
    };
    driver.drive_on(&mut inbox).await;
}

/// What has happened.
enum Happened {
    Command(Option<Command>),
    ChildEvent(ChildEvent),
    NothingLeft,
    Handled(tokio::task::Id, Result<Value, HandlerError>),
    Time,
}

impl Driver {
    async fn drive_on(&mut self, inbox: &mut mpsc::UnboundedReceiver<Command>) {
        loop {
            self.do_what_is_due();
            if self.is_idle() && self.controls.core.may_end(&self.controls, inbox) {
                return;
            }
            match self.next(inbox).await {
                Happened::Command(Some(command)) => self.on_command(command),
                Happened::Command(None) => return, // no sender is left
                Happened::ChildEvent(event) => self.on_child_event(event),
                Happened::NothingLeft => self.start_now(),
                Happened::Handled(task, result) => self.on_handled(task, result),
                Happened::Time => {}
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.live.is_none()
            && self.starting.is_none()
            && self.lifecycle.state().live().is_none()
            && !self.lifecycle.is_lingering()
    }

    /// Waits for the next thing to happen. A child that never stops writing must not starve the other sources, so all of
    /// them have the same chance.
    async fn next(&mut self, inbox: &mut mpsc::UnboundedReceiver<Command>) -> Happened {
        let deadline = self.deadline();
        let Self { live, lifecycle, starting, controls, handlers, .. } = self;
        let of_child = async {
            match live {
                None => std::future::pending().await,
                Some(live) => live.next(lifecycle).await,
            }
        };
        let nothing_left = async {
            match starting {
                None => std::future::pending().await,
                Some(_) => controls.core.tree_lock.until_released_by(controls.core.tree_lock.holder()).await,
            }
        };
        let time = async {
            match deadline {
                None => std::future::pending().await,
                Some(at) => tokio::time::sleep_until(at.into()).await,
            }
        };
        let handled = async {
            match handlers.join_next_with_id().await {
                Some(Ok((task, result))) => (task, result),
                Some(Err(error)) => {
                    (error.id(), Err(HandlerError::new(-32603, "its handler has panicked or is gone")))
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = of_child => Happened::ChildEvent(event),
            command = inbox.recv() => Happened::Command(command),
            (task, result) = handled => Happened::Handled(task, result),
            () = nothing_left => Happened::NothingLeft,
            () = time => Happened::Time,
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn deadline(&self) -> Option<Instant> {
        let of_lifecycle = self.lifecycle.deadline().and_then(|at| self.began.checked_add(at));
        let of_child = self.live.as_ref().and_then(Live::deadline);
        of_lifecycle.into_iter().chain(of_child).min()
    }

    fn do_what_is_due(&mut self) {
        self.settle();
        while let Some(effects) = self.lifecycle.tick(self.now()) {
            self.perform(effects);
        }
        let eof = self.controls.core.spec.child.graces.eof();
        if let Some(live) = &mut self.live {
            let number = live.number;
            match live.do_what_is_due(eof) {
                Some(Due::Gone(exit)) => self.on_gone(&exit),
                Some(Due::Dead(exit)) => {
                    live.drain_stderr(&mut self.lifecycle);
                    let cause = exit.map_or_else(|| Cause::new("closed its output"), |exit| cause_of(&exit));
                    self.drive(Event::Died(number, cause));
                }
                None => {}
            }
        }
        self.settle();
    }

    /// Lets the lifecycle see what is in flight and what waits. A child that is not there yet is not idle.
    fn settle(&mut self) {
        let asked =
            !self.in_flight.is_empty() || self.live.as_ref().is_some_and(|live| live.handshake_request.is_some());
        let busy = asked || !self.waiting.is_empty() || self.starting.is_some();
        let effects = self.lifecycle.observe(Activity { asked, busy }, self.now());
        let is_busy = self.lifecycle.is_busy();
        if std::mem::replace(&mut self.is_busy, is_busy)
            && let Some(live) = self.live.as_mut().filter(|live| !is_busy && live.lines.is_large())
        {
            live.lines.tidy();
        }
        if !effects.is_empty() {
            self.perform(effects);
        }
    }

    /// Lets the lifecycle take in an event, and performs what follows.
    fn drive(&mut self, event: Event) {
        let effects = self.lifecycle.on(event, self.now());
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        self.controls.last = self.controls.before + self.lifecycle.generation().0;
        let ready = match self.lifecycle.state() {
            State::Ready { generation, .. } => Some(Generation(self.controls.before + generation.0)),
            _ => None,
        };
        // First, so that a caller that is told that the child is gone does not find it there.
        let is_news = self.controls.core.generation.send_if_modified(|told| std::mem::replace(told, ready) != ready);
        for effect in effects {
            match effect {
                Effect::Start(number) => {
                    self.starting = Some(number);
                    self.start_now();
                }
                Effect::TearDown(_, why) => self.tear_down(why),
                Effect::CutOff(cause) => self.cut_off(&cause),
                Effect::Refuse(cause) => self.refuse(&cause),
                Effect::Ended => self.core_is_over(),
            }
        }
        if let Some(ready) = ready.filter(|_| is_news) {
            trace::ready(&self.controls.core.spec.child.command, ready.0);
            self.ready_waiters.drain(..).for_each(|ready_waiters| drop(ready_waiters.send(Ok(ready))));
            if std::mem::replace(&mut self.was_ready, true) {
                self.controls.core.handlers.tell(ready);
            }
        }
    }

    /// No child will ever be started again: it was stopped, or ended for good.
    fn core_is_over(&mut self) {
        let why = self.last_exit.take().unwrap_or_else(|| self.label.clause(&Why::Stop.cause()));
        self.controls.core.is_over_because(&why);
        self.refuse_because(&self.controls.core.why_over().unwrap_or(why));
    }

    /// Starts the child that is to be started, as soon as nothing is left of what another driver had.
    fn start_now(&mut self) {
        let Some(number) = self.starting else { return };
        if *self.lifecycle.state() != State::Starting(number) {
            self.starting = None;
            return self.drive(Event::Emptied(number, Why::Released.cause()));
        }
        let Some(tree_guard) = self.controls.core.lock_tree() else { return };
        self.starting = None;
        match Live::start(number, tree_guard, &self.controls.core.spec) {
            Ok(live) => {
                if self.controls.before + number.0 > 1 {
                    trace::respawned(&self.controls.core.spec.child.command, self.controls.before + number.0);
                }
                self.live = Some(live);
                self.lifecycle.child_started(self.now());
                self.go_on_with_handshake();
            }
            Err(error) => self.has_ended(number, Cause::not_started(with_causes(&error)), true),
        }
    }

    fn tear_down(&mut self, why: Why) {
        if !why.lets_child_answer() {
            self.cut_off(&why.cause());
        }
        if let Some(number) = self.starting.take() {
            return self.drive(Event::Emptied(number, why.cause())); // it is not there yet
        }
        let eof = self.controls.core.spec.child.graces.eof();
        if let Some(live) = &mut self.live {
            live.close_stdin_at = Some(Instant::now() + eof);
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Taken => {
                let effects = self.lifecycle.take(self.now());
                self.perform(effects);
            }
            Command::Released(lease) => {
                self.reassign_requests(lease);
                let is_there = matches!(self.lifecycle.state(), State::Starting(_) | State::Ready { .. });
                let live = self.live.as_ref().filter(|_| is_there);
                let is_asked = live.is_some_and(|live| live.was_called || live.handshake_request.is_some());
                let linger = live.map(|_| self.controls.core.spec.keeping.linger);
                let effects = self.lifecycle.release(linger, is_asked, self.now());
                self.perform(effects);
            }
            Command::Call(call) => {
                self.waiting.push_back(Queued::Call(call));
                self.wake();
            }
            Command::Notify { line, bytes } => {
                self.waiting.push_back(Queued::Notification { line, _bytes: bytes });
                self.wake();
            }
            Command::Cancel(id) => {
                self.waiting.retain(|waiting| !matches!(waiting, Queued::Call(call) if call.id == id));
                self.cancel_in_flight(id);
            }
            Command::Ready(answer) => match self.lifecycle.state() {
                State::Ready { generation, .. } => {
                    answer.send(Ok(Generation(self.controls.before + generation.0))).ok();
                }
                _ => {
                    self.ready_waiters.retain(|ready_waiters| !ready_waiters.is_closed());
                    self.ready_waiters.push(answer);
                    self.wake();
                }
            },
            Command::Restart => self.drive(Event::Restart),
            Command::Stop => {
                self.drive(Event::Stop);
                self.refuse(&Why::Stop.cause());
            }
        }
    }

    fn on_child_event(&mut self, event: ChildEvent) {
        let Some(live) = &mut self.live else { return };
        match event {
            ChildEvent::Output(count) => {
                live.read_messages(count).into_iter().for_each(|incoming| self.on_incoming(incoming))
            }
            ChildEvent::OutputEnded => {
                let last = live.output_closed(self.controls.core.spec.child.graces.eof());
                last.into_iter().for_each(|incoming| self.on_incoming(incoming));
            }
            ChildEvent::FrontEnded => live.front_ended = true,
            ChildEvent::Gone(exit) => live.is_gone(exit),
            ChildEvent::Written => self.send_queued(),
            ChildEvent::Errors => {}
        }
    }

    /// Nothing is left of it, and all its output was read.
    fn on_gone(&mut self, exit: &Exit) {
        self.take_back_unread();
        let Some(live) = self.live.take() else { return };
        let (number, was_asked_to_stop) = (live.number, live.was_asked_to_stop);
        live.drain_stderr(&mut self.lifecycle);
        drop(live);
        // By `nostray stop`, by the end of its session, by a newcomer to its slot. A child that came back at once could not be stopped.
        let is_ours = was_asked_to_stop || matches!(self.lifecycle.state(), State::Stopping { .. });
        if matches!(exit.cause, ExitCause::Asked(_)) && !is_ours {
            let cause = Cause::because("was stopped", exit.cause.to_string());
            self.controls.core.is_over_because(&self.label.clause(&cause));
            self.drive(Event::Stop);
        }
        let cause = cause_of(exit);
        let was_started =
            !matches!(exit.cause, ExitCause::NotExecuted(_) | ExitCause::GuardFailed(_) | ExitCause::SlotTaken);
        self.has_ended(number, cause, !was_started);
    }

    /// What could not even be started the first time is not tried again; what ran before may be about to be replaced.
    fn has_ended(&mut self, number: Number, cause: Cause, was_not_started: bool) {
        let why = self.with_last_words(self.label.clause(&cause));
        if was_not_started {
            // They were written, but no child has read them.
            for (_, answer) in self.in_flight.drain() {
                answer.send(Err(CallError::Refused(why.clone()))).ok();
            }
        }
        self.last_exit = Some(why);
        if was_not_started && self.controls.before + number.0 == 1 {
            self.drive(Event::Hopeless(number, cause));
        } else {
            self.drive(Event::Emptied(number, cause));
        }
        self.last_exit = None;
    }
}

/// What became of a child that has ended.
fn cause_of(exit: &Exit) -> Cause {
    match &exit.cause {
        ExitCause::NotExecuted(why) | ExitCause::GuardFailed(why) => Cause::not_started(why),
        ExitCause::SlotTaken => Cause::not_started(exit.cause.to_string()),
        ExitCause::Itself => Cause::new(exit.how()),
        other => Cause::because(exit.how(), other.to_string()),
    }
}
