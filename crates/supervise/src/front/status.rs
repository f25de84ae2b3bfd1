//! What a host that reads status lines is told of its supervised or shared child.

use std::fmt::Display;

use nostray_registry::{StatusEvent, StatusLines};

/// Counts the children that this session has had, over the stewards that kept them.
#[derive(Debug)]
pub(super) struct Status {
    lines: Option<StatusLines>,
    /// The record of the steward whose numbers count.
    id: Option<String>,
    /// How many children there were before that steward's first.
    before: u64,
    last: u64,
    is_up: bool,
}

impl Status {
    pub(super) fn to(lines: Option<StatusLines>) -> Self {
        Self { lines, id: None, before: 0, last: 0, is_up: false }
    }

    /// The session holds the child with this record. Another steward counts from one again.
    pub(super) fn attached(&mut self, id: &str, name: &str) {
        if self.id.as_deref() != Some(id) {
            self.before = self.last;
            self.id = Some(id.to_owned());
        }
        self.say(&StatusEvent::Attached { id, name });
    }

    /// The session has a child of its own from now on.
    pub(super) fn alone(&mut self, why: &str) {
        self.before = self.last;
        self.say(&StatusEvent::Alone { text: why });
    }

    pub(super) fn up(&mut self, generation: u64) {
        self.last = self.before + generation;
        self.is_up = true;
        self.say(&StatusEvent::Up { generation: self.last });
    }

    pub(super) fn down(&mut self, why: &dyn Display) {
        if std::mem::take(&mut self.is_up) {
            self.say(&StatusEvent::Down { generation: self.last, text: &why.to_string() });
        }
    }

    pub(super) fn over(&mut self, why: &dyn Display) {
        self.down(why);
        self.say(&StatusEvent::Over { text: &why.to_string() });
    }

    fn say(&self, event: &StatusEvent<'_>) {
        if let Some(lines) = &self.lines {
            lines.say(event);
        }
    }
}
