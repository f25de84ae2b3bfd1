//! What a session says.

use nostray_rpc::{Envelope, Id, Kind, LineSummary, Message, NotAMessage, Outcome, error, error_to, find};
use nostray_supervise::Moment;
use nostray_supervise::error_text::{CANCELLED, too_long};

use super::admission::{Ask, Otherwise, means_something, place_in};
use super::calls::Note;
use super::edits::{Edits, Token};
use super::gate::Checked;
use super::queue::QueuedMessage;
use super::sessions::{Elsewhere, SessionId};
use super::tasks::INVALID_PARAMS;
use super::{Effect, FromSession, INTERNAL, INVALID, PARSE, Router};

/// A way to cancel a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cancel {
    Mcp,
    LanguageServer,
}

impl Cancel {
    /// The member of the params that names the call.
    fn member(self) -> &'static str {
        match self {
            Self::Mcp => "requestId",
            Self::LanguageServer => "id",
        }
    }
}

fn is_cancel(method: &str) -> Option<Cancel> {
    match method {
        "notifications/cancelled" => Some(Cancel::Mcp),
        "$/cancelRequest" => Some(Cancel::LanguageServer),
        _ => None,
    }
}

/// Whether a child that takes this notification for a request would act on what the sessions share, on tasks of others, or on a
/// progress token that was not renamed.
fn is_request_in_disguise(method: &str, params: Option<&[u8]>) -> bool {
    means_something(method)
        || method.starts_with("tasks/")
        || params.is_some_and(|params| find(params, &["_meta", "progressToken"]).is_some())
}

impl Router {
    /// Takes in a line of a session that every reader understands in the same way.
    pub(super) fn session_says_clearly(
        &mut self,
        session_id: SessionId,
        line: Checked<'_>,
        now: Moment,
    ) -> FromSession {
        // Nearly all that a session says is a call.
        if let Some(ask) = line.call().filter(|_| !self.routes.is_used()) {
            self.speaks(session_id);
            return self.session_asks(session_id, &ask);
        }
        match self.gate.read(line) {
            Ok(Message::One(envelope)) => self.session_message(session_id, Some(line), &envelope, None, now),
            Ok(Message::Batch(envelopes)) => {
                self.session_batch(session_id, &envelopes, now);
                FromSession::Swallow
            }
            Err(why) => {
                self.refuse(session_id, &why);
                FromSession::Swallow
            }
        }
    }

    /// A line of a session that was too long to be kept.
    pub fn session_said_too_much(&mut self, session_id: SessionId, length: u64, limit: usize, seen: &LineSummary) {
        let Some(id) =
            seen.id.as_ref().filter(|_| self.sessions.get(session_id).is_some_and(|session| session.heard))
        else {
            return;
        };
        let why = too_long(length, limit);
        if seen.is_response {
            self.answer_is_lost(session_id, id, &format!("the client's answer was not passed on: {why}"));
        } else {
            self.speaks(session_id);
            let line = error(id, INVALID, &self.label.request_dropped(&why), None);
            self.effects.push(Effect::ToSession(session_id, line));
        }
    }

    /// The child waits for an answer that cannot be given to it.
    pub(super) fn answer_is_lost(&mut self, session_id: SessionId, id: &Id, message: &str) {
        if let Some(question) = self.questions.answered(session_id, id) {
            self.effects.push(Effect::ToChild(error_to(question.id.json(), INTERNAL, message)));
        }
    }

    /// A line that is no message. The child does not see it: its answer could not be routed.
    pub(super) fn refuse(&mut self, session_id: SessionId, why: &NotAMessage) {
        let (id, code) = match why {
            NotAMessage::Empty => return,
            NotAMessage::NotUtf8 { id: Some(id), is_response: true } => {
                return self.answer_is_lost(session_id, id, "the client's answer is not UTF-8, so it is not JSON");
            }
            NotAMessage::NotUtf8 { id, .. } => (id.as_ref(), PARSE),
            NotAMessage::NotAnObject | NotAMessage::Broken => (None, PARSE),
            NotAMessage::NotJsonRpc => (None, INVALID),
        };
        let message = format!("this cannot be understood: {why}");
        let line = match id {
            Some(id) => error(id, code, &message, None),
            None => error_to(b"null", code, &message),
        };
        self.effects.push(Effect::ToSession(session_id, line));
    }

    /// The session has said something to this child.
    fn speaks(&mut self, session_id: SessionId) {
        if let Some(session) = self.sessions.get_mut(session_id)
            && !std::mem::replace(&mut session.has_spoken, true)
        {
            session.has_ever_spoken = true;
            self.handshake.session_came(session_id);
        }
    }

