//! What may pass between a session and the child: only lines that every reader understands as this router does.
//!
//! A session's host may be led by hostile text, and a child repeats what sessions have said. If a line could be read in two ways, one
//! session could speak with another's voice: by a second id behind the renamed id, or by a character at which the
//! child's reader ends the line and ours does not. Such a line is written anew, or refused before anything of it is
//! acted on.

use std::ops::Range;

use nostray_rpc::{
    Agreed, Agreement, Disagreement, Envelope, Kind, Member, Message, NotAMessage, Places, Refusal, error, read,
};
use nostray_supervise::{Moment, Protocol};

use super::admission::Ask;
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
    members: Members,
    /// Taken out while a line is acted on.
    places: Places,
}

/// What is looked for in nearly every line. None of them, if the protocol does not have it.
#[derive(Debug, Clone, Copy)]
struct Members {
    jsonrpc: Option<Member>,
    id: Option<Member>,
    method: Option<Member>,
    params: Option<Member>,
    result: Option<Member>,
    error: Option<Member>,
    progress: Option<Member>,
    version: Option<Member>,
    log_level: Option<Member>,
    task: [Option<Member>; 2],
    result_type: Option<Member>,
}

/// A line that has passed the gate, and where its deciding members are.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a> {
    pub(super) text: &'a [u8],
    places: &'a Places,
    members: Members,
}

impl<'a> Checked<'a> {
    fn place(self, member: Option<Member>) -> Option<Range<usize>> {
        self.places.of(member?)
    }

    /// Where the progress token of a request is.
    pub(super) fn progress(self) -> Option<Range<usize>> {
        self.place(self.members.progress)
    }

    /// Whether it says for itself which version it is of, as requests of the newer era do.
    pub(super) fn is_modern(self) -> bool {
        self.place(self.members.version).is_some()
    }

    /// How much of the log a request of the newer era wants.
    pub(super) fn log_level(self) -> Option<&'a [u8]> {
        self.place(self.members.log_level).map(|place| &self.text[place])
    }

    fn is_of_this_version(self) -> bool {
        self.place(self.members.jsonrpc).is_some_and(|version| &self.text[version] == b"\"2.0\"")
    }

    /// The call that it is, if id and method are written as clients write them. [`Gate::read`] reads all others.
    pub(super) fn call(self) -> Option<Ask<'a>> {
        let Members { id, method, params, .. } = self.members;
        let (id, method) = self.place(id).zip(self.place(method)).filter(|_| self.is_of_this_version())?;
        let is_plain_id = match self.text[id.clone()] {
            [b'"', ref inside @ .., b'"'] => !inside.contains(&b'\\'),
            ref digits => digits.iter().all(u8::is_ascii_digit),
        };
        let [b'"', ref inside @ .., b'"'] = self.text[method] else { return None };
        let method = match inside {
            // Nearly all calls. It need not be looked at a byte at a time.
            b"tools/call" => "tools/call",
            _ => std::str::from_utf8(inside).ok().filter(|_| !inside.contains(&b'\\'))?,
        };
        if !is_plain_id {
            return None;
        }
        let line = Some(self);
        Some(Ask { text: self.text, id, method, params: self.place(params), batch: None, line })
    }

    /// Where the id is, if it is an answer with a result.
    pub(super) fn id_of_result(self) -> Option<Range<usize>> {
        let Members { id, method, result, error, .. } = self.members;
        let is_result = self.is_of_this_version()
            && self.place(result).is_some()
            && self.place(method).is_none()
            && self.place(error).is_none();
        self.place(id).filter(|_| is_result)
    }

    /// Whether it may say that a call goes on as a task.
    pub(super) fn names_task(self) -> bool {
        self.members.task.iter().any(|task| self.place(*task).is_some())
    }

    /// Whether the result of a call may be a question.
    pub(super) fn may_ask_back(self) -> bool {
        self.place(self.members.result_type).is_some_and(|kind| &self.text[kind] != b"\"complete\"")
    }
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
        let member = |path: &[&str]| session.member(path);
        let members = Members {
            jsonrpc: member(&["jsonrpc"]),
            id: member(&["id"]),
            method: member(&["method"]),
            params: member(&["params"]),
            result: member(&["result"]),
            error: member(&["error"]),
            progress: member(&["params", "_meta", "progressToken"]),
            version: member(&["params", "_meta", "io.modelcontextprotocol/protocolVersion"]),
            log_level: member(&["params", "_meta", "io.modelcontextprotocol/logLevel"]),
            task: [member(&["result", "task", "taskId"]), member(&["result", "taskId"])],
            result_type: member(&["result", "resultType"]),
        };
        Self { session, child, members, places: Places::default() }
    }

    /// What a line says that was checked.
    pub(super) fn read<'a>(&self, line: Checked<'a>) -> Result<Message<'a>, NotAMessage> {
        match self.session.envelope(line.text, line.places) {
            Some(envelope) => envelope.map(Message::One),
            None => read(line.text),
        }
    }
}

