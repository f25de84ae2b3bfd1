//! Files in a directory that a user can reach: what stands there under one of our names may be something else. A pipe keeps its opener
//! waiting for ever, a device never ends, a link leads anywhere. So every file of ours is opened here, and it is a plain one or an error.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nostray_sys::descriptors::NO_FOLLOW_AND_DO_NOT_WAIT;

/// An existing file, to be read.
pub fn to_read(path: &Path) -> io::Result<File> {
    plain(File::options().read(true), path)
}

/// An existing file, to be locked.
pub fn to_lock(path: &Path) -> io::Result<File> {
    plain(File::options().write(true), path)
}

/// A file to be locked, made if it is missing.
pub fn to_lock_or_make(path: &Path) -> io::Result<File> {
    plain(File::options().read(true).write(true).create(true).truncate(false).mode(0o600), path)
}

/// A file to be added to, made if it is missing.
pub fn to_append(path: &Path) -> io::Result<File> {
    plain(File::options().append(true).create(true).mode(0o600), path)
}

fn plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let not_plain = || io::Error::new(io::ErrorKind::InvalidInput, "is not a plain file; move it away");
    match options.custom_flags(NO_FOLLOW_AND_DO_NOT_WAIT).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        // "No such device or address" is what the kernel says of a pipe or a socket.
        Err(error) if std::fs::symlink_metadata(path).map_or(true, |found| found.is_file()) => Err(error),
        _ => Err(not_plain()),
    }
}

/// Whether that is why a file was not opened.
pub(crate) fn is_not_plain(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// What is in it, up to so many bytes.
pub fn read(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// Replaces it in one step, by way of another one: a reader sees the old one or the new one.
pub fn replace(path: &Path, by_way_of: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with_mode(path, by_way_of, bytes, 0o600)
}

/// The same for a file that other users may read.
pub fn replace_public(path: &Path, by_way_of: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with_mode(path, by_way_of, bytes, 0o644)
}

fn replace_with_mode(path: &Path, by_way_of: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let new = || File::options().write(true).create_new(true).mode(mode).open(by_way_of);
    let written = (|| {
        let mut file = match new() {
            // Of a writer that was killed; or something else.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::fs::remove_file(by_way_of)?;
                new()?
            }
            made => made?,
        };
        file.write_all(bytes)?;
        std::fs::rename(by_way_of, path)
    })();
    if written.is_err() {
        // A full disk must not be made fuller by half a file.
        std::fs::remove_file(by_way_of).ok();
    }
    written
}
