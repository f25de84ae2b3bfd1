//! Hosts without patience, and what they start.

use std::time::{Duration, Instant};

use badchild::comes_true;
use serde_json::{Value, json};
use testkit::stage::{Caller, Stage};

use crate::evidence::record;
use crate::wreck::{patience, rows};

/// One that the host has started, and has asked for what it wants to know first.
pub(crate) struct Session {
    pub(crate) caller: Caller,
    pub(crate) is_answered: bool,
}

impl Session {
    pub(crate) fn begin(mut caller: Caller) -> Self {
        // One that did not get the slot may have ended.
        caller.try_send(&json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {} }));
        Self { caller, is_answered: false }
    }

    pub(crate) fn is_answered(&mut self) -> bool {
        while !self.is_answered
            && let Some(line) = self.caller.line_within(Duration::ZERO)
        {
            let message: Value = serde_json::from_slice(&line).unwrap_or_default();
            assert!(message["error"].is_null(), "{message}");
            self.is_answered = message["id"] == "hello";
        }
        self.is_answered
    }

    pub(crate) fn expect_answer(&mut self) {
        let came = comes_true(patience(), &mut || self.is_answered());
        assert!(came, "no answer: {}", self.caller.errors());
    }

    /// Sees that it is served, by whom, and from the whole database.
    pub(crate) fn who(&mut self) -> i64 {
        let who = self.caller.who();
        assert_eq!(who["memories"], rows());
        who["pid"].as_i64().expect("a number")
    }

    /// Sees that it has ended without the slot, and why.
    pub(crate) fn expect_refusal(&mut self, why: &str) {
        assert_eq!(self.caller.code(), 75, "{}", self.caller.errors());
        let errors = self.caller.errors();
        assert!(errors.contains("slot db is taken by") && errors.contains(why), "{errors}");
    }
}

/// A host that starts another one each time its patience is over, until one has answered; or so much time has passed, and it has
/// started a few. What it has started before is left as it is, and only ends if somebody ends it.
pub(crate) fn impatient_host(
    patience: Duration,
    within: Duration,
    mut start: impl FnMut() -> Caller,
) -> Vec<Session> {
    let (mut sessions, began) = (Vec::new(), Instant::now());
    while began.elapsed() < within || sessions.len() < A_FEW {
        sessions.push(Session::begin(start()));
        if comes_true(patience, &mut || sessions.iter_mut().any(Session::is_answered)) {
            break;
        }
    }
    sessions
}

pub(crate) const A_FEW: usize = 6;

/// Three were started in vain at least, while the first one was at it.
pub(crate) fn expect_impatience(sessions: &[Session]) {
    assert!(sessions.len() >= 3, "only {} sessions: the host had no reason to be impatient", sessions.len());
}

/// A host that hangs up when it has no patience left, and kills every other time, as hosts do: the end of its input comes first.
pub(crate) fn ends_what_it_started(
    stage: &Stage,
    patience: Duration,
    mut start: impl FnMut() -> Caller,
) -> (usize, Session) {
    let (began, mut left) = (Instant::now(), Vec::new());
    loop {
        let mut session = Session::begin(start());
        // On a machine that is busy with other tests, even a start without work may take long; then it becomes more patient.
        let patience = patience * (1 + u32::try_from(left.len()).expect("few") / 8);
        if comes_true(patience, &mut || session.is_answered()) {
            return (left.len() + 1, session);
        }
        let is_too_long = began.elapsed() > self::patience();
        assert!(!is_too_long, "nobody is ever ready: {:#?}\n{}", record(stage), stage.journal());
        session.caller.close();
        if left.len() % 2 == 0 {
            session.caller.process.kill().expect("kill");
        }
        left.push(session);
    }
}
