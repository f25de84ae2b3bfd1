//! Where records and what lasts are kept: both in the folder for what programs keep of a user on this machine.

use std::path::PathBuf;

use crate::place::{Place, variable};

/// The variable by which a user can name a directory.
pub(crate) const VARIABLE: &str = "LOCALAPPDATA";
/// Why there is no directory at all.
pub(crate) const NONE: &str = "neither LOCALAPPDATA nor USERPROFILE is set";

/// The directories in which there may be records, the best first.
pub(crate) fn for_records() -> Vec<PathBuf> {
    let named = variable("LOCALAPPDATA");
    // A host may leave a variable out of the environment that it gives to its children.
    let usual = variable("USERPROFILE").map(|home| home.join("AppData").join("Local"));
    [named, usual].into_iter().flatten().map(|path| path.join(Place::NAME)).collect()
}

/// The directory that stays the same whether or not the user is logged in.
pub(crate) fn that_lasts() -> Option<PathBuf> {
    for_records().into_iter().next().map(|path| path.join("state"))
}
