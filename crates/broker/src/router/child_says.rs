//! What the child says: to which session it belongs, and what it means for the calls in flight.

use std::time::Duration;

use memchr::memmem;
use nostray_rpc::{Envelope, Id, Kind, LineSummary, Message, NotAMessage, Outcome, error, error_to, find, result_to};
use nostray_supervise::Moment;
use nostray_supervise::error_text::too_long;

use super::admission::place_in;
use super::calls::{Call, Note};
use super::claim::{Claim, Need};
use super::edits::Edits;
use super::gate::Checked;
use super::notifications::SUBSCRIPTION_KEY;
use super::reverse::text_at;
use super::sessions::SessionId;
use super::{Effect, FromChild, INTERNAL, INVALID, Router};

/// How long a server that asked its client back, in the newer era, is kept awake: it may keep what it needs for the second half in
/// memory. (The Python SDK seals it with a key of the process, for this long.)
const INPUT_ROUND_TIMEOUT: Duration = Duration::from_secs(600);
const MAX_INPUT_ROUNDS: usize = 1024;

/// What says that a call goes on as a task is short.
const LONGEST_TASK: usize = 4096;

/// A server that does not know the version that it was asked for may know another.
const UNSUPPORTED_VERSION: i64 = -32022;

impl Router {
    /// Takes in a line of the child that every reader understands in the same way.
    pub(super) fn child_says_clearly(&mut self, line: Checked<'_>, now: Moment) -> FromChild {
        if let Some((session_id, edits)) = self.child_says_the_usual(line, now) {
            self.go_on();
            return FromChild::To(session_id, edits);
        }
        match self.gate.read(line) {
            Ok(Message::One(envelope)) => self.child_message(line.text, &envelope, now),
            Ok(Message::Batch(envelopes)) => self.child_batch(&envelopes, now),
            Err(not) => self.log_line_of_child(&not, now),
        }
    }

    /// A line of the child that is no message.
    pub(super) fn log_line_of_child(&mut self, not: &NotAMessage, now: Moment) -> FromChild {
        match not {
            NotAMessage::Empty => return FromChild::Swallow,
            NotAMessage::NotUtf8 { id: Some(id), is_response: true } => {
                self.unusable(id, "it is not UTF-8, so it is not JSON", now);
            }
            _ => {}
        }
        FromChild::Log(not.to_string())
    }

    /// Nearly all that a child says is the result of a call that means nothing to us but whose it is.
    fn child_says_the_usual(&mut self, line: Checked<'_>, now: Moment) -> Option<(SessionId, Edits)> {
        let id = line.id_of_result()?;
        let ours = number(&line.text[id.clone()])?;
        if self.claim.by().is_some() {
            return None;
        }
        let call = self.calls.remove_if(ours, |call| {
            let is_plain = match call.note {
                Note::Nothing => !line.names_task(),
                Note::MayAskBack => !line.may_ask_back() && !line.names_task(),
                _ => false,
            };
            is_plain && call.batch.is_none() && call.waited_for_by().is_some()
        })?;
        let session_id = call.waited_for_by()?;
        self.calls.count_answer(&call, false, now);
        self.sessions.landed(session_id);
        self.has_answered = true;
        let mut edits = Edits::none();
        edits.replace(id, call.id);
        Some((session_id, edits))
    }

    /// A line of the child that was too long to be kept.
    pub fn child_said_too_much(&mut self, length: u64, limit: usize, seen: &LineSummary, now: Moment) {
        let Some(id) = &seen.id else { return };
        let why = too_long(length, limit);
        if seen.is_response {
            self.unusable(id, &why, now);
        } else {
            let message = format!("this request was not passed on to the client: {why}");
            self.effects.push(Effect::ToChild(error(id, INVALID, &message, None)));
        }
    }

