//! One host's session with a child that may be another process each time: what is passed on, what is answered here, what is told
//! to a new child, and what is answered when a child is gone. Lines come in, effects go out; there is no I/O and no clock.

mod child;
mod disputed;
mod failing;
mod host;
mod local;
mod replay;
#[cfg(test)]
mod tests;
mod unread;

use std::time::Duration;

use nostray_registry::{Method, Traffic};
use nostray_rpc::{Id, error};
use serde_json::json;

use crate::cache::{Asker, Cache};
use crate::error_text::{Outlook, ServerLabel};
use crate::flights::{Ask, Flights, Hold};
use crate::lifecycle::{self, Activity, Lifecycle};
use crate::lists::Seen;
use crate::machine::{Cause, Event, Generation, Moment, Policy, State, Why};
use crate::memory::{Memory, Note};
use crate::queue::Queue;
use crate::replays::Replay;
use crate::reverse::Reverse;
pub(crate) use host::usual_call;
use replay::{Checks, Gate};

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// The Model Context Protocol, in whichever era the host speaks.
    #[default]
    Mcp,
    /// Any other JSON-RPC 2.0.
    JsonRpc,
}

/// What a user wants of a session.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is spoken.
    pub protocol: Protocol,
    /// When the child is started and ended.
    pub policy: Policy,
    /// The messages that every new child is told again.
    pub replay: Vec<Replay>,
    /// A call that takes longer is answered with an error.
    pub call_timeout: Option<Duration>,
}

/// What becomes of a line that was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the other side as it is.
    Forward,
    /// This goes to the other side in its place.
    Replace(Vec<u8>),
    /// It stays here.
    Swallow,
    /// It is for the child's log, with the reason why.
    Log(String),
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write this to the host.
    ToHost(Vec<u8>),
    /// Write this to the child.
    ToChild(Vec<u8>),
    /// Start the child, or attach to it if it is shared. Answered with [`Session::child_started`].
    Connect(Generation),
    /// Tear the child down, or detach from it if it is shared. Answered with [`Session::child_is_torn_down`].
    Disconnect(Generation, Why),
    /// The child was told all that it must know. For a steward, which cannot tell what is replayed from what is new.
    Told,
    /// Something waits for the child, whether there is one or not. For a steward, which starts the child itself.
    Demand,
}

/// Our own error codes, from the range that JSON-RPC leaves to servers. The SDKs use the same.
const GONE: i64 = -32000;
const TOO_MANY: i64 = -32000;
const TOO_SLOW: i64 = -32001;
const INVALID: i64 = -32600;
const INTERNAL: i64 = -32603;

/// How long a server that asked its client back, in the newer era, is not put to sleep: it may keep what it needs for the second
/// half in memory. (The Python SDK seals it with a key of the process, for this long.)
const INPUT_ROUND_TIMEOUT: Duration = Duration::from_secs(600);

/// A session.
#[derive(Debug)]
pub struct Session {
    protocol: Protocol,
    call_timeout: Option<Duration>,
    lifecycle: Lifecycle,
    gate: Gate,
    queue: Queue,
    flights: Flights,
    reverse: Reverse,
    memory: Memory,
    seen: Seen,
    checks: Checks,
    /// What the host was answered to its `initialize`.
    hello: Option<Box<[u8]>>,
    /// The host as a client, as far as answers depend on it.
    asker: Option<Asker>,
    /// The newer era: no handshake.
    modern: bool,
    cache: Option<Cache>,
    /// Whether the cache is asked, and not only filled.
    lazy: bool,
    input_rounds: Vec<Moment>,
    batches: u64,
    /// The host has ended its input, and what waits has until then.
    closing: Option<Moment>,
    released: bool,
    /// Calls that are left get no answer: the session closes, and the host recovers.
    leaves_calls_open: bool,
    /// What errors call the server.
    label: ServerLabel,
    /// Why the last calls failed. If no child ever comes back, that is why later ones do.
    last_cause: Option<Cause>,
    effects: Vec<Effect>,
}

