//! What may pass between a session and the child: only lines that every reader understands as this router does.
//!
//! A session's host may be led by hostile text, and a child repeats what sessions have said. If a line could be read in two ways, one
//! session could speak with another's voice: by a second id behind the renamed id, or by a character at which the
//! child's reader ends the line and ours does not. Such a line is written anew, or refused before anything of it is
//! acted on.

use nostray_rpc::{Agreed, Agreement, Disagreement, Envelope, Kind, Message, Refusal, error, read};
use nostray_supervise::{Moment, Protocol};

use super::notifications::SUBSCRIPTION_KEY;
use super::sessions::SessionId;
use super::{Effect, FromChild, FromSession, Router};

/// What a message is.
const MESSAGE: [&[&str]; 6] = [&["jsonrpc"], &["id"], &["method"], &["params"], &["result"], &["error"]];

/// Both ways to cancel a call. A server may know either, with any `--protocol`.
const CANCEL: [&[&str]; 2] = [&["params", "requestId"], &["params", "id"]];

/// What the router reads of MCP, in either direction.
const MCP: [&[&str]; 23] = [
    &["params", "_meta", "progressToken"],
    &["params", "_meta", "io.modelcontextprotocol/protocolVersion"],
    &["params", "_meta", "io.modelcontextprotocol/logLevel"],
    &["params", "_meta", RELATED_TASK, "taskId"],
    &["params", "_meta", SUBSCRIPTION_KEY],
    &["params", "progressToken"],
    &["params", "level"],
    &["params", "uri"],
    &["params", "taskId"],
    &["params", "elicitationId"],
    &["params", "requestState"],
    &["params", "inputResponses"],
    &["params", "protocolVersion"],
    &["params", "capabilities"],
    &["params", "clientInfo"],
    &["result", "_meta", SUBSCRIPTION_KEY],
    &["result", "_meta", RELATED_TASK, "taskId"],
    &["result", "task", "taskId"],
    &["result", "taskId"],
    &["result", "tasks"],
    &["result", "nextCursor"],
    &["result", "resultType"],
    &["error", "code"],
];

/// By which a message says that it belongs to a task.
pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// What has to be the same for every reader, in each direction.
#[derive(Debug)]
pub(super) struct Gate {
    session: Agreement,
    child: Agreement,
}

impl Gate {
    pub(super) fn new(protocol: Protocol, route_by: &[Vec<String>]) -> Self {
        let routes: Vec<Vec<&str>> = route_by.iter().map(|path| path.iter().map(String::as_str).collect()).collect();
        let of_protocol: &[&[&str]] = match protocol {
            Protocol::Mcp => &MCP,
            Protocol::JsonRpc => &[],
        };
        let paths = MESSAGE.iter().chain(&CANCEL).chain(of_protocol).copied();
        let session = Agreement::new(paths.chain(routes.iter().map(Vec::as_slice)));
        // No reader takes NaN for something else, and a Python server that writes it has clients that read it.
        let child = session.clone().with_nan();
        Self { session, child }
    }
}

impl Router {
    /// Takes in a line of a session, without its ending.
    pub fn session_says(&mut self, session_id: SessionId, text: &[u8], now: Moment) -> FromSession {
        if !self.sessions.get(session_id).is_some_and(|session| session.heard) {
            return FromSession::Swallow;
        }
        self.takes_in(now);
        match self.gate.session.check(text) {
            Ok(Agreed::AsItCame) => self.session_says_clearly(session_id, text, now),
            Ok(Agreed::Rewritten(text)) => match self.session_says_clearly(session_id, &text, now) {
                FromSession::ToChild(edits) => {
                    self.effects.push(Effect::ToChild(edits.line(&text)));
                    FromSession::Swallow
                }
                verdict => verdict,
            },
            Err(why) => {
                self.refuse_line(session_id, text, &why);
                FromSession::Swallow
            }
        }
    }

    /// Takes in a line of the child, without its ending.
    pub fn child_says(&mut self, text: &[u8], now: Moment) -> FromChild {
        self.takes_in(now);
        match self.gate.child.check(text) {
            Ok(Agreed::AsItCame) => self.child_says_clearly(text, now),
            Ok(Agreed::Rewritten(text)) => {
                let (session_ids, edits) = match self.child_says_clearly(&text, now) {
                    FromChild::To(session_id, edits) => (vec![session_id], edits),
                    FromChild::ToSeveral(session_ids, edits) => (session_ids, edits),
                    verdict => return verdict,
                };
                let line = edits.line(&text);
                self.effects
                    .extend(session_ids.into_iter().map(|session_id| Effect::ToSession(session_id, line.clone())));
                FromChild::Swallow
            }
            Err(why) => self.refuse_line_of_child(text, &why, now),
        }
    }

    /// A message passes.
    fn takes_in(&mut self, now: Moment) {
        self.now = now;
        if let Some(traffic) = &self.calls.traffic {
            traffic.message();
        }
    }

    fn refuse_line(&mut self, session_id: SessionId, text: &[u8], why: &Disagreement) {
        match why.refuse(text) {
            Refusal::Answer(line) => self.effects.push(Effect::ToSession(session_id, line)),
            Refusal::LostAnswer(id) => {
                self.answer_is_lost(session_id, &id, &format!("the client's answer was not passed on: {why}"));
            }
            Refusal::NoMessage(not) => self.refuse(session_id, &not),
        }
    }

    fn refuse_line_of_child(&mut self, text: &[u8], why: &Disagreement, now: Moment) -> FromChild {
        let envelopes = match read(text) {
            Err(not) => return self.log_line_of_child(&not, now),
            Ok(Message::One(envelope)) => vec![envelope],
            Ok(Message::Batch(envelopes)) => envelopes,
        };
        for Envelope { kind, .. } in &envelopes {
            match kind {
                Kind::Response { id: Some(id), .. } => {
                    self.unusable(&id.id(), &why.to_string(), now);
                }
                Kind::Request { id, .. } => {
                    let message = format!("this request was not passed on: {why}");
                    self.effects.push(Effect::ToChild(error(&id.id(), why.code(), &message, None)));
                }
                Kind::Response { id: None, .. } | Kind::Notification { .. } => {}
            }
        }
        FromChild::Log(why.to_string())
    }
}
