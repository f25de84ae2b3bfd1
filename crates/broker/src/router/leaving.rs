//! A session leaves: what it has asked is called off, what it has set no longer counts, and what it was asked is asked of another.

use nostray_rpc::notification;
use nostray_supervise::Moment;

use super::sessions::SessionId;
use super::{Effect, Router};

impl Router {
    /// A session has gone.
    pub fn leave(&mut self, session_id: SessionId, now: Moment) {
        if self.sessions.leave(session_id).is_none() {
            return;
        }
        self.batches.left(session_id);
        self.routes.session_left();
        for ours in self.calls.of(session_id) {
            let Some(call) = self.calls.get(ours).filter(|call| !call.given_up) else { continue };
            let calls_off = self.is_mcp() && !call.note.concerns_others();
            if calls_off {
                let params = format!(r#"{{"requestId":{ours},"reason":"the session has ended"}}"#);
                let line = notification("notifications/cancelled", Some(params.as_bytes()));
                self.effects.push(Effect::ToChild(line));
                if self.claim.by() == Some(ours) {
                    self.claim.settle();
                }
            }
            self.calls.take_batch(ours);
            self.no_longer_awaited(ours, calls_off.then_some(now));
        }
        self.ask_another_session(session_id);
        self.give_up_subscriptions(session_id);
        self.tell_level_if_needed();
        self.go_on();
    }
}