impl Session {
    /// A session that the host has just begun.
    #[must_use]
    pub fn new(settings: Settings, cache: Option<Cache>, lazy: bool, seed: u64) -> Self {
        Self {
            protocol: settings.protocol,
            call_timeout: settings.call_timeout,
            lifecycle: Lifecycle::new(settings.policy, seed),
            gate: Gate::Closed,
            queue: Queue::default(),
            flights: Flights::default(),
            reverse: Reverse::default(),
            memory: Memory::new(settings.replay),
            seen: Seen::default(),
            checks: Checks::default(),
            hello: None,
            asker: None,
            modern: false,
            cache,
            lazy,
            input_rounds: Vec::new(),
            batches: 0,
            closing: None,
            released: false,
            leaves_calls_open: false,
            label: ServerLabel::default(),
            last_cause: None,
            effects: Vec::new(),
        }
    }

    /// From now on, what passes is counted.
    pub fn count_traffic(&mut self, traffic: Traffic) {
        self.flights.traffic = Some(traffic);
    }

    /// Where what passes is counted, if it is.
    #[must_use]
    pub fn traffic(&self) -> Option<&Traffic> {
        self.flights.traffic.as_ref()
    }

    fn count_message(&self) {
        if let Some(traffic) = self.traffic() {
            traffic.message();
        }
    }

    /// What errors are to call the server from now on.
    pub fn call_server(&mut self, label: ServerLabel) {
        self.label = label;
    }

    /// The host holds the child from now on.
    pub fn begin(&mut self, now: Moment) {
        self.drive(Event::Taken, now);
    }

    /// Whether memory is kept that only many calls at a time need.
    #[must_use]
    pub fn holds_spare_memory(&self) -> bool {
        self.flights.holds_spare_memory()
    }

    /// Gives back what many calls at a time have needed.
    pub fn tidy(&mut self) {
        self.flights.tidy();
    }

    /// What is to be done.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether there is something to be done.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Where the child is in its life.
    #[must_use]
    pub fn state(&self) -> &State {
        self.lifecycle.state()
    }

