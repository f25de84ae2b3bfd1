//! What a word on the command line means: an id, the beginning of an id, a key, a slot, a session, or a name as `nostray ps` shows it.
//! Each command that takes one of them takes all of them.

use std::collections::BTreeSet;

use nostray_pen::PenId;
use nostray_registry::{Entry, Pen, Record, Story, short_name};

/// At most so many children or sessions are listed in an error.
const MAX_LISTED: usize = 8;

/// What a word means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// These children, by id, key, slot or name.
    Children(Vec<String>),
    /// A session, and the children that it uses.
    Session(Vec<String>),
}

impl Meant {
    /// The ids of the children.
    pub(crate) fn ids(&self) -> &[String] {
        let (Self::Children(ids) | Self::Session(ids)) = self;
        ids
    }
}

/// Finds what a word means. A key, a slot and a session may stand for several children; so may a name, but then `by_name` decides.
pub(crate) fn find(word: &str, all: &[Pen], by_name: ByName) -> Result<Meant, String> {
    let of = |fits: &dyn Fn(&Pen) -> bool| -> Vec<String> {
        all.iter().filter(|pen| fits(pen)).map(|pen| pen.id.clone()).collect()
    };
    let known = |fits: &dyn Fn(&Record) -> bool| of(&|pen| pen.record.as_ref().is_ok_and(fits));
    let exactly = of(&|pen| pen.id == word);
    if !exactly.is_empty() {
        return Ok(Meant::Children(exactly));
    }
    let kept_as = known(&|record| key_of(record) == Some(word) || record.slot.as_deref() == Some(word));
    if !kept_as.is_empty() {
        return Ok(Meant::Children(kept_as));
    }
    let of_session = known(&|record| sessions_of(record).any(|session| session == word));
    if !of_session.is_empty() {
        return Ok(Meant::Session(of_session));
    }
    let named = known(&|record| record.name() == word || record.labels.get("name").is_some_and(|name| name == word));
    if named.len() == 1 || by_name == ByName::All && !named.is_empty() {
        return Ok(Meant::Children(named));
    }
    if !named.is_empty() {
        return Err(format!("{} children are called '{word}': {}; give an id", named.len(), named.join(", ")));
    }
    let beginning = of(&|pen| !word.is_empty() && pen.id.starts_with(word));
    match beginning.len() {
        0 => Err(unknown(word, all)),
        1 => Ok(Meant::Children(beginning)),
        _ => Err(format!("more than one id begins with '{word}': {}; write more of it", beginning.join(", "))),
    }
}

/// What a name means that several children have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByName {
    /// All of them, for a command that shows something.
    All,
    /// An error, for a command that ends something: two children with the same name may have nothing to do with each other.
    One,
}

fn key_of(record: &Record) -> Option<&str> {
    record.shared.as_ref()?.key.as_deref()
}

fn sessions_of(record: &Record) -> impl Iterator<Item = &str> {
    let leases = record.shared.iter().flat_map(|shared| &shared.leases);
    record.session.as_deref().into_iter().chain(leases.filter_map(|lease| lease.session.as_deref()))
}

/// An error for a word that means nothing, with what there is.
pub(crate) fn unknown(word: &str, all: &[Pen]) -> String {
    format!("there is no '{word}' under nostray: no id, key, slot, session or name; {}", what_exists(all))
}

/// An error for a session that no child has, with the sessions that there are.
pub(crate) fn unknown_session(session: &str, all: &[Pen]) -> String {
    let sessions: BTreeSet<&str> =
        all.iter().filter_map(|pen| pen.record.as_ref().ok()).flat_map(sessions_of).collect();
    let exist = match sessions.len() {
        0 => "no child has a session".to_owned(),
        _ => format!("there are {}", listed(sessions.into_iter().map(str::to_owned).collect())),
    };
    format!("no child belongs to session '{session}'; {exist}")
}

fn what_exists(all: &[Pen]) -> String {
    if all.is_empty() {
        return "nothing runs under nostray".to_owned();
    }
    let shown = |pen: &Pen| match &pen.record {
        Ok(record) => {
            let session = record.session.as_ref().map_or_else(String::new, |session| format!(", session {session}"));
            format!("{} ({}{session})", pen.id, record.name())
        }
        Err(_) => pen.id.clone(),
    };
    format!("there are {}", listed(all.iter().map(shown).collect()))
}

fn listed(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(MAX_LISTED);
    all.truncate(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more (`nostray ps`)") } else { String::new() };
    all.join(", ") + &more
}

/// The id of a child that is one of a series is that of the series.
fn series(id: &str) -> &str {
    PenId::series_of(id).unwrap_or(id)
}

/// Selects the journal's entries about what a word means, of children that run and that have ended.
#[derive(Debug)]
pub(crate) struct Entries {
    word: String,
    /// The word is a session and nothing else.
    is_session: bool,
    ids: BTreeSet<String>,
}

impl Entries {
    /// An error if neither the children nor the entries have it.
    pub(crate) fn about(word: &str, all: &[Pen], entries: &[Entry]) -> Result<Self, String> {
        let ids = find(word, all, ByName::All)
            .map_or_else(|_| BTreeSet::new(), |meant| meant.ids().iter().cloned().collect());
        let mut about = Self { word: word.to_owned(), is_session: false, ids };
        let found = entries.iter().filter(|entry| about.include(entry)).count();
        if found == 0 && about.ids.is_empty() { Err(unknown(word, all)) } else { Ok(about) }
    }

    /// The entries of a session's children. `None` if neither the children nor the entries have it.
    pub(crate) fn of_session(session: &str, all: &[Pen], entries: &[Entry]) -> Option<Self> {
        let is_told = |entry: &&Entry| match &entry.story {
            Story::Started { session: told, .. } | Story::Attached { session: told, .. } => {
                told.as_deref() == Some(session)
            }
            _ => false,
        };
        let told = entries.iter().filter(is_told).map(|entry| series(&entry.id).to_owned());
        let known = all
            .iter()
            .filter(|pen| pen.record.as_ref().is_ok_and(|record| sessions_of(record).any(|other| other == session)));
        let ids: BTreeSet<String> = told.chain(known.map(|pen| pen.id.clone())).collect();
        (!ids.is_empty()).then(|| Self { word: session.to_owned(), is_session: true, ids })
    }

    /// Whether an entry is about it. An entry may tell that its child belongs to the session or has the name, so ask in order of time.
    pub(crate) fn include(&mut self, entry: &Entry) -> bool {
        let id = series(&entry.id);
        let is_named = || match &entry.story {
            Story::Started { session: Some(session), .. } | Story::Attached { session: Some(session), .. }
                if *session == self.word =>
            {
                true
            }
            _ if self.is_session => false,
            Story::Started { command, .. } => short_name(command) == self.word,
            Story::Slot { slot, .. } => *slot == self.word,
            _ => false,
        };
        let has_id = self.ids.contains(id) || !self.is_session && entry.id.starts_with(&self.word);
        let is_meant = has_id || is_named();
        if is_meant {
            self.ids.insert(id.to_owned());
        }
        is_meant
    }

    /// The ids of the children that it means.
    pub(crate) fn ids(&self) -> &BTreeSet<String> {
        &self.ids
    }
}
