//! The last entries of the journal, as the page shows them.

use std::collections::VecDeque;

use nostray_registry::{Entry, Followers};
use nostray_terminal::Ink;
use nostray_view::story_text;
use serde_json::{Value, json};

/// So many are kept for a new viewer.
const KEPT: usize = 500;

#[derive(Debug)]
pub(crate) struct RecentJournal {
    followers: Followers,
    /// As JSON, the oldest first.
    entries: VecDeque<String>,
}

impl RecentJournal {
    /// All that there is, as far back as is kept.
    pub(crate) fn new() -> Self {
        let mut journal = Self { followers: Followers::from_start(), entries: VecDeque::new() };
        journal.more();
        journal
    }

    /// Reads on, and returns what is new, the oldest first. Of very many, the last.
    pub(crate) fn more(&mut self) -> Vec<String> {
        let mut new = self.followers.more();
        let told: Vec<String> = new.drain(new.len().saturating_sub(KEPT)..).map(|entry| as_json(&entry)).collect();
        self.entries.extend(told.iter().cloned());
        let too_many = self.entries.len().saturating_sub(KEPT);
        self.entries.drain(..too_many);
        told
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(String::as_str)
    }
}

fn as_json(entry: &Entry) -> String {
    let words = story_text::of(&entry.story);
    let ink = match words.ink {
        Ink::Red => "bad",
        Ink::Yellow => "warn",
        Ink::Green => "good",
        Ink::Cyan => "news",
        _ => "dim",
    };
    let event = serde_json::to_value(entry).ok().and_then(|mut whole| whole.get_mut("event").map(Value::take));
    json!({ "time": entry.time, "id": entry.id, "event": event, "ink": ink, "head": words.head, "tail": words.tail })
        .to_string()
}
