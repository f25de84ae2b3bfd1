//! A child that remembers what it was told, and notices what no child should be told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::host::{raw_member, tag};

/// A request that it has not answered.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) method: String,
    /// Whose it is; none if it is the router's own.
    pub(crate) of: Option<u64>,
    pub(crate) n: Option<u64>,
    pub(crate) has_token: bool,
    pub(crate) cancelled: bool,
    pub(crate) modern: bool,
    pub(crate) params: Value,
}

impl Pending {
    pub(crate) fn is_stream(&self) -> bool {
        self.method == "subscriptions/listen"
    }
}

#[derive(Debug, Default)]
pub(crate) struct Child {
    pub(crate) pending: BTreeMap<i64, Pending>,
    pub(crate) shook_hands: bool,
    was_initialized: bool,
    pub(crate) is_modern: bool,
    pub(crate) level: Option<usize>,
    pub(crate) holds: BTreeSet<String>,
    /// What it has asked, by the id as it is written, and the session that was asked last.
    pub(crate) questions: BTreeMap<String, u64>,
    /// Questions that it took back.
    pub(crate) withdrawn: BTreeSet<String>,
    pub(crate) asked: u64,
}

/// The reason with which the router cancels the calls of a session that has left.
const LEFT: &str = "the session has ended";

impl Child {
    /// It is told something. `is_here` says whether a session is attached; `in_turns`, that only one session may call.
    pub(crate) fn hears(&mut self, raw: &str, highest: &mut i64, is_here: &dyn Fn(u64) -> bool, in_turns: bool) {
        let line: Value = serde_json::from_str(raw).expect("lines are JSON");
        let params = line.get("params").cloned().unwrap_or(Value::Null);
        let Some(method) = line["method"].as_str() else { return self.hears_answer(raw, &line) };
        match line.get("id") {
            Some(id) => {
                let id = id.as_i64().expect("ids are numbers");
                assert!(id > *highest, "an id is used twice: {raw}");
                *highest = id;
                self.is_asked(id, method, params, is_here, in_turns, raw);
            }
            None => self.is_told(raw, method, &params, is_here),
        }
    }

    fn is_asked(
        &mut self,
        id: i64,
        method: &str,
        params: Value,
        is_here: &dyn Fn(u64) -> bool,
        in_turns: bool,
        raw: &str,
    ) {
        let of = tag(&params, "of");
        let modern = params["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
        let token = params["_meta"].get("progressToken");
        assert!(token.is_none_or(|token| *token == id), "a progress token is not the id: {raw}");
        assert!(of.is_none_or(is_here), "a call of a session that is not there: {raw}");
        match method {
            "initialize" => assert!(!self.shook_hands && !self.is_modern, "a handshake too much: {raw}"),
            _ if modern => assert!(!self.shook_hands, "two eras: {raw}"),
            _ => {}
        }
        let has_token = token.is_some();
        let call = Pending {
            method: method.to_owned(),
            of,
            n: tag(&params, "n"),
            has_token,
            cancelled: false,
            modern,
            params,
        };
        if in_turns && of.is_some() && !call.is_stream() {
            let others =
                self.pending.values().filter(|other| !other.is_stream() && !other.cancelled && other.of != of);
            let other = others.filter(|other| other.of.is_some_and(is_here)).count();
            assert_eq!(other, 0, "two at a time: {raw} and {:?}", self.pending);
        }
        self.pending.insert(id, call);
    }

    fn is_told(&mut self, raw: &str, method: &str, params: &Value, is_here: &dyn Fn(u64) -> bool) {
        match method {
            "notifications/initialized" => {
                assert!(!self.was_initialized, "the handshake is ended twice");
                self.was_initialized = true;
            }
            "notifications/cancelled" => {
                let id = params["requestId"].as_i64().expect("ids are numbers");
                let Some(call) = self.pending.get_mut(&id) else { return };
                if params["reason"] == LEFT {
                    assert!(!call.of.is_some_and(is_here), "{raw} cancels {call:?}");
                } else {
                    assert_eq!(
                        (call.of, call.n),
                        (tag(params, "of"), tag(params, "n")),
                        "{raw} cancels another call"
                    );
                }
                assert_ne!(call.method, "initialize");
                call.cancelled = true;
            }
            _ => {}
        }
    }

    fn hears_answer(&mut self, raw: &str, line: &Value) {
        let id = raw_member(raw, "id").expect("answers have ids");
        assert!(!self.withdrawn.contains(&id), "an answer to what was taken back: {raw}");
        let asked = self.questions.remove(&id).unwrap_or_else(|| panic!("an answer to nothing: {raw}"));
        if let Some(by) = line.get("result").and_then(|result| tag(result, "by")) {
            assert_eq!(by, asked, "an answer of a session that was not asked: {raw}");
        }
    }

    /// The calls that a session still waits for.
    pub(crate) fn alive(&self) -> Vec<i64> {
        self.pending.iter().filter(|(_, call)| !call.cancelled && !call.is_stream()).map(|(id, _)| *id).collect()
    }
}
