//! Impatient hosts, and the sessions that they start.

use std::time::{Duration, Instant};

use badchild::comes_true;
use serde_json::{Value, json};
use testkit::stage::{Caller, Stage};

use crate::evidence::record;
use crate::wreck::{patience, rows};

/// A session that the host has started, with its first message sent.
pub(crate) struct Session {
    pub(crate) caller: Caller,
    pub(crate) is_answered: bool,
}

impl Session {
    pub(crate) fn begin(mut caller: Caller) -> Self {
        // A contender that did not get the slot may have ended.
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

    /// Checks that the session is served from the whole database, and returns the pid of the server.
    pub(crate) fn who(&mut self) -> i64 {
        let who = self.caller.who();
        assert_eq!(who["memories"], rows());
        who["pid"].as_i64().expect("a number")
    }

    /// Checks that the front has ended without the slot, with this reason.
    pub(crate) fn expect_refusal(&mut self, why: &str) {
        assert_eq!(self.caller.code(), 75, "{}", self.caller.errors());
        let errors = self.caller.errors();
        assert!(errors.contains("slot db is taken by") && errors.contains(why), "{errors}");
    }
}

/// A host that starts another session each time its patience is over, until one session is answered, or until this much
/// time has passed and it has started a few. It does not end the sessions that it started before.
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

/// Checks that the host started at least three sessions while the first server recovered.
pub(crate) fn expect_impatience(sessions: &[Session]) {
    assert!(sessions.len() >= 3, "only {} sessions: the host had no reason to be impatient", sessions.len());
}

/// A host that closes the session's input when its patience is over, and also kills the front every other time.
pub(crate) fn ends_what_it_started(
    stage: &Stage,
    patience: Duration,
    mut start: impl FnMut() -> Caller,
) -> (usize, Session) {
    let (began, mut left) = (Instant::now(), Vec::new());
    loop {
        let mut session = Session::begin(start());
        // On a busy machine even a start without recovery may take long, so the host becomes more patient.
        let patience = patience * (1 + u32::try_from(left.len()).expect("few") / 8);
        if comes_true(patience, &mut || session.is_answered()) {
            return (left.len() + 1, session);
        }
        let is_too_long = began.elapsed() > self::patience();
        assert!(!is_too_long, "no server is ever ready: {:#?}\n{}", record(stage), stage.journal());
        session.caller.close();
        if left.len() % 2 == 0 {
            session.caller.process.kill().expect("kill");
        }
        left.push(session);
    }
}
