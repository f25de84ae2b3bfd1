//! Where packages put a program on Linux.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::answer;

/// Whether a server can only be run, and not be shared.
pub(crate) const RUN_ALONE: bool = false;
/// The folder for programs, below a prefix or a Python environment.
pub(crate) const PROGRAMS: &str = "bin";
/// The program, as the list of a wheel's files names it, with what follows.
pub(crate) const IN_RECORD: &str = "bin/nostray,";
/// The interpreter of a Python environment.
pub(crate) const PYTHON: &str = "bin/python";

/// Whether a file belongs to the Debian package.
pub(crate) fn is_of_system(path: &Path) -> bool {
    let owner = answer(Command::new("dpkg-query").arg("--search").arg(path));
    owner.is_some_and(|owner| owner.starts_with("nostray:"))
}

/// The folders of Python packages below a prefix.
pub(crate) fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let is_python =
        |entry: &std::fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.starts_with("python3"));
    let below = |lib: &str| std::fs::read_dir(prefix.join(lib)).into_iter().flatten().flatten();
    let pythons = ["lib", "lib64"].into_iter().flat_map(below).filter(is_python).map(|entry| entry.path());
    pythons.flat_map(|python| [python.join("site-packages"), python.join("dist-packages")]).collect()
}

/// The `node_modules` whose program a script beside it starts. npm makes links instead.
pub(crate) fn modules_of_script(_: &Path) -> Option<PathBuf> {
    None
}

/// The name of a program, by the word that starts it.
pub(crate) fn program_name(word: &str) -> String {
    word.rsplit('/').next().unwrap_or(word).to_owned()
}
