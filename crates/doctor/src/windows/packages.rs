//! Where packages put a program on Windows.

use std::path::{Path, PathBuf};

/// Whether a server can only be run, and not be shared.
pub(crate) const RUN_ALONE: bool = true;
/// The folder for programs, below a Python or an environment of it. (Cargo's is called as on Linux.)
pub(crate) const PROGRAMS: &str = "Scripts";
/// The program, as the list of a wheel's files names it, with what follows.
pub(crate) const IN_RECORD: &str = "Scripts/nostray.exe,";
/// The interpreter of a Python environment.
pub(crate) const PYTHON: &str = "Scripts\\python.exe";

/// There is no package of the system's own.
pub(crate) fn is_of_system(_: &Path) -> bool {
    false
}

/// The folders of Python packages below a prefix.
pub(crate) fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    vec![prefix.join("Lib").join("site-packages")]
}

/// The `node_modules` whose program a script beside it starts, as npm makes one for all projects: `nostray.cmd`.
pub(crate) fn modules_of_script(path: &Path) -> Option<PathBuf> {
    let is_script = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("cmd"));
    let modules = path.parent()?.join("node_modules");
    (is_script && modules.is_dir()).then_some(modules)
}

/// The name of a program, by the word that starts it.
pub(crate) fn program_name(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word).to_ascii_lowercase();
    [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).map_or(name.clone(), str::to_owned)
}
