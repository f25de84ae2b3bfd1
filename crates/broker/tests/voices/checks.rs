//! One hostile session or a child that repeats hostile text, one honest session, and every kind of reader at the other end. What must
//! hold: nothing that is the honest one's is named by what the hostile one has said, and nothing of the honest one's is lost.
//!
//! The ids on the wire are counted here, as they are not in earnest, so that the hostile session can name those of the honest one.

use nostray_broker::{Effect, FromChild, FromSession, ReverseTo, Router, Routing, SessionId};
use nostray_rpc::{Found, Lines};
use nostray_supervise::{Moment, Protocol};

use crate::readers::{Json, READERS, Reader, json, lines};

const HOSTILE: SessionId = SessionId(1);
const HONEST: SessionId = SessionId(2);
/// What the honest one has.
const CALL: &str = "3";
const TOKEN: &str = "honest token";
const QUESTION: &str = "question";
const QUESTION_TOKEN: &str = "question token";
const URI: &str = "honest://uri";
const TASK: &str = "honest-task";

/// Plays an input: its first byte says what is played, and the rest is said.
pub(crate) fn voices(input: &[u8]) {
    let Some((first, said)) = input.split_first() else { return };
    let protocol = if first & 1 == 0 { Protocol::Mcp } else { Protocol::JsonRpc };
    let mut stage = Stage::new(protocol);
    let mut cut = Lines::new(1 << 20);
    for piece in [said, b"\n"] {
        let mut rest = piece;
        while !rest.is_empty() {
            let space = cut.space();
            let count = rest.len().min(space.len());
            space[..count].copy_from_slice(&rest[..count]);
            cut.filled(count);
            rest = &rest[count..];
            while let Some(found) = cut.next_found() {
                if let Found::Whole(span) = found {
                    let text = cut.bytes(span.text).to_vec();
                    if first & 2 == 0 { stage.hostile_says(&text) } else { stage.child_repeats(&text) }
                }
            }
        }
    }
    if first & 2 == 0 {
        stage.honest_one_is_served();
    }
}

struct Stage {
    router: Router,
    protocol: Protocol,
    /// What each was told and has not been looked at.
    child: Vec<String>,
    hostile: Vec<String>,
    honest: Vec<String>,
}

impl Stage {
    fn new(protocol: Protocol) -> Self {
        let mut last = 0;
        let counted = move || {
            last += 1;
            last
        };
        let routing = Routing { protocol, reverse: ReverseTo::Certain, route_by: Vec::new(), window: 64 };
        let router = Router::new(routing, Box::new(counted));
        let mut stage = Self { router, protocol, child: Vec::new(), hostile: Vec::new(), honest: Vec::new() };
        stage.router.join(HOSTILE);
        stage.router.join(HONEST);
        stage.begin();
        stage
    }

