//! Lists slots, for people and for scripts.

use std::time::Duration;

use nostray_pen::Ask;
use nostray_registry::{Holder, Place, Record};

use crate::history::{History, HolderEntry, Moment};
use crate::lock_file::LockFile;
use crate::queue::{self, Kind, Waiter};
use crate::{Error, Name, all};

/// A slot as it is now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Slot {
    /// What it is called.
    pub name: Name,
    /// Whether it is held.
    pub is_taken: bool,
    /// The holder, as far as it is known.
    pub holder: Option<Record>,
    /// The waiters, the first one first.
    pub waiting: Vec<(Kind, Waiter)>,
    /// Earlier holders and the current one, the oldest first.
    pub history: Vec<HolderEntry>,
    places: Vec<Place>,
}

impl Slot {
    /// Asks the holder. False if no keeper of it lives.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> bool {
        let holders = Holder::all_of(self.name.as_str(), &self.places);
        holders
            .iter()
            .any(|holder| Some(&holder.record.id) == self.holder.as_ref().map(|record| &record.id) && holder.ask(ask))
    }
}

/// Every slot that was ever used, by name.
pub fn slots() -> Result<Vec<Slot>, Error> {
    let place = all()?;
    let entries = std::fs::read_dir(place.path()).map_err(Error::io(place.path()))?;
    let mut names: Vec<Name> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    names.sort();
    Ok(names.into_iter().filter_map(|name| slot(&name).ok().flatten()).collect())
}

/// One slot, if it was ever used.
pub fn slot(name: &Name) -> Result<Option<Slot>, Error> {
    if !all()?.path().join(name.as_str()).is_dir() {
        return Ok(None);
    }
    let place = crate::place_of(name)?;
    let history = History::read(&place);
    let (places, history) = (history.places(), history.entries);
    let is_taken = LockFile::is_taken(&place);
    let last = history.last().filter(|entry| entry.ended.is_none()).map(|entry| entry.id.as_str());
    let holders = if is_taken { Holder::all_of(name.as_str(), &places) } else { Vec::new() };
    let said = holders.iter().find(|holder| Some(holder.record.id.as_str()) == last);
    let holder = said.or_else(|| holders.iter().find(|holder| holder.is_kept())).map(|holder| holder.record.clone());
    let mut waiting = queue::waiters(&place);
    // Requests to replace come before requests to wait.
    waiting.sort_by_key(|seen| seen.kind == Kind::Wait);
    let waiting = waiting.into_iter().map(|seen| (seen.kind, seen.waiter)).collect();
    Ok(Some(Slot { name: name.clone(), is_taken, holder, waiting, history, places }))
}

/// Whether the holder of the slot has started this process, which would wait for itself. Describes the holder in half a sentence.
#[must_use]
pub fn is_held_around_us(name: &Name) -> Option<String> {
    let slot = slot(name).ok().flatten()?;
    let holders = Holder::all_of(name.as_str(), &slot.places);
    let around = holders.iter().find(|holder| holder.is_kept() && holder.is_around_us());
    around.map(|holder| describe_holder(Some(&holder.record)))
}

/// Said of a slot that is taken by a holder which is not on record.
const UNKNOWN_HOLDER: &str = "taken by a pen that is just starting or ending";

fn ago(time: u64) -> String {
    let seconds = Moment::now().time.saturating_sub(time) / 1000;
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

/// The holder by its name, and since when it holds the slot, in half a line.
pub(crate) fn name_holder(holder: Option<&Record>) -> String {
    let Some(record) = holder else { return UNKNOWN_HOLDER.to_owned() };
    let session = record.session.as_ref().map_or_else(String::new, |session| format!(", session {session}"));
    format!(
        "held by {} ({}{session}) for {}",
        record.id,
        nostray_registry::short_name(&record.command),
        ago(record.started)
    )
}

/// The holder, since when and in what state, in half a sentence.
pub(crate) fn describe_holder(holder: Option<&Record>) -> String {
    let Some(record) = holder else { return UNKNOWN_HOLDER.to_owned() };
    let session = record.session.as_ref().map_or_else(String::new, |session| format!(", session {session}"));
    format!(
        "taken by {} ({}{session}) for {}, {} for {}",
        record.id,
        shortened(&record.command.join(" ")),
        ago(record.started),
        record.state.word(),
        ago(record.since),
    )
}

/// The beginning of a command line.
fn shortened(command: &str) -> String {
    const MAX_COMMAND: usize = 60;
    match command.char_indices().nth(MAX_COMMAND) {
        Some((end, _)) => format!("{}...", &command[..end]),
        None => command.to_owned(),
    }
}
