//! The directories for records on Linux, and who may look into them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nostray_sys::process::user;

/// What moves a file.
pub(crate) const MOVE: &str = "mv";
/// What a directory is in which all is well.
pub(crate) const SOUND: &str = "private and writable";
/// Why there is no directory at all, and what to do.
pub(crate) const NONE: (&str, &str) =
    ("neither XDG_RUNTIME_DIR nor HOME is set", "set one of them for the host, so that nostray can keep its records");
/// What to do if none can be used.
pub(crate) const SET: &str = "set XDG_RUNTIME_DIR or XDG_STATE_HOME to a directory that this user may write to";

/// What they are for, and where they are, in the order in which they are tried.
pub(crate) fn all() -> Vec<(&'static str, PathBuf)> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = PathBuf::from(format!("/run/user/{}", user()));
    let runtime = variable("XDG_RUNTIME_DIR").or_else(|| Some(usual).filter(|path| path.is_dir()));
    let state = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    runtime.map(|path| ("runtime", path)).into_iter().chain(state.map(|path| ("state", path))).collect()
}

/// Why it is not this user's alone, and what to do.
pub(crate) fn is_open_to_others(path: &Path, found: &Metadata) -> Option<(String, String)> {
    let shown = path.display();
    if found.uid() != user() {
        let why = format!("belongs to user {}, not to this one ({})", found.uid(), user());
        return Some((why, format!("move it away, or give it back: sudo chown -R {} {shown}", user())));
    }
    if found.mode() & 0o077 != 0 {
        let why = format!("is open to other users (mode {:04o})", found.mode() & 0o7777);
        return Some((why, format!("make it private: chmod 700 {shown}")));
    }
    None
}

/// What to do if its owner may not write to it.
pub(crate) fn let_owner_write(path: &Path) -> String {
    format!("let its owner write: chmod 700 {}", path.display())
}

#[cfg(test)]
mod tests {
    use std::fs::DirBuilder;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    use nostray_sys::process::random;

    use crate::places::{Condition, condition_of};

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
