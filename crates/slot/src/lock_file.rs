//! The file by whose lock a slot is held. The kernel frees the lock when the file is closed for the last time.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use nostray_registry::{Place, files};

use crate::Error;

/// The file of one slot, open.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    file: File,
}

impl LockFile {
    pub(crate) fn open(place: &Place) -> Result<Self, Error> {
        let path = path_in(place);
        let file = files::to_lock_or_make(&path).map_err(Error::io(&path))?;
        Ok(Self { path, file })
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the lock, if it is free. False if another process has it.
    pub(crate) fn try_take(&self) -> Result<bool, Error> {
        match self.file.try_lock() {
            Ok(()) => self.check().map(|()| true).inspect_err(|_| self.release()),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(broken(&self.path, &error.to_string())),
        }
    }

    /// Releases it for every process that has this open.
    pub(crate) fn release(&self) {
        self.file.unlock().ok();
    }

    /// Some file systems give one lock to several processes. Such a lock is refused.
    fn check(&self) -> Result<(), Error> {
        let other = files::to_lock_or_make(&self.path).map_err(Error::io(&self.path))?;
        refused_to_another(&self.path, other.try_lock())
    }

    /// Whether it is held, for a reader. (A reader holds a shared lock for a moment, together with other readers.)
    pub(crate) fn is_taken(place: &Place) -> bool {
        let file = files::to_read(&path_in(place));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

fn path_in(place: &Place) -> PathBuf {
    place.path().join("lock")
}

/// What it means that a second attempt to lock a file that is locked had this answer.
fn refused_to_another(path: &Path, answer: Result<(), TryLockError>) -> Result<(), Error> {
    match answer {
        Err(TryLockError::WouldBlock) => Ok(()),
        Ok(()) => Err(broken(path, "two had it at once")),
        Err(TryLockError::Error(error)) => Err(broken(path, &error.to_string())),
    }
}

fn broken(path: &Path, why: &str) -> Error {
    Error::NoLocks { path: path.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of one test, which goes away with it.
    struct Folder(Place);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nostray-test-lock-{}-{name}", std::process::id()));
            std::fs::remove_dir_all(&path).ok();
            Self(Place::at(&path).expect("a folder"))
        }

        fn file(&self) -> LockFile {
            LockFile::open(&self.0).expect("a file")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(self.0.path()).ok();
        }
    }

    #[test]
    fn one_takes_it_and_another_one_only_after_it_was_released_or_closed() {
        let folder = Folder::new("one");
        let (first, second) = (folder.file(), folder.file());
        assert!(!LockFile::is_taken(&folder.0), "nothing has it yet");
        assert!(first.try_take().expect("locks work"));
        assert!(!second.try_take().expect("locks work"));
        assert!(LockFile::is_taken(&folder.0));
        first.release();
        assert!(!LockFile::is_taken(&folder.0));
        assert!(second.try_take().expect("locks work"));
        assert!(!first.try_take().expect("locks work"));
        drop(second);
        assert!(!LockFile::is_taken(&folder.0));
        assert!(first.try_take().expect("locks work"));
    }

    #[test]
    fn readers_do_not_take_it_and_see_no_lock_where_there_is_no_file() {
        let folder = Folder::new("readers");
        assert!(!LockFile::is_taken(&folder.0), "there is no file");
        let file = folder.file();
        let reader = files::to_read(&path_in(&folder.0)).expect("a file");
        reader.try_lock_shared().expect("locks work");
        assert!(!LockFile::is_taken(&folder.0), "only another reader has it");
        assert!(!file.try_take().expect("locks work"), "but not beside a reader");
        drop(reader);
        assert!(file.try_take().expect("locks work"));
    }

    #[test]
    fn a_lock_that_two_can_have_is_refused() {
        let path = Path::new("lock");
        assert!(refused_to_another(path, Err(TryLockError::WouldBlock)).is_ok());
        let said = |answer| refused_to_another(path, answer).expect_err("is refused").to_string();
        assert!(said(Ok(())).contains("two had it at once"));
        assert!(said(Err(TryLockError::Error(std::io::ErrorKind::Unsupported.into()))).contains("unsupported"));
    }
}
