//! Things of the child's that belong to one session, by the names that the child gave them: tasks, elicitations. The child does not
//! say when it has forgotten one, so only the last ones are remembered.

use std::collections::VecDeque;

use super::sessions::Seat;

const MOST: usize = 1024;

/// Whose they are.
#[derive(Debug, Default)]
pub(super) struct Owners {
    named: VecDeque<(Box<str>, Seat)>,
}

impl Owners {
    pub(super) fn add(&mut self, name: &str, seat: Seat) {
        self.named.retain(|(known, _)| **known != *name);
        if self.named.len() >= MOST {
            self.named.pop_front();
        }
        self.named.push_back((name.into(), seat));
    }

    /// Whose it is. That session may have left.
    pub(super) fn of(&self, name: &str) -> Option<Seat> {
        self.named.iter().find(|(known, _)| **known == *name).map(|(_, seat)| *seat)
    }

    pub(super) fn clear(&mut self) {
        self.named.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.named.len()
    }
}