    /// A session waits for an answer that cannot be passed on: answers it with an error. `why` is a clause about the answer.
    pub(super) fn unusable(&mut self, id: &Id, why: &str, now: Moment) {
        let Id::Int(ours) = *id else { return };
        let Some(call) = self.land(ours) else { return };
        self.calls.count_answer(&call, true, now);
        self.learn(ours, &call, Outcome::Error(b"{}"), now);
        if let Some(session_id) = call.session_id.filter(|session_id| self.sessions.get(*session_id).is_some()) {
            let message = self.label.answer_dropped(why);
            self.answer(session_id, call.batch, error_to(call.id.json(), INTERNAL, &message));
        }
        self.go_on();
    }

    fn child_message(&mut self, text: &[u8], envelope: &Envelope<'_>, now: Moment) -> FromChild {
        match &envelope.kind {
            Kind::Response { id: Some(id), outcome } => self.child_answers(text, id.raw(), &id.id(), *outcome, now),
            Kind::Response { id: None, .. } => FromChild::Log("an answer that does not say to what".to_owned()),
            Kind::Request { id, method, params } => self.child_asks(text, id, method, *params, now),
            Kind::Notification { method, params } => self.child_notifies(text, method, *params),
        }
    }

    /// Each message of a batch belongs to a session of its own.
    fn child_batch(&mut self, envelopes: &[Envelope<'_>], now: Moment) -> FromChild {
        let mut log = None;
        for envelope in envelopes {
            match self.child_message(envelope.text, envelope, now) {
                FromChild::To(session_id, edits) => {
                    self.effects.push(Effect::ToSession(session_id, edits.line(envelope.text)))
                }
                FromChild::ToSeveral(session_ids, edits) => {
                    let line = edits.line(envelope.text);
                    self.effects.extend(
                        session_ids.into_iter().map(|session_id| Effect::ToSession(session_id, line.clone())),
                    );
                }
                FromChild::Swallow => {}
                FromChild::Log(why) => log = Some(why),
            }
        }
        log.map_or(FromChild::Swallow, FromChild::Log)
    }

    /// A call has ended.
    pub(super) fn land(&mut self, ours: i64) -> Option<Call> {
        let call = self.calls.remove(ours)?;
        if let Some(session_id) = call.waited_for_by() {
            self.sessions.landed(session_id);
        } else if call.note.is_stream()
            && !call.given_up
            && let Some(session) = call.session_id.and_then(|session_id| self.sessions.get_mut(session_id))
        {
            session.streams -= 1;
        }
        Some(call)
    }

    fn child_answers(&mut self, text: &[u8], raw: &[u8], id: &Id, outcome: Outcome<'_>, now: Moment) -> FromChild {
        let call = match id {
            Id::Int(ours) => self.land(*ours).map(|call| (*ours, call)),
            Id::Number(_) | Id::Text(_) => None,
        };
        let Some((ours, call)) = call else {
            return FromChild::Log("an answer to nothing that is asked".to_owned());
        };
        self.calls.count_answer(&call, matches!(outcome, Outcome::Error(_)), now);
        self.has_answered = true;
        self.learn(ours, &call, outcome, now);
        let verdict = match call.session_id.filter(|session_id| self.sessions.get(*session_id).is_some()) {
            None => FromChild::Swallow,
            Some(session_id) => {
                if call.note == Note::ListTasks
                    && let Outcome::Result(result) = outcome
                    && let Some(own) = self.own_tasks(session_id, result)
                {
                    self.answer(session_id, call.batch, result_to(call.id.json(), &own));
                    self.go_on();
                    return FromChild::Swallow;
                }
                let mut edits = Edits::none();
                // What ends a stream names it once more.
                if call.note.is_stream()
                    && let Some(place) = find(text, &["result", "_meta", SUBSCRIPTION_KEY])
                    && number(&text[place.clone()]) == Some(ours)
                {
                    edits.replace(place, call.id.clone());
                }
                edits.replace(place_in(text, raw), call.id);
                match call.batch {
                    None => FromChild::To(session_id, edits),
                    Some(batch) => {
                        self.answer_in(batch, Some(&edits.line(text)));
                        FromChild::Swallow
                    }
                }
            }
        };
        self.go_on();
        verdict
    }

    /// What an answer means for other sessions, and for what comes after it.
    fn learn(&mut self, ours: i64, call: &Call, outcome: Outcome<'_>, now: Moment) {
        let claims = self.claim.by() == Some(ours);
        match (&call.note, outcome) {
            (Note::Nothing, Outcome::Result(result)) => self.learn_of_task(call.session_id, result),
            (Note::MayAskBack, Outcome::Result(result)) => {
                self.learn_of_task(call.session_id, result);
                self.learn_of_leg(call.session_id, result, now);
            }
            (Note::Initialize, Outcome::Result(result)) if claims => {
                self.hello = Some(result.into());
                self.claim.settle();
            }
            // The next one may try.
            (Note::Initialize, Outcome::Error(_)) if claims => {
                self.claim = Claim::Unclaimed;
                self.handshake.begun_by = None;
            }
            (Note::Discover, Outcome::Error(error))
                if self.claim.settled().is_none_or(|need| need.is_legacy()) && knows_no_discovery(error) =>
            {
                self.no_discovery = Some(error.into());
            }
            (Note::SetLevel { asked, told }, outcome) => {
                let agreed = matches!(outcome, Outcome::Result(_)).then_some(*told);
                self.level_was_answered(ours, call.session_id, *asked, agreed);
            }
            (Note::Subscribe(uri), outcome) => {
                self.subscription_was_answered(ours, call.session_id, uri, matches!(outcome, Outcome::Result(_)));
            }
            (Note::Unsubscribe(uri), outcome) => {
                self.unsubscription_was_answered(ours, call.session_id, uri, matches!(outcome, Outcome::Result(_)));
            }
            _ => {}
        }
        if call.modern {
            self.learn_of_era(ours, &call.note, matches!(outcome, Outcome::Error(_)));
        }
    }

    /// Any answer to a request of the newer era shows that the child speaks it, except an error that means that it does
    /// not know it.
    fn learn_of_era(&mut self, ours: i64, note: &Note, is_error: bool) {
        let is_refusal = is_error && (*note == Note::Discover || self.no_discovery.is_some());
        match &self.claim {
            Claim::Unclaimed if !is_error => self.claim = Claim::Settled(Need::Modern),
            Claim::Tentative { need: Need::Modern, .. } if !is_refusal => self.claim.settle(),
            Claim::Tentative { by, .. } if *by == ours => self.claim_has_failed(ours),
            Claim::Unclaimed | Claim::Tentative { .. } | Claim::Settled(_) => {}
        }
    }

    /// The call that was to claim the child has not. Another session may have asked in the same way, and be answered.
    pub(super) fn claim_has_failed(&mut self, by: i64) {
        let next = self.calls.first_modern(by);
        self.claim = next.map_or(Claim::Unclaimed, |by| Claim::Tentative { need: Need::Modern, by });
    }

    fn learn_of_leg(&mut self, session_id: Option<SessionId>, result: &[u8], now: Moment) {
        let asks_back = text_at(result, &["resultType"]).is_some_and(|kind| kind == "input_required");
        if let Some(session) =
            session_id.and_then(|session_id| self.sessions.get_mut(session_id)).filter(|_| asks_back)
        {
            if session.input_rounds.len() >= MAX_INPUT_ROUNDS {
                session.input_rounds.pop_front();
            }
            session.input_rounds.push_back(now + INPUT_ROUND_TIMEOUT);
        }
    }
}

/// Whether this may say that a call goes on as a task.
pub(super) fn mentions_task(text: &[u8]) -> bool {
    text.len() <= LONGEST_TASK && memmem::find(text, b"\"taskId\"").is_some()
}

/// Whether a child that answers this does not know the newer era at all.
fn knows_no_discovery(error: &[u8]) -> bool {
    let code = find(error, &["code"]).and_then(|at| Id::from_json(&error[at]));
    !error.trim_ascii().is_empty() && code.is_some_and(|code| code != Id::Int(UNSUPPORTED_VERSION))
}

/// A number as we write it.
pub(super) fn number(token: &[u8]) -> Option<i64> {
    if token.is_empty() || token.len() > 18 {
        return None;
    }
    token.iter().try_fold(0_i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}
