//! Where records and what lasts are kept.

use std::path::PathBuf;

use crate::place::{Place, variable};

/// The variable by which a user can name a directory.
pub(crate) const VARIABLE: &str = "XDG_RUNTIME_DIR";
/// Why there is no directory at all.
pub(crate) const NONE: &str = "neither XDG_RUNTIME_DIR nor HOME is set";

/// The directories in which there may be records, the best first.
pub(crate) fn for_records() -> Vec<PathBuf> {
    let runtime = variable("XDG_RUNTIME_DIR");
    let usual = PathBuf::from(format!("/run/user/{}", nostray_sys::process::user()));
    let usual = Some(usual).filter(|path| path.is_dir());
    let state = state_directory(variable("HOME"));
    [runtime, usual, state].into_iter().flatten().map(|path| path.join(Place::NAME)).collect()
}

/// The directory that stays the same whether or not the user is logged in.
pub(crate) fn that_lasts() -> Option<PathBuf> {
    state_directory(variable("HOME").or_else(known_home)).map(|path| path.join(Place::NAME))
}

fn state_directory(home: Option<PathBuf>) -> Option<PathBuf> {
    variable("XDG_STATE_HOME").or_else(|| home.map(|home| home.join(".local/state")))
}

/// The user's own directory, as the machine knows it.
fn known_home() -> Option<PathBuf> {
    let user = nostray_sys::process::user().to_string();
    let known = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = known.lines().find(|line| line.split(':').nth(2) == Some(&user))?;
    line.split(':').nth(5).map(PathBuf::from).filter(|path| path.is_absolute())
}
