//! A named pipe (FIFO). A reader learns when the last process ends that has it open to write.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mknodat, open};

/// Makes one, unless it is there.
pub fn make(path: &Path) -> io::Result<()> {
    match mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        made => Ok(made?),
    }
}

/// Opens it to write, also without a reader.
pub fn hold(path: &Path) -> io::Result<OwnedFd> {
    only_fifo(open(path, OFlags::RDWR | FLAGS, Mode::empty())?)
}

/// Opens it to read. It hangs up when every writer, now or later, has closed it.
pub fn watch(path: &Path) -> io::Result<OwnedFd> {
    only_fifo(open(path, OFlags::RDONLY | FLAGS, Mode::empty())?)
}

/// Of anything else that stands there, nothing could be learned.
fn only_fifo(file: OwnedFd) -> io::Result<OwnedFd> {
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::Fifo => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a named pipe; move it away")),
    }
}

const FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Until, wait};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn it_hangs_up_when_the_last_holder_is_gone_and_not_before_there_was_one() {
        let path = std::env::temp_dir().join(format!("nostray-fifo-{}", crate::process::random()));
        make(&path).expect("made");
        make(&path).expect("is there");
        let watcher = watch(&path).expect("opened");
        let ends_within = |time| wait(&[(watcher.as_fd(), Until::HungUp)], Some(time)).expect("looked")[0];
        let is_over = || ends_within(Duration::ZERO);
        assert!(!is_over(), "there was no holder yet");
        let (first, second) = (hold(&path).expect("held"), hold(&path).expect("held"));
        assert!(!is_over());
        drop(first);
        assert!(!is_over(), "one is left");
        drop(second);
        // A process that another test has just forked may hold it for a moment, too.
        assert!(ends_within(Duration::from_secs(10)));
        std::fs::remove_file(path).expect("remove");
    }
}
