//! `--route-by`: the members of the messages by which a child says whose they are.

use std::collections::{HashMap, VecDeque};

use nostray_rpc::{Id, find};

use super::sessions::SessionId;

/// How many values are remembered. Those of sessions that have left are forgotten first.
const MAX_ROUTES: usize = 4096;
/// How many sessions are remembered that have used the same value.
const MAX_USERS: usize = 16;

/// Which value belongs to which session.
#[derive(Debug, Default)]
pub(super) struct Routes {
    paths: Vec<Vec<String>>,
    /// The session that used a value first owns it: another that uses it could only listen in. When the owner leaves, the next one
    /// that has used it does.
    by_value: HashMap<Id, Vec<SessionId>>,
    /// In the order in which they were first seen.
    order: VecDeque<Id>,
    /// Some may be of sessions that have left.
    has_gaps: bool,
    /// Whether messages of the child have named a session.
    matched: Matched,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Matched {
    /// There was no message.
    #[default]
    Untried,
    /// None has so far.
    Never,
    /// One has, or it was said that none has.
    Settled,
}

impl Routes {
    pub(super) fn new(paths: Vec<Vec<String>>) -> Self {
        Self { paths, ..Self::default() }
    }

    pub(super) fn is_used(&self) -> bool {
        !self.paths.is_empty()
    }

    /// What a message names, in the order of the paths.
    fn values(&self, text: &[u8]) -> Vec<Id> {
        let value = |path: &Vec<String>| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            find(text, &path).and_then(|at| Id::from_json(&text[at]))
        };
        self.paths.iter().filter_map(value).collect()
    }

    /// A session uses the values that it names, under whichever path.
    pub(super) fn learn(&mut self, text: &[u8], session_id: SessionId, is_here: impl Fn(SessionId) -> bool) {
        for value in self.values(text) {
            self.learn_value(value, session_id, &is_here);
        }
    }

    fn learn_value(&mut self, value: Id, session_id: SessionId, is_here: impl Fn(SessionId) -> bool) {
        if let Some(users) = self.by_value.get_mut(&value) {
            if !users.contains(&session_id) {
                users.retain(|user| is_here(*user));
                if users.len() < MAX_USERS {
                    users.push(session_id);
                }
            }
            return;
        }
        if self.by_value.len() >= MAX_ROUTES && std::mem::take(&mut self.has_gaps) {
            self.forget_values_of_the_left(is_here);
        }
        if self.by_value.len() >= MAX_ROUTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_value.remove(&oldest);
        }
        self.order.push_back(value.clone());
        self.by_value.insert(value, vec![session_id]);
    }

    /// Whose a message of the child is, if it says so. That session may have left.
    pub(super) fn owner(&mut self, text: &[u8], is_here: impl Fn(SessionId) -> bool) -> Option<SessionId> {
        if !self.is_used() {
            return None;
        }
        let owner = self.values(text).iter().find_map(|value| {
            let users = self.by_value.get(value)?;
            users.iter().copied().find(|user| is_here(*user)).or_else(|| users.last().copied())
        });
        if owner.is_some() {
            self.matched = Matched::Settled;
        } else if self.matched == Matched::Untried {
            self.matched = Matched::Never;
        }
        owner
    }

    /// The paths, if the child has spoken and none of its messages has named a session. Once.
    pub(super) fn never_matched(&mut self) -> Option<String> {
        if self.matched != Matched::Never {
            return None;
        }
        self.matched = Matched::Settled;
        let paths: Vec<_> = self.paths.iter().map(|path| path.join(".")).collect();
        Some(paths.join(","))
    }

    /// A session has left. Its values are still its own, as long as there is room for them.
    pub(super) fn session_left(&mut self) {
        self.has_gaps = true;
    }

    /// The next child names sessions as the last one did: each front replays what its session is called.
    pub(super) fn child_gone(&mut self, is_here: impl Fn(SessionId) -> bool) {
        self.has_gaps = false;
        self.forget_values_of_the_left(is_here);
    }

    fn forget_values_of_the_left(&mut self, is_here: impl Fn(SessionId) -> bool) {
        self.by_value.retain(|_, users| users.iter().any(|user| is_here(*user)));
        self.order.retain(|value| self.by_value.contains_key(value));
    }

    pub(super) fn len(&self) -> usize {
        self.by_value.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_the_living_come_before_the_dead() {
        let mut routes = Routes::new(vec![vec!["params".to_owned(), "of".to_owned()]]);
        let line = |value: usize| format!(r#"{{"params":{{"of":{value}}}}}"#);
        routes.learn(line(0).as_bytes(), SessionId(1), |_| true);
        for value in 1..MAX_ROUTES {
            routes.learn(line(value).as_bytes(), SessionId(2), |_| true);
        }
        routes.session_left();
        routes.learn(line(MAX_ROUTES).as_bytes(), SessionId(1), |session_id| session_id == SessionId(1));
        assert_eq!((routes.len(), routes.order.len()), (2, 2));
        assert_eq!(routes.owner(line(0).as_bytes(), |_| true), Some(SessionId(1)));
        assert_eq!(routes.owner(line(1).as_bytes(), |_| true), None);
        for value in MAX_ROUTES + 1..3 * MAX_ROUTES {
            routes.learn(line(value).as_bytes(), SessionId(1), |_| true);
        }
        assert_eq!((routes.len(), routes.order.len()), (MAX_ROUTES, MAX_ROUTES));
        assert_eq!(routes.owner(line(3 * MAX_ROUTES - 1).as_bytes(), |_| true), Some(SessionId(1)));
    }
}
