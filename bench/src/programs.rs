//! The programs that are measured, built here so that they are what the sources say.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

/// Where they are, for every user to execute.
pub(crate) struct Programs {
    pub(crate) nostray: PathBuf,
    pub(crate) badchild: PathBuf,
}

impl Programs {
    /// Builds them, optimised, into the folder that this program came from.
    pub(crate) fn build() -> Result<Self, Failure> {
        if cfg!(debug_assertions) {
            return Err("what is not optimised is not worth measuring: run with `cargo run --release`".into());
        }
        let me = std::env::current_exe()?;
        let folder = me.ancestors().nth(2).ok_or("no target folder")?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--release", "-p", "nostray-cli", "-p", "badchild"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()?;
        if !built.success() {
            return Err("cargo could not build nostray and badchild".into());
        }
        let published = |name| existing(folder, name).map(|path| badchild::publish(&path));
        Ok(Self { nostray: published("nostray")?, badchild: published("badchild")? })
    }
}

fn existing(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = folder.join(name);
    if path.exists() { Ok(path) } else { Err(format!("cargo has built no {}", path.display()).into()) }
}

/// Where a program is in PATH.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}
