//! Notifications of the child, and which sessions get them.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use nostray_rpc::{Id, find};

use super::admission::place_in;
use super::calls::Call;
use super::child_says::number;
use super::edits::{Edits, Token};
use super::levels::Level;
use super::reverse::text_at;
use super::sessions::SessionId;
use super::{FromChild, Router};

/// The newer era's way to say which stream a notification belongs to.
pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

static STAMP: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"subscriptionId"));

impl Router {
    pub(super) fn child_notifies(&mut self, text: &[u8], method: &str, params: Option<&[u8]>) -> FromChild {
        if !self.is_mcp() {
            return self.deliver_to_named(text);
        }
        if let Some(params) = params.filter(|params| STAMP.find(params).is_some())
            && let Some(place) = find(params, &["_meta", SUBSCRIPTION_KEY])
        {
            return self.on_a_stream(text, method, &params[place]);
        }
        let named = |name: &str| params.and_then(|params| text_at(params, &[name]));
        match method {
            "notifications/progress" => self.progress(text, params),
            "notifications/cancelled" => self.child_withdraws(text, params),
            "notifications/message" => self.log_message(named("level")),
            "notifications/resources/updated" => match named("uri") {
                Some(uri) => self.to_these(self.subscriptions.interested_in(&uri)),
                None => FromChild::Swallow,
            },
            "notifications/elicitation/complete" => {
                self.to_owner(named("elicitationId").and_then(|name| self.elicitations.of(&name)))
            }
            "notifications/tasks/status" => self.to_owner(named("taskId").and_then(|name| self.tasks.of(&name))),
            _ => self.deliver_to_named(text),
        }
    }

    /// To all sessions; in MCP only to sessions that have spoken, since no client expects a message before.
    fn to_all(&self) -> FromChild {
        let speaking = |session: &&super::sessions::Session| session.heard && (session.has_spoken || !self.is_mcp());
        self.to_these(self.sessions.iter().filter(speaking).map(|session| session.session_id).collect())
    }

    fn to_these(&self, mut session_ids: Vec<SessionId>) -> FromChild {
        session_ids.retain(|session_id| self.sessions.get(*session_id).is_some_and(|session| session.heard));
        match session_ids[..] {
            [] => FromChild::Swallow,
            [session_id] => FromChild::To(session_id, Edits::none()),
            _ => FromChild::ToSeveral(session_ids, Edits::none()),
        }
    }

    /// To the session whose it is, if that is known, even if that session has left.
    fn to_owner(&self, owner: Option<SessionId>) -> FromChild {
        match owner {
            Some(session_id) => self.to_these(vec![session_id]),
            None => self.to_all(),
        }
    }

    fn deliver_to_named(&mut self, text: &[u8]) -> FromChild {
        let owner = self.owner_named_in(text);
        self.to_owner(owner)
    }

    fn progress(&self, text: &[u8], params: Option<&[u8]>) -> FromChild {
        let Some(params) = params else { return FromChild::Swallow };
        let Some(token) = find(params, &["progressToken"]).map(|at| &params[at]) else { return FromChild::Swallow };
        let Some(call) = number(token).and_then(|ours| self.calls.get(ours)) else { return FromChild::Swallow };
        match &call.progress {
            Some(theirs) => self.back_to(call, text, token, theirs),
            None => FromChild::Swallow,
        }
    }

    /// To the session whose call it is, with its own name of it in the place of ours.
    fn back_to(&self, call: &Call, text: &[u8], ours: &[u8], theirs: &Token) -> FromChild {
        match call.session_id.filter(|session_id| self.sessions.get(*session_id).is_some()) {
            None => FromChild::Swallow,
            Some(session_id) => {
                let mut edits = Edits::none();
                edits.replace(place_in(text, ours), theirs.clone());
                FromChild::To(session_id, edits)
            }
        }
    }

    fn on_a_stream(&mut self, text: &[u8], method: &str, token: &[u8]) -> FromChild {
        let Some(ours) = number(token) else { return FromChild::Swallow };
        let Some(call) = self.calls.get(ours).filter(|call| call.note.is_stream()) else { return FromChild::Swallow };
        let verdict = self.back_to(call, text, token, &call.id);
        // The only answer that a stream gets.
        self.has_answered |= method == "notifications/subscriptions/acknowledged";
        if self.claim.by().is_some() && self.claim.is_modern() {
            self.claim.settle();
            self.go_on();
        }
        verdict
    }

    /// The child takes back what it has asked, or ends a stream.
    fn child_withdraws(&mut self, text: &[u8], params: Option<&[u8]>) -> FromChild {
        let Some(params) = params else { return FromChild::Swallow };
        let Some(token) = find(params, &["requestId"]).map(|at| &params[at]) else { return FromChild::Swallow };
        // Its own ids and ours are numbers both. But where there are streams it asks nothing.
        let stream = number(token)
            .filter(|ours| self.claim.is_modern() && self.calls.get(*ours).is_some_and(|call| call.note.is_stream()));
        let Some(ours) = stream else {
            let asked = Id::from_json(token).and_then(|id| self.questions.withdrawn(&id));
            return self.to_these(asked.into_iter().collect());
        };
        let Some(call) = self.land(ours) else { return FromChild::Swallow };
        if self.claim.by() == Some(ours) {
            self.claim.settle();
            self.go_on();
        }
        self.back_to(&call, text, token, &call.id)
    }

    fn log_message(&self, level: Option<String>) -> FromChild {
        let level = level.and_then(|name| Level::named(&name));
        if self.claim.is_modern() {
            return self.log_of_a_request(level);
        }
        let wants = |wanted: Option<Level>| match (wanted, level) {
            (Some(wanted), Some(level)) => level >= wanted,
            _ => true,
        };
        let session_ids =
            self.sessions.speaking().filter(|session| wants(session.level)).map(|session| session.session_id);
        self.to_these(session_ids.collect())
    }

    /// In the newer era a log message belongs to a request, and does not say to which. It goes to the sessions with a
    /// request that wants this level.
    fn log_of_a_request(&self, level: Option<Level>) -> FromChild {
        let mut asked: Vec<_> = level.map(|level| self.calls.that_log(level).collect()).unwrap_or_default();
        asked.sort_unstable();
        asked.dedup();
        match self.sessions.flying() {
            _ if !asked.is_empty() => self.to_these(asked),
            // No session has asked for it, and a child may say it all the same; it goes to no session that it may not concern.
            0 => self.to_all(),
            1 => self.to_these(self.sessions.only_one_flying().into_iter().collect()),
            _ => FromChild::Swallow,
        }
    }
}
