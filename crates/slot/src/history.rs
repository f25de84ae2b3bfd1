//! The holders of a slot, one after the other. Only the holder writes it; every newcomer reads it. It decides about two things only:
//! whether the slot changes hands too often, and whether a newcomer's host was replaced.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use nostray_pen::Rate;
use nostray_registry::{Place, Process, files};
use nostray_sys::identity::World;
use nostray_sys::replace::patiently;
use serde::{Deserialize, Serialize};

use crate::{Error, time as clock};

/// The most entries that are kept.
const MAX_ENTRIES: usize = 50;
/// A larger file is no history of ours.
const MAX_HISTORY_SIZE: u64 = 1 << 20;

/// A moment: for people, and for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Milliseconds of Unix time.
    pub time: u64,
    /// Milliseconds since boot: setting the clock does not change them. On Windows by the calendar, as all identities of processes.
    pub since_boot: u64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { time: milliseconds(time), since_boot: milliseconds(clock::now()) }
    }
}

/// The holder of a slot, or an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderEntry {
    /// The pen.
    pub id: String,
    /// Its command line, with secrets masked.
    pub command: Vec<String>,
    /// The session that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When it got the slot.
    pub taken: Moment,
    /// When it was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Moment>,
    /// When nothing was left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Moment>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The process that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Process>,
    /// It ended because a newcomer, or a person, asked it to hand over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_over: bool,
    /// If it was a request to replace: since when it had waited, in nanoseconds since boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaced: Option<u64>,
    /// Where its record is.
    place: PathBuf,
    /// The run of the machine that its moments belong to.
    boot: String,
}

impl HolderEntry {
    pub(crate) fn begin(id: &str, command: Vec<String>, session: Option<String>) -> Self {
        let boot = World::current().map_or_else(String::new, |world| world.boot);
        let place = Place::for_writing().map_or_else(|_| PathBuf::new(), |place| place.path().to_owned());
        let (id, taken) = (id.to_owned(), Moment::now());
        let (ready, ended, why, host, replaced) = (None, None, None, None, None);
        Self { id, command, session, taken, ready, ended, why, host, handed_over: false, replaced, place, boot }
    }
}

/// All of them, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    version: u32,
    /// The holders, the oldest first.
    #[serde(rename = "tenures")] // the name in files of earlier versions
    pub(crate) entries: Vec<HolderEntry>,
}

const VERSION: u32 = 1;

impl History {
    /// Reads the file. A file that cannot be read is an empty history: the lock alone decides who holds the slot.
    #[must_use]
    pub(crate) fn read(place: &Place) -> Self {
        let read = || {
            let text = files::read(&patiently(|| files::to_read(&path(place))).ok()?, MAX_HISTORY_SIZE).ok()?;
            serde_json::from_slice(&text).ok().filter(|history: &Self| history.version == VERSION)
        };
        read().unwrap_or_default()
    }

    fn write(&self, place: &Place) -> Result<(), Error> {
        let (path, new) = (path(place), place.path().join("history.new"));
        let text = serde_json::to_vec(self).map_err(|error| Error::io(&path)(error.into()))?;
        files::replace(&path, &new, &text).map_err(Error::io(&path))
    }

    /// Adds a new holder. If the history has no end of the holder before, its keepers were all killed. `asked` is the pen that the new
    /// holder had asked to hand over.
    pub(crate) fn add(place: &Place, entry: HolderEntry, asked: Option<&str>) -> Result<(), Error> {
        let mut history = Self::read(place);
        history.version = VERSION;
        if let Some(last) = history.entries.last_mut().filter(|last| Some(last.id.as_str()) == asked) {
            last.handed_over = true;
        }
        if let Some(last) = history.entries.last_mut().filter(|last| last.ended.is_none()) {
            last.ended = Some(entry.taken);
            last.why.get_or_insert_with(|| "all of nostray's processes around it were killed".to_owned());
        }
        history.entries.push(entry);
        let too_many = history.entries.len().saturating_sub(MAX_ENTRIES);
        history.entries.drain(..too_many);
        history.write(place)
    }

    /// Changes an entry, unless that holder has ended: then another holder writes the history.
    pub(crate) fn amend(place: &Place, id: &str, change: impl FnOnce(&mut HolderEntry)) {
        let mut history = Self::read(place);
        if let Some(entry) = history.entries.iter_mut().rev().find(|entry| entry.id == id && entry.ended.is_none()) {
            change(entry);
            // It says less than it could; nothing else depends on it.
            history.write(place).ok();
        }
    }

