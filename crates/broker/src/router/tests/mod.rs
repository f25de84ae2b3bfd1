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

const A: Seat = Seat(1);
const B: Seat = Seat(2);
const C: Seat = Seat(3);

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
    heard: BTreeMap<Seat, Vec<String>>,
    elsewhere: Vec<(Seat, String, String)>,
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

    fn shake_hands(&mut self, seats: &[Seat]) {
        for seat in seats {
            self.says(*seat, &initialize("hello", "2025-06-18", "{}"));
            if let [line] = &self.child()[..] {
                let id = line["id"].clone();
                self.child_answers(&id, json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
            }
            assert_eq!(self.hears(*seat).len(), 1);
            self.says(*seat, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
            self.child();
        }
    }

    fn join(&mut self, seat: Seat) {
        self.router.join(seat);
        self.heard.insert(seat, Vec::new());
    }

    fn leave(&mut self, seat: Seat) {
        self.router.leave(seat, self.now);
        self.perform();
        self.heard.remove(&seat);
    }

    fn says(&mut self, seat: Seat, text: &str) {
        match self.router.session_says(seat, text.as_bytes(), self.now) {
            FromSession::ToChild(edits) => push(&mut self.child, edits.line(text.as_bytes())),
            FromSession::Swallow => {}
            FromSession::Elsewhere { variant, why } => self.elsewhere.push((seat, variant, why)),
        }
        self.perform();
    }

    fn child_says(&mut self, text: &str) {
        match self.router.child_says(text.as_bytes(), self.now) {
            FromChild::To(seat, edits) => self.deliver(seat, edits.line(text.as_bytes())),
            FromChild::ToSeveral(seats, edits) => {
                assert!(seats.len() > 1);
                seats.into_iter().for_each(|seat| self.deliver(seat, edits.line(text.as_bytes())));
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

    fn deliver(&mut self, seat: Seat, line: Vec<u8>) {
        push(self.heard.get_mut(&seat).expect("only who is there is spoken to"), line);
    }

    fn perform(&mut self) {
        while self.router.has_effects() {
            for effect in self.router.effects() {
                match effect {
                    Effect::ToChild(line) => push(&mut self.child, line),
                    Effect::ToSession(seat, line) => self.deliver(seat, line),
                    Effect::Elsewhere { seat, variant, why, .. } => self.elsewhere.push((seat, variant, why)),
                }
            }
        }
    }

    /// What the child was told since the last look.
    fn child(&mut self) -> Vec<Value> {
        values(std::mem::take(&mut self.child))
    }

    /// What a session was told since the last look.
    fn hears(&mut self, seat: Seat) -> Vec<Value> {
        values(std::mem::take(self.heard.get_mut(&seat).expect("it is there")))
    }

    /// The same as it came.
    fn hears_raw(&mut self, seat: Seat) -> Vec<String> {
        std::mem::take(self.heard.get_mut(&seat).expect("it is there"))
    }

    /// Calls something and says how the child knows it.
    fn calls(&mut self, seat: Seat, id: &str, method: &str) -> Value {
        self.says(seat, &call(id, method, "{}"));
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
