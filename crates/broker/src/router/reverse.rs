//! What the child asks. The ids are the child's own, so they need not be changed; but the session that is meant has to be found out.

use std::collections::HashMap;

use nostray_rpc::{Id, IdToken, error_to, find, result_to};
use nostray_supervise::Moment;

use super::edits::{Edits, Token};
use super::sessions::SessionId;
use super::{Effect, FromChild, GONE, INTERNAL, ReverseTo, Router};

/// What a session was asked and has not answered yet.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: HashMap<Id, Question>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Question {
    session_id: SessionId,
    /// Its id, as the child wrote it.
    pub(super) id: Token,
    /// By which the session tells how far it is.
    progress: Option<Id>,
    /// All of it with its end, if it may be asked again of another.
    line: Option<Vec<u8>>,
}

impl Questions {
    pub(super) fn any(&self) -> bool {
        !self.open.is_empty()
    }

    /// A session answers. None if it was not asked that.
    pub(super) fn answered(&mut self, session_id: SessionId, id: &Id) -> Option<Question> {
        self.open.get(id).filter(|question| question.session_id == session_id)?;
        self.open.remove(id)
    }

    /// The child withdraws a question. Returns the session that was asked.
    pub(super) fn withdrawn(&mut self, id: &Id) -> Option<SessionId> {
        self.open.remove(id).map(|question| question.session_id)
    }

