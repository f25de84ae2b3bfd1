//! `--route-by`: a member of the messages by which a child says whose they are.

use std::collections::{HashMap, VecDeque};

use nostray_rpc::{Id, find};

use super::sessions::Seat;

/// How many values are remembered. Those of sessions that have left are forgotten first.
const MOST: usize = 4096;

/// Which value belongs to which session.
#[derive(Debug, Default)]
pub(super) struct Routes {
    path: Option<Vec<String>>,
    by_value: HashMap<Id, Seat>,
    /// In the order in which they were first seen.
    order: VecDeque<Id>,
    /// Some may be of sessions that have left.
    has_gaps: bool,
}

impl Routes {
    pub(super) fn new(path: Option<Vec<String>>) -> Self {
        Self { path, ..Self::default() }
    }

    pub(super) fn is_used(&self) -> bool {
        self.path.is_some()
    }

    fn value(&self, text: &[u8]) -> Option<Id> {
        let path: Vec<&str> = self.path.as_ref()?.iter().map(String::as_str).collect();
        find(text, &path).and_then(|at| Id::from_json(&text[at]))
    }

    /// A session says something, perhaps with a value that is its own from now on.
    pub(super) fn learn(&mut self, text: &[u8], seat: Seat, is_here: impl Fn(Seat) -> bool) {
        let Some(value) = self.value(text) else { return };
        if let Some(owner) = self.by_value.get_mut(&value) {
            *owner = seat;
            return;
        }
        if self.by_value.len() >= MOST && std::mem::take(&mut self.has_gaps) {
            self.by_value.retain(|_, owner| is_here(*owner));
            self.order.retain(|value| self.by_value.contains_key(value));
        }
        if self.by_value.len() >= MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_value.remove(&oldest);
        }
        self.order.push_back(value.clone());
        self.by_value.insert(value, seat);
    }

    /// Whose a message is, if it says so. That session may have left.
    pub(super) fn owner(&self, text: &[u8]) -> Option<Seat> {
        self.by_value.get(&self.value(text)?).copied()
    }

    /// A session has left. Its values are still its own, as long as there is room for them.
    pub(super) fn somebody_left(&mut self) {
        self.has_gaps = true;
    }

    pub(super) fn clear(&mut self) {
        self.by_value.clear();
        self.order.clear();
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
        let mut routes = Routes::new(Some(vec!["params".to_owned(), "of".to_owned()]));
        let line = |value: usize| format!(r#"{{"params":{{"of":{value}}}}}"#);
        routes.learn(line(0).as_bytes(), Seat(1), |_| true);
        for value in 1..MOST {
            routes.learn(line(value).as_bytes(), Seat(2), |_| true);
        }
        routes.somebody_left();
        routes.learn(line(MOST).as_bytes(), Seat(1), |seat| seat == Seat(1));
        assert_eq!((routes.len(), routes.order.len()), (2, 2));
        assert_eq!(routes.owner(line(0).as_bytes()), Some(Seat(1)));
        assert_eq!(routes.owner(line(1).as_bytes()), None);
        for value in MOST + 1..3 * MOST {
            routes.learn(line(value).as_bytes(), Seat(1), |_| true);
        }
        assert_eq!((routes.len(), routes.order.len()), (MOST, MOST));
        assert_eq!(routes.owner(line(3 * MOST - 1).as_bytes()), Some(Seat(1)));
    }
}