    fn session_message(
        &mut self,
        session_id: SessionId,
        line: Option<Checked<'_>>,
        envelope: &Envelope<'_>,
        batch: Option<u64>,
        now: Moment,
    ) -> FromSession {
        // A message of a batch is alone with itself.
        let text = line.map_or(envelope.text, |line| line.text);
        self.speaks(session_id);
        if self.routes.is_used() && !matches!(envelope.kind, Kind::Response { .. }) {
            let sessions = &self.sessions;
            self.routes.learn(envelope.text, session_id, |session_id| sessions.get(session_id).is_some());
        }
        match &envelope.kind {
            Kind::Request { id, method, params } => {
                let ask = Ask { line, ..Ask::new(text, id.raw(), method, *params, batch) };
                self.session_asks(session_id, &ask)
            }
            Kind::Notification { method, params } => self.session_notifies(session_id, text, method, *params, now),
            Kind::Response { id: Some(id), outcome: Outcome::Result(result) }
                if self.names_a_strange_task(session_id, "", Some(result)) =>
            {
                self.answer_is_lost(session_id, &id.id(), "the client's answer names a task of another session");
                FromSession::Swallow
            }
            Kind::Response { id: Some(id), .. } if self.questions.answered(session_id, &id.id()).is_some() => {
                FromSession::ToChild(Edits::none())
            }
            Kind::Response { .. } => FromSession::Swallow,
        }
    }

    /// Each message of a batch goes its own way, and the answers come back together.
    fn session_batch(&mut self, session_id: SessionId, envelopes: &[Envelope<'_>], now: Moment) {
        let belongs = |envelope: &Envelope<'_>| match &envelope.kind {
            // A stream would keep the others from ever being complete.
            Kind::Request { method, .. } => method != "subscriptions/listen" || !self.is_mcp(),
            Kind::Notification { .. } | Kind::Response { .. } => false,
        };
        let belonging: Vec<_> = envelopes.iter().map(belongs).collect();
        let batch = self.batches.open(session_id, belonging.iter().filter(|belongs| **belongs).count());
        for (envelope, belongs) in envelopes.iter().zip(belonging) {
            match self.session_message(session_id, None, envelope, batch.filter(|_| belongs), now) {
                FromSession::ToChild(edits) => self.effects.push(Effect::ToChild(edits.line(envelope.text))),
                FromSession::Swallow => {}
                FromSession::Elsewhere { why, .. } => {
                    if matches!(envelope.kind, Kind::Request { .. }) {
                        self.refuse_in_batch(session_id, batch.filter(|_| belongs), envelope.text, &why);
                    }
                }
            }
        }
    }

    fn session_asks(&mut self, session_id: SessionId, ask: &Ask<'_>) -> FromSession {
        let Some(session) = self.sessions.get(session_id) else { return FromSession::Swallow };
        if is_cancel(ask.method).is_some() || (self.is_mcp() && ask.method.starts_with("notifications/")) {
            // A child that takes it for the notification would act on ids that the router has not renamed.
            let message = format!("{:?} is a notification, and a notification has no id", ask.method);
            self.answer(session_id, ask.batch, error_to(ask.raw_id(), INVALID, &message));
            return FromSession::Swallow;
        }
        if self.names_a_strange_task(session_id, ask.method, ask.json()) {
            self.answer(
                session_id,
                ask.batch,
                error_to(ask.raw_id(), INVALID_PARAMS, "this session has no such task"),
            );
            return FromSession::Swallow;
        }
        if let Some(Elsewhere { variant, why }) = session.elsewhere.clone() {
            return FromSession::Elsewhere { variant, why };
        }
        let admission = if self.must_queue(session) { Err(Otherwise::Wait) } else { self.admit(session_id, ask) };
        match admission {
            Ok(edits) => FromSession::ToChild(edits),
            Err(Otherwise::Done) => FromSession::Swallow,
            Err(Otherwise::Wait) => {
                self.sessions.push(session_id, ask.waiting());
                // A session that has waited longer may wait for something else.
                if self.turns.are_taken() {
                    self.go_on();
                }
                FromSession::Swallow
            }
            Err(Otherwise::Elsewhere(elsewhere)) => {
                if ask.batch.is_none()
                    && let Some(session) = self.sessions.get_mut(session_id)
                {
                    session.elsewhere = Some(elsewhere.clone());
                }
                FromSession::Elsewhere { variant: elsewhere.variant, why: elsewhere.why }
            }
        }
    }

