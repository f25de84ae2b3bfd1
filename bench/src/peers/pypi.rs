//! What comes from PyPI, in the versions of `bench/peers/python`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::{Peer, folder, install, lists, tool};
use crate::Failure;

/// A program of one of the packages.
pub(super) fn find(program: &str) -> Peer {
    let path = programs()?.join(program);
    if path.exists() { Ok(path) } else { Err(format!("pip has installed no {program}").into()) }
}

/// The version that is asked for.
pub(super) fn version(package: &str) -> Option<String> {
    let list = std::fs::read_to_string(lists().join("python").join("requirements.txt")).ok()?;
    list.lines().find_map(|line| line.strip_prefix(&format!("{package}=="))).map(str::to_owned)
}

/// Where all of them are; installed once in a run at most, and again when the list is another one.
fn programs() -> Result<PathBuf, Failure> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    INSTALLED.get_or_init(|| installed().map_err(|error| error.to_string())).clone().map_err(Into::into)
}

fn installed() -> Result<PathBuf, Failure> {
    let list = lists().join("python").join("requirements.txt");
    let folder = folder()?.join("python");
    let wanted = std::fs::read(&list)?;
    let done = folder.join("installed");
    if std::fs::read(&done).ok() != Some(wanted.clone()) {
        install(Command::new(tool("python3")?).args(["-m", "venv", "--clear"]).arg(&folder))?;
        let pip = folder.join("bin").join("pip");
        install(Command::new(pip).args(["install", "--quiet", "--disable-pip-version-check", "-r"]).arg(&list))?;
        std::fs::write(&done, wanted)?;
    }
    Ok(folder.join("bin"))
}
