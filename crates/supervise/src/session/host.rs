//! What the host says.

use nostray_rpc::{
    Agreed, Envelope, Id, Kind, LineSummary, Message, NotAMessage, QuickEnvelope, error, error_to, errors, find,
    quick_read, read, with_id,
};
use serde_json::Value;

use crate::error_text::CANCELLED;

use super::{Effect, INTERNAL, INVALID, Protocol, Session, TOO_MANY, Verdict, disputed};
use crate::cache::Asker;
use crate::error_text::{Outlook, too_long};
use crate::flights::{Ask, Hold};
use crate::lists::ListKind;
use crate::machine::{Event, Moment, State, Why};
use crate::memory::{MAX_REMEMBERED, Note};
use crate::queue::QueuedLine;
use crate::replays::Entry;

pub(super) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

impl Session {
    /// Takes in a line of the host: without its ending, and as it came. What is forwarded goes to the child.
    pub fn host_says(&mut self, text: &[u8], raw: &[u8], now: Moment) -> Verdict {
        self.count_message();
        let quick = quick_read(text);
        if let Some(QuickEnvelope::Request { id, method, middle }) = &quick
            && disputed::is_clear(id, method, middle)
        {
            return self.host_says_clearly(text, quick, raw, now);
        }
        match disputed::check(text) {
            Ok(Agreed::AsItCame) => self.host_says_clearly(text, quick, raw, now),
            Ok(Agreed::Rewritten(text)) => {
                let raw = [&text[..], b"\n"].concat();
                match self.host_says_clearly(&text, quick_read(&text), &raw, now) {
                    Verdict::Forward => Verdict::Replace(raw),
                    verdict => verdict,
                }
            }
            Err(why) => {
                self.refuse_line(text, &why);
                Verdict::Swallow
            }
        }
    }

    fn host_says_clearly(
        &mut self,
        text: &[u8],
        quick: Option<QuickEnvelope<'_>>,
        raw: &[u8],
        now: Moment,
    ) -> Verdict {
        if self.host_says_the_usual(quick, now) {
            self.settle(now);
            return Verdict::Forward;
        }
        let verdict = match read(text) {
            Ok(Message::One(envelope)) => self.host_message(&envelope, raw, now),
            Ok(Message::Batch(envelopes)) => self.host_batch(&envelopes, raw, now),
            Err(NotAMessage::Empty) => Verdict::Swallow,
            // Not ours to judge: the child says what it thinks of it.
            Err(_) => self.pass_or_wait(raw, Vec::new(), None, true, now),
        };
        self.settle(now);
        verdict
    }

    /// Nearly all that a host says is a call that means nothing to us but its id. True if this is one: it goes to the child.
    fn host_says_the_usual(&mut self, quick: Option<QuickEnvelope<'_>>, now: Moment) -> bool {
        if !self.gate.is_open() {
            return false;
        }
        let Some(QuickEnvelope::Request { id, method, .. }) = quick else { return false };
        let is_plain = match self.protocol {
            Protocol::JsonRpc => true,
            Protocol::Mcp => self.memory.has_handshake() && !means_something(method),
        };
        if !is_plain || self.memory.replays.any() {
            return false;
        }
        let ask = Ask { id, note: Note::Nothing, method: self.flights.method(method) };
        self.flights.add(ask, Hold::Work, None, self.call_timeout.map(|limit| now + limit), now);
        true
    }

    /// A line of the host that was too long to be kept.
    pub fn host_said_too_much(&mut self, length: u64, limit: usize, seen: &LineSummary) {
        let Some(id) = &seen.id else { return };
        let why = too_long(length, limit);
        if !seen.is_response {
            let message = self.label.request_dropped(&why);
            self.effects.push(Effect::ToHost(error(id, INVALID, &message, None)));
        } else if let Some((asker, asked)) = self.reverse.answered(id)
            && asker.is_some()
            && asker == self.lifecycle.state().live()
        {
            let line = error(&asked, INTERNAL, &format!("the client's answer was not passed on: {why}"), None);
            self.effects.push(Effect::ToChild(line));
        }
    }