    fn session_notifies(
        &mut self,
        session_id: SessionId,
        text: &[u8],
        method: &str,
        params: Option<&[u8]>,
        now: Moment,
    ) -> FromSession {
        if let Some(cancel) = is_cancel(method) {
            return self.session_cancels(session_id, text, params, cancel, now);
        }
        if self.is_mcp() && method == "notifications/progress" {
            let token = params.and_then(|params| Some(&params[find(params, &["progressToken"])?]));
            let is_own =
                token.and_then(Id::from_json).is_some_and(|token| self.questions.has_progress(session_id, &token));
            return if is_own { FromSession::ToChild(Edits::none()) } else { FromSession::Swallow };
        }
        if self.names_a_strange_task(session_id, method, params) {
            return FromSession::Swallow;
        }
        if self.is_mcp() && is_request_in_disguise(method, params) {
            let message = format!("{method:?} has no id, and is said like a request");
            self.effects.push(Effect::ToSession(session_id, error_to(b"null", INVALID, &message)));
            return FromSession::Swallow;
        }
        let Some(session) = self.sessions.get(session_id) else { return FromSession::Swallow };
        if let Some(Elsewhere { variant, why }) = session.elsewhere.clone() {
            return FromSession::Elsewhere { variant, why };
        }
        if !session.queue().is_empty() {
            // It may speak of what was asked before.
            self.sessions
                .push(session_id, QueuedMessage { text: text.to_vec(), id: None, batch: None, plain: false });
            return FromSession::Swallow;
        }
        if self.is_for_the_child(session_id, method) {
            FromSession::ToChild(Edits::none())
        } else {
            FromSession::Swallow
        }
    }

    /// Whether a notification that nothing holds up goes to the child. The end of the handshake does once.
    pub(super) fn is_for_the_child(&mut self, session_id: SessionId, method: &str) -> bool {
        if !self.is_mcp() || method != "notifications/initialized" || self.handshake.begun_by.is_none() {
            return true;
        }
        self.handshake.ends(session_id)
    }

    /// A session waits for one of its calls no longer.
    fn session_cancels(
        &mut self,
        session_id: SessionId,
        text: &[u8],
        params: Option<&[u8]>,
        cancel: Cancel,
        now: Moment,
    ) -> FromSession {
        // Where the protocol knows another way to cancel, the child may still know this one, and then it answers.
        let is_answered = !self.is_mcp() || cancel == Cancel::LanguageServer;
        let Some(params) = params else { return FromSession::Swallow };
        let Some(place) = find(params, &[cancel.member()]) else { return FromSession::Swallow };
        let token = &params[place];
        let Some(id) = Id::from_json(token) else { return FromSession::Swallow };
        if let Some(waiting) = self.sessions.cancelled(session_id, &id) {
            if is_answered {
                let line = error_to(token, CANCELLED, "cancelled before it was asked");
                self.answer(session_id, waiting.batch, line);
            } else if let Some(batch) = waiting.batch {
                self.answer_in(batch, None);
            }
            self.go_on();
            return FromSession::Swallow;
        }
        let Some(ours) = self.calls.find(session_id, &id) else { return FromSession::Swallow };
        let mut edits = Edits::none();
        edits.replace(place_in(text, token), Token::number(ours));
        if is_answered {
            return FromSession::ToChild(edits);
        }
        // Others wait for the handshake too, and the protocol forbids to cancel it.
        if self.calls.get(ours).is_some_and(|call| call.note == Note::Initialize) {
            return FromSession::Swallow;
        }
        self.give_up(ours, now);
        self.go_on();
        FromSession::ToChild(edits)
    }

    /// Abandons a call. What it does in the child is not certain from now on.
    fn give_up(&mut self, ours: i64, now: Moment) {
        let Some(call) = self.calls.get(ours) else { return };
        if let Some(session_id) = call.waited_for_by() {
            self.sessions.landed(session_id);
        } else if let Some(session) = call.session_id.and_then(|session_id| self.sessions.get_mut(session_id)) {
            session.streams -= 1;
        }
        match &call.note {
            Note::SetLevel { .. } => self.level_is_uncertain(ours),
            Note::Subscribe(uri) | Note::Unsubscribe(uri) => drop(self.subscriptions.was_answered(ours, uri)),
            // The client tries something else now.
            Note::Discover if self.claim.by() == Some(ours) => self.claim_has_failed(ours),
            _ if self.claim.by() == Some(ours) => self.claim.settle(),
            _ => {}
        }
        if let Some(batch) = self.calls.take_batch(ours) {
            self.answer_in(batch, None);
        }
        self.no_longer_awaited(ours, Some(now));
    }

    /// Tracks an abandoned call, and since when the child knows that; evicts the oldest.
    pub(super) fn no_longer_awaited(&mut self, ours: i64, told: Option<Moment>) {
        let Some((forgotten, call)) = self.calls.give_up(ours, told) else { return };
        match &call.note {
            Note::SetLevel { .. } => self.level_is_uncertain(forgotten),
            Note::Subscribe(uri) | Note::Unsubscribe(uri) => drop(self.subscriptions.was_answered(forgotten, uri)),
            _ if self.claim.by() == Some(forgotten) => self.claim_has_failed(forgotten),
            _ => {}
        }
    }
}