    /// Both have shaken hands; the honest one has a subscription, a level, a task, a call in flight, and was asked something.
    fn begin(&mut self) {
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
        let call = |method: &str, params: String| {
            format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{method}","params":{params}}}"#)
        };
        match self.protocol {
            Protocol::Mcp => {
                self.says(HONEST, hello.as_bytes());
                self.child_says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
                self.says(HOSTILE, hello.as_bytes());
                self.says(HONEST, call("tools/call", "{}".to_owned()).as_bytes());
                self.child_says(&format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"task":{{"taskId":"{TASK}"}}}}}}"#));
            }
            Protocol::JsonRpc => {
                for id in [1, 2] {
                    self.says(HONEST, call("x", "{}".to_owned()).as_bytes());
                    self.child_says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
                }
            }
        }
        self.says(HONEST, call("tools/call", format!(r#"{{"_meta":{{"progressToken":"{TOKEN}"}}}}"#)).as_bytes());
        let question = format!(
            r#"{{"jsonrpc":"2.0","id":"{QUESTION}","method":"sampling/createMessage","params":{{"_meta":{{"progressToken":"{QUESTION_TOKEN}"}}}}}}"#
        );
        self.child_says(&question);
        if self.protocol == Protocol::Mcp {
            self.says(HONEST, call("resources/subscribe", format!(r#"{{"uri":"{URI}"}}"#)).as_bytes());
            self.child_says(r#"{"jsonrpc":"2.0","id":4,"result":{}}"#);
            self.says(HONEST, call("logging/setLevel", r#"{"level":"debug"}"#.to_owned()).as_bytes());
            self.child_says(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
        }
        assert!(self.honest.iter().any(|line| line.contains("sampling")), "{:?}", self.honest);
        self.child.clear();
        self.honest.clear();
        self.hostile.clear();
    }

    fn says(&mut self, session_id: SessionId, text: &[u8]) {
        match self.router.session_says(session_id, text, Moment::ZERO) {
            FromSession::ToChild(edits) => self.tell_child(edits.line(text)),
            FromSession::Swallow | FromSession::Elsewhere { .. } => {}
        }
        self.perform();
    }

    fn child_says(&mut self, text: &str) {
        self.child_prints(text.as_bytes());
    }

    fn child_prints(&mut self, text: &[u8]) {
        match self.router.child_says(text, Moment::ZERO) {
            FromChild::To(session_id, edits) => self.tell_session(session_id, edits.line(text)),
            FromChild::ToSeveral(session_ids, edits) => {
                session_ids.into_iter().for_each(|session_id| self.tell_session(session_id, edits.line(text)));
            }
            FromChild::Swallow | FromChild::Log(_) => {}
        }
        self.perform();
    }

    fn perform(&mut self) {
        while self.router.has_effects() {
            for effect in self.router.effects() {
                match effect {
                    Effect::ToChild(line) => self.tell_child(line),
                    Effect::ToSession(session_id, line) => self.tell_session(session_id, line),
                    Effect::Elsewhere { .. } => {}
                }
            }
        }
    }

    fn tell_child(&mut self, line: Vec<u8>) {
        self.child.push(one_line(line));
    }

    fn tell_session(&mut self, session_id: SessionId, line: Vec<u8>) {
        let heard = if session_id == HONEST { &mut self.honest } else { &mut self.hostile };
        heard.push(one_line(line));
    }

    fn hostile_says(&mut self, text: &[u8]) {
        self.says(HOSTILE, text);
        for line in std::mem::take(&mut self.child) {
            let message = json(&line).unwrap_or_else(|| panic!("the child reads what is no JSON: {line}"));
            for reader in READERS {
                names_no_call(reader, &message, &line, self.protocol);
                if self.protocol == Protocol::Mcp {
                    names_nothing_of_mcp(reader, &message, &line);
                }
            }
        }
        assert!(self.honest.is_empty(), "the honest one hears {:?}", self.honest);
        self.hostile.clear();
    }

    /// For any text that the child prints, each session's readers agree on it, and an answer belongs to a request of
    /// that session.
    fn child_repeats(&mut self, text: &[u8]) {
        self.child_prints(text);
        for (lines, own) in [(std::mem::take(&mut self.honest), &["5"][..]), (std::mem::take(&mut self.hostile), &[])]
        {
            for line in lines {
                let message = json(&line).unwrap_or_else(|| panic!("a session reads what is no JSON: {line}"));
                let seen: Vec<_> = READERS
                    .iter()
                    .map(|reader| (message.get(*reader, "id"), message.get(*reader, "method")))
                    .collect();
                assert!(seen.iter().all(|other| *other == seen[0]), "readers disagree on {line}");
                if let (Some(id), None) = seen[0] {
                    assert!(own.iter().any(|own| id.is(own)), "an answer to what was never asked: {line}");
                }
            }
        }
        self.child.clear();
    }

    /// Its call is answered, with its own id and its own token, once; and what was asked of it, it may answer.
    fn honest_one_is_served(&mut self) {
        if self.protocol == Protocol::Mcp {
            self.child_says(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{CALL},"progress":1}}}}"#
            ));
            self.child_says(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{URI}"}}}}"#
            ));
            assert_eq!(self.honest.len(), 2, "{:?}", self.honest);
            assert!(self.honest[0].contains(TOKEN) && self.honest[1].contains(URI), "{:?}", self.honest);
            self.honest.clear();
        }
        self.child_says(&format!(r#"{{"jsonrpc":"2.0","id":{CALL},"result":"for the honest one"}}"#));
        assert_eq!(self.honest, [r#"{"jsonrpc":"2.0","id":5,"result":"for the honest one"}"#]);
        self.child.clear();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":"{QUESTION}","result":"from the honest one"}}"#);
        self.says(HONEST, answer.as_bytes());
        assert_eq!(self.child, [answer]);
    }
}

/// Takes a line that is one for every reader.
fn one_line(line: Vec<u8>) -> String {
    let line = String::from_utf8(line).expect("lines are text");
    let text = line.strip_suffix('\n').expect("lines have an end");
    assert_eq!(lines(text).len(), 1, "some readers take this for several lines: {text:?}");
    text.to_owned()
}

#[track_caller]
fn does_not_name(reader: Reader, message: &Json, path: &[&str], what: &str, line: &str) {
    let found = message.at(reader, path).is_some_and(|found| found.is(what));
    assert!(!found, "{reader:?} reads {what} at {path:?}: {line}");
}

/// What the child reads is no call, no answer and no cancel of the honest one's.
fn names_no_call(reader: Reader, message: &Json, line: &str, protocol: Protocol) {
    // The hostile one was asked nothing.
    let method = message.get(reader, "method").unwrap_or_else(|| panic!("{reader:?} reads an answer: {line}"));
    let ids = if protocol == Protocol::Mcp {
        &["1", "2", CALL, QUESTION, "4", "5"][..]
    } else {
        &["1", "2", CALL, QUESTION]
    };
    for id in ids {
        does_not_name(reader, message, &["id"], id, line);
        if let Some("notifications/cancelled" | "$/cancelRequest") = method.text() {
            does_not_name(reader, message, &["params", "requestId"], id, line);
            does_not_name(reader, message, &["params", "id"], id, line);
        }
    }
}

/// What the child reads is no token, subscription, level or task of the honest one's.
fn names_nothing_of_mcp(reader: Reader, message: &Json, line: &str) {
    let not = |path: &[&str], what: &str| does_not_name(reader, message, path, what, line);
    for token in ["1", "2", CALL, "4", "5", QUESTION_TOKEN] {
        not(&["params", "_meta", "progressToken"], token);
    }
    not(&["params", "_meta", "io.modelcontextprotocol/related-task", "taskId"], TASK);
    match message.get(reader, "method").and_then(Json::text) {
        Some("notifications/progress") => {
            [QUESTION_TOKEN, CALL].iter().for_each(|token| not(&["params", "progressToken"], token))
        }
        Some("resources/unsubscribe") => not(&["params", "uri"], URI),
        Some("logging/setLevel") => {
            for level in ["info", "notice", "warning", "error", "critical", "alert", "emergency"] {
                not(&["params", "level"], level);
            }
        }
        Some(method) if method.starts_with("tasks/") => not(&["params", "taskId"], TASK),
        _ => {}
    }
}
