//! Files in a directory that a user can reach: what stands there under one of our names may be something else. A pipe keeps its opener
//! waiting for ever, a device never ends, a link leads anywhere. So every file of ours is opened here, and it is a plain one or an error.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use nostray_sys::files::{not_through_a_link, private, public};
use nostray_sys::replace::rename_over;

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
    plain(private(File::options().read(true).write(true).create(true).truncate(false)), path)
}

/// A file to be added to, made if it is missing.
pub fn to_append(path: &Path) -> io::Result<File> {
    plain(private(File::options().append(true).create(true)), path)
}

fn plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let not_plain = || io::Error::new(io::ErrorKind::InvalidInput, "is not a plain file; move it away");
    match not_through_a_link(options).open(path) {
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
    // With room for a byte more, the first read takes all of it, and the second one finds its end.
    let length = file.metadata().map_or(0, |found| found.len()).min(most);
    let mut text = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
    file.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// Replaces it in one step, by way of another one: a reader sees the old one or the new one.
pub fn replace(path: &Path, by_way_of: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(path, by_way_of, bytes, private)
}

/// The same for a file that other users may read.
pub fn replace_public(path: &Path, by_way_of: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(path, by_way_of, bytes, public)
}

fn replace_by(
    path: &Path,
    by_way_of: &Path,
    bytes: &[u8],
    readers: fn(&mut OpenOptions) -> &mut OpenOptions,
) -> io::Result<()> {
    let new = || readers(File::options().write(true).create_new(true)).open(by_way_of);
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
        drop(file);
        rename_over(by_way_of, path)
    })();
    if written.is_err() {
        // A full disk must not be made fuller by half a file.
        std::fs::remove_file(by_way_of).ok();
    }
    written
}
