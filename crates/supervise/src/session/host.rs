//! What the host says.

use nostray_rpc::{Envelope, Glimpse, Id, Kind, Message, NotAMessage, Skimmed, error, find, glance, read, with_id};
use serde_json::Value;

use super::{Effect, INTERNAL, INVALID, Protocol, Session, Verdict};
use crate::cache::Asker;
use crate::lists::ListKind;
use crate::machine::{Event, Moment, State};
use crate::memory::Note;
use crate::waiting::Waiting;

pub(super) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

impl Session {
    /// Takes in a line of the host: without its ending, and as it came. What is forwarded goes to the child.
    pub fn host_says(&mut self, text: &[u8], raw: &[u8], now: Moment) -> Verdict {
        if self.host_says_the_usual(text, now) {
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
    fn host_says_the_usual(&mut self, text: &[u8], now: Moment) -> bool {
        if !self.gate.is_open() {
            return false;
        }
        let Some(Glimpse::Request { id, method }) = glance(text) else { return false };
        let is_plain = match self.protocol {
            Protocol::JsonRpc => true,
            Protocol::Mcp => self.memory.has_handshake() && !means_something(method),
        };
        if !is_plain || self.memory.replays_any() {
            return false;
        }
        self.flights.add(id, Note::Nothing, None, self.call_timeout.map(|limit| now + limit));
        true
    }

    /// A line of the host that was too long to be kept.
    pub fn host_said_too_much(&mut self, length: u64, limit: usize, seen: &Skimmed) {
        let Some(id) = &seen.id else { return };
        let message = format!("of {length} bytes is longer than --max-line {limit} allows; it was skipped");
        if !seen.is_response {
            self.effects.push(Effect::ToHost(error(id, INVALID, &format!("a request {message}"), None)));
        } else if let Some((asker, asked)) = self.reverse.answered(id)
            && asker.is_some()
            && asker == self.machine.state().live()
        {
            let line = error(&asked, INTERNAL, &format!("the client's answer {message}"), None);
            self.effects.push(Effect::ToChild(line));
        }
    }

    fn host_message(&mut self, envelope: &Envelope<'_>, raw: &[u8], now: Moment) -> Verdict {
        match &envelope.kind {
            Kind::Request { id, method, params } => {
                let id = id.id();
                let note = self.note(method, *params, raw);
                if let Some(verdict) = self.answer_here(&id, method, &note, *params) {
                    return verdict;
                }
                if let Note::Listen(line) = &note {
                    self.memory.listen(id.clone(), line.clone());
                }
                if let Some(params) = params.filter(|_| self.modern && !self.legs.is_empty())
                    && (find(params, &["requestState"]).is_some() || find(params, &["inputResponses"]).is_some())
                {
                    self.legs.remove(0);
                }
                self.pass_or_wait(raw, vec![(id, note)], None, true, now)
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
                    asks.push((id.id(), self.note(method, *params, &line)));
                }
                Kind::Notification { method, params } => self.notice(method, *params, envelope.text),
                Kind::Response { id: Some(id), .. } => drop(self.reverse.answered(&id.id())),
                Kind::Response { id: None, .. } => {}
            }
        }
        self.batches += 1;
        let batch = Some(self.batches).filter(|_| !asks.is_empty());
        let needed = batch.is_some();
        self.pass_or_wait(raw, asks, batch, needed, now)
    }

    /// To the child if it can hear, otherwise into the queue; to nobody if there will be no child.
    fn pass_or_wait(
        &mut self,
        raw: &[u8],
        asks: Vec<(Id, Note)>,
        batch: Option<u64>,
        needed: bool,
        now: Moment,
    ) -> Verdict {
        let exempt = |note: &Note| matches!(note, Note::Initialize(_));
        let deadline =
            self.call_timeout.filter(|_| !asks.iter().any(|(_, note)| exempt(note))).map(|limit| now + limit);
        if self.gate.is_open() {
            for (id, note) in asks {
                self.flights.add(id, note, batch, deadline);
            }
            return Verdict::Forward;
        }
        let mut line = raw.to_vec();
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        self.queue.push(Waiting { line, asks, batch, deadline });
        if needed {
            match self.machine.state() {
                State::Ended => self.perform(crate::machine::Action::Refuse(crate::machine::Why::Stop.cause()), now),
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
        if self.memory.is_replayed(method) {
            return Note::Replay(line());
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
        let was_waiting = self.withdraw(method, params);
        self.notice(method, params, raw);
        if was_waiting {
            return Verdict::Swallow;
        }
        if self.gate.is_open() {
            return Verdict::Forward;
        }
        let is_told_anew = self.memory.is_replayed(method) || method == "notifications/initialized";
        let needed = self.protocol == Protocol::JsonRpc;
        match method {
            // Whoever starts next is told that, also if the last one is still going.
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
        if self.memory.is_replayed(method) {
            self.memory.replay(line());
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
        }
    }

    /// A cancel of something that no child has seen yet takes it back. True if it was that.
    fn withdraw(&mut self, method: &str, params: Option<&[u8]>) -> bool {
        if self.protocol != Protocol::Mcp || method != "notifications/cancelled" || self.queue.is_empty() {
            return false;
        }
        params.and_then(|params| id_at(params, &["requestId"])).is_some_and(|id| self.queue.cancelled(&id))
    }

    /// An answer to something that a child has asked: only for the one who asked.
    fn host_response(&mut self, envelope: &Envelope<'_>, id: &Id) -> Verdict {
        let live = self.machine.state().live();
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

/// Whether a method of the older era has a [`Note`] of its own.
fn means_something(method: &[u8]) -> bool {
    matches!(
        method,
        b"initialize"
            | b"server/discover"
            | b"logging/setLevel"
            | b"resources/subscribe"
            | b"resources/unsubscribe"
            | b"subscriptions/listen"
    ) || method.ends_with(b"/list")
}

/// Who asks, by where a request says so.
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
