//! The directories in which nostray keeps its records: whether each is there, ours alone, and can be written to. Which they are, and what
//! makes one ours alone, each platform says in its own `folders`.

use std::io;
use std::path::{Path, PathBuf};

use nostray_sys::files::make_private_folder;
use nostray_sys::process::random;

use super::folders;

/// How a directory was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// There, private, and can be written to.
    Sound,
    /// Not there; it is made when it is needed.
    ToBeMade,
    /// Not there, nor can it be made; another one is used.
    Impossible(String),
    /// There, and nostray will not use it.
    Bad { why: String, advice: String },
}

/// One directory.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) purpose: &'static str,
    pub(super) condition: Condition,
}

impl Place {
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.condition, Condition::Sound | Condition::ToBeMade)
    }
}

/// All of them, in the order in which they are tried.
#[derive(Debug)]
pub(super) struct Places(pub(super) Vec<Place>);

impl Places {
    pub(super) fn examine() -> Self {
        let place = |(purpose, base): (&'static str, PathBuf)| {
            let path = base.join("nostray");
            Place { purpose, condition: condition_of(&path), path }
        };
        Self(folders::all().into_iter().map(place).collect())
    }

    /// A bad one counts even where another is used instead: records in it would not be found.
    pub(super) fn is_fine(&self) -> bool {
        self.0.iter().any(Place::is_usable)
            && !self.0.iter().any(|place| matches!(place.condition, Condition::Bad { .. }))
    }
}

pub(super) fn condition_of(path: &Path) -> Condition {
    let shown = path.display();
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return can_be_made(path),
        Err(error) => return Condition::Impossible(error.to_string()),
    };
    if !found.is_dir() {
        let kind = if found.is_symlink() { "a link" } else { "not a directory" };
        let advice = format!("move it away: {} {shown} {shown}.old", folders::MOVE);
        return Condition::Bad { why: format!("is {kind}"), advice };
    }
    if let Some((why, advice)) = folders::is_open_to_others(path, &found) {
        return Condition::Bad { why, advice };
    }
    match try_to_write(path) {
        Ok(()) => Condition::Sound,
        Err(error) => {
            Condition::Bad { why: format!("cannot be written to: {error}"), advice: folders::let_owner_write(path) }
        }
    }
}

fn can_be_made(path: &Path) -> Condition {
    let Some(above) = path.ancestors().skip(1).find(|above| above.exists()) else {
        return Condition::Impossible("nothing above it exists".to_owned());
    };
    match try_to_write(above) {
        Ok(()) => Condition::ToBeMade,
        Err(error) => Condition::Impossible(format!("cannot be made in {}: {error}", above.display())),
    }
}

/// Permissions tell half of it: a file system may be full, or read-only.
fn try_to_write(directory: &Path) -> io::Result<()> {
    let probe = directory.join(format!(".nostray-doctor-{:016x}", random()));
    make_private_folder(&probe)?;
    std::fs::remove_dir(&probe)
}
