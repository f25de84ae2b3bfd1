//! Where records and the journal are kept.
//!
//! A host may give its children little of its environment, so a pen may write to another directory than a person's
//! shell names. Readers look in all of them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nostray_sys::files::{is_own_folder as is_ours, make_private_folder};

use crate::{Error, folders};

/// A private directory of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
}

/// The directories for records and for what lasts, if [`Place`] was told.
static GIVEN: OnceLock<[Option<PathBuf>; 2]> = OnceLock::new();

fn given(which: usize) -> Option<PathBuf> {
    GIVEN.get().and_then(|given| given[which].clone())
}

impl Place {
    /// The name of the folder that is a place.
    pub(crate) const NAME: &str = "nostray";

    /// For a process whose environment is not its own: from now on these are [`Place::for_writing`] and
    /// [`Place::that_lasts`], and the environment does not count. Only the first call counts.
    pub fn are_given(for_writing: Option<&Path>, that_lasts: Option<&Path>) {
        GIVEN.get_or_init(|| [for_writing, that_lasts].map(|path| path.map(Path::to_owned)));
    }

    /// The directory to write to, made if it is missing: in the user's runtime directory, or in the state directory.
    pub fn for_writing() -> Result<Self, Error> {
        let mut why = Vec::new();
        for path in candidates() {
            match Self::make(&path) {
                Ok(place) => return Ok(place),
                Err(error) => why.push(format!("{}: {error}", path.display())),
            }
        }
        if why.is_empty() {
            why.push(folders::NONE.to_owned());
        }
        Err(Error::NoPlace { why: why.join("; ") })
    }

    /// Every directory in which there may be records.
    #[must_use]
    pub fn all() -> Vec<Self> {
        candidates().into_iter().filter(|path| is_ours(path).is_ok()).map(|path| Self { path }).collect()
    }

    /// The directories in which there may be records and that cannot be read, each with the reason.
    #[must_use]
    pub fn unreadable() -> Vec<(PathBuf, io::Error)> {
        let why = |path: &Path| is_ours(path).and_then(|()| std::fs::read_dir(path).map(drop)).err();
        let is_there = |(_, why): &(PathBuf, io::Error)| {
            !matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        candidates().into_iter().filter_map(|path| why(&path).map(|why| (path, why))).filter(is_there).collect()
    }

    /// Where a place is or may appear.
    pub(crate) fn possible() -> Vec<PathBuf> {
        candidates()
    }

    /// The directory that stays the same whether or not the user is logged in, and if a host leaves variables out of
    /// the environment: in the state directory. Without a state directory, where records are.
    pub fn that_lasts() -> Result<Self, Error> {
        match given(1).or_else(folders::that_lasts).and_then(|path| Self::make(&path).ok()) {
            Some(place) => Ok(place),
            None => Self::for_writing(),
        }
    }

    /// A directory in it, made if it is missing.
    pub fn below(&self, name: &str) -> Result<Self, Error> {
        Self::at(&self.file(name))
    }

    /// The same, and these.
    pub(crate) fn all_and(others: &[Self]) -> Vec<Self> {
        let mut all = Self::all();
        for other in others {
            if !all.contains(other) {
                all.push(other.clone());
            }
        }
        all
    }

    /// One that is there, if it is ours.
    #[must_use]
    pub fn existing(path: &Path) -> Option<Self> {
        is_ours(path).is_ok().then(|| Self { path: path.to_owned() })
    }

    /// One at a given path, for tests and for programs that keep their own.
    pub fn at(path: &Path) -> Result<Self, Error> {
        Self::make(path).map_err(Error::io(path))
    }

    fn make(path: &Path) -> io::Result<Self> {
        // The common case first: one call instead of five.
        if is_ours(path).is_err() {
            if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
                make_private_folders(parent)?;
            }
            match make_private_folder(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => is_ours(path)?,
            }
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Makes a folder with all that are missing above it.
fn make_private_folders(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        make_private_folders(parent)?;
    }
    match make_private_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn candidates() -> Vec<PathBuf> {
    let mut candidates = Vec::from_iter(given(0));
    for path in folders::for_records() {
        if !candidates.contains(&path) {
            candidates.push(path);
        }
    }
    candidates
}