    /// The directories with the records of the last holders. Their hosts may have given them another environment.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for place in self.entries.iter().rev().take(4).filter_map(|entry| Place::existing(&entry.place)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// Whether a child of this host was replaced, and every holder since then replaced its predecessor, too. The last one of
    /// them may not be written down yet. Not if the holder is of this host itself: a host may replace what it has started.
    pub(crate) fn was_replaced(&self, host: Process, boot: &str) -> bool {
        for (at, entry) in self.entries.iter().rev().take_while(|entry| entry.boot == boot).enumerate() {
            let is_holder = at == 0 && entry.ended.is_none();
            if !is_holder && !entry.handed_over {
                return false;
            }
            if entry.host == Some(host) {
                return !is_holder;
            }
        }
        false
    }

    /// If the slot changed hands more often than the limit allows: because holders handed it over, or because they never got ready, up
    /// to the current holder.
    pub(crate) fn excessive_handovers(&self, limit: Rate, now: Moment, boot: &str) -> Option<Changes> {
        let within = u64::try_from(limit.within.as_millis()).unwrap_or(u64::MAX);
        let recent = |entry: &&HolderEntry| {
            entry.boot == boot
                && entry.ended.is_some_and(|ended| now.since_boot.saturating_sub(ended.since_boot) <= within)
        };
        let is_beyond = |times: &usize| *times > usize::try_from(limit.times).unwrap_or(usize::MAX);
        // Once a holder is ready, no start is in vain any more.
        let is_over = self.entries.last().is_some_and(|last| last.ended.is_none() && last.ready.is_some());
        let past = self.entries.iter().rev().skip_while(|entry| entry.ended.is_none());
        let in_vain = past.take_while(|entry| entry.ready.is_none() && !is_over).filter(recent).count();
        let handed_over = self.entries.iter().filter(|entry| entry.handed_over).filter(recent).count();
        let in_vain = Some(in_vain).filter(is_beyond).map(|times| Changes { times, in_vain: true });
        in_vain.or_else(|| Some(handed_over).filter(is_beyond).map(|times| Changes { times, in_vain: false }))
    }
}

/// How often a slot changed hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changes {
    times: usize,
    /// No holder got ready.
    in_vain: bool,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it changed hands {} times", self.times)?;
        if self.in_vain { f.write_str(" without a holder getting ready") } else { Ok(()) }
    }
}

