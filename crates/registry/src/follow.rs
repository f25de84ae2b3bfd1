//! Reading what is added to journals: over rotations, and also of places that appear later.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use nostray_sys::files::{id_of, stamp_of};
use serde::{Deserialize, Serialize};

use crate::journal::{Entry, Journal, MAX_READ, entries_in};
use crate::{Place, files};

/// Reads what is added to the journals of all places.
#[derive(Debug)]
pub struct Followers {
    followers: Vec<Follower>,
}

impl Followers {
    /// From the oldest entry on.
    #[must_use]
    pub fn from_start() -> Self {
        Self { followers: Place::all().iter().map(|place| Journal::at(place).follow_from_start()).collect() }
    }

    /// From now on.
    #[must_use]
    pub fn from_now() -> Self {
        Self { followers: Place::all().iter().map(|place| Journal::at(place).follow()).collect() }
    }

    /// What has been added since the last call, the oldest first.
    pub fn more(&mut self) -> Vec<Entry> {
        for journal in Place::all().iter().map(Journal::at) {
            if !self.followers.iter().any(|follower| follower.journal.path() == journal.path()) {
                self.followers.push(journal.follow_from_start());
            }
        }
        let mut entries: Vec<_> = self.followers.iter_mut().flat_map(Follower::more).collect();
        entries.sort_by_key(|entry| entry.time);
        entries
    }

    /// The folders in which a journal changes or appears. A place that does not exist yet appears in the folder above it.
    #[must_use]
    pub fn folders() -> Vec<PathBuf> {
        let nearest = |path: PathBuf| {
            [Some(path.as_path()), path.parent()].into_iter().flatten().find(|path| path.is_dir()).map(Path::to_owned)
        };
        Place::possible().into_iter().filter_map(nearest).collect()
    }

    /// Whether a change to a file of this name, in one of these folders, may be one of a journal.
    #[must_use]
    pub fn is_meant(name: &[u8]) -> bool {
        name == Journal::NAME.as_bytes() || name == Place::NAME.as_bytes()
    }
}

/// Reads what is added to one journal.
#[derive(Debug)]
pub struct Follower {
    journal: Journal,
    current: Option<OpenJournal>,
    /// The file that was put aside last. A process that had it open may still write to it.
    put_aside: Option<OpenJournal>,
}

impl Journal {
    /// A reader of what is added from now on.
    #[must_use]
    pub fn follow(&self) -> Follower {
        let mut follower = Follower { journal: self.clone(), current: OpenJournal::at(self.path()), put_aside: None };
        if let Some(current) = &mut follower.current {
            current.position = current.file.metadata().map_or(0, |found| found.len());
        }
        follower
    }

    /// A reader that begins with the oldest entry.
    #[must_use]
    pub fn follow_from_start(&self) -> Follower {
        // The current file first: if it is put aside in between, it is the older one, and is read once.
        let current = OpenJournal::at(self.path());
        let put_aside = OpenJournal::at(&self.older());
        let is_same = current.as_ref().map(|file| file.identity) == put_aside.as_ref().map(|file| file.identity);
        Follower { journal: self.clone(), current, put_aside: put_aside.filter(|_| !is_same) }
    }
}

/// How far the files of a journal have been read: device, inode and offset of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPosition(Vec<(u64, u64, u64)>);

impl Journal {
    /// A reader of what was added since another one was there. What was put aside twice since then is lost.
    #[must_use]
    pub fn follow_after(&self, JournalPosition(files): &JournalPosition) -> Follower {
        let mut follower = self.follow_from_start();
        for file in [&mut follower.current, &mut follower.put_aside].into_iter().flatten() {
            let read = files.iter().find(|(device, inode, _)| (*device, *inode) == file.identity);
            file.position = read.map_or(0, |(_, _, position)| *position);
        }
        follower
    }
}

impl Follower {
    /// How far it has read.
    #[must_use]
    pub fn position(&self) -> JournalPosition {
        let files = [&self.current, &self.put_aside].into_iter().flatten();
        JournalPosition(files.map(|file| (file.identity.0, file.identity.1, file.position)).collect())
    }

    /// What has been added since the last call.
    pub fn more(&mut self) -> Vec<Entry> {
        let mut entries = self.put_aside.as_mut().map(OpenJournal::more).unwrap_or_default();
        let there = identity(self.journal.path());
        if there.is_some() && self.current.as_ref().map(|file| file.identity) != there {
            if let Some(mut last) = self.current.take() {
                entries.extend(last.more());
                // Put aside twice since the last look: one file lies between.
                let mut between =
                    OpenJournal::at(&self.journal.older()).filter(|file| file.identity != last.identity);
                entries.extend(between.as_mut().map(OpenJournal::more).unwrap_or_default());
                self.put_aside = between.or(Some(last));
            }
            self.current = OpenJournal::at(self.journal.path());
        }
        entries.extend(self.current.as_mut().map(OpenJournal::more).unwrap_or_default());
        entries
    }
}

/// Device and inode.
type FileIdentity = (u64, u64);