    fn host_message(&mut self, envelope: &Envelope<'_>, raw: &[u8], now: Moment) -> Verdict {
        match &envelope.kind {
            Kind::Request { id, method, params } => {
                let id = id.id();
                let note = self.note(method, *params, raw);
                if self.is_unheard() && self.answer_here(&id, &note) {
                    return Verdict::Swallow;
                }
                if self.is_too_much(&note, 0) {
                    self.effects.push(Effect::ToHost(error(&id, TOO_MANY, &too_many_open(), None)));
                    return Verdict::Swallow;
                }
                if let Note::Listen(line) = &note {
                    self.memory.listen(id.clone(), line.clone());
                }
                if let Some(params) = params.filter(|_| self.modern && !self.input_rounds.is_empty())
                    && (find(params, &["requestState"]).is_some() || find(params, &["inputResponses"]).is_some())
                {
                    self.input_rounds.remove(0);
                }
                let method = self.flights.method(method.as_bytes());
                self.pass_or_wait(raw, vec![Ask { id, note, method }], None, true, now)
            }
            Kind::Notification { method, params } => self.host_notification(method, *params, raw, now),
            Kind::Response { id, .. } => match id {
                Some(id) => self.host_response(envelope, &id.id()),
                None => self.forward_if_alive(),
            },
        }
    }