    /// Whether a session was asked something that has this progress token.
    pub(super) fn has_progress(&self, session_id: SessionId, token: &Id) -> bool {
        self.open
            .values()
            .any(|question| question.session_id == session_id && question.progress.as_ref() == Some(token))
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

/// How the older era's handshake went, as far as it tells which session is meant by a question right after it.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Whose `initialize` went to the child.
    pub(super) begun_by: Option<SessionId>,
    /// Whose `notifications/initialized` did.
    ended_by: Option<SessionId>,
    /// Another session has come since then.
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
    pub(super) fn ends(&mut self, session_id: SessionId) -> bool {
        let is_first = self.ended_by.is_none();
        self.ended_by.get_or_insert(session_id);
        is_first
    }

    /// A session has spoken for the first time.
    pub(super) fn session_came(&mut self, session_id: SessionId) {
        self.has_company |= self.ended_by.is_some_and(|first| first != session_id);
    }

    /// The session that the child asks while nothing is in flight, because of the handshake.
    fn partner(&self, method: &str) -> Option<SessionId> {
        // Servers ask for the roots as soon as they may.
        let partner = if method == "roots/list" { self.ended_by.or(self.begun_by) } else { self.ended_by };
        partner.filter(|_| self.is_all && (method == "roots/list" || !self.has_company))
    }
}

/// Which session the child asks.
enum Asked {
    Session(SessionId),
    /// A session that has left, or none.
    NoSession,
    /// That is not certain, and why.
    Unclear(Unclear),
}

/// Why it is not certain which session the child asks.
#[derive(Clone, Copy)]
enum Unclear {
    /// Several sessions have calls in flight. Turns help against that.
    Several,
    /// None has.
    NothingInFlight,
    /// A call that was given up may not have ended. Turns do not help.
    GivenUp,
    /// The child is new and does not know every session yet.
    Restarted,
}

impl Unclear {
    fn message(self) -> &'static str {
        match self {
            Self::Several => {
                "several sessions share this server, and it is not certain which one is asked; from now on they call \
                 it in turns"
            }
            Self::NothingInFlight => {
                "several sessions share this server and none has a call in flight, so it is never certain which one \
                 is asked; --route-by says whose a message is, --reverse newest asks the newest session"
            }
            Self::GivenUp => {
                "several sessions share this server, and a call that was given up may still be running, so it is not \
                 certain which one is asked"
            }
            Self::Restarted => {
                "this server was started anew and not all its sessions are back, so it is not certain which one is \
                 asked"
            }
        }
    }
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
        let asked = match (self.certainly_asked(text, method, now), self.reverse_to) {
            (Asked::Session(session_id), _) => Asked::Session(session_id),
            (Asked::NoSession | Asked::Unclear(_), ReverseTo::Newest) => {
                self.sessions.newest().map_or(Asked::NoSession, Asked::Session)
            }
            (asked, ReverseTo::Certain) => asked,
        };
        let refusal = match asked {
            Asked::Session(session_id) => {
                let line = (self.reverse_to == ReverseTo::Newest).then(|| Edits::none().line(text));
                let progress = params.and_then(|params| {
                    find(params, &["_meta", "progressToken"]).and_then(|at| Id::from_json(&params[at]))
                });
                self.questions
                    .open
                    .insert(id.id(), Question { session_id, id: Token::new(id.raw()), progress, line });
                if method == "elicitation/create"
                    && let Some(name) = params.and_then(|params| text_at(params, &["elicitationId"]))
                {
                    self.elicitations.add(&name, session_id);
                }
                return FromChild::To(session_id, Edits::none());
            }
            Asked::NoSession => error_to(id.raw(), GONE, "the session that this belongs to is not there"),
            Asked::Unclear(why) => {
                if matches!(why, Unclear::Several) {
                    self.turns.take();
                }
                error_to(id.raw(), INTERNAL, why.message())
            }
        };
        self.effects.push(Effect::ToChild(refusal));
        FromChild::Swallow
    }

    fn here(&self, session_id: SessionId) -> Asked {
        match self.sessions.get(session_id) {
            Some(session) if session.heard => Asked::Session(session_id),
            _ => Asked::NoSession,
        }
    }

    /// The session that a message names by `--route-by`. It may have left.
    pub(super) fn owner_named_in(&mut self, text: &[u8]) -> Option<SessionId> {
        let sessions = &self.sessions;
        self.routes.owner(text, |session_id| sessions.get(session_id).is_some())
    }

    fn certainly_asked(&mut self, text: &[u8], method: &str, now: Moment) -> Asked {
        if let Some(session_id) = self.owner_named_in(text) {
            return self.here(session_id);
        }
        if self.sessions.speaking().next().is_none() {
            return Asked::NoSession;
        }
        // MCP ties what a server asks to a call. Any other child may take up again what its predecessor has left undone, and then
        // the sessions that are back first are no more certain than the others.
        let restarted = !self.sessions.all_told();
        let guess = match (self.sessions.alone(), self.sessions.flying()) {
            (Some(session_id), _) => Ok(session_id),
            (None, 0) if self.is_mcp() && (method == "roots/list" || !restarted) => {
                self.handshake.partner(method).ok_or(Unclear::NothingInFlight)
            }
            (None, flying) if restarted && (flying == 0 || !self.is_mcp()) => Err(Unclear::Restarted),
            (None, 0) => Err(Unclear::NothingInFlight),
            (None, _) => self.sessions.only_one_flying().ok_or(Unclear::Several),
        };
        match guess {
            Ok(session_id) if self.calls.may_still_ask(now).all(|other| other == session_id) => self.here(session_id),
            Ok(_) => Asked::Unclear(Unclear::GivenUp),
            Err(why) => Asked::Unclear(why),
        }
    }

    /// A session has left. What it was asked is asked of another, or the child is told.
    pub(super) fn ask_another_session(&mut self, session_id: SessionId) {
        let mut ids: Vec<Id> = self
            .questions
            .open
            .iter()
            .filter(|(_, question)| question.session_id == session_id)
            .map(|(id, _)| id.clone())
            .collect();
        ids.sort_unstable_by_key(Id::to_json);
        let next = self.sessions.newest();
        for id in ids {
            let Some(question) = self.questions.open.get_mut(&id) else { continue };
            if let (Some(next), Some(line)) = (next, &question.line) {
                question.session_id = next;
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
