//! server-everything, the reference server of the protocol's authors: what a server in the field is like, with an
//! interpreter to start and a library between the pipe and the tool. Pinned, and installed below the build folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::session::Server;
use crate::Failure;
use crate::programs::in_path;

const PACKAGE: &str = "@modelcontextprotocol/server-everything";
const VERSION: &str = "2026.8.31";

/// Installs it if it is not there. An error says why it cannot be measured here.
pub(super) fn find() -> Result<Server, Failure> {
    let node = in_path("node").ok_or("node is not in PATH")?;
    let npm = in_path("npm").ok_or("npm is not in PATH")?;
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").ok_or("no target folder")?);
    let folder = target.join("bench").join(format!("server-everything-{VERSION}"));
    let package = folder.join("node_modules").join(PACKAGE);
    if !is_installed(&package) {
        install(&npm, &folder)?;
    }
    if !is_installed(&package) {
        return Err(format!("npm has put no {PACKAGE} {VERSION} into {}", folder.display()).into());
    }
    let program = package.join("dist").join("index.js");
    let command = vec![std::fs::canonicalize(node)?.into(), program.into(), "stdio".into()];
    Ok(Server { name: "server-everything".to_owned(), command })
}

fn is_installed(package: &Path) -> bool {
    let described = std::fs::read_to_string(package.join("package.json")).unwrap_or_default();
    described.contains(&format!("\"version\": \"{VERSION}\"")) && package.join("dist").join("index.js").exists()
}

fn install(npm: &Path, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let mut command = Command::new(npm);
    command.args([
        "install",
        "--no-audit",
        "--no-fund",
        "--no-save",
        "--ignore-scripts",
        "--loglevel=error",
        "--prefix",
    ]);
    command.arg(folder).arg(format!("{PACKAGE}@{VERSION}")).current_dir(folder).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    // Its last lines name files that a reader has not, its first ones the reason.
    let said = String::from_utf8_lossy(&output.stderr).lines().take(3).collect::<Vec<_>>().join("; ");
    Err(format!("npm could not install {PACKAGE}@{VERSION}: {said}").into())
}
