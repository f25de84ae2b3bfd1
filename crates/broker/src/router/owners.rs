//! Things of the child's that belong to one session, by the names that the child gave them: tasks, elicitations. The child does not
//! say when it has forgotten one, so only the last ones are remembered.

use std::collections::VecDeque;

use super::sessions::SessionId;

const MAX_OWNERS: usize = 1024;

/// Whose they are.
#[derive(Debug, Default)]
pub(super) struct Owners {
    named: VecDeque<(Box<str>, SessionId)>,
}

impl Owners {
    pub(super) fn add(&mut self, name: &str, session_id: SessionId) {
        self.named.retain(|(known, _)| **known != *name);
        if self.named.len() >= MAX_OWNERS {
            self.named.pop_front();
        }
        self.named.push_back((name.into(), session_id));
    }

    /// Whose it is. That session may have left.
    pub(super) fn of(&self, name: &str) -> Option<SessionId> {
        self.named.iter().find(|(known, _)| **known == *name).map(|(_, session_id)| *session_id)
    }

    pub(super) fn clear(&mut self) {
        self.named.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.named.len()
    }
}
