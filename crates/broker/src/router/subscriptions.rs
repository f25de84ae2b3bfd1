//! The older era's subscriptions: the child knows one for each resource, and this is the list of the sessions that hold it.

use std::collections::HashMap;

use nostray_rpc::Id;

use super::calls::{Call, Note};
use super::sessions::SessionId;
use super::{Effect, Router};

/// Which sessions have subscribed to which resource.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    by_uri: HashMap<Box<str>, Holders>,
}

#[derive(Debug, Default)]
struct Holders {
    session_ids: Vec<SessionId>,
    /// The child is being told something about it, under this id, for this session. Until it has answered, other requests
    /// wait: what they need depends on the answer.
    changing: Option<(i64, Option<SessionId>)>,
}

/// What to do with a request to subscribe or unsubscribe.
pub(super) enum SubscriptionDecision {
    /// The child need not know.
    Granted,
    /// The child has to be told.
    Tell,
    /// A change is under way: the request waits.
    Wait,
}

impl Subscriptions {
    pub(super) fn decide_subscribe(&self, uri: &str) -> SubscriptionDecision {
        match self.by_uri.get(uri) {
            Some(holders) if holders.changing.is_some() => SubscriptionDecision::Wait,
            Some(holders) if !holders.session_ids.is_empty() => SubscriptionDecision::Granted,
            _ => SubscriptionDecision::Tell,
        }
    }

    pub(super) fn decide_unsubscribe(&self, session_id: SessionId, uri: &str) -> SubscriptionDecision {
        match self.by_uri.get(uri) {
            Some(holders) if holders.changing.is_some() => SubscriptionDecision::Wait,
            Some(holders) if holders.session_ids.iter().any(|holder| *holder != session_id) => {
                SubscriptionDecision::Granted
            }
            _ => SubscriptionDecision::Tell,
        }
    }

    pub(super) fn hold(&mut self, session_id: SessionId, uri: &str) {
        let holders = self.by_uri.entry(uri.into()).or_default();
        if !holders.session_ids.contains(&session_id) {
            holders.session_ids.push(session_id);
        }
    }

    pub(super) fn let_go(&mut self, session_id: SessionId, uri: &str) {
        if let Some(holders) = self.by_uri.get_mut(uri) {
            holders.session_ids.retain(|holder| *holder != session_id);
            self.tidy(uri);
        }
    }

    /// The child is being told.
    pub(super) fn is_told(&mut self, id: i64, session_id: Option<SessionId>, uri: &str) {
        self.by_uri.entry(uri.into()).or_default().changing = Some((id, session_id));
    }

    /// It has answered, or what it does will not be known. False if the change was given up before.
    pub(super) fn was_answered(&mut self, id: i64, uri: &str) -> bool {
        let Some(holders) = self.by_uri.get_mut(uri) else { return false };
        let was_waited_for = holders.changing.take_if(|(changing, _)| *changing == id).is_some();
        self.tidy(uri);
        was_waited_for
    }

    fn tidy(&mut self, uri: &str) {
        if self.by_uri.get(uri).is_some_and(|holders| holders.session_ids.is_empty() && holders.changing.is_none()) {
            self.by_uri.remove(uri);
        }
    }

    /// A session has left. Returns the resources without a holder, as far as the child is to be told at once.
    fn left(&mut self, session_id: SessionId) -> Vec<Box<str>> {
        let mut given_up = Vec::new();
        for (uri, holders) in &mut self.by_uri {
            let before = holders.session_ids.len();
            holders.session_ids.retain(|holder| *holder != session_id);
            if before > 0 && holders.session_ids.is_empty() && holders.changing.is_none() {
                given_up.push(uri.clone());
            }
        }
        given_up.sort_unstable();
        given_up
    }

    /// The sessions that want to know that this resource has changed: the holders of it, or of something that it is a part of. A server
    /// may name a resource in another way than it was asked for, so without such a holder it is all holders of anything.
    pub(super) fn interested_in(&self, uri: &str) -> Vec<SessionId> {
        let mut interested: Vec<_> = self
            .by_uri
            .iter()
            .filter(|(held, _)| is_part_of(uri, held))
            .flat_map(|(_, holders)| holders.all())
            .collect();
        if interested.is_empty() {
            interested.extend(self.by_uri.values().flat_map(Holders::all));
        }
        interested.sort_unstable();
        interested.dedup();
        interested
    }

    pub(super) fn clear(&mut self) {
        self.by_uri.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.by_uri.len()
    }
}

impl Holders {
    /// Also the session whose subscription is just being made: news may come before the answer.
    fn all(&self) -> impl Iterator<Item = SessionId> {
        self.session_ids.iter().copied().chain(self.changing.and_then(|(_, session_id)| session_id))
    }
}

/// Whether a resource is this one or below it.
fn is_part_of(uri: &str, whole: &str) -> bool {
    let Some(rest) = uri.strip_prefix(whole) else { return false };
    rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '#', '?'])
}

impl Router {
    /// The child has agreed, or it has not.
    pub(super) fn subscription_was_answered(
        &mut self,
        id: i64,
        session_id: Option<SessionId>,
        uri: &str,
        agreed: bool,
    ) {
        if !self.subscriptions.was_answered(id, uri) || !agreed {
            return;
        }
        match session_id.filter(|session_id| self.sessions.get(*session_id).is_some()) {
            Some(session_id) => self.subscriptions.hold(session_id, uri),
            None => self.give_up_subscription(uri),
        }
    }

    /// The child has stopped, or it has not.
    pub(super) fn unsubscription_was_answered(
        &mut self,
        id: i64,
        session_id: Option<SessionId>,
        uri: &str,
        agreed: bool,
    ) {
        if self.subscriptions.was_answered(id, uri)
            && agreed
            && let Some(session_id) = session_id
        {
            self.subscriptions.let_go(session_id, uri);
        }
    }

    /// A session has left, and gives up what it held.
    pub(super) fn give_up_subscriptions(&mut self, session_id: SessionId) {
        for uri in self.subscriptions.left(session_id) {
            self.give_up_subscription(&uri);
        }
    }

    /// Unsubscribes from a resource without a holder.
    fn give_up_subscription(&mut self, uri: &str) {
        let id = self.calls.add(Call::of_our_own(Note::Unsubscribe(uri.into())));
        self.subscriptions.is_told(id, None, uri);
        let params = serde_json::json!({ "uri": uri }).to_string();
        let line = nostray_rpc::request(&Id::Int(id), "resources/unsubscribe", Some(params.as_bytes()));
        self.effects.push(Effect::ToChild(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_a_part_is_for_sessions_that_hold_the_whole() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.hold(SessionId(1), "file:///a");
        subscriptions.hold(SessionId(2), "file:///a/b");
        subscriptions.hold(SessionId(3), "other://");
        assert_eq!(subscriptions.interested_in("file:///a"), [SessionId(1)]);
        assert_eq!(subscriptions.interested_in("file:///a/b"), [SessionId(1), SessionId(2)]);
        assert_eq!(subscriptions.interested_in("file:///a/b#c"), [SessionId(1), SessionId(2)]);
        assert_eq!(subscriptions.interested_in("other://x"), [SessionId(3)]);
        // No session has asked for it by this name, but one may have meant it.
        assert_eq!(subscriptions.interested_in("file:///ab"), [SessionId(1), SessionId(2), SessionId(3)]);
        assert!(Subscriptions::default().interested_in("file:///a").is_empty());
    }
}
