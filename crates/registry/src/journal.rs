//! The journal: what happened to each pen, and why, a line each. Append-only and bounded: two generations of one mebibyte.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nostray_pen::Reason;
use nostray_sys::files::{id_of, stamp_of};
use nostray_sys::process::Code;
use nostray_sys::signal::Arrived;
use serde::{Deserialize, Serialize};

use crate::{Place, files};
use nostray_sys::secrets::{describe, masked_text};

/// When the journal is put aside for a new one.
const ROTATE_SIZE: u64 = 1 << 20;
/// No file is read any further.
pub(crate) const MAX_READ: u64 = 8 * ROTATE_SIZE;
/// A line is written in one piece, and pieces up to this size are not mixed with others'.
const MAX_LINE: usize = 4096;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds of Unix time.
    pub time: u64,
    /// The pen that it is about.
    pub id: String,
    /// What happened.
    #[serde(flatten)]
    pub story: Story,
}

/// Why something ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// In one word.
    pub reason: String,
    /// In a sentence.
    pub detail: String,
    /// The command line of the process that asked for it, where it could be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

impl Cause {
    /// The reason of a pen, and its sender by its command line, with secrets masked.
    #[must_use]
    pub fn of(reason: &Reason) -> Self {
        Self {
            reason: reason.word().to_owned(),
            detail: reason.to_string(),
            sender: reason.sender().map(describe).filter(|text| !text.is_empty()),
        }
    }

