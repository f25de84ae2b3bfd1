//! Reading and writing small files in a directory that a user can reach: what lies there under our names may be something else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nostray_sys::descriptors::NO_FOLLOW_AND_DO_NOT_WAIT;

/// Opens a plain file, and nothing else: a pipe would keep us waiting for ever, and a link leads anywhere.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(NO_FOLLOW_AND_DO_NOT_WAIT).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("is not a plain file")) }
}

/// What is in it, up to so many bytes.
pub(crate) fn read(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// Replaces it in one step, by way of another one: whoever reads sees the old one or the new one.
pub(crate) fn replace(path: &Path, by_way_of: &Path, bytes: &[u8]) -> io::Result<()> {
    // Of somebody who was killed as he wrote; or something else.
    std::fs::remove_file(by_way_of).ok();
    let written = (|| {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(by_way_of)?;
        file.write_all(bytes)?;
        std::fs::rename(by_way_of, path)
    })();
    if written.is_err() {
        // A full disk must not be made fuller by half a file.
        std::fs::remove_file(by_way_of).ok();
    }
    written
}
