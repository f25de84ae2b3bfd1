//! Files and folders of ours in places that other processes can reach.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::descriptors::NO_FOLLOW_AND_DO_NOT_WAIT;
use crate::process::user;

/// A file that only this user reads, if it is made.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// The same for a file that other users may read.
pub fn public(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o644)
}

/// For opening a file that may be something else: not through a link, and without waiting if it is a pipe.
pub fn not_through_a_link(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(NO_FOLLOW_AND_DO_NOT_WAIT)
}

/// Makes a folder that only this user may look into.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// An error if this is not a folder of this user that no other user may look into; or a link to one.
pub fn is_own_folder(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !found.is_dir() {
        return refuse("is not a directory");
    }
    if found.uid() != user() {
        return refuse("belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return refuse("is open to other users; make it private with chmod 700");
    }
    Ok(())
}

/// Whether an open file is this user's.
pub fn is_own_file(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.uid() == user())
}

/// Names one file, whatever it is called, and one state of it: device, inode, and time of the last change, in seconds and nanoseconds.
pub type Stamp = (u64, u64, i64, i64);

/// The file behind a name, and when it was last written.
#[must_use]
pub fn stamp_of(path: &Path) -> Option<Stamp> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
}

/// Device and inode of an open file: the head of its stamp.
pub fn id_of(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// The file that a path leads to, through all links.
pub fn real_path(path: &Path) -> io::Result<std::path::PathBuf> {
    path.canonicalize()
}
