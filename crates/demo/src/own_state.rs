//! A folder for the records and the journal of the pen in the second act, so that the user's own journal is not filled with demos.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use nostray_sys::proc::Stat;
use nostray_sys::process::{Pid, getpid, random, user};

const PREFIX: &str = "nostray-demo-";

/// The folder, which is removed when this is dropped. Every end of the demo but SIGKILL comes to that.
#[derive(Debug)]
pub(super) struct OwnState {
    /// None if it cannot be made. Then the pen is on record where all pens of the user are.
    folder: Option<PathBuf>,
}

impl OwnState {
    pub(super) fn new() -> Self {
        let all = std::env::temp_dir();
        remove_those_of_the_dead(&all);
        let folder = all.join(format!("{PREFIX}{}-{:016x}", getpid(), random()));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        Self { folder: made.is_ok().then_some(folder) }
    }

    /// Lets a process, and what it starts, keep its records here.
    pub(super) fn give_to(&self, command: &mut Command) {
        if let Some(folder) = &self.folder {
            command.env("XDG_RUNTIME_DIR", folder).env("XDG_STATE_HOME", folder);
        }
    }
}

impl Drop for OwnState {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            std::fs::remove_dir_all(folder).ok(); // the next demo tries again
        }
    }
}

/// Removes the folders of demos that were killed.
fn remove_those_of_the_dead(all: &Path) {
    let Ok(entries) = std::fs::read_dir(all) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        let is_dead = maker.and_then(Pid::from_raw).is_some_and(|maker| Stat::of(maker).is_none());
        // A link is not followed, and what belongs to another user is not touched.
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user());
        if is_dead && is_ours {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}