    fn host_batch(&mut self, envelopes: &[Envelope<'_>], raw: &[u8], now: Moment) -> Verdict {
        let mut asks = Vec::new();
        for envelope in envelopes {
            match &envelope.kind {
                Kind::Request { id, method, params } => {
                    let mut line = envelope.text.to_vec();
                    line.push(b'\n');
                    let note = self.note(method, *params, &line);
                    asks.push(Ask { id: id.id(), note, method: self.flights.method(method.as_bytes()) });
                }
                Kind::Notification { method, params } => self.notice(method, *params, envelope.text),
                Kind::Response { id: Some(id), .. } => drop(self.reverse.answered(&id.id())),
                Kind::Response { id: None, .. } => {}
            }
        }
        let opens = |ask: &&Ask| matches!(&ask.note, Note::Replay(entry) if entry.opens());
        let opening = asks.iter().filter(opens).count();
        if asks.iter().any(|ask| self.is_too_much(&ask.note, opening.saturating_sub(1))) {
            let ids: Vec<_> = asks.into_iter().map(|ask| ask.id).collect();
            self.effects.push(Effect::ToHost(errors(&ids, TOO_MANY, &too_many_open(), None)));
            return Verdict::Swallow;
        }
        self.batches += 1;
        let batch = Some(self.batches).filter(|_| !asks.is_empty());
        let needed = batch.is_some();
        self.pass_or_wait(raw, asks, batch, needed, now)
    }

    /// To the child if the gate is open, otherwise into the queue; answered with an error if there will be no child.
    fn pass_or_wait(&mut self, raw: &[u8], asks: Vec<Ask>, batch: Option<u64>, needed: bool, now: Moment) -> Verdict {
        let exempt = |note: &Note| matches!(note, Note::Initialize(_));
        let deadline =
            self.call_timeout.filter(|_| !asks.iter().any(|ask| exempt(&ask.note))).map(|limit| now + limit);
        if self.gate.is_open() {
            for ask in asks {
                let hold = if batch.is_none() && self.is_light(&ask.note) { Hold::Light } else { Hold::Work };
                self.flights.add(ask, hold, batch, deadline, now);
            }
            return Verdict::Forward;
        }
        let mut line = raw.to_vec();
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        self.queue.push(QueuedLine { line, asks, batch, deadline });
        if needed {
            match self.lifecycle.state() {
                State::Ended => {
                    let cause = self.last_cause.clone().unwrap_or_else(|| Why::Stop.cause());
                    self.refuse_waiting(&cause, Outlook::ForGood);
                }
                _ => {
                    self.drive(Event::Demanded, now);
                    self.effects.push(Effect::Demand);
                }
            }
        }
        Verdict::Swallow
    }

    /// What the answer will mean.
    fn note(&mut self, method: &str, params: Option<&[u8]>, raw: &[u8]) -> Note {
        let line = || raw.into();
        if let Some(entry) = self.memory.replays.read(method, raw) {
            return Note::Replay(entry);
        }
        if self.protocol != Protocol::Mcp {
            return Note::Nothing;
        }
        if method != "initialize" {
            self.look_at_era(params);
        }
        let text = |path: &[&str]| params.and_then(|params| text_at(params, path));
        match method {
            "initialize" => {
                self.asker = asker(params, &["protocolVersion"], &["capabilities"]);
                Note::Initialize(line())
            }
            "server/discover" => Note::Discover(asker(params, &["_meta", VERSION_KEY], &["_meta", CAPABILITIES_KEY])),
            "ping" => Note::Ping,
            "logging/setLevel" => Note::SetLevel(line()),
            "resources/subscribe" => text(&["uri"]).map_or(Note::Nothing, |uri| Note::Subscribe(uri, line())),
            "resources/unsubscribe" => text(&["uri"]).map_or(Note::Nothing, Note::Unsubscribe),
            "subscriptions/listen" => Note::Listen(line()),
            "tools/call" | "prompts/get" | "resources/read" if self.modern => Note::Call,
            _ => match ListKind::from_method(method) {
                Some(kind) => {
                    let params = params.and_then(|params| serde_json::from_slice(params).ok());
                    Note::List { kind, cursor: text(&["cursor"]), params: params.unwrap_or(Value::Null) }
                }
                None => Note::Nothing,
            },
        }
    }

    /// In the newer era every request says so itself; a handshake that has been made is of the older one.
    fn look_at_era(&mut self, params: Option<&[u8]>) {
        if self.modern || self.memory.has_handshake() {
            return;
        }
        if let Some(params) = params.filter(|params| find(params, &["_meta", VERSION_KEY]).is_some()) {
            self.modern = true;
            self.asker = asker(Some(params), &["_meta", VERSION_KEY], &["_meta", CAPABILITIES_KEY]);
        }
    }

    fn host_notification(&mut self, method: &str, params: Option<&[u8]>, raw: &[u8], now: Moment) -> Verdict {
        if let Some(entry) = self.memory.replays.read(method, raw).filter(|entry| !entry.is_plain()) {
            return self.host_opens_or_closes(entry, raw, now);
        }
        let was_waiting = self.withdraw(method, params);
        self.notice(method, params, raw);
        if was_waiting {
            return Verdict::Swallow;
        }
        if self.gate.is_open() {
            return Verdict::Forward;
        }
        let is_told_anew = self.memory.replays.read(method, raw).is_some() || method == "notifications/initialized";
        let needed = self.protocol == Protocol::JsonRpc;
        match method {
            // The next child is told that, also while the last one is still ending.
            _ if is_told_anew && self.gate.is_closed() => {
                if needed {
                    self.drive(Event::Demanded, now);
                }
                Verdict::Swallow
            }
            "notifications/roots/list_changed" | "notifications/cancelled" if self.protocol == Protocol::Mcp => {
                Verdict::Swallow
            }
            _ => self.pass_or_wait(raw, Vec::new(), None, needed, now),
        }
    }

    /// Remembers what a new child must be told.
    fn notice(&mut self, method: &str, params: Option<&[u8]>, raw: &[u8]) {
        let line = || raw.iter().copied().chain((!raw.ends_with(b"\n")).then_some(b'\n')).collect();
        if let Some(entry) = self.memory.replays.read(method, raw) {
            // What waits is noticed when it is said to a child.
            if entry.is_plain() || self.gate.is_open() {
                self.take_in(entry);
            }
        } else if self.protocol == Protocol::Mcp {
            match method {
                "notifications/initialized" => self.memory.initialized(line()),
                "notifications/cancelled" => {
                    if let Some(id) = params.and_then(|params| id_at(params, &["requestId"])) {
                        self.flights.cancelled(&id);
                        if self.memory.unlisten(&id) {
                            self.flights.answered(&id);
                        }
                    }
                }
                _ => {}
            }
        } else if let Some(id) = cancelled_call(method, params) {
            self.flights.withdrawn(&id);
        }
    }

    /// A notification that opens something, or closes it.
    fn host_opens_or_closes(&mut self, entry: Entry, raw: &[u8], now: Moment) -> Verdict {
        if self.gate.is_open() {
            return if self.take_in(entry) { Verdict::Forward } else { Verdict::Swallow };
        }
        // It is noticed when it is said to a child: until then, what waits before it counts.
        self.pass_or_wait(raw, Vec::new(), None, self.protocol == Protocol::JsonRpc, now)
    }

    /// A line that has waited is said to the child. False if it must not be, since no more can be kept.
    pub(super) fn take_in_waiting(&mut self, line: &[u8]) -> bool {
        let envelopes = match read(line.trim_ascii_end()) {
            Ok(Message::One(envelope)) => vec![envelope],
            Ok(Message::Batch(envelopes)) => envelopes,
            Err(_) => return true,
        };
        let is_alone = envelopes.len() == 1;
        let mut is_taken = true;
        for Envelope { kind, text, .. } in envelopes {
            if let Kind::Notification { method, .. } = kind
                && let Some(entry) = self.memory.replays.read(&method, text).filter(|entry| !entry.is_plain())
            {
                is_taken &= self.take_in(entry);
            }
        }
        is_taken || !is_alone
    }

    /// Remembers a notification for the next child. False if no more can be kept, which the host is told.
    fn take_in(&mut self, entry: Entry) -> bool {
        let note = Note::Replay(entry);
        if self.is_too_much(&note, 0) {
            self.effects.push(Effect::ToHost(error_to(b"null", TOO_MANY, &too_many_open())));
            return false;
        }
        if let Note::Replay(entry) = note {
            self.remember(entry);
        }
        true
    }

    /// The child has taken what `--replay` names.
    pub(super) fn remember(&mut self, entry: Entry) {
        // A child may answer the close first.
        self.flights.forget(|note| matches!(note, Note::Replay(earlier) if entry.closes(earlier)));
        self.memory.replays.learn(entry);
    }

    /// Whether this opens something, and no more can be kept with what is about to be opened: in flight, in the queue, and beside it.
    fn is_too_much(&self, note: &Note, beside: usize) -> bool {
        let Note::Replay(entry) = note else { return false };
        let replays = &self.memory.replays;
        let about_to_be = |is_new: &dyn Fn(&Entry) -> bool| {
            let opens = |note: &Note| matches!(note, Note::Replay(entry) if is_new(entry));
            beside + self.flights.count_of(opens) + self.queue.count_of(opens)
        };
        // The first count is quick, and what is opened again makes it too large.
        replays.has_no_room_for(entry, about_to_be(&Entry::opens))
            && replays.has_no_room_for(entry, about_to_be(&|entry| replays.is_new(entry)))
    }

    /// A cancel of something that no child has seen yet takes it back. True if it was that.
    fn withdraw(&mut self, method: &str, params: Option<&[u8]>) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        if self.protocol == Protocol::JsonRpc {
            let waiting = cancelled_call(method, params).filter(|id| self.queue.cancelled(id));
            waiting.iter().for_each(|id| self.is_never_asked(id));
            return waiting.is_some();
        }
        if method != "notifications/cancelled" {
            return false;
        }
        params.and_then(|params| id_at(params, &["requestId"])).is_some_and(|id| self.queue.cancelled(&id))
    }

