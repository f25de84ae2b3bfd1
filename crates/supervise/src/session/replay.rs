//! Telling a new child what the old one knew, before it hears anything else; and finding out whether it is the same.

use std::collections::VecDeque;

use nostray_rpc::{Envelope, Id, Kind, Message, Outcome, notification, read, request};
use serde_json::{Value, json};

use super::child::SUBSCRIPTION_KEY;
use super::{Effect, Session, id_value};
use crate::flights::{Ask, Hold};
use crate::lists::{Compared, ListKind, Page, changed_capabilities};
use crate::machine::{Event, Generation, Moment, State};
use crate::memory::{Note, Step};

/// Whether what the host says reaches the child.
#[derive(Debug)]
pub(super) enum Gate {
    /// There is no child.
    Closed,
    /// It is being told what it must know.
    Telling {
        generation: Generation,
        left: VecDeque<Step>,
        /// The answer that is waited for, and whether it is that to the handshake.
        waits_for: Option<(Id, bool)>,
        reopened: Vec<Id>,
    },
    /// Yes.
    Open {
        /// Streams whose opening the host need not hear of again.
        reopened: Vec<Id>,
    },
}

impl Gate {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Whether an answer is waited for before the host is heard.
    pub(super) fn is_telling(&self) -> bool {
        matches!(self, Self::Telling { .. })
    }

    /// Whether there is no child. The next one is told all that is known by then.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Whether this says that a stream is open which was open before; once each.
    pub(super) fn swallows_acknowledgement(&mut self, id: &Id) -> bool {
        let (Self::Open { reopened } | Self::Telling { reopened, .. }) = self else { return false };
        let before = reopened.len();
        reopened.retain(|known| known != id);
        before > reopened.len()
    }
}

/// Questions of our own: is a list still what the host believes?
#[derive(Debug, Default)]
pub(super) struct Checks {
    open: Vec<(Id, Check)>,
    asked: u32,
}

#[derive(Debug)]
struct Check {
    kind: ListKind,
    page: usize,
    cursor: Option<String>,
}

impl Checks {
    /// Whether an answer to one of them is waited for.
    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }
}

impl Session {
    /// The child can be written to.
    pub fn child_started(&mut self, generation: Generation, now: Moment) {
        if *self.lifecycle.state() != State::Starting(generation) {
            return; // it is to end before it was there, and what is said to it would be lost
        }
        let left: VecDeque<_> = self.memory.script().into();
        self.gate = Gate::Telling { generation, left, waits_for: None, reopened: Vec::new() };
        self.tell_on(false, now);
        self.settle(now);
    }

    /// Tells the child all up to the next question.
    fn tell_on(&mut self, has_answered: bool, now: Moment) {
        let Gate::Telling { generation, left, waits_for, reopened } = &mut self.gate else { return };
        let generation = *generation;
        while let Some(step) = left.pop_front() {
            match step {
                Step::Tell(line) => self.effects.push(Effect::ToChild(line.into())),
                Step::Handshake(ref line) | Step::Ask(ref line) => {
                    let Some(id) = id_of(line) else { continue };
                    *waits_for = Some((id, matches!(step, Step::Handshake(_))));
                    self.effects.push(Effect::ToChild(line.to_vec()));
                    return;
                }
                // No child has heard of it yet; what waits opens it.
                Step::Reopen { id, .. } if self.queue.asks(&id) => {}
                Step::Reopen { id, line, acknowledged } => {
                    let method = self.flights.method("subscriptions/listen");
                    let ask = Ask { id: id.clone(), note: Note::Listen(line.clone()), method };
                    self.flights.add(ask, Hold::Nothing, None, None, now);
                    if acknowledged {
                        reopened.push(id);
                    }
                    self.effects.push(Effect::ToChild(line.into()));
                }
            }
        }
        self.gate = Gate::Open { reopened: std::mem::take(reopened) };
        self.effects.push(Effect::Told);
        if has_answered {
            self.drive(Event::Answered(generation), now);
        }
        for waiting in self.queue.take_all() {
            if self.memory.replays.any() && !self.take_in_waiting(&waiting.line) {
                continue;
            }
            for ask in waiting.asks {
                self.flights.add(ask, Hold::Work, waiting.batch, waiting.deadline, now);
            }
            self.effects.push(Effect::ToChild(waiting.line));
        }
        for kind in self.seen.kinds() {
            self.check(kind, 0, None);
        }
        if self.closing.is_some() {
            self.release(now);
        }
    }

