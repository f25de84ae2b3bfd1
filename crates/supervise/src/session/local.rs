//! What is answered here, because no child is needed for it.

use nostray_rpc::{Id, find, request, result};

use super::host::text_at;
use super::{Effect, Protocol, Session};
use crate::flights::Ask;
use crate::machine::{Event, Moment, State};
use crate::memory::Note;
use crate::queue::QueuedLine;

impl Session {
    /// Whether no child hears what the host says now, and none may be on its way that does.
    pub(super) fn is_unheard(&self) -> bool {
        let is_gone = match self.lifecycle.state() {
            // It is put to sleep, or another one follows it; what is asked meanwhile must not decide which.
            State::Stopping { why, .. } => !why.lets_child_answer(),
            state => state.live().is_none(),
        };
        is_gone && !self.gate.is_open()
    }

    /// Answers a request of the host's for which no child is needed. False if one is.
    pub(super) fn answer_here(&mut self, id: &Id, note: &Note) -> bool {
        let Some(answer) = self.known_answer(note) else { return false };
        match note {
            // The next child is told before anything else.
            Note::SetLevel(line) => self.memory.set_level(line.clone()),
            Note::Initialize(line) => {
                self.memory.initialize(line.clone());
                self.hello = Some(answer.clone());
            }
            Note::List { kind, cursor, params } => {
                self.saw_page(*kind, cursor.as_deref(), params.clone(), &answer);
            }
            _ => {}
        }
        self.effects.push(Effect::ToHost(result(id, &answer)));
        true
    }

    /// What a child would answer, as far as that is known without one.
    fn known_answer(&self, note: &Note) -> Option<Box<[u8]>> {
        if self.protocol != Protocol::Mcp {
            return None;
        }
        let cache = || self.cache.as_ref().filter(|_| self.lazy);
        match note {
            // It asks whether the connection is alive, which needs no child.
            Note::Ping => Some(b"{}".as_slice().into()),
            // Hosts set it as soon as they are connected.
            Note::SetLevel(line) if self.has_logging() && is_level(line) => Some(b"{}".as_slice().into()),
            Note::Initialize(_) => Some(cache()?.hello(self.asker.as_ref()?)?.into()),
            Note::Discover(asker) => Some(cache()?.hello(asker.as_ref()?)?.into()),
            Note::List { kind, cursor, .. } => {
                Some(cache()?.page(self.asker.as_ref()?, *kind, cursor.as_deref())?.into())
            }
            _ => None,
        }
    }

    /// Whether no work is done for a request: a child that is awake answers it, but is not kept awake by it.
    pub(super) fn is_light(&self, note: &Note) -> bool {
        matches!(note, Note::Ping | Note::SetLevel(_) | Note::List { .. }) && self.known_answer(note).is_some()
    }

    /// The child is put to sleep, or makes room for another one, before it has answered these.
    pub(super) fn answer_light(&mut self, now: Moment) {
        for (id, note) in self.flights.take_light() {
            if !self.answer_here(&id, &note)
                && let Note::List { kind, params, .. } = &note
            {
                // What was known of it was taken back meanwhile, so only the next child can say.
                let params = (!params.is_null()).then(|| params.to_string());
                let line = request(&id, kind.method(), params.as_ref().map(String::as_bytes));
                let ask = Ask { method: self.flights.method(kind.method()), id, note };
                self.queue.push(QueuedLine { line, asks: vec![ask], batch: None, deadline: None });
                self.drive(Event::Demanded, now);
                self.effects.push(Effect::Demand);
            }
        }
    }

    /// Whether the host was told that there are log levels to set.
    fn has_logging(&self) -> bool {
        self.hello.as_ref().is_some_and(|hello| find(hello, &["capabilities", "logging"]).is_some())
    }
}

/// Whether this is a level that every server takes.
fn is_level(line: &[u8]) -> bool {
    const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    text_at(line, &["params", "level"]).is_some_and(|level| LEVELS.contains(&level.as_str()))
}