impl Router {
    /// Takes in a line of a session, without its ending.
    pub fn session_says(&mut self, session_id: SessionId, text: &[u8], now: Moment) -> FromSession {
        if !self.sessions.get(session_id).is_some_and(|session| session.heard) {
            return FromSession::Swallow;
        }
        self.takes_in(now);
        let mut places = std::mem::take(&mut self.gate.places);
        let verdict = match self.gate.session.check_and_note(text, &mut places) {
            Ok(Agreed::AsItCame) => self.session_says_clearly(
                session_id,
                Checked { text, places: &places, members: self.gate.members },
                now,
            ),
            Ok(Agreed::Rewritten(text)) => {
                let text = self.checked_anew(&text, &mut places);
                match self.session_says_clearly(session_id, text, now) {
                    FromSession::ToChild(edits) => {
                        self.effects.push(Effect::ToChild(edits.line(text.text)));
                        FromSession::Swallow
                    }
                    verdict => verdict,
                }
            }
            Err(why) => {
                self.refuse_line(session_id, text, &why);
                FromSession::Swallow
            }
        };
        self.gate.places = places;
        verdict
    }

    /// A line that was written anew: what decides is at other places.
    fn checked_anew<'a>(&mut self, text: &'a [u8], places: &'a mut Places) -> Checked<'a> {
        let agreed = self.gate.child.check_and_note(text, places);
        debug_assert_eq!(agreed, Ok(Agreed::AsItCame), "what was written anew is agreed on");
        Checked { text, places, members: self.gate.members }
    }

    /// Takes in a line of the child, without its ending.
    pub fn child_says(&mut self, text: &[u8], now: Moment) -> FromChild {
        self.takes_in(now);
        let mut places = std::mem::take(&mut self.gate.places);
        let verdict = match self.gate.child.check_and_note(text, &mut places) {
            Ok(Agreed::AsItCame) => {
                self.child_says_clearly(Checked { text, places: &places, members: self.gate.members }, now)
            }
            Ok(Agreed::Rewritten(text)) => {
                let text = self.checked_anew(&text, &mut places);
                let to = match self.child_says_clearly(text, now) {
                    FromChild::To(session_id, edits) => Ok((vec![session_id], edits)),
                    FromChild::ToSeveral(session_ids, edits) => Ok((session_ids, edits)),
                    verdict => Err(verdict),
                };
                to.map_or_else(
                    |verdict| verdict,
                    |(session_ids, edits)| {
                        let line = edits.line(text.text);
                        let each = session_ids.into_iter();
                        self.effects.extend(each.map(|session_id| Effect::ToSession(session_id, line.clone())));
                        FromChild::Swallow
                    },
                )
            }
            Err(why) => self.refuse_line_of_child(text, &why, now),
        };
        self.gate.places = places;
        verdict
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
