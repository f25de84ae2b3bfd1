//! A machine that has not read the programs yet: what the kernel keeps of their files in memory is put out of it.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use crate::compare::Ground;
use crate::{Failure, peers};

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Pages of files, and what is known of folders and files.
const ALL: &str = "3";

/// How that is done.
pub(super) enum Cold {
    /// All cached files of the whole machine that no process uses. For root alone.
    Machine,
    /// The files of these programs, as far as no other process uses them.
    Files(Vec<PathBuf>),
}

impl Cold {
    pub(super) fn find(ground: &Ground) -> Self {
        // What is not on the disk yet stays in memory, and the programs have just been built.
        rustix::fs::sync();
        if std::fs::write(DROP_CACHES, ALL).is_ok() {
            return Self::Machine;
        }
        let mut files = vec![ground.programs.nostray.clone()];
        files.extend(ground.everything.iter().flat_map(|server| &server.command).map(PathBuf::from));
        if let Ok(folder) = peers::folder() {
            add_files(&folder, &mut files);
        }
        Self::Files(files)
    }

    pub(super) fn chill(&self) -> Result<(), Failure> {
        match self {
            Self::Machine => Ok(std::fs::write(DROP_CACHES, ALL)?),
            Self::Files(files) => {
                // One that cannot be opened is none that is read.
                for file in files.iter().filter_map(|path| File::open(path).ok()) {
                    fadvise(&file, 0, None, Advice::DontNeed)?;
                }
                Ok(())
            }
        }
    }

    /// For the page.
    pub(super) fn definition(&self) -> &'static str {
        match self {
            Self::Machine => {
                "Cold: before each start the kernel dropped all cached files that no process used (`drop_caches`)"
            }
            Self::Files(_) => {
                "Cold: before each start the files of the programs were dropped from memory (`posix_fadvise`), as far \
                 as no other process used them; folders and files of the system stayed cached, since dropping them \
                 takes root"
            }
        }
    }
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => add_files(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_all_folders_and_removed_files_are_passed_over() {
        let folder = badchild::Folder::new("cold");
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).expect("a folder");
        let file = inner.join("file");
        std::fs::write(&file, "some").expect("a file");
        let mut files = Vec::new();
        add_files(folder.path(), &mut files);
        assert_eq!(files, [file]);
        files.push(folder.path().join("gone"));
        Cold::Files(files).chill().expect("what can be opened can be put out of memory");
    }
}
