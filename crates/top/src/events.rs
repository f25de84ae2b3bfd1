//! What has happened last, from the journal.

use std::collections::VecDeque;

use nostray_pen::PenId;
use nostray_registry::{Entry, Followers, Story, short_name};
use nostray_view::Listed;

/// So many are kept; more than the largest screen shows.
const MAX_KEPT: usize = 200;

/// An entry, and what people call its child.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) entry: Entry,
    pub(crate) name: Option<String>,
}

/// The last entries of the journal.
#[derive(Debug)]
pub(crate) struct Events {
    followers: Followers,
    /// The oldest first.
    pub(crate) last: VecDeque<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self { followers: Followers::from_start(), last: VecDeque::new() }
    }
}

impl Events {
    /// Reads what was added, and returns that.
    pub(crate) fn look(&mut self, children: &[Listed]) -> Vec<Entry> {
        let added = self.followers.more();
        for entry in added.iter().skip(added.len().saturating_sub(MAX_KEPT)) {
            if self.last.len() >= MAX_KEPT {
                self.last.pop_front();
            }
            self.last.push_back(Event { entry: entry.clone(), name: None });
        }
        self.find_names(children);
        added
    }

    /// A child that has ended is not listed any more, so its name is kept with its entries.
    fn find_names(&mut self, children: &[Listed]) {
        let mut known: Vec<(String, String)> = Vec::new();
        for event in &mut self.last {
            let series = PenId::series_of(&event.entry.id).unwrap_or(&event.entry.id);
            if event.name.is_none() {
                let child = children.iter().find(|child| child.pen.id == series && !child.name.is_empty());
                event.name = child.map(|child| child.name.clone());
            }
            if event.name.is_none() {
                event.name = known.iter().rev().find(|(id, _)| id == series).map(|(_, name)| name.clone());
            }
            if let (None, Story::Started { command, .. }) = (&event.name, &event.entry.story) {
                event.name = Some(short_name(command));
            }
            if let Some(name) = &event.name {
                known.push((series.to_owned(), name.clone()));
            }
        }
    }
}

/// Whether an entry is about this child, or about one of its generations.
pub(crate) fn is_about(entry: &Entry, id: &str) -> bool {
    entry.id == id || PenId::series_of(&entry.id) == Some(id)
}
