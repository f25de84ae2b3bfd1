//! Putting a new file in the place of another one, so that what a third process wrote meanwhile can still be seen.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, Gid, RenameFlags, Uid, XattrFlags};

/// Lets two files change their places, in one step. Fails with `Unsupported` or `InvalidInput` where the file system has no such step.
pub fn exchange(one: &Path, two: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, two, RenameFlags::EXCHANGE)?)
}

/// Gives a file the name of another one, which is gone then.
pub fn rename_over(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Makes an attempt that elsewhere can fail because another process has the file open.
pub fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    attempt()
}

/// Gives a new file the owner, the permissions and the extended attributes of another one.
pub fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let (wanted, has) = (from.metadata()?, to.metadata()?);
    if (wanted.uid(), wanted.gid()) != (has.uid(), has.gid()) {
        rustix::fs::fchown(to, Some(Uid::from_raw(wanted.uid())), Some(Gid::from_raw(wanted.gid())))?;
    }
    // After the owner, since a change of the owner takes bits away.
    to.set_permissions(std::fs::Permissions::from_mode(wanted.mode() & 0o7777))?;
    let names = match attribute_names(from) {
        // A file system without such attributes.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
        names => names?,
    };
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; rustix::fs::fgetxattr_query(from, name)?];
        let length = rustix::fs::fgetxattr(from, name, value.as_mut_slice())?;
        value.truncate(length);
        match rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty()).map_err(io::Error::from) {
            // The kernel gives a new file its own label of these kinds, and lets only root set another one.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && (name.starts_with(b"security.") || name.starts_with(b"trusted.")) => {}
            done => done?,
        }
    }
    Ok(())
}

fn attribute_names(file: &File) -> io::Result<Vec<u8>> {
    let mut names = vec![0; rustix::fs::flistxattr_query(file)?];
    let length = rustix::fs::flistxattr(file, names.as_mut_slice())?;
    names.truncate(length);
    Ok(names)
}

/// Waits until no other process of nostray edits a file in this folder. The turn is over when the file is closed. A folder can be locked by
/// every process that can read it.
pub fn take_turn(folder: &Path) -> io::Result<File> {
    let turn = File::open(folder)?;
    rustix::fs::flock(&turn, FlockOperation::LockExclusive)?;
    Ok(turn)
}

/// Whether this user may write a file.
#[must_use]
pub fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Whether other names (hard links) lead to a file, too.
pub fn has_other_names(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 1)
}

/// Whether a process has this file open for writing. `None` if the kernel does not tell: the file is another user's, or on a file system
/// without leases. The file must be open for reading only.
#[must_use]
pub fn has_writer(file: &File) -> Option<bool> {
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: these calls take and return numbers; the descriptor is open as long as `file` is borrowed.
    let answer = unsafe {
        // A process that opens the file at this moment makes the kernel send a signal to the holder of the lease. SIGIO would end this
        // process; SIGURG does nothing.
        libc::fcntl(descriptor, crate::signal::F_SETSIG, libc::SIGURG);
        libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK)
    };
    if answer == 0 {
        // SAFETY: as above.
        unsafe { libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_UNLCK) };
        return Some(false);
    }
    // The kernel grants no lease for reading on a file that is open for writing.
    (io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_seen_as_long_as_it_has_the_file_open() {
        let folder = std::env::temp_dir().join(format!("nostray-replace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("make");
        let path = folder.join("file");
        let writer = File::create(&path).expect("create");
        let reader = File::open(&path).expect("open");
        assert_ne!(has_writer(&reader), Some(false));
        drop(writer);
        assert_ne!(has_writer(&reader), Some(true));
        std::fs::remove_dir_all(&folder).expect("remove");
    }
}
