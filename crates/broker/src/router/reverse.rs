//! What the child asks. The ids are the child's own, so they need not be changed; but who is meant has to be found out.

use std::collections::HashMap;

use nostray_rpc::{Id, IdToken, error_to, find, result_to};
use nostray_supervise::Moment;

use super::edits::{Edits, Token};
use super::sessions::Seat;
use super::{Effect, FromChild, GONE, INTERNAL, ReverseTo, Router};

/// What a session was asked and has not answered yet.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: HashMap<Id, Question>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Question {
    seat: Seat,
    /// Its id, as the child wrote it.
    pub(super) id: Token,
    /// All of it with its end, if it may be asked again of another.
    line: Option<Vec<u8>>,
}

impl Questions {
    pub(super) fn any(&self) -> bool {
        !self.open.is_empty()
    }

    /// A session answers. None if it was not asked that.
    pub(super) fn answered(&mut self, seat: Seat, id: &Id) -> Option<Question> {
        self.open.get(id).filter(|question| question.seat == seat)?;
        self.open.remove(id)
    }

    /// The child takes it back: who was asked.
    pub(super) fn withdrawn(&mut self, id: &Id) -> Option<Seat> {
        self.open.remove(id).map(|question| question.seat)
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

/// How the older era's handshake went, as far as it tells who is meant by a child that asks something right after it.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Whose `initialize` went to the child.
    pub(super) begun_by: Option<Seat>,
    /// Whose `notifications/initialized` did.
    ended_by: Option<Seat>,
    /// Somebody else has come since then.
    has_company: bool,
    /// The child was asked nothing else.
    pub(super) is_all: bool,
}

impl Default for Handshake {
    fn default() -> Self {
        Self { begun_by: None, ended_by: None, has_company: false, is_all: true }
    }
}

impl Handshake {
    /// A session says that the handshake is complete. True for the first.
    pub(super) fn ends(&mut self, seat: Seat) -> bool {
        let is_first = self.ended_by.is_none();
        self.ended_by.get_or_insert(seat);
        is_first
    }

    pub(super) fn somebody_came(&mut self, seat: Seat) {
        self.has_company |= self.ended_by.is_some_and(|first| first != seat);
    }

    /// Whom the child means if nobody waits for it.
    fn partner(&self, method: &str) -> Option<Seat> {
        if !self.has_company && self.ended_by.is_some() {
            return self.ended_by;
        }
        // Servers ask for it as soon as they may.
        if method == "roots/list" && self.is_all { self.ended_by.or(self.begun_by) } else { None }
    }
}

/// Whom the child asks.
enum Asked {
    Session(Seat),
    /// One that has left.
    Nobody,
    /// That is not certain.
    Unclear,
}

impl Router {
    /// The child asks something.
    pub(super) fn child_asks(
        &mut self,
        text: &[u8],
        id: &IdToken<'_>,
        method: &str,
        params: Option<&[u8]>,
        now: Moment,
    ) -> FromChild {
        if self.is_mcp() && method == "ping" {
            self.effects.push(Effect::ToChild(result_to(id.raw(), b"{}")));
            return FromChild::Swallow;
        }
        let asked = match self.reverse_to {
            ReverseTo::Certain => self.certainly_asked(text, method, now),
            ReverseTo::Newest => self.newest_to_ask(text),
        };
        let refusal = match asked {
            Asked::Session(seat) => {
                let line = (self.reverse_to == ReverseTo::Newest).then(|| Edits::none().line(text));
                self.questions.open.insert(id.id(), Question { seat, id: Token::new(id.raw()), line });
                if method == "elicitation/create"
                    && let Some(name) = params.and_then(|params| text_at(params, &["elicitationId"]))
                {
                    self.elicitations.add(&name, seat);
                }
                return FromChild::To(seat, Edits::none());
            }
            Asked::Nobody => error_to(id.raw(), GONE, "the session that this belongs to has ended"),
            Asked::Unclear => {
                let message = "several sessions share this server, and it is not certain which one is asked; \
                               from now on they call it in turns as far as that helps";
                error_to(id.raw(), INTERNAL, message)
            }
        };
        self.effects.push(Effect::ToChild(refusal));
        FromChild::Swallow
    }

    fn here(&self, seat: Seat) -> Asked {
        match self.sessions.get(seat) {
            Some(session) if session.heard => Asked::Session(seat),
            _ => Asked::Nobody,
        }
    }

    fn newest_to_ask(&self, text: &[u8]) -> Asked {
        if let Some(Asked::Session(seat)) = self.routes.owner(text).map(|seat| self.here(seat)) {
            return Asked::Session(seat);
        }
        self.sessions.speaking().next_back().map_or(Asked::Nobody, |session| Asked::Session(session.seat))
    }

    fn certainly_asked(&mut self, text: &[u8], method: &str, now: Moment) -> Asked {
        if let Some(seat) = self.routes.owner(text) {
            return self.here(seat);
        }
        let mut speaking = self.sessions.speaking().map(|session| session.seat);
        let Some(first) = speaking.next() else { return Asked::Nobody };
        let alone = Some(first).filter(|_| speaking.next().is_none());
        let guess = match self.sessions.flying() {
            _ if alone.is_some() => alone,
            0 if self.is_mcp() => self.handshake.partner(method),
            0 => None,
            1 => self.sessions.only_one_flying(),
            _ => {
                // If only one had been calling it would be certain.
                self.turns.take();
                None
            }
        };
        // A call that was given up may not have ended, and taking turns does not help against that.
        match guess {
            Some(seat) if self.calls.may_still_ask(now).all(|other| other == seat) => self.here(seat),
            _ => Asked::Unclear,
        }
    }

    /// A session has left. What it was asked is asked of another, or the child is told.
    pub(super) fn ask_somebody_else(&mut self, seat: Seat) {
        let mut ids: Vec<Id> = self
            .questions
            .open
            .iter()
            .filter(|(_, question)| question.seat == seat)
            .map(|(id, _)| id.clone())
            .collect();
        ids.sort_unstable_by_key(Id::to_json);
        let next = self.sessions.speaking().next_back().map(|session| session.seat);
        for id in ids {
            let Some(question) = self.questions.open.get_mut(&id) else { continue };
            if let (Some(next), Some(line)) = (next, &question.line) {
                question.seat = next;
                self.effects.push(Effect::ToSession(next, line.clone()));
            } else if let Some(question) = self.questions.open.remove(&id) {
                let line = error_to(question.id.json(), GONE, "the session that was asked has ended");
                self.effects.push(Effect::ToChild(line));
            }
        }
    }
}

/// What a member of a member says, if it is a text.
pub(super) fn text_at(json: &[u8], path: &[&str]) -> Option<String> {
    find(json, path).and_then(|at| serde_json::from_slice(&json[at]).ok())
}