fn path(place: &Place) -> PathBuf {
    place.path().join("history.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, ready: bool, ended: Option<u64>) -> HolderEntry {
        let moment = |since_boot| Moment { time: 0, since_boot };
        HolderEntry {
            id: id.to_owned(),
            command: Vec::new(),
            session: None,
            taken: moment(0),
            ready: ready.then(|| moment(1)),
            ended: ended.map(moment),
            why: None,
            host: None,
            handed_over: false,
            replaced: None,
            place: PathBuf::new(),
            boot: "b".to_owned(),
        }
    }

    const LIMIT: Rate = Rate { times: 3, within: Duration::from_secs(60) };

    fn changes(entries: Vec<HolderEntry>, now: u64) -> Option<Changes> {
        let history = History { version: VERSION, entries };
        history.excessive_handovers(LIMIT, Moment { time: 0, since_boot: now }, "b")
    }

    fn in_vain(entries: Vec<HolderEntry>, now: u64) -> Option<usize> {
        changes(entries, now).filter(|changes| changes.in_vain).map(|changes| changes.times)
    }

    fn of_host(host: i32, handed_over: bool, ended: Option<u64>) -> HolderEntry {
        let host = Some(Process { pid: host, start: 7 });
        HolderEntry { host, handed_over, ..entry("x", true, ended) }
    }

    #[test]
    fn a_host_was_replaced_until_a_holder_ends_by_itself() {
        let was = |entries: &[HolderEntry], host: i32| {
            let history = History { version: VERSION, entries: entries.to_vec() };
            history.was_replaced(Process { pid: host, start: 7 }, "b")
        };
        let (gave_way, ended, holds) = (
            |host| of_host(host, true, Some(9)),
            |host| of_host(host, false, Some(9)),
            |host| of_host(host, false, None),
        );
        assert!(was(&[gave_way(1), holds(2)], 1));
        assert!(!was(&[gave_way(1), holds(2)], 2), "its own child");
        assert!(!was(&[gave_way(1), holds(2)], 3), "another host");
        assert!(was(&[gave_way(1), gave_way(2), holds(3)], 1), "one host after the other");
        assert!(was(&[gave_way(1)], 1), "the replacer is not written down yet");
        assert!(!was(&[gave_way(1), holds(1)], 1), "by itself");
        assert!(!was(&[gave_way(1), ended(2), holds(3)], 1), "the replacer has ended");
        assert!(!was(&[gave_way(1), ended(2)], 1), "the slot is free");
        let other_start = History { version: VERSION, entries: vec![gave_way(1), holds(2)] };
        assert!(!other_start.was_replaced(Process { pid: 1, start: 8 }, "b"), "the number was used again");
        assert!(!other_start.was_replaced(Process { pid: 1, start: 7 }, "c"), "before the machine was started");
    }

    #[test]
    fn more_hand_overs_than_the_limit_are_too_many_whether_or_not_a_holder_was_ready() {
        let mut entries: Vec<_> = (0..3).map(|host| of_host(host, true, Some(1000))).collect();
        entries.push(of_host(9, false, None));
        assert_eq!(changes(entries.clone(), 2000), None);
        entries.insert(0, of_host(8, true, Some(900)));
        assert_eq!(changes(entries.clone(), 2000), Some(Changes { times: 4, in_vain: false }));
        assert_eq!(changes(entries, 62_000), None, "long ago");
    }

    #[test]
    fn it_is_a_loop_when_more_than_so_many_were_never_ready() {
        let ended = |count: usize| -> Vec<_> { (0..count).map(|_| entry("x", false, Some(1000))).collect() };
        assert_eq!(in_vain(ended(3), 2000), None);
        assert_eq!(in_vain(ended(4), 2000), Some(4));
        // The current holder is no change of hands yet.
        let mut with_holder = ended(3);
        with_holder.push(entry("now", false, None));
        assert_eq!(in_vain(with_holder.clone(), 2000), None);
        with_holder.insert(0, entry("x", false, Some(900)));
        assert_eq!(in_vain(with_holder.clone(), 2000), Some(4));
        // Once that one is ready, it is over.
        with_holder.pop();
        with_holder.push(entry("now", true, None));
        assert_eq!(in_vain(with_holder, 2000), None);
    }

    #[test]
    fn it_is_none_when_one_was_ready_or_it_was_long_ago_or_before_the_machine_was_started() {
        let mut entries: Vec<_> = (0..4).map(|_| entry("x", false, Some(1000))).collect();
        entries.insert(2, entry("fine", true, Some(1000)));
        assert_eq!(in_vain(entries, 2000), None);
        let entries: Vec<_> = (0..9).map(|_| entry("x", false, Some(1000))).collect();
        assert_eq!(in_vain(entries.clone(), 62_000), None);
        let of_before = entries.into_iter().map(|entry| HolderEntry { boot: "a".to_owned(), ..entry }).collect();
        assert_eq!(in_vain(of_before, 2000), None);
    }

    #[test]
    fn a_holder_that_ended_without_a_reason_gets_one_and_the_oldest_are_forgotten() {
        let folder = std::env::temp_dir().join(format!("nostray-history-{}", nostray_sys::process::random()));
        let place = Place::at(&folder).expect("place");
        assert_eq!(History::read(&place), History::default());
        for number in 0..=MAX_ENTRIES {
            History::add(&place, HolderEntry::begin(&number.to_string(), Vec::new(), None), None).expect("added");
        }
        History::amend(&place, &MAX_ENTRIES.to_string(), |entry| entry.ready = Some(Moment::now()));
        let history = History::read(&place);
        assert_eq!(history.entries.len(), MAX_ENTRIES);
        let (last, before) = history.entries.split_last().expect("there");
        assert!(last.ready.is_some() && last.ended.is_none());
        assert!(before.iter().all(|entry| entry.ended.is_some() && entry.why.is_some()));
        std::fs::write(path(&place), "{torn").expect("write");
        assert_eq!(History::read(&place), History::default());
        std::fs::remove_dir_all(folder).expect("remove");
    }
}
