//! What comes from npm, in the versions of `bench/peers/node`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::{Peer, folder, install, lists, tool};
use crate::Failure;
use crate::traffic::Server;

const EVERYTHING: &str = "@modelcontextprotocol/server-everything";
const LISTS: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// A program of one of the packages.
pub(super) fn find(program: &str) -> Peer {
    let path = modules()?.join(".bin").join(program);
    if path.exists() { Ok(path) } else { Err(format!("npm has installed no {program}").into()) }
}

/// server-everything, the reference server of the protocol's authors: what a server in the field is like, with an interpreter to start
/// and a library between the pipe and the tool.
pub(crate) fn everything() -> Result<Server, Failure> {
    let node = tool("node")?;
    let program = modules()?.join(EVERYTHING).join("dist").join("index.js");
    if !program.exists() {
        return Err(format!("npm has installed no {EVERYTHING}").into());
    }
    let command = vec![std::fs::canonicalize(node)?.into(), program.into(), "stdio".into()];
    Ok(Server { name: "server-everything".to_owned(), command })
}

/// The version that is asked for.
pub(super) fn version(package: &str) -> Option<String> {
    let list = std::fs::read_to_string(lists().join("node").join("package.json")).ok()?;
    let version = list.split(&format!("\"{package}\": \"")).nth(1)?.split('"').next()?;
    Some(version.to_owned())
}

/// Where all of them are; installed once in a run at most, and again when the list is another one.
fn modules() -> Result<PathBuf, Failure> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    INSTALLED.get_or_init(|| installed().map_err(|error| error.to_string())).clone().map_err(Into::into)
}

fn installed() -> Result<PathBuf, Failure> {
    let (lists, folder) = (lists().join("node"), folder()?.join("node"));
    let wanted = std::fs::read(lists.join("package-lock.json"))?;
    let done = folder.join("installed");
    if std::fs::read(&done).ok() != Some(wanted.clone()) {
        let npm = tool("npm")?;
        std::fs::create_dir_all(&folder)?;
        for list in LISTS {
            std::fs::copy(lists.join(list), folder.join(list))?;
        }
        install(Command::new(npm).args(["ci", "--ignore-scripts", "--loglevel=error"]).current_dir(&folder))?;
        std::fs::write(&done, wanted)?;
    }
    Ok(folder.join("node_modules"))
}