    /// The policy of the child, or of the link to a shared one.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.lifecycle.policy()
    }

    /// How long it is until the next start, if the child backs off.
    #[must_use]
    pub fn pause(&self, now: Moment) -> Duration {
        self.lifecycle.pause(now)
    }

    /// How many generations there have been.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.lifecycle.generation()
    }

    /// Whether the host may be read from. If not, what it has said already waits for a child.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.queue.is_full()
    }

    /// Whether something that the host has said waits for a child.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether something that the host has said waits for a child, or for its answer.
    #[must_use]
    pub fn waits_for_child(&self) -> bool {
        self.flights.is_busy() || self.gate.is_telling() || self.is_waited_for()
    }

    /// Whether it is over: nothing lives and nothing ever will.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self.lifecycle.state() {
            State::Ended => true,
            state => self.released && state.live().is_none(),
        }
    }

    /// The cache, to be written down if it has changed.
    pub fn cache(&mut self) -> Option<&mut Cache> {
        self.cache.as_mut()
    }

    /// Whether all that passes may be usual: there is a child that knows all it must, and no answer to what a host says now means anything
    /// but that its call has ended. Then lines may pass without this session.
    pub(crate) fn is_usual(&self) -> bool {
        matches!(self.lifecycle.state(), State::Ready { recycle: None, .. })
            && self.gate.is_open()
            && self.queue.is_empty()
            && self.call_timeout.is_none()
            && self.closing.is_none()
            && !self.released
            && !self.memory.replays.any()
            && (self.protocol == Protocol::JsonRpc || self.memory.has_handshake() && !self.modern)
            && !self.checks.are_open()
            && !self.reverse.is_waiting(self.lifecycle.generation())
    }

    /// The calls that the host waits for, if they are usual ones, too: then they may be answered without this session.
    pub(crate) fn usual_calls(&self) -> Option<Vec<Id>> {
        if self.is_usual() { self.flights.usual() } else { None }
    }

    /// These calls pass without this session from now on.
    pub(crate) fn calls_are_away(&mut self) {
        self.flights.hand_over_usual();
    }

    /// These are in flight of the calls that have passed without this session, or were in flight before.
    pub(crate) fn calls_are_back(&mut self, calls: Vec<Id>, now: Moment) {
        for id in calls {
            let ask = Ask { id, note: Note::Nothing, method: Method::default() };
            self.flights.add(ask, Hold::Work, None, None, now);
        }
        self.settle(now);
    }

    /// The last lines of the child's standard error.
    pub fn stderr(&mut self, bytes: &[u8]) {
        self.lifecycle.stderr(bytes);
    }

    /// When [`Session::tick`] wants to be called next.
    #[must_use]
    pub fn deadline(&mut self) -> Option<Moment> {
        let lifecycle = self.lifecycle.deadline();
        let input_rounds = self.input_rounds.iter().copied().min();
        let closing = self.closing.filter(|_| !self.released);
        [lifecycle, self.flights.deadline(), self.queue.deadline(), closing, input_rounds].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment) {
        while let Some(effects) = self.lifecycle.tick(now) {
            self.perform_all(effects, now);
        }
        let limit = self.call_timeout.unwrap_or_default();
        while let Some(id) = self.flights.overdue(now) {
            let message = self.label.too_slow(limit);
            self.effects.push(Effect::ToHost(error(&id, TOO_SLOW, &message, None)));
            if self.protocol == Protocol::Mcp {
                let params = json!({ "requestId": id_value(&id), "reason": "--call-timeout of nostray run" });
                let line = nostray_rpc::notification("notifications/cancelled", Some(params.to_string().as_bytes()));
                self.effects.push(Effect::ToChild(line));
            }
        }
        while let Some(waiting) = self.queue.overdue(now) {
            let meanwhile = self.meanwhile(now);
            let message = self.label.waited_too_long(limit, &meanwhile, &self.lifecycle.last_words());
            for ask in &waiting.asks {
                self.effects.push(Effect::ToHost(error(&ask.id, TOO_SLOW, &message, None)));
            }
        }
        self.input_rounds.retain(|until| *until > now);
        if self.closing.is_some_and(|until| until <= now) {
            self.release(now);
        }
        self.settle(now);
    }

    /// What the child is doing while a call waits for it.
    fn meanwhile(&self, now: Moment) -> String {
        match self.lifecycle.state() {
            State::BackingOff { cause: Cause { what, why } } => {
                let pause = humantime::format_duration(Duration::from_secs(self.pause(now).as_secs() + 1));
                let why = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
                format!("it {what}{why}, and is started again within {pause}")
            }
            State::Stopping { .. } | State::Falling { .. } => "its last process is still ending".to_owned(),
            _ => "it is still starting".to_owned(),
        }
    }

    /// The host has ended its input. What waits for a child is given this long to reach one.
    pub fn host_closed(&mut self, patience: Duration, now: Moment) {
        self.closing = Some(now + patience);
        if self.queue.is_empty() || self.lifecycle.state().live().is_none() {
            self.release(now);
        }
    }

    /// The host is gone.
    pub fn release(&mut self, now: Moment) {
        if !std::mem::replace(&mut self.released, true) {
            self.drive(Event::Released, now);
        }
    }

    /// Stop, for good.
    pub fn stop(&mut self, now: Moment) {
        self.drive(Event::Stop, now);
    }

    /// Starts the child, or connects to it, whether a call waits or not.
    pub fn wake(&mut self, now: Moment) {
        self.drive(Event::Demanded, now);
    }

    /// Start the child anew, at the next quiet moment.
    pub fn restart(&mut self, now: Moment) {
        self.drive(Event::Restart, now);
    }

    /// The child has been told to end, and these lines were taken from it: see [`Session::child_has_not_read`].
    pub fn child_is_torn_down(&mut self, generation: Generation, why: Why, unread: &[u8], now: Moment) {
        if !why.lets_child_answer() {
            self.child_has_not_read(unread, now);
            self.answer_light(now);
            self.cut_off(&why.cause(), Outlook::Open);
            self.part_from(generation);
            self.settle(now);
        }
    }

    /// The child ended by itself.
    pub fn child_died(&mut self, generation: Generation, cause: Cause, now: Moment) {
        self.drive(Event::Died(generation, cause), now);
    }

    /// The child's tree is empty.
    pub fn child_emptied(&mut self, generation: Generation, cause: Cause, now: Moment) {
        self.drive(Event::Emptied(generation, cause), now);
    }

    /// Its program is not there.
    pub fn child_hopeless(&mut self, generation: Generation, cause: Cause, now: Moment) {
        self.drive(Event::Hopeless(generation, cause), now);
    }

    /// The session ends with its child. A client of MCP gets an error for each call. A host that speaks its own protocol was written for a
    /// child of its own: it reconnects and retries when the child's output closes, and takes an error for the answer. So its calls stay
    /// open.
    pub fn ends_with_child(&mut self) {
        self.leaves_calls_open = self.protocol == Protocol::JsonRpc;
    }

    /// The shared child never comes back. Also if it was not there just now: what was to come back will not, and what waits
    /// for the next one waits in vain.
    pub fn child_is_over(&mut self, generation: Generation, cause: Cause, now: Moment) {
        self.child_hopeless(generation, cause.clone(), now);
        self.cut_off(&cause, Outlook::ForGood);
        self.part_from(self.lifecycle.generation());
        self.refuse(&cause, Outlook::ForGood, now);
    }

    /// The shared child is not there any more. With a cause, what was in flight is answered with it; otherwise what
    /// it has not got comes back, and [`Session::is_settled`] follows.
    pub fn child_rested(&mut self, generation: Generation, cause: Option<&Cause>, now: Moment) {
        if let Some(cause) = cause {
            self.cut_off(cause, Outlook::Open);
        }
        self.gate = Gate::Closed;
        self.checks = Checks::default();
        if cause.is_some() {
            self.part_from(generation);
        }
        self.orphan_questions(generation);
        self.drive(Event::Rested(generation), now);
    }

    /// All that no child has got has come back; with a cause, if the last one was not put to rest.
    pub fn is_settled(&mut self, cause: Option<&Cause>, now: Moment) {
        if cause.is_none() {
            self.answer_light(now);
        }
        self.cut_off(cause.unwrap_or(&Cause::new("was put to sleep or replaced")), Outlook::Open);
        self.part_from(self.lifecycle.generation());
        self.settle(now);
    }

    /// What waits for a shared child waits in vain: answers it with an error.
    pub fn refuse(&mut self, cause: &Cause, outlook: Outlook, now: Moment) {
        self.refuse_waiting(cause, outlook);
        self.settle(now);
    }

    /// Replaces the policy.
    pub fn adopt(&mut self, policy: Policy) {
        self.lifecycle.adopt(policy);
    }

    /// Its tree is over its limit of memory, or over twice as much.
    pub fn over_memory(&mut self, generation: Generation, far: bool, now: Moment) {
        let event = if far { Event::FarOverMemory(generation) } else { Event::OverMemory(generation) };
        self.drive(event, now);
    }

    fn drive(&mut self, event: Event, now: Moment) {
        let effects = self.lifecycle.on(event, now);
        self.perform_all(effects, now);
    }

    fn perform_all(&mut self, effects: Vec<lifecycle::Effect>, now: Moment) {
        effects.into_iter().for_each(|effect| self.perform(effect, now));
        self.settle(now);
    }

    fn perform(&mut self, effect: lifecycle::Effect, now: Moment) {
        if self.lifecycle.ends_for_good() {
            self.ends_with_child();
        }
        match effect {
            lifecycle::Effect::Start(generation) => self.effects.push(Effect::Connect(generation)),
            // The front takes back first what the child has not read: see `child_is_torn_down`.
            lifecycle::Effect::TearDown(generation, why) => {
                self.gate = Gate::Closed;
                self.effects.push(Effect::Disconnect(generation, why));
            }
            lifecycle::Effect::CutOff(cause) => {
                self.cut_off(&cause, self.lifecycle.outlook(now));
                self.part_from(self.lifecycle.generation());
            }
            lifecycle::Effect::Refuse(cause) => self.refuse_waiting(&cause, self.lifecycle.outlook(now)),
            lifecycle::Effect::Ended => {}
        }
    }

    /// Lets the lifecycle see what is in flight and what waits.
    fn settle(&mut self, now: Moment) {
        let is_telling = self.gate.is_telling();
        let activity = Activity {
            asked: self.flights.is_waited_for() || is_telling,
            busy: self.flights.is_busy()
                || !self.queue.is_empty()
                || is_telling
                || !self.input_rounds.is_empty()
                || self.reverse.is_waiting(self.lifecycle.generation()),
        };
        let effects = self.lifecycle.observe(activity, now);
        if !effects.is_empty() {
            self.perform_all(effects, now);
        }
    }
}

/// An id as a JSON value.
fn id_value(id: &Id) -> serde_json::Value {
    serde_json::from_str(&id.to_json()).unwrap_or_default()
}
