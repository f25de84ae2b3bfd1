//! What the child says.

use nostray_rpc::{
    Envelope, Id, Kind, LineSummary, Message, NotAMessage, Outcome, QuickEnvelope, error, find, quick_read, read,
    with_id,
};
use nostray_sys::masks::is_ascii;

use super::host::{id_at, text_at};
use super::{Effect, INPUT_ROUND_TIMEOUT, INTERNAL, Protocol, Session, Verdict};
use crate::error_text::too_long;
use crate::lists::{ListKind, Page};
use crate::machine::{Moment, State};
use crate::memory::Note;

pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

impl Session {
    /// Takes in a line of the live child: without its ending, and as it came. What is forwarded goes to the host.
    pub fn child_says(&mut self, text: &[u8], now: Moment) -> Verdict {
        self.count_message();
        if self.child_says_the_usual(text, now) {
            self.settle(now);
            return Verdict::Forward;
        }
        let verdict = match read(text) {
            // What is left in the pipe of a child that has died or sleeps is passed on to no host.
            Ok(_) if !self.is_heard() => Verdict::Log("said after its end".to_owned()),
            Ok(Message::One(envelope)) => self.child_message(&envelope, now),
            Ok(Message::Batch(envelopes)) => self.child_batch(&envelopes, now),
            Err(NotAMessage::Empty) => Verdict::Swallow,
            Err(why) => {
                if let NotAMessage::NotUtf8 { id: Some(id), is_response: true } = &why {
                    self.unusable(id, "it is not UTF-8, so it is not JSON", now);
                }
                Verdict::Log(why.to_string())
            }
        };
        self.settle(now);
        verdict
    }

    /// Nearly all that a child says is the result of a call that means nothing to us but its id. True if this is one: it goes to
    /// the host.
    fn child_says_the_usual(&mut self, text: &[u8], now: Moment) -> bool {
        if !matches!(self.lifecycle.state(), State::Ready { .. }) || !self.gate.is_open() {
            return false;
        }
        match quick_read(text) {
            Some(QuickEnvelope::Result { id }) if is_ascii(text) || std::str::from_utf8(text).is_ok() => {
                let flight = self.flights.answered_plainly(id);
                flight.inspect(|flight| self.flights.count_answer(flight, false, now)).is_some()
            }
            _ => false,
        }
    }

    /// A line of the child that was too long to be kept.
    pub fn child_said_too_much(&mut self, length: u64, limit: usize, seen: &LineSummary, now: Moment) {
        if let Some(id) = &seen.id {
            let why = too_long(length, limit);
            if seen.is_response {
                self.unusable(id, &why, now);
            } else {
                let message = format!("this request was not passed on to the client: {why}");
                let line = error(id, super::INVALID, &message, None);
                self.effects.push(Effect::ToChild(line));
            }
        }
        self.settle(now);
    }

    /// The host waits for an answer that cannot be given to it.
    fn unusable(&mut self, id: &Id, why: &str, now: Moment) {
        if let Some(flight) = self.flights.answered(id) {
            self.flights.count_answer(&flight, true, now);
            let message = self.label.answer_dropped(why);
            self.effects.push(Effect::ToHost(error(id, INTERNAL, &message, None)));
        }
    }

    /// Whether what the child says is for the host: not when it goes to sleep or is replaced, nor when it has died.
    fn is_heard(&self) -> bool {
        match self.lifecycle.state() {
            State::Starting(_) | State::Ready { .. } => true,
            State::Stopping { why, .. } => why.lets_child_answer(),
            State::Asleep
            | State::Falling { .. }
            | State::BackingOff { .. }
            | State::Tripped { .. }
            | State::Ended => false,
        }
    }

    fn child_message(&mut self, envelope: &Envelope<'_>, now: Moment) -> Verdict {
        match &envelope.kind {
            Kind::Response { id: Some(id), outcome } => self.child_response(&id.id(), *outcome, now),
            Kind::Response { id: None, .. } => Verdict::Forward,
            Kind::Request { id, .. } => match self.reverse.asked(self.lifecycle.generation(), id.id()) {
                Some(renamed) => Verdict::Replace(with_id(envelope, &renamed)),
                None => Verdict::Forward,
            },
            Kind::Notification { method, params } => self.child_notification(method, *params, now),
        }
    }