fn identity(path: &Path) -> Option<FileIdentity> {
    stamp_of(path).map(|(device, number, ..)| (device, number))
}

/// One file of a journal, and how far it has been read.
#[derive(Debug)]
struct OpenJournal {
    file: File,
    identity: FileIdentity,
    position: u64,
}

impl OpenJournal {
    fn at(path: &Path) -> Option<Self> {
        let file = files::to_read(path).ok()?;
        let identity = id_of(&file).ok()?;
        Some(Self { file, identity, position: 0 })
    }

    /// The lines that are there to their end. A long line may become visible in two steps.
    fn more(&mut self) -> Vec<Entry> {
        let length = self.file.metadata().map_or(0, |found| found.len());
        if length < self.position {
            self.position = 0; // a user has emptied it
        }
        let mut bytes = Vec::new();
        if length == self.position || self.file.seek(SeekFrom::Start(self.position)).is_err() {
            return Vec::new();
        }
        // Half a journal is better than none.
        (&self.file).take(MAX_READ).read_to_end(&mut bytes).ok();
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.position += whole as u64;
        entries_in(&bytes[..whole])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Story;

    struct Scratch(PathBuf, Journal);

    impl Scratch {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("nostray-follow-{}", nostray_sys::process::random()));
            let journal = Journal::at(&Place::at(&path).expect("place"));
            Self(path, journal)
        }

        fn add(&self, id: &str) {
            self.1.add(id, Story::Empty);
        }

        fn put_aside(&self) {
            std::fs::rename(self.1.path(), self.1.older()).expect("rename");
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    fn ids(entries: Vec<Entry>) -> Vec<String> {
        entries.into_iter().map(|entry| entry.id).collect()
    }

    #[test]
    fn each_entry_is_read_once_from_a_journal_that_is_not_there_yet_and_over_rotations() {
        let scratch = Scratch::new();
        let mut follower = scratch.1.follow();
        assert!(follower.more().is_empty());
        scratch.add("a");
        assert_eq!(ids(follower.more()), ["a"]);
        scratch.add("b");
        scratch.put_aside();
        scratch.add("c");
        assert_eq!(ids(follower.more()), ["b", "c"]);
        scratch.add("d");
        scratch.put_aside();
        scratch.add("e");
        scratch.put_aside();
        scratch.add("f");
        assert_eq!(ids(follower.more()), ["d", "e", "f"]);
        assert!(follower.more().is_empty());
        assert_eq!(ids(scratch.1.follow_from_start().more()), ["e", "f"]);
        assert!(scratch.1.follow().more().is_empty());
    }

    /// A writer that opened the file before it was put aside writes to it afterwards.
    #[test]
    fn what_is_written_to_a_file_that_was_put_aside_is_read() {
        use std::io::Write;
        let scratch = Scratch::new();
        scratch.add("a");
        let mut follower = scratch.1.follow_from_start();
        assert_eq!(ids(follower.more()), ["a"]);
        let mut writer = files::to_append(scratch.1.path()).expect("open");
        scratch.put_aside();
        scratch.add("b");
        assert_eq!(ids(follower.more()), ["b"]);
        writer.write_all(b"\n{\"time\":1,\"id\":\"late\",\"event\":\"empty\"}\n").expect("write");
        assert_eq!(ids(follower.more()), ["late"]);
    }

    #[test]
    fn a_reader_that_comes_back_reads_what_was_added_meanwhile_once() {
        let scratch = Scratch::new();
        let comes_back = |position: &JournalPosition| {
            let mut follower = scratch.1.follow_after(position);
            (ids(follower.more()), follower.position())
        };
        let (read, position) = comes_back(&JournalPosition::default());
        assert!(read.is_empty());
        scratch.add("a");
        scratch.add("b");
        let (read, position) = comes_back(&position);
        assert_eq!(read, ["a", "b"]);
        scratch.add("c");
        scratch.put_aside();
        scratch.add("d");
        let (read, position) = comes_back(&position);
        assert_eq!(read, ["c", "d"]);
        assert!(comes_back(&position).0.is_empty());
        scratch.put_aside();
        scratch.add("e");
        assert_eq!(comes_back(&position).0, ["e"]);
    }

    #[test]
    fn a_line_that_is_there_in_part_is_read_when_it_is_whole() {
        use std::io::Write;
        let scratch = Scratch::new();
        let mut follower = scratch.1.follow();
        let mut writer = files::to_append(scratch.1.path()).expect("open");
        writer.write_all(b"\n{\"time\":1,\"id\":\"a\",").expect("write");
        assert!(follower.more().is_empty());
        writer.write_all(b"\"event\":\"empty\"}\n").expect("write");
        assert_eq!(ids(follower.more()), ["a"]);
    }

    #[test]
    fn a_journal_that_was_emptied_is_read_from_its_start() {
        let scratch = Scratch::new();
        scratch.add("a");
        scratch.add("b");
        let mut follower = scratch.1.follow();
        std::fs::write(scratch.1.path(), "").expect("write");
        scratch.add("c");
        assert_eq!(ids(follower.more()), ["c"]);
    }
}
