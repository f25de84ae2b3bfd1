//! The driver of a child: a task that performs what the machine says, and carries messages. It holds no lease. If its runtime goes, it
//! goes, and the child with it; the next one who wants something starts another driver, which starts nothing before that child is gone.

mod serving;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use nostray_supervise::{
    Action, Cause, Generation as Number, Machine, MachineEvent as Event, Policy, State, Tail, Timers, Why,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::Generation;
use super::core::{DriverControls, QueuedBytes};
use super::handlers::HandlerError;
use super::live::{ChildEvent, Due, Incoming, Live};
use super::wire::{self, Own};
use crate::error::with_causes;
use crate::trace;
use crate::{CallError, Cause as ExitCause, Exit, Handshake};
use serving::InboundRequest;

/// So long in *ready*, and earlier failures are forgotten.
const SUSTAINED: Duration = Duration::from_secs(30);
/// How long a start may take that no lease waits for any more, unless the spec says otherwise.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(120);
/// More than this on its way to the child, and calls wait.
const MAX_UNWRITTEN: usize = 4 << 20;

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

/// What waits for a child.
enum Queued {
    Call(Call),
    Notification { line: Vec<u8>, _bytes: QueuedBytes },
}

struct Driver {
    controls: DriverControls,
    machine: Machine,
    timers: Timers,
    began: Instant,
    live: Option<Live>,
    /// A start that waits until nothing is left of what another driver had.
    starting: Option<Number>,
    waiting: VecDeque<Queued>,
    /// Those who wait for a child that is ready.
    ready_waiters: Vec<oneshot::Sender<Result<Generation, CallError>>>,
    in_flight: HashMap<u64, Answer>,
    inbound: HashMap<tokio::task::Id, InboundRequest>,
    handlers: JoinSet<Result<Value, HandlerError>>,
    /// No lease holds the child any more, but the next one may still find it.
    linger: Option<Linger>,
    is_busy: bool,
    tail: Tail,
    /// How the last child ended.
    last_exit: Option<String>,
    was_ready: bool,
    jitter: u64,
}

/// How long the child is kept without a lease.
#[derive(Clone, Copy)]
struct Linger {
    until: Instant,
    /// The child has not answered yet: from its first answer on it is kept for so long.
    from_ready: Option<Duration>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        for (_, answer) in self.in_flight.drain() {
            answer.send(Err(CallError::CutOff("the runtime that kept it has ended".to_owned()))).ok();
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
        sustained: SUSTAINED,
        hibernate: keeping.hibernate,
        max_age: keeping.max_age,
        start_timeout: keeping.start_timeout,
        on_demand: false,
    };
    let mut driver = Driver {
        was_ready: controls.before > 0,
        controls,
        machine: Machine::new(policy),
        timers: Timers::default(),
        began: Instant::now(),
        live: None,
        starting: None,
        waiting: VecDeque::new(),
        ready_waiters: Vec::new(),
        in_flight: HashMap::new(),
        inbound: HashMap::new(),
        handlers: JoinSet::new(),
        linger: None,
        is_busy: false,
        tail: Tail::default(),
        last_exit: None,
        jitter: nostray_sys::process::random() | 1,
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
                Happened::Command(None) => return, // nobody can tell anything any more
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
            && self.machine.state().live().is_none()
            && self.linger.is_none()
    }