    fn child_batch(&mut self, envelopes: &[Envelope<'_>], now: Moment) -> Verdict {
        let (mut passed, mut untouched) = (Vec::new(), true);
        for envelope in envelopes {
            match self.child_message(envelope, now) {
                Verdict::Forward => passed.push(envelope.text.to_vec()),
                Verdict::Replace(mut line) => {
                    line.truncate(line.trim_ascii_end().len());
                    passed.push(line);
                    untouched = false;
                }
                Verdict::Swallow | Verdict::Log(_) => untouched = false,
            }
        }
        if untouched {
            return Verdict::Forward;
        }
        if passed.is_empty() {
            return Verdict::Swallow;
        }
        let mut line = b"[".to_vec();
        line.extend(passed.join(&b','));
        line.extend(b"]\n");
        Verdict::Replace(line)
    }

    fn child_response(&mut self, id: &Id, outcome: Outcome<'_>, now: Moment) -> Verdict {
        if self.replay_answered(id, outcome, now) || self.check_answered(id, outcome) {
            return Verdict::Swallow;
        }
        let Some(flight) = self.flights.answered(id) else {
            return Verdict::Log("an answer to nothing that is asked".to_owned());
        };
        self.flights.count_answer(&flight, matches!(outcome, Outcome::Error(_)), now);
        self.has_answered(now);
        self.learn(flight.into_note(), id, outcome, now);
        Verdict::Forward
    }

    /// It is there, and does its work.
    fn has_answered(&mut self, now: Moment) {
        if matches!(self.lifecycle.state(), State::Starting(_)) {
            let effects = self.lifecycle.child_answered(now);
            self.perform_all(effects, now);
        }
    }

    /// Remembers what the host is told.
    fn learn(&mut self, note: Note, id: &Id, outcome: Outcome<'_>, now: Moment) {
        if matches!(note, Note::Listen(_)) {
            self.memory.unlisten(id); // any answer ends a stream
        }
        let Outcome::Result(result) = outcome else { return };
        match note {
            Note::Initialize(line) => {
                self.memory.initialize(line);
                self.hello = Some(result.into());
                self.modern = false;
                if let (Some(cache), Some(asker)) = (&mut self.cache, &self.asker) {
                    cache.learn_hello(asker, result);
                }
            }
            Note::Discover(asker) => {
                if let (Some(cache), Some(asker)) = (&mut self.cache, asker) {
                    cache.learn_hello(&asker, result);
                }
            }
            Note::List { kind, cursor, params } => self.saw_page(kind, cursor.as_deref(), params, result),
            Note::Call => {
                if text_at(result, &["resultType"]).is_some_and(|kind| kind == "input_required") {
                    self.input_rounds.push(now + INPUT_ROUND_TIMEOUT);
                }
            }
            Note::SetLevel(line) => self.memory.set_level(line),
            Note::Subscribe(uri, line) => self.memory.subscribe(uri, line),
            Note::Unsubscribe(uri) => self.memory.unsubscribe(&uri),
            Note::Replay(entry) => self.remember(entry),
            Note::Listen(_) | Note::Ping | Note::Nothing => {}
        }
    }

    /// The host gets a page of a list.
    pub(super) fn saw_page(
        &mut self,
        kind: ListKind,
        cursor: Option<&str>,
        params: serde_json::Value,
        result: &[u8],
    ) {
        if let Some(page) = Page::of(kind, result) {
            self.seen.page(kind, cursor, page, params);
        }
        if let (Some(cache), Some(asker)) = (&mut self.cache, &self.asker) {
            cache.learn_page(asker, kind, cursor, result);
        }
    }

    fn child_notification(&mut self, method: &str, params: Option<&[u8]>, now: Moment) -> Verdict {
        if self.protocol != Protocol::Mcp {
            return Verdict::Forward;
        }
        match method {
            "notifications/cancelled" => {
                let Some(id) = params.and_then(|params| id_at(params, &["requestId"])) else {
                    return Verdict::Forward;
                };
                if self.memory.unlisten(&id) {
                    // The server ends a stream.
                    self.flights.answered(&id);
                    return Verdict::Forward;
                }
                let known = self.reverse.withdrawn(self.lifecycle.generation(), &id);
                match (known, params) {
                    (Some(known), Some(params)) if known != id => Verdict::Replace(renamed(params, &known)),
                    _ => Verdict::Forward,
                }
            }
            // The only answer that a stream gets. The host may know already that it is open.
            "notifications/subscriptions/acknowledged" => {
                self.has_answered(now);
                let id = params.and_then(|params| id_at(params, &["_meta", SUBSCRIPTION_KEY]));
                match id {
                    Some(id) if self.gate.swallows_acknowledgement(&id) => Verdict::Swallow,
                    Some(id) => {
                        self.memory.acknowledged(&id);
                        Verdict::Forward
                    }
                    None => Verdict::Forward,
                }
            }
            _ => {
                if let Some(kind) = ListKind::ALL.into_iter().find(|kind| kind.notification() == method) {
                    self.forget(kind);
                }
                Verdict::Forward
            }
        }
    }

    /// The host learns that a list is not what it was, and asks when it wants to know more.
    pub(super) fn forget(&mut self, kind: ListKind) {
        for other in ListKind::ALL.into_iter().filter(|other| other.notification() == kind.notification()) {
            self.seen.forget(other);
        }
        if let Some(cache) = &mut self.cache {
            cache.forget(kind);
        }
    }
}

/// A cancel with the id that the host knows.
fn renamed(params: &[u8], id: &Id) -> Vec<u8> {
    let Some(at) = find(params, &["requestId"]) else { return Vec::new() };
    let params = [&params[..at.start], id.to_json().as_bytes(), &params[at.end..]].concat();
    nostray_rpc::notification("notifications/cancelled", Some(&params))
}