    /// Answers a call that was cancelled before a child has read it.
    pub(super) fn is_never_asked(&mut self, id: &Id) {
        self.effects.push(Effect::ToHost(error(id, CANCELLED, "cancelled before it was asked", None)));
    }

    /// An answer to a question of a child: passed on only if that child still lives.
    fn host_response(&mut self, envelope: &Envelope<'_>, id: &Id) -> Verdict {
        let live = self.lifecycle.state().live();
        match self.reverse.answered(id) {
            Some((asker, asked)) if asker.is_some() && asker == live => {
                if asked == *id {
                    Verdict::Forward
                } else {
                    Verdict::Replace(with_id(envelope, &asked))
                }
            }
            Some(_) => Verdict::Swallow,
            None => self.forward_if_alive(),
        }
    }

    fn forward_if_alive(&self) -> Verdict {
        if self.gate.is_open() { Verdict::Forward } else { Verdict::Swallow }
    }
}

/// What the host is told that opens one more.
fn too_many_open() -> String {
    format!(
        "{MAX_REMEMBERED} are open already, and --replay can tell a new child of no more; close one before the next"
    )
}

/// The call that a notification cancels, in any JSON-RPC but MCP: as language servers know it.
fn cancelled_call(method: &str, params: Option<&[u8]>) -> Option<Id> {
    params.filter(|_| method == "$/cancelRequest").and_then(|params| id_at(params, &["id"]))
}

/// The id of a line of the host, if it is a call that means nothing to a session but its id, as nearly all that a host says does. As
/// [`Session::host_says`] finds for a session that has made its handshake and replays nothing.
pub(crate) fn usual_call(text: &[u8], protocol: Protocol) -> Option<Id> {
    match quick_read(text)? {
        QuickEnvelope::Request { id, method, middle } => {
            let is_usual = disputed::is_clear(&id, method, middle)
                && (protocol == Protocol::JsonRpc || !means_something(method));
            is_usual.then_some(id)
        }
        QuickEnvelope::Result { .. } => None,
    }
}

/// Whether a method of the older era has a [`Note`] of its own.
fn means_something(method: &[u8]) -> bool {
    matches!(
        method,
        b"initialize"
            | b"ping"
            | b"server/discover"
            | b"logging/setLevel"
            | b"resources/subscribe"
            | b"resources/unsubscribe"
            | b"subscriptions/listen"
    ) || method.ends_with(b"/list")
}

/// The client that asks, by where a request names it.
fn asker(params: Option<&[u8]>, version: &[&str], capabilities: &[&str]) -> Option<Asker> {
    let params = params?;
    let protocol = text_at(params, version)?;
    let capabilities = find(params, capabilities).and_then(|at| serde_json::from_slice(&params[at]).ok());
    Some(Asker { protocol, capabilities: capabilities.unwrap_or_default() })
}

pub(super) fn text_at(json: &[u8], path: &[&str]) -> Option<String> {
    find(json, path).and_then(|at| serde_json::from_slice(&json[at]).ok())
}

pub(super) fn id_at(json: &[u8], path: &[&str]) -> Option<Id> {
    find(json, path).and_then(|at| Id::from_json(&json[at]))
}