    /// An answer to what we told the child. True if it was that.
    pub(super) fn replay_answered(&mut self, id: &Id, outcome: Outcome<'_>, now: Moment) -> bool {
        let Gate::Telling { waits_for, generation, .. } = &mut self.gate else { return false };
        let generation = *generation;
        let Some((_, is_handshake)) = waits_for.take_if(|(waited_for, _)| waited_for == id) else { return false };
        if is_handshake {
            match outcome {
                Outcome::Result(result) => self.compare_hello(result),
                Outcome::Error(_) => {
                    self.drive(Event::BadStart(generation), now);
                    return true;
                }
            }
        }
        self.tell_on(true, now);
        true
    }

    /// Whether the new child can do what the host was told that it can.
    fn compare_hello(&mut self, result: &[u8]) {
        if let Some(before) = self.hello.replace(result.into()) {
            for kind in changed_capabilities(&before, result) {
                self.changed(kind);
            }
        }
        if let (Some(cache), Some(asker)) = (&mut self.cache, &self.asker) {
            cache.learn_hello(asker, result);
        }
    }

    /// Asks for a page of a list, as the host has asked for it.
    fn check(&mut self, kind: ListKind, page: usize, cursor: Option<String>) {
        let Some(mut params) = self.seen.params(kind).cloned() else { return };
        if let Value::Object(members) = &mut params {
            members.remove("cursor");
            if let Some(Value::Object(meta)) = members.get_mut("_meta") {
                meta.remove("progressToken");
            }
        }
        if let Some(cursor) = &cursor {
            if !params.is_object() {
                params = json!({});
            }
            params["cursor"] = Value::String(cursor.clone());
        }
        self.checks.asked += 1;
        // No host counts that far. A number, because a server may read no other ids.
        let id = Id::Int(9_007_199_254_740_991 - i64::from(self.checks.asked));
        let raw = (!params.is_null()).then(|| params.to_string());
        let line = request(&id, kind.method(), raw.as_ref().map(String::as_bytes));
        self.checks.open.push((id, Check { kind, page, cursor }));
        self.effects.push(Effect::ToChild(line));
    }

    /// An answer to a question of our own. True if it was that.
    pub(super) fn check_answered(&mut self, id: &Id, outcome: Outcome<'_>) -> bool {
        let Some(at) = self.checks.open.iter().position(|(asked, _)| asked == id) else { return false };
        let (_, Check { kind, page: number, cursor }) = self.checks.open.swap_remove(at);
        let Outcome::Result(result) = outcome else { return true };
        let Some(page) = Page::of(kind, result) else { return true };
        match self.seen.compare(kind, number, &page) {
            Compared::Same => {}
            Compared::SoFar { next } => self.check(kind, number + 1, Some(next)),
            Compared::Changed => self.changed(kind),
        }
        // After a change the cache has forgotten the list, and this is where it begins anew.
        if let (Some(cache), Some(asker)) = (&mut self.cache, &self.asker) {
            cache.learn_page(asker, kind, cursor.as_deref(), result);
        }
        true
    }

    /// Tells the host that a list is not what it was, in the way of its era.
    fn changed(&mut self, kind: ListKind) {
        self.forget(kind);
        if !self.modern {
            self.effects.push(Effect::ToHost(notification(kind.notification(), None)));
            return;
        }
        for id in self.memory.listening_for(kind) {
            let params = json!({ "_meta": { SUBSCRIPTION_KEY: id_value(&id) } }).to_string();
            self.effects.push(Effect::ToHost(notification(kind.notification(), Some(params.as_bytes()))));
        }
    }
}

fn id_of(line: &[u8]) -> Option<Id> {
    match read(line.trim_ascii_end()) {
        Ok(Message::One(Envelope { kind: Kind::Request { id, .. }, .. })) => Some(id.id()),
        _ => None,
    }
}
