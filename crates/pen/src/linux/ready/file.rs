//! Tells a file that appears from a stale one of an earlier run.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What one file has, and another one in its place, or the same one written anew, has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of the file that is there now, if there is one.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Whether there is a file, and it is not the file that was there before.
pub(super) fn is_new(path: &Path, before: Option<Stamp>) -> bool {
    Stamp::of(path).is_some_and(|now| before != Some(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_file_means_nothing_until_it_is_written_anew() {
        let path = std::env::temp_dir().join(format!("nostray-ready-{}", nostray_sys::process::random()));
        assert!(!is_new(&path, None));
        std::fs::write(&path, "old").expect("write");
        assert!(is_new(&path, None));
        let before = Stamp::of(&path);
        assert!(!is_new(&path, before));
        // The clock of a file system is coarse, so a time is set that it cannot have had.
        let file = std::fs::File::options().write(true).open(&path).expect("open");
        file.set_modified(std::time::UNIX_EPOCH).expect("set");
        assert!(is_new(&path, before));
        std::fs::remove_file(&path).expect("remove");
        assert!(!is_new(&path, before));
    }
}
