//! Which session may call next. One session alone may have many calls in flight, and several share; but once the child has asked
//! something of an uncertain session, only one session at a time has calls in flight, so that the next question is certain.

use nostray_rpc::{Envelope, Kind, Message, error_to, read};

use super::admission::{Ask, Otherwise};
use super::sessions::{Elsewhere, Session, SessionId};
use super::{Effect, PARSE, Router};

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Turns {
    /// How many calls a session may have in flight while it is alone.
    window: usize,
    /// How many, while other sessions have calls, too.
    share: usize,
    taken: bool,
    /// How many calls a session may still make in its turn although other sessions wait: as many as it had queued when
    /// its turn came.
    quota: usize,
    /// The session that was served last.
    last: SessionId,
}

impl Turns {
    pub(super) fn new(window: usize) -> Self {
        let window = window.max(1);
        Self { window, share: (window / 16).max(16).min(window), taken: false, quota: 0, last: SessionId(0) }
    }

    pub(super) fn are_taken(&self) -> bool {
        self.taken
    }

    /// From now on, and for ever.
    pub(super) fn take(&mut self) {
        self.taken = true;
    }
}

impl Router {
    /// Whether a call of this session may go to the child now.
    pub(super) fn may_start(&self, session: &Session) -> bool {
        let (others_fly, others_wait) = (self.sessions.others_fly(session), self.sessions.others_wait(session));
        let in_flight = session.in_flight();
        if self.turns.taken {
            let has_turn = in_flight == 0 || self.turns.quota > 0 || !others_wait;
            return !others_fly && has_turn && in_flight < self.turns.window;
        }
        in_flight < if others_fly || others_wait { self.turns.share } else { self.turns.window }
    }

    /// Whether another session may have its turn first.
    pub(super) fn must_queue(&self, session: &Session) -> bool {
        !session.queue().is_empty() || (self.turns.taken && self.sessions.others_wait(session))
    }

    /// A call of this session goes to the child.
    pub(super) fn takes_its_turn(&mut self, session_id: SessionId) {
        if self.turns.taken
            && let Some(session) = self.sessions.get(session_id)
        {
            self.turns.quota = match session.in_flight() {
                0 => session.queue().len(),
                _ => self.turns.quota.saturating_sub(1),
            };
        }
        self.turns.last = session_id;
    }

    /// Lets through what has waited and may go now, one message of each session after the other.
    pub(super) fn go_on(&mut self) {
        let mut at = self.turns.last;
        let mut first_in_vain = None;
        while self.sessions.any_waits()
            && let Some(session_id) = self.sessions.next_waiting(at)
            && first_in_vain != Some(session_id)
        {
            at = session_id;
            if self.serve(session_id) {
                first_in_vain = None;
            } else if first_in_vain.is_none() {
                first_in_vain = Some(session_id);
            }
        }
    }

    /// Lets through the first that has waited of this session. False if it still has to.
    fn serve(&mut self, session_id: SessionId) -> bool {
        let Some(session) = self.sessions.get(session_id) else { return false };
        if session.queue().first().is_none_or(|first| first.plain) && !self.may_start(session) {
            return false;
        }
        let Some(waiting) = self.sessions.pop(session_id) else { return false };
        let Ok(Message::One(Envelope { kind, .. })) = read(&waiting.text) else {
            // The gate lets nothing in that cannot be read; but a request must not go unanswered.
            let id = waiting.id.map_or_else(|| "null".to_owned(), |id| id.to_json());
            let line = error_to(id.as_bytes(), PARSE, "this cannot be understood: broken JSON");
            self.answer(session_id, waiting.batch, line);
            return true;
        };
        match &kind {
            Kind::Request { id, method, params } => {
                let ask = Ask::new(&waiting.text, id.raw(), method, *params, waiting.batch);
                match self.admit(session_id, &ask) {
                    Ok(edits) => self.effects.push(Effect::ToChild(edits.line(&waiting.text))),
                    Err(Otherwise::Done) => {}
                    Err(Otherwise::Wait) => {
                        self.sessions.put_back(session_id, waiting);
                        return false;
                    }
                    Err(Otherwise::Elsewhere(elsewhere)) => {
                        self.sessions.put_back(session_id, waiting);
                        self.send_elsewhere(session_id, elsewhere);
                    }
                }
            }
            Kind::Notification { method, .. } => {
                if self.is_for_the_child(session_id, method) {
                    let mut line = waiting.text;
                    line.push(b'\n');
                    self.effects.push(Effect::ToChild(line));
                }
            }
            Kind::Response { .. } => {} // never waits
        }
        true
    }

    /// A session needs another child: all that waits of it is to be said there.
    fn send_elsewhere(&mut self, session_id: SessionId, elsewhere: Elsewhere) {
        let mut lines = Vec::new();
        while let Some(waiting) = self.sessions.pop(session_id) {
            match (waiting.batch, waiting.id) {
                (Some(_), Some(_)) => self.refuse_in_batch(session_id, waiting.batch, &waiting.text, &elsewhere.why),
                _ => {
                    lines.extend_from_slice(&waiting.text);
                    lines.push(b'\n');
                }
            }
        }
        if let Some(session) = self.sessions.get_mut(session_id) {
            session.elsewhere = Some(elsewhere.clone());
        }
        let Elsewhere { variant, why } = elsewhere;
        self.effects.push(Effect::Elsewhere { session_id, variant, why, lines });
    }
}
