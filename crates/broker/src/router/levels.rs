//! The older era's log level: a child has one, and each session has its own. The child is told the most verbose level that a session
//! asked for, and a session gets no message below its own level.

use nostray_rpc::Id;

use super::calls::{Call, Note};
use super::edits::Token;
use super::sessions::SessionId;
use super::{Effect, Router};

/// How important a message must be. The most verbose level is the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const NAMES: [(&str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
        ("alert", Self::Alert),
        ("emergency", Self::Emergency),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
    }

    fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// As it stands in a message.
    pub(super) fn token(self) -> Token {
        Token::new(format!("\"{}\"", self.name()).as_bytes())
    }
}

/// The child's.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// What it was told last, if it has agreed.
    told: Option<Level>,
    /// It is being told, under this id. Until it has answered, other requests wait: what they need depends on the answer.
    changing: Option<i64>,
}

/// What to do with a session's request for a level.
pub(super) enum LevelDecision {
    /// The child uses that level already.
    Granted,
    /// The child has to be told this level.
    Tell(Level),
    /// A change is under way: the request waits.
    Wait,
}

impl Router {
    /// Decides what to do with a session's request for a level.
    pub(super) fn decide_level(&self, session_id: SessionId, asked: Level) -> LevelDecision {
        if self.levels.changing.is_some() {
            return LevelDecision::Wait;
        }
        let others = self
            .sessions
            .iter()
            .filter(|session| session.session_id != session_id)
            .filter_map(|session| session.level);
        match others.chain([asked]).min() {
            wanted if wanted == self.levels.told => LevelDecision::Granted,
            wanted => LevelDecision::Tell(wanted.unwrap_or(asked)),
        }
    }

    pub(super) fn level_is_told(&mut self, id: i64) {
        self.levels.changing = Some(id);
    }

    /// The child has agreed, or it has not.
    pub(super) fn level_was_answered(
        &mut self,
        id: i64,
        session_id: Option<SessionId>,
        asked: Option<Level>,
        agreed: Option<Level>,
    ) {
        if self.levels.changing != Some(id) {
            return; // it was given up before
        }
        self.levels.changing = None;
        if agreed.is_some() {
            self.levels.told = agreed;
            if let Some(session) = session_id.and_then(|session_id| self.sessions.get_mut(session_id)) {
                session.level = asked.or(session.level);
            }
        }
        // Once only: a child that refuses is not asked again and again.
        if agreed.is_some() {
            self.tell_level_if_needed();
        }
    }

    /// What has come of it will not be known.
    pub(super) fn level_is_uncertain(&mut self, id: i64) {
        if self.levels.changing == Some(id) {
            self.levels.changing = None;
            self.levels.told = None;
        }
    }

    /// A session has left, and perhaps none needs so much any more.
    pub(super) fn tell_level_if_needed(&mut self) {
        let wanted = self.sessions.iter().filter_map(|session| session.level).min();
        let Some(level) = wanted.filter(|_| self.levels.changing.is_none() && wanted != self.levels.told) else {
            return;
        };
        let id = self.calls.add(Call::of_our_own(Note::SetLevel { asked: None, told: level }));
        self.levels.changing = Some(id);
        let params = format!("{{\"level\":\"{}\"}}", level.name());
        let line = nostray_rpc::request(&Id::Int(id), "logging/setLevel", Some(params.as_bytes()));
        self.effects.push(Effect::ToChild(line));
    }
}
