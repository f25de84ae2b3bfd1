//! The directory for records on Windows, and whose it is. Its access list is not read: nostray makes the directory for this user alone.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use nostray_sys::files::{is_own_folder, local_data_folder};

/// What moves a file.
pub(crate) const MOVE: &str = "move";
/// What a directory is in which all is well.
pub(crate) const SOUND: &str = "this user's, and writable";
/// Why there is no directory at all, and what to do.
pub(crate) const NONE: (&str, &str) = (
    "neither LOCALAPPDATA nor USERPROFILE is set",
    "set one of them for the host, so that nostray can keep its records",
);
/// What to do if none can be used.
pub(crate) const SET: &str = "set LOCALAPPDATA to a directory that this user may write to";

/// What they are for, and where they are, in the order in which they are tried.
pub(crate) fn all() -> Vec<(&'static str, PathBuf)> {
    local_data_folder().into_iter().map(|path| ("state", path)).collect()
}

/// Why it is not this user's, and what to do.
pub(crate) fn is_open_to_others(path: &Path, _: &Metadata) -> Option<(String, String)> {
    let why = is_own_folder(path).err()?;
    Some((why.to_string(), format!("move it away: {MOVE} {} {}.old", path.display(), path.display())))
}

/// What to do if its owner may not write to it.
pub(crate) fn let_owner_write(path: &Path) -> String {
    format!("let its owner write: icacls \"{}\" /reset", path.display())
}