    /// A signal that ended more than one pen.
    #[must_use]
    pub fn of_signal(Arrived { signal, sender, .. }: Arrived) -> Self {
        Self::of(&Reason::Signal { signal, sender, for_front: true })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        self.sender.as_ref().map_or(Ok(()), |sender| write!(f, " ({sender})"))
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Story {
    /// The pen was opened.
    Started {
        /// The command line, with secrets masked.
        command: Vec<String>,
        /// The session that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Who started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// The child is ready: it runs, or has met the condition that the user defined.
    Ready {
        /// Its number.
        child: Option<i32>,
    },
    /// The child's program could not be executed.
    NotExecuted {
        /// Why.
        why: String,
    },
    /// The child, a daemon, has forked into the background.
    Forked {
        /// The number of the process that is the child from now on.
        child: Option<i32>,
    },
    /// The tear-down has begun.
    Stopping(Cause),
    /// The child has ended.
    Exited {
        /// Its exit code, as a shell would report it.
        code: Code,
        /// In words.
        how: String,
    },
    /// So many did not end when they were asked to, and were killed.
    Killed {
        /// How many.
        processes: usize,
    },
    /// The tree is empty.
    Empty,
    /// A dead pen's survivors were ended by a sweep.
    Swept {
        /// How many there were.
        survivors: usize,
        /// How many are still there.
        left: usize,
    },
    /// All keepers of a pen are dead, and so many processes may be of it or not.
    Unproved {
        /// How many.
        candidates: usize,
    },
    /// A child that ended by itself is started again.
    Respawning {
        /// Which one it will be.
        generation: u64,
        /// In so many milliseconds.
        pause: u64,
        /// How the last one ended.
        cause: String,
    },
    /// It failed too often, and is not started again for a while.
    Tripped {
        /// How it ended the last time.
        cause: String,
    },
    /// No child runs until the next call.
    Asleep,
    /// A child has taken up the session.
    Answering {
        /// Which one.
        generation: u64,
        /// So many milliseconds after its start.
        after: u64,
    },
    /// A session holds a shared child.
    Attached {
        /// The number of its front.
        front: i32,
        /// How many hold it now.
        leases: usize,
        /// The session, as the user named it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// A session holds it no more.
    Detached {
        /// The number of its front.
        front: i32,
        /// How many hold it now.
        leases: usize,
        /// Why.
        why: String,
    },
    /// A shared child is ended, since no session holds it any more.
    Unheld {
        /// For how long it was kept after the last session, in milliseconds.
        linger: u64,
    },
    /// A child of its own for sessions that the shared one cannot serve.
    Apart {
        /// Why it cannot.
        why: String,
    },
    /// No message of a shared child has named a session in the way that `--route-by` says.
    NeverRouted {
        /// Where it was looked for.
        by: String,
    },
    /// Something about the slot that it wants or holds.
    Slot {
        /// Which.
        slot: String,
        /// What.
        what: String,
    },
    /// Something was not done.
    Refused {
        /// Why.
        why: String,
    },
    /// Written by a version that knows more.
    #[serde(other)]
    Unknown,
}

impl Story {
    /// Masks what it quotes of a child, a host or a sender. The command is masked already, word by word.
    fn mask_secrets(&mut self) {
        let mask = |text: &mut String| *text = masked_text(text);
        match self {
            Self::Stopping(cause) => mask(&mut cause.detail),
            Self::Exited { how: text, .. }
            | Self::Respawning { cause: text, .. }
            | Self::Tripped { cause: text }
            | Self::Detached { why: text, .. }
            | Self::NotExecuted { why: text }
            | Self::Slot { what: text, .. }
            | Self::Refused { why: text } => mask(text),
            _ => {}
        }
    }
}

/// The journal in a place.
#[derive(Debug, Clone)]
pub struct Journal {
    path: PathBuf,
}

impl Journal {
    /// The name of its file.
    pub(crate) const NAME: &str = "journal";

    /// The one in this place.
    #[must_use]
    pub fn at(place: &Place) -> Self {
        Self { path: place.file(Self::NAME) }
    }

    /// Adds a line. An error (a full disk) is ignored: ending the tree comes first.
    pub fn add(&self, id: &str, mut story: Story) {
        story.mask_secrets();
        let entry = Entry { time: now(), id: id.to_owned(), story };
        self.write(&entry).ok();
    }

    fn write(&self, entry: &Entry) -> io::Result<()> {
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, &shortened(entry))?;
        line.push(b'\n');
        let mut file = match files::to_append(&self.path) {
            Err(error) if files::is_not_plain(&error) => {
                std::fs::rename(&self.path, self.path.with_extension("damaged"))?;
                files::to_append(&self.path)?
            }
            opened => opened?,
        };
        // In one write, and with a newline before it, in case the disk was full in the middle of the last line.
        file.write_all(&line)?;
        if file.metadata()?.len() > ROTATE_SIZE {
            self.put_aside(&file)?;
        }
        Ok(())
    }

    /// Makes room for a new file. A process that has the old one open goes on writing into it, under its new name.
    fn put_aside(&self, file: &File) -> io::Result<()> {
        // Two at once would put the new one aside, too.
        if file.try_lock().is_ok() && same_file(file, &self.path)? {
            std::fs::rename(&self.path, self.older())?;
        }
        Ok(())
    }

    /// Where the file is that was put aside last.
    pub(crate) fn older(&self) -> PathBuf {
        self.path.with_extension("1")
    }

    /// Everything in it, oldest first. Lines that are none are skipped.
    #[must_use]
    pub fn read(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for path in [self.older(), self.path.clone()] {
            if let Ok(mut file) = files::to_read(&path) {
                entries.extend(read_lines(&mut file));
            }
        }
        entries
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn read_lines(file: &mut dyn Read) -> Vec<Entry> {
    let mut bytes = Vec::new();
    // Half a journal is better than none.
    file.take(MAX_READ).read_to_end(&mut bytes).ok();
    entries_in(&bytes)
}

/// The entries of these lines. Lines that are none are skipped.
pub(crate) fn entries_in(bytes: &[u8]) -> Vec<Entry> {
    bytes.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// A command line may be longer than a line.
fn shortened(entry: &Entry) -> Entry {
    let mut entry = entry.clone();
    if let Story::Started { command, .. } = &mut entry.story {
        let mut room = MAX_LINE / 2;
        command.retain_mut(|word| {
            let keep = word.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= room).last();
            word.truncate(keep.unwrap_or(0));
            room = room.saturating_sub(word.len() + 8);
            room > 0
        });
    }
    entry
}

fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    let (device, number, ..) = stamp_of(path).ok_or(io::ErrorKind::NotFound)?;
    Ok(id_of(file)? == (device, number))
}

/// Milliseconds of Unix time.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> (PathBuf, Journal) {
        let path = std::env::temp_dir().join(format!("nostray-journal-{}", nostray_sys::process::random()));
        let place = Place::at(&path).expect("place");
        (path, Journal::at(&place))
    }

    #[test]
    fn lines_of_many_writers_at_once_are_all_there_and_whole() {
        let (path, journal) = journal();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let journal = &journal;
                scope.spawn(move || {
                    for number in 0..200 {
                        journal.add(&format!("{writer}-{number}"), Story::Empty);
                    }
                });
            }
        });
        let mut ids: Vec<_> = journal.read().into_iter().map(|entry| entry.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 8 * 200);
        std::fs::remove_dir_all(path).expect("remove");
    }

    #[test]
    fn it_is_bounded() {
        let (path, journal) = journal();
        let command = vec!["x".repeat(1900)];
        for number in 0..3000 {
            let story = Story::Started { command: command.clone(), session: None, host: None };
            journal.add(&number.to_string(), story);
        }
        let size: u64 =
            std::fs::read_dir(&path).expect("read").map(|e| e.expect("entry").metadata().expect("is").len()).sum();
        assert!(size < 3 * ROTATE_SIZE, "{size} bytes");
        assert_eq!(journal.read().last().expect("not empty").id, "2999");
        std::fs::remove_dir_all(path).expect("remove");
    }

    /// Cut anywhere, or with any bit flipped: all undamaged lines are read, and nothing panics.
    #[test]
    fn damage_costs_the_damaged_line_only() {
        let (path, journal) = journal();
        for number in 0..3 {
            journal.add(&number.to_string(), Story::Killed { processes: number });
        }
        let whole = std::fs::read(journal.path()).expect("read");
        for end in 0..whole.len() {
            std::fs::write(journal.path(), &whole[..end]).expect("write");
            assert!(journal.read().len() <= 3);
            journal.add("after", Story::Empty);
            assert_eq!(journal.read().last().map(|entry| entry.id.as_str()), Some("after"), "cut at {end}");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(journal.path(), &flipped).expect("write");
            assert!(!journal.read().is_empty(), "bit {bit}");
        }
        std::fs::remove_dir_all(path).expect("remove");
    }
}
