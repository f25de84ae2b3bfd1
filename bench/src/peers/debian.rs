//! Programs of the system, or of its packages: these are unpacked below the build folder and not installed, so it does
//! not take root.

use std::process::Command;

use super::{Peer, folder, install, tool};
use crate::programs::in_path;

/// A program of a package.
pub(super) fn find(program: &str, package: &str) -> Peer {
    if let Some(path) = in_path(program) {
        return Ok(path);
    }
    let folder = folder()?.join("debian").join(package);
    let path = folder.join("usr").join("bin").join(program);
    if !path.exists() {
        let (apt, dpkg) = (tool("apt-get")?, tool("dpkg-deb")?);
        std::fs::create_dir_all(&folder)?;
        let download = || install(Command::new(&apt).args(["download", "--quiet", package]).current_dir(&folder));
        // A new machine knows of no packages yet; only root can have it ask for them.
        download().or_else(|_| install(Command::new(&apt).args(["update", "--quiet"])).and_then(|()| download()))?;
        let archive = std::fs::read_dir(&folder)?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| format!("apt-get has put no package into {}", folder.display()))?;
        install(Command::new(&dpkg).arg("-x").arg(archive).arg(&folder))?;
    }
    if path.exists() { Ok(path) } else { Err(format!("the package {package} has no {program}").into()) }
}
