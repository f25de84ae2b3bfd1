//! The directories in which nostray keeps its records: whether each is there, ours alone, and can be written to.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nostray_sys::process::{random, user};

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
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let usual = PathBuf::from(format!("/run/user/{}", user()));
        let runtime = variable("XDG_RUNTIME_DIR").or_else(|| Some(usual).filter(|path| path.is_dir()));
        let state = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
        let place = |purpose: &'static str| {
            move |base: PathBuf| {
                let path = base.join("nostray");
                Place { purpose, condition: condition_of(&path), path }
            }
        };
        Self(runtime.map(place("runtime")).into_iter().chain(state.map(place("state"))).collect())
    }

    /// A bad one counts even where another is used instead: records in it would not be found.
    pub(super) fn is_fine(&self) -> bool {
        self.0.iter().any(Place::is_usable)
            && !self.0.iter().any(|place| matches!(place.condition, Condition::Bad { .. }))
    }
}

fn condition_of(path: &Path) -> Condition {
    let shown = path.display();
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return can_be_made(path),
        Err(error) => return Condition::Impossible(error.to_string()),
    };
    let bad = |why: String, advice: String| Condition::Bad { why, advice };
    if !found.is_dir() {
        let kind = if found.is_symlink() { "a link" } else { "not a directory" };
        return bad(format!("is {kind}"), format!("move it away: mv {shown} {shown}.old"));
    }
    if found.uid() != user() {
        let why = format!("belongs to user {}, not to this one ({})", found.uid(), user());
        return bad(why, format!("move it away, or give it back: sudo chown -R {} {shown}", user()));
    }
    if found.mode() & 0o077 != 0 {
        let why = format!("is open to other users (mode {:04o})", found.mode() & 0o7777);
        return bad(why, format!("make it private: chmod 700 {shown}"));
    }
    match try_to_write(path) {
        Ok(()) => Condition::Sound,
        Err(error) => {
            bad(format!("cannot be written to: {error}"), format!("let its owner write: chmod 700 {shown}"))
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
    DirBuilder::new().mode(0o700).create(&probe)?;
    std::fs::remove_dir(&probe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_condition_is_told_apart() {
        let folder = std::env::temp_dir().join(format!("nostray-doctor-test-{:016x}", random()));
        let place = folder.join("nostray");
        DirBuilder::new().create(&folder).expect("make");
        assert_eq!(condition_of(&place), Condition::ToBeMade);
        DirBuilder::new().mode(0o700).create(&place).expect("make");
        assert_eq!(condition_of(&place), Condition::Sound);
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        let Condition::Bad { why, advice } = condition_of(&place) else { panic!("must be bad") };
        assert!(why.contains("0755") && advice.contains("chmod 700"), "{why}; {advice}");
        std::fs::remove_dir(&place).expect("remove");
        std::fs::write(&place, "").expect("write");
        assert!(matches!(condition_of(&place), Condition::Bad { why, .. } if why.contains("not a directory")));
        assert!(matches!(condition_of(&place.join("below")), Condition::Impossible(_)));
        std::fs::remove_dir_all(&folder).expect("tidy up");
    }
}
