//! Noticing that a file in a folder changes, appears or is replaced (inotify).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

/// Readable when a file of one of the folders has changed. **Not every file system tells of what other machines do**, so a user looks now
/// and then anyway.
#[derive(Debug)]
pub struct FolderWatch {
    inotify: OwnedFd,
    watched: Vec<PathBuf>,
}

impl FolderWatch {
    /// Watches nothing yet. Fails if the user has too many of these.
    pub fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { inotify, watched: Vec::new() })
    }

    /// Watches a folder, too: what is written in it, and what appears in it or vanishes. A second call for the same folder does nothing.
    pub fn add(&mut self, folder: &Path) -> io::Result<()> {
        if !self.watched.iter().any(|watched| watched == folder) {
            let changes = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
            inotify::add_watch(&self.inotify, folder, changes | WatchFlags::ONLYDIR)?;
            self.watched.push(folder.to_owned());
        }
        Ok(())
    }

    /// Whether a file that `is_meant` has changed since the last call, or may have.
    pub fn has_changed(&mut self, is_meant: impl Fn(&[u8]) -> bool) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        let (mut has_changed, mut is_lost) = (false, false);
        while let Ok(event) = events.next() {
            // The kernel forgets a folder that is removed. If another one appears in its place, it is added again.
            is_lost |= event.events().contains(inotify::ReadFlags::IGNORED);
            has_changed |= event.file_name().is_none_or(|name| is_meant(name.to_bytes()));
        }
        if is_lost {
            self.watched.clear();
        }
        has_changed
    }
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{self, Until};

    #[test]
    fn a_file_that_appears_is_written_or_is_replaced_is_noticed_and_others_are_not_meant() {
        let folder = std::env::temp_dir().join(format!("nostray-watch-{}", crate::process::random()));
        std::fs::create_dir(&folder).expect("make");
        let mut watch = FolderWatch::new().expect("inotify");
        watch.add(&folder).expect("watch");
        watch.add(&folder).expect("the same again");
        let is_journal = |name: &[u8]| name == b"journal";
        assert!(!watch.has_changed(is_journal));
        std::fs::write(folder.join("other"), "x").expect("write");
        assert!(poll::wait(&[(watch.as_fd(), Until::Readable)], None).expect("wait")[0]);
        assert!(!watch.has_changed(is_journal));
        for _ in 0..2 {
            std::fs::write(folder.join("journal"), "x").expect("write");
            assert!(watch.has_changed(is_journal));
        }
        std::fs::rename(folder.join("journal"), folder.join("journal.1")).expect("rename");
        assert!(watch.has_changed(is_journal));
        std::fs::remove_dir_all(&folder).expect("remove");
        // The kernel tells of it when no process has hold of the folder any more, as one that looks at all files may have.
        while !watch.watched.is_empty() {
            assert!(poll::wait(&[(watch.as_fd(), Until::Readable)], None).expect("wait")[0]);
            watch.has_changed(is_journal);
        }
        std::fs::create_dir(&folder).expect("make it again");
        watch.add(&folder).expect("watch");
        std::fs::write(folder.join("journal"), "x").expect("write");
        assert!(watch.has_changed(is_journal));
        std::fs::remove_dir_all(&folder).expect("remove");
    }
}
