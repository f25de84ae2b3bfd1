//! How many children have ended, by reason. The journal forgets, so what was counted is written down beside it, with the place up to
//! which it was read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use nostray_registry::{Entry, Journal, JournalPosition, Place, Story, files};
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;
/// A larger file is none of ours.
const MAX_SIZE: u64 = 1 << 20;
/// A child that has started and not ended is remembered; not more of them than this, since a line may be lost.
const MAX_OPEN: usize = 10_000;
/// Another reader holds the lock for some milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How many children have ended, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    /// A word of the journal, or `exited`, `failed`, `killed` for a child that ended by itself.
    pub by_reason: BTreeMap<String, u64>,
}

/// What is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Counted {
    format: u32,
    position: JournalPosition,
    by_reason: BTreeMap<String, u64>,
    /// Children that have not ended yet, and why they will have.
    open: BTreeMap<String, Option<String>>,
}

impl Ends {
    /// Counts on from where the last reader was, in the journals of all places.
    #[must_use]
    pub fn count() -> Self {
        let mut ends = Self::default();
        for place in Place::all() {
            for (reason, times) in count_in(&place).by_reason {
                *ends.by_reason.entry(reason).or_default() += times;
            }
        }
        ends
    }
}

fn count_in(place: &Place) -> Counted {
    let path = |name: &str| place.path().join(name);
    // Without the lock, what is counted is not written down; a later reader counts it again.
    let lock = locked(&path("ends-lock"));
    let mut counted = read(&path("ends")).unwrap_or_default();
    let before = serde_json::to_vec(&counted).unwrap_or_default();
    let mut follower = Journal::at(place).follow_after(&counted.position);
    follower.more().into_iter().for_each(|entry| counted.take_in(entry));
    (counted.format, counted.position) = (FORMAT, follower.position());
    if let (Some(_lock), Ok(text)) = (lock, serde_json::to_vec(&counted))
        && text != before
    {
        // On a full disk the next reader counts again from where the last one was.
        files::replace(&path("ends"), &path("ends-new"), &text).ok();
    }
    counted
}

fn locked(path: &Path) -> Option<std::fs::File> {
    let lock = files::to_lock_or_make(path).ok()?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    while lock.try_lock().is_err() {
        if Instant::now() > deadline {
            return None;
        }
        // flock has no wait with a deadline.
        std::thread::sleep(Duration::from_millis(2));
    }
    Some(lock)
}

fn read(path: &Path) -> Option<Counted> {
    let text = files::read(&files::to_read(path).ok()?, MAX_SIZE).ok()?;
    serde_json::from_slice(&text).ok().filter(|counted: &Counted| counted.format == FORMAT)
}

impl Counted {
    fn take_in(&mut self, Entry { id, story, .. }: Entry) {
        match story {
            Story::Started { .. } if self.open.len() < MAX_OPEN => drop(self.open.insert(id, None)),
            // The first cause counts.
            Story::Stopping(cause) if cause.reason != "child-ended" => self.because(&id, || cause.reason),
            Story::NotExecuted { .. } => self.because(&id, || "not-executed".to_owned()),
            Story::Exited { code: 0, .. } => self.because(&id, || "exited".to_owned()),
            // As a shell reports a signal.
            Story::Exited { code: 129.., .. } => self.because(&id, || "killed".to_owned()),
            Story::Exited { .. } => self.because(&id, || "failed".to_owned()),
            Story::Swept { left: 0, .. } => {
                self.because(&id, || "swept".to_owned());
                self.ended(&id);
            }
            Story::Empty => self.ended(&id),
            _ => {}
        }
    }

    fn because(&mut self, id: &str, reason: impl FnOnce() -> String) {
        if let Some(open) = self.open.get_mut(id) {
            open.get_or_insert_with(reason);
        }
    }

    fn ended(&mut self, id: &str) {
        if let Some(reason) = self.open.remove(id) {
            *self.by_reason.entry(reason.unwrap_or_else(|| "unknown".to_owned())).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    use nostray_registry::Cause;
    use nostray_sys::process::Code;

    fn place() -> (PathBuf, Place) {
        let path = std::env::temp_dir().join(format!("nostray-ends-{}", nostray_sys::process::random()));
        let place = Place::at(&path).expect("place");
        (path, place)
    }

    fn child(journal: &Journal, id: &str, stories: Vec<Story>) {
        journal.add(id, Story::Started { command: vec!["x".to_owned()], session: None, host: None });
        stories.into_iter().for_each(|story| journal.add(id, story));
        journal.add(id, Story::Empty);
    }

    fn exited(code: Code) -> Story {
        Story::Exited { code, how: format!("exited with code {code}") }
    }

    fn stopping(reason: &str) -> Story {
        Story::Stopping(Cause { reason: reason.to_owned(), detail: String::new(), sender: None })
    }

    #[test]
    fn each_end_is_counted_once_under_its_first_cause_also_over_rotations() {
        let (path, place) = place();
        let journal = Journal::at(&place);
        child(&journal, "a", vec![exited(0)]);
        child(&journal, "b", vec![stopping("host-gone"), exited(143)]);
        child(&journal, "c", vec![stopping("child-ended"), exited(1)]);
        child(&journal, "d", vec![exited(137)]);
        child(&journal, "e", vec![Story::NotExecuted { why: String::new() }]);
        let counted = count_in(&place).by_reason;
        let expected = [("exited", 1), ("failed", 1), ("host-gone", 1), ("killed", 1), ("not-executed", 1)];
        assert_eq!(counted, expected.map(|(reason, times)| (reason.to_owned(), times)).into());
        assert_eq!(count_in(&place).by_reason, counted);
        // One that is open over a rotation.
        journal.add("f", Story::Started { command: Vec::new(), session: None, host: None });
        journal.add("f", stopping("stdin-closed"));
        count_in(&place);
        std::fs::rename(journal.path(), journal.path().with_extension("1")).expect("put aside");
        journal.add("f", exited(0));
        journal.add("f", Story::Empty);
        child(&journal, "g", vec![exited(0)]);
        count_in(&place);
        std::fs::rename(journal.path(), journal.path().with_extension("1")).expect("put aside");
        let counted = count_in(&place).by_reason;
        assert_eq!((counted["stdin-closed"], counted["exited"], counted.values().sum::<u64>()), (1, 2, 7));
        std::fs::remove_dir_all(path).expect("remove");
    }

    #[test]
    fn a_damaged_file_is_counted_anew_from_the_journal() {
        let (path, place) = place();
        let journal = Journal::at(&place);
        child(&journal, "a", vec![exited(0)]);
        count_in(&place);
        for damage in ["", "{", r#"{"format":99,"position":[],"by_reason":{"exited":5},"open":{}}"#] {
            std::fs::write(place.path().join("ends"), damage).expect("write");
            assert_eq!(count_in(&place).by_reason.get("exited"), Some(&1), "{damage}");
        }
        std::fs::remove_dir_all(path).expect("remove");
    }

    #[test]
    fn readers_at_once_count_nothing_twice() {
        let (path, place) = place();
        let journal = Journal::at(&place);
        std::thread::scope(|scope| {
            for reader in 0..4 {
                let (journal, place) = (&journal, &place);
                scope.spawn(move || {
                    for number in 0..25 {
                        child(journal, &format!("{reader}-{number}"), vec![exited(0)]);
                        count_in(place);
                    }
                });
            }
        });
        assert_eq!(count_in(&place).by_reason["exited"], 100);
        std::fs::remove_dir_all(path).expect("remove");
    }
}