    /// Waits for the next thing to happen. A child that never stops talking must not keep commands from being handled, so all of
    /// them have the same chance.
    async fn next(&mut self, inbox: &mut mpsc::UnboundedReceiver<Command>) -> Happened {
        let deadline = self.deadline();
        let Self { live, tail, starting, controls, handlers, .. } = self;
        let of_child = async {
            match live {
                None => std::future::pending().await,
                Some(live) => live.next(tail).await,
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
        let timer = self.timers.next().map(|at| self.began + at);
        let of_child = self.live.as_ref().and_then(Live::deadline);
        [timer, of_child, self.linger.map(|linger| linger.until)].into_iter().flatten().min()
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        // First, so that a child that has just been asked something is not put to sleep.
        self.settle();
        while let Some(timer) = self.timers.fired(self.now()) {
            self.drive(Event::Fired(timer));
        }
        if self.linger.take_if(|linger| linger.until <= now).is_some() {
            self.drive(Event::Released);
        }
        let eof = self.controls.core.spec.child.graces.eof();
        if let Some(live) = &mut self.live {
            let number = live.number;
            match live.do_what_is_due(eof) {
                Some(Due::Gone(exit)) => self.on_gone(&exit),
                Some(Due::Dead(exit)) => {
                    live.drain_stderr(&mut self.tail);
                    let cause = exit.map_or("its output has ended".to_owned(), |exit| format!("the child {exit}"));
                    self.drive(Event::Died(number, Cause(cause)));
                }
                None => {}
            }
        }
        self.settle();
    }

    /// Tells the machine whether something is in flight, or waits, if that has changed. A child that is not there yet is not idle.
    fn settle(&mut self) {
        let was_asked =
            !self.in_flight.is_empty() || self.live.as_ref().is_some_and(|live| live.handshake_request.is_some());
        if was_asked {
            self.timers.asked(self.now());
        }
        if matches!(self.machine.state(), State::Ready { .. })
            && let Some(linger) = &mut self.linger
            && let Some(time) = linger.from_ready.take()
        {
            linger.until = Instant::now() + time;
        }
        // A start that is kept for the next lease does not fall asleep before its first answer.
        let is_kept = self.linger.is_some_and(|linger| linger.from_ready.is_some());
        let is_busy = was_asked || is_kept || !self.waiting.is_empty() || self.starting.is_some();
        if std::mem::replace(&mut self.is_busy, is_busy) != is_busy {
            if let Some(live) = self.live.as_mut().filter(|live| !is_busy && live.lines.is_large()) {
                live.lines.tidy();
            }
            if !self.machine.takes_note(is_busy) {
                self.drive(if is_busy { Event::Busy } else { Event::Quiet });
            }
        }
    }

    /// Lets the machine take something in, and does what it says.
    fn drive(&mut self, event: Event) {
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let jitter = (self.jitter >> 11) as f64 / (1u64 << 53) as f64;
        let now = self.now();
        let actions = self.machine.on(event, now, jitter);
        self.controls.last = self.controls.before + self.machine.generation().0;
        let ready = match self.machine.state() {
            State::Ready { generation, .. } => Some(Generation(self.controls.before + generation.0)),
            _ => None,
        };
        // Before anything else, so that whoever is told that the child is gone does not find it there.
        let is_news = self.controls.core.generation.send_if_modified(|told| std::mem::replace(told, ready) != ready);
        for action in actions {
            match action {
                Action::Start(number) => {
                    self.starting = Some(number);
                    self.start_now();
                }
                Action::TearDown(_, why) => self.tear_down(why),
                Action::CutOff(cause) => self.cut_off(&cause),
                Action::Refuse(cause) => self.refuse(&cause),
                Action::Arm(timer, after) => self.timers.arm(timer, after, now),
                Action::Disarm(timer) => self.timers.disarm(timer),
            }
        }
        if *self.machine.state() == State::Ended {
            self.core_is_over();
        }
        if let Some(ready) = ready.filter(|_| is_news) {
            trace::ready(&self.controls.core.spec.child.command, ready.0);
            self.ready_waiters.drain(..).for_each(|ready_waiters| drop(ready_waiters.send(Ok(ready))));
            if std::mem::replace(&mut self.was_ready, true) {
                self.controls.core.handlers.tell(ready);
            }
        }
    }

    /// It never comes back: because somebody has stopped it, or because of how it ended.
    fn core_is_over(&mut self) {
        let why = self.last_exit.take().unwrap_or_else(|| "it was stopped".to_owned());
        self.controls.core.is_over_because(&why);
        self.refuse(&Cause(self.controls.core.why_over().unwrap_or(why)));
    }

    /// Starts the child that is to be started, as soon as nothing is left of what another driver had.
    fn start_now(&mut self) {
        let Some(number) = self.starting else { return };
        if *self.machine.state() != State::Starting(number) {
            self.starting = None;
            return self.drive(Event::Emptied(number, Why::Released.cause()));
        }
        let Some(tree_guard) = self.controls.core.lock_tree() else { return };
        self.starting = None;
        self.tail.clear();
        match Live::start(number, tree_guard, &self.controls.core.spec) {
            Ok(live) => {
                if self.controls.before + number.0 > 1 {
                    trace::respawned(&self.controls.core.spec.child.command, self.controls.before + number.0);
                }
                self.live = Some(live);
                self.go_on_with_handshake();
            }
            Err(error) => self.has_ended(number, Cause(with_causes(&error)), true),
        }
    }

    fn tear_down(&mut self, why: Why) {
        if let Some(number) = self.starting.take() {
            return self.drive(Event::Emptied(number, why.cause())); // it is not there yet
        }
        let eof = self.controls.core.spec.child.graces.eof();
        if let Some(live) = &mut self.live {
            live.close_stdin_at = Some(Instant::now() + eof);
        }
    }

    /// What the child has not read was not made, and waits for the next one, before everything else. The handshake, and calls that
    /// were cancelled, do not.
    fn take_back_unread(&mut self) {
        let unread = self.live.as_mut().map(Live::take_unread).unwrap_or_default();
        let greetings: Vec<Vec<u8>> = match &self.controls.core.spec.keeping.handshake {
            Handshake::None => Vec::new(),
            Handshake::Messages { notifications, .. } => {
                notifications.iter().map(|(method, params)| wire::notification(method, &raw(params))).collect()
            }
        };
        let cancel = self.controls.core.spec.keeping.protocol.cancel_method();
        let mut waiting = VecDeque::new();
        for line in unread.split_inclusive(|byte| *byte == b'\n').filter(|line| !greetings.iter().any(|g| g == line))
        {
            match wire::parse_own(line) {
                Some(Own { id: Some(id), method, params }) => {
                    if let Some(answer) = self.in_flight.remove(&id) {
                        waiting.push_back(Queued::Call(Call { id, method, params, answer }));
                    }
                }
                Some(Own { id: None, method, .. }) if method != cancel => {
                    if let Some(bytes) = self.controls.core.room_for(line.len()) {
                        waiting.push_back(Queued::Notification { line: line.to_vec(), _bytes: bytes });
                    }
                }
                _ => {}
            }
        }
        if !waiting.is_empty() {
            waiting.append(&mut self.waiting);
            self.waiting = waiting;
            self.drive(Event::Demanded);
        }
    }

    /// Everything that is in flight has failed, but for what the child has not read.
    fn cut_off(&mut self, cause: &Cause) {
        self.take_back_unread();
        let why = self.with_tail(cause);
        for (_, answer) in self.in_flight.drain() {
            answer.send(Err(CallError::CutOff(why.clone()))).ok();
        }
        self.inbound.drain().for_each(|(_, served)| served.abort.abort());
    }

    /// Everything that waits has failed.
    fn refuse(&mut self, cause: &Cause) {
        let why = self.with_tail(cause);
        for waiting in self.waiting.drain(..) {
            if let Queued::Call(call) = waiting {
                call.answer.send(Err(CallError::Refused(why.clone()))).ok();
            }
        }
        self.ready_waiters
            .drain(..)
            .for_each(|ready_waiters| drop(ready_waiters.send(Err(CallError::Refused(why.clone())))));
    }

    /// Why, with the last that the child wrote to its standard error.
    fn with_tail(&mut self, cause: &Cause) -> String {
        let why = in_our_words(cause);
        match self.tail.lines().last() {
            // What nostray itself wrote there says the same.
            Some(last) if !last.contains(&why) => format!("{why} (its last words: {last})"),
            _ => why,
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Taken => {
                // The last one to go has been waited for: it is as if it had not gone.
                if self.linger.take().is_none() {
                    self.drive(Event::Taken);
                }
            }
            Command::Released(lease) => {
                self.reassign_requests(lease);
                let linger = self.controls.core.spec.keeping.linger;
                let is_there = matches!(self.machine.state(), State::Starting(_) | State::Ready { .. });
                if self.machine.holders() == 1 && !linger.is_zero() && is_there && self.live.is_some() {
                    self.linger = self.linger_of(linger);
                } else {
                    self.drive(Event::Released);
                }
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
                if self.in_flight.remove(&id).is_some()
                    && let Some(live) = &mut self.live
                {
                    let protocol = self.controls.core.spec.keeping.protocol;
                    live.say(&wire::notification(protocol.cancel_method(), &raw(&protocol.cancel_params(id))));
                }
            }
            Command::Ready(answer) => match self.machine.state() {
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
                self.linger = None;
                self.drive(Event::Stop);
                self.refuse(&Why::Stop.cause());
            }
        }
    }

    /// Something waits for the child.
    fn wake(&mut self) {
        match self.machine.state() {
            State::Ended => self.core_is_over(),
            State::Stopping { why: Why::Stop, .. } => self.refuse(&Why::Stop.cause()),
            _ => {
                self.drive(Event::Demanded);
                self.send_queued();
            }
        }
    }

    /// A linger counts from *ready*: a child that still has to answer its first call is kept until it has. If it were ended, a caller
    /// that tries again sooner than the child starts would find no start finished, ever.
    fn linger_of(&self, time: Duration) -> Option<Linger> {
        let ends = Instant::now().checked_add(time)?;
        let is_asked = |live: &&Live| live.was_called || live.handshake_request.is_some();
        let is_starting = matches!(self.machine.state(), State::Starting(_));
        let Some(live) = self.live.as_ref().filter(is_asked).filter(|_| is_starting) else {
            return Some(Linger { until: ends, from_ready: None });
        };
        let within = self.controls.core.spec.keeping.start_timeout.unwrap_or(DEFAULT_START_TIMEOUT);
        let until = live.started.checked_add(within).map_or(ends, |until| until.max(ends));
        Some(Linger { until, from_ready: Some(time) })
    }

    /// As much as the child takes. The rest waits here, where it can be taken back.
    fn send_queued(&mut self) {
        let is_there = matches!(self.machine.state(), State::Starting(_) | State::Ready { .. });
        let can_hear = |live: &&mut Live| is_there && live.is_handshake_done && live.stdout.is_some();
        let Some(live) = self.live.as_mut().filter(can_hear) else { return };
        while live.out.len() < MAX_UNWRITTEN
            && let Some(waiting) = self.waiting.pop_front()
        {
            match waiting {
                Queued::Call(call) => {
                    live.say(&wire::request(call.id, &call.method, &call.params));
                    live.was_called = true;
                    self.in_flight.insert(call.id, call.answer);
                }
                Queued::Notification { line, .. } => live.say(&line),
            }
        }
    }

    /// Says the next word of the handshake, or that it is over.
    fn go_on_with_handshake(&mut self) {
        let Some(live) = self.live.as_mut().filter(|live| !live.is_handshake_done) else { return };
        if let Some((method, params)) = live.handshake.pop_front() {
            let id = self.controls.core.number();
            live.handshake_request = Some(id);
            live.say(&wire::request(id, &method, &raw(&params)));
            return;
        }
        live.is_handshake_done = true;
        let handshake = &self.controls.core.spec.keeping.handshake;
        let was_asked = matches!(handshake, Handshake::Messages { .. });
        if let Handshake::Messages { notifications, .. } = handshake {
            for (method, params) in notifications {
                live.say(&wire::notification(method, &raw(params)));
            }
        }
        let number = live.number;
        if was_asked {
            self.drive(Event::Answered(number));
        }
        self.send_queued();
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

    fn on_incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Answer { id, result } => {
                let Some(live) = &mut self.live else { return };
                let number = live.number;
                if live.handshake_request.take_if(|handshake_request| *handshake_request == id).is_some() {
                    return match result {
                        Ok(_) => self.go_on_with_handshake(),
                        Err(error) => {
                            self.tail.add(format!("handshake refused: {error}\n").as_bytes());
                            self.drive(Event::BadStart(number));
                        }
                    };
                }
                // First, so that whoever has an answer finds the child ready.
                if *self.machine.state() == State::Starting(number) {
                    self.drive(Event::Answered(number));
                }
                if let Some(answer) = self.in_flight.remove(&id) {
                    answer.send(result).ok();
                }
            }
            Incoming::Request { id, method, params } => self.serve(id, method, params),
            Incoming::Notification(notification, size) => self.controls.core.subscribers.tell(&notification, size),
            Incoming::TooLong(id) => {
                self.answer(&id, &Err(HandlerError::new(-32600, "it is longer than max_line allows")));
            }
        }
    }

    /// Nothing is left of it, and all its output was read.
    fn on_gone(&mut self, exit: &Exit) {
        self.take_back_unread();
        let Some(live) = self.live.take() else { return };
        let (number, was_asked_to_stop) = (live.number, live.was_asked_to_stop);
        live.drain_stderr(&mut self.tail);
        drop(live);
        // By `nostray stop`, by the end of its session, by a newcomer to its slot: whoever stops something means it, and a child that
        // came back at once would be the keep-alive that nobody can end.
        let is_ours = was_asked_to_stop || matches!(self.machine.state(), State::Stopping { .. });
        if matches!(exit.cause, ExitCause::Asked(_)) && !is_ours {
            self.controls.core.is_over_because(&exit.cause.to_string());
            self.linger = None;
            self.drive(Event::Stop);
        }
        let cause = Cause(match &exit.cause {
            ExitCause::NotExecuted(why) | ExitCause::GuardFailed(why) => why.clone(),
            ExitCause::SlotTaken => exit.cause.to_string(),
            _ => format!("the child {exit}"),
        });
        let was_started =
            !matches!(exit.cause, ExitCause::NotExecuted(_) | ExitCause::GuardFailed(_) | ExitCause::SlotTaken);
        self.has_ended(number, cause, !was_started);
    }

    /// What could not even be started the first time is not tried again; what ran before may be about to be replaced.
    fn has_ended(&mut self, number: Number, cause: Cause, was_not_started: bool) {
        let why = self.with_tail(&cause);
        if was_not_started {
            // Nobody was there to hear them, though they were said.
            for (_, answer) in self.in_flight.drain() {
                answer.send(Err(CallError::Refused(why.clone()))).ok();
            }
        }
        self.last_exit = Some(why);
        // Nobody holds it, so it is not revived, whatever its end was.
        if self.linger.take().is_some() {
            self.drive(Event::Released);
        }
        if was_not_started && self.controls.before + number.0 == 1 {
            self.drive(Event::Hopeless(number, cause));
        } else {
            self.drive(Event::Emptied(number, cause));
        }
        self.last_exit = None;
    }
}

/// The machine speaks of options of the command line.
fn in_our_words(cause: &Cause) -> String {
    let Cause(text) = cause;
    if *cause == Why::BadStart.cause() {
        return "it refused the handshake".to_owned();
    }
    text.replace("--max-age", "max_age").replace("--start-timeout", "start_timeout")
}

fn raw(params: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(params).unwrap_or_default()
}
