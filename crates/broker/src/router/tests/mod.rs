//! What is said to whom: single scenes, a file for each kind.

mod calls;
mod claims;
mod jsonrpc;
mod leaving;
mod odd_lines;
mod reverse;
mod shared;
mod streams;
mod turns;
mod voices;

use std::collections::BTreeMap;
use std::time::Duration;

use nostray_supervise::{Moment, Protocol};
use serde_json::{Value, json};

use super::*;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const C: SessionId = SessionId(3);

pub(super) fn routing() -> Routing {
    Routing { protocol: Protocol::Mcp, reverse: ReverseTo::Certain, route_by: Vec::new(), window: 1024 }
}

/// Ids that a test can foretell.
fn counted() -> WireIds {
    let mut last = 0;
    Box::new(move || {
        last += 1;
        last
    })
}

/// A router, a child that does what the test says, and sessions A and B.
struct Stage {
    router: Router,
    now: Moment,
    /// What the child was told and the test has not looked at yet.
    child: Vec<String>,
    /// The same of each session.
    heard: BTreeMap<SessionId, Vec<String>>,
    elsewhere: Vec<(SessionId, String, String)>,
    logged: Vec<String>,
}

impl Stage {
    fn new(routing: Routing) -> Self {
        let mut stage = Self {
            router: Router::new(routing, counted()),
            now: Moment::ZERO,
            child: Vec::new(),
            heard: BTreeMap::new(),
            elsewhere: Vec::new(),
            logged: Vec::new(),
        };
        stage.join(A);
        stage.join(B);
        stage
    }

    /// With a handshake of A that is complete, and one of B that was made here.
    fn shared() -> Self {
        let mut stage = Self::new(routing());
        stage.shake_hands(&[A, B]);
        stage
    }

    fn shake_hands(&mut self, session_ids: &[SessionId]) {
        for session_id in session_ids {
            self.says(*session_id, &initialize("hello", "2025-06-18", "{}"));
            if let [line] = &self.child()[..] {
                let id = line["id"].clone();
                self.child_answers(&id, json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
            }
            assert_eq!(self.hears(*session_id).len(), 1);
            self.says(*session_id, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
            self.child();
        }
    }

    fn join(&mut self, session_id: SessionId) {
        self.router.join(session_id);
        self.heard.insert(session_id, Vec::new());
    }

    fn leave(&mut self, session_id: SessionId) {
        self.router.leave(session_id, self.now);
        self.perform();
        self.heard.remove(&session_id);
    }

    fn says(&mut self, session_id: SessionId, text: &str) {
        match self.router.session_says(session_id, text.as_bytes(), self.now) {
            FromSession::ToChild(edits) => push(&mut self.child, edits.line(text.as_bytes())),
            FromSession::Swallow => {}
            FromSession::Elsewhere { variant, why } => self.elsewhere.push((session_id, variant, why)),
        }
        self.perform();
    }

    fn child_says(&mut self, text: &str) {
        match self.router.child_says(text.as_bytes(), self.now) {
            FromChild::To(session_id, edits) => self.deliver(session_id, edits.line(text.as_bytes())),
            FromChild::ToSeveral(session_ids, edits) => {
                assert!(session_ids.len() > 1);
                session_ids.into_iter().for_each(|session_id| self.deliver(session_id, edits.line(text.as_bytes())));
            }
            FromChild::Swallow => {}
            FromChild::Log(why) => self.logged.push(why),
        }
        self.perform();
    }

    fn child_answers(&mut self, id: &Value, result: Value) {
        self.child_says(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
    }

    fn child_refuses(&mut self, id: &Value, code: i64) {
        let error = json!({ "code": code, "message": "no" });
        self.child_says(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
    }

    fn deliver(&mut self, session_id: SessionId, line: Vec<u8>) {
        push(self.heard.get_mut(&session_id).expect("only who is there is spoken to"), line);
    }

    fn perform(&mut self) {
        while self.router.has_effects() {
            for effect in self.router.effects() {
                match effect {
                    Effect::ToChild(line) => push(&mut self.child, line),
                    Effect::ToSession(session_id, line) => self.deliver(session_id, line),
                    Effect::Elsewhere { session_id, variant, why, .. } => {
                        self.elsewhere.push((session_id, variant, why))
                    }
                }
            }
        }
    }

    /// What the child was told since the last look.
    fn child(&mut self) -> Vec<Value> {
        values(std::mem::take(&mut self.child))
    }

    /// What a session was told since the last look.
    fn hears(&mut self, session_id: SessionId) -> Vec<Value> {
        values(std::mem::take(self.heard.get_mut(&session_id).expect("it is there")))
    }

    /// The same as it came.
    fn hears_raw(&mut self, session_id: SessionId) -> Vec<String> {
        std::mem::take(self.heard.get_mut(&session_id).expect("it is there"))
    }

    /// Calls something and says how the child knows it.
    fn calls(&mut self, session_id: SessionId, id: &str, method: &str) -> Value {
        self.says(session_id, &call(id, method, "{}"));
        let told = self.child();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["method"], method);
        told[0]["id"].clone()
    }

    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

/// Takes a line that ends as lines do.
fn push(to: &mut Vec<String>, line: Vec<u8>) {
    let line = String::from_utf8(line).expect("lines are text");
    let text = line.strip_suffix('\n').expect("lines have an end");
    assert!(!text.contains('\n'), "{text}");
    to.push(text.to_owned());
}

fn values(lines: Vec<String>) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

fn call(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn notify(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

fn initialize(id: &str, version: &str, capabilities: &str) -> String {
    let params = format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities}}}"#);
    call(&format!("\"{id}\""), "initialize", &params)
}

/// A request of the newer era.
fn modern(id: &str, method: &str, rest: &str) -> String {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    call(id, method, &format!("{{{meta}{rest}}}"))
}
