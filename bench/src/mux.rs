//! rmcp-mux, a program that lets many clients use one server: a daemon for each server, and a proxy for each client. Pinned, and
//! installed below the build folder.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Failure;
use crate::peers;
use crate::traffic::{Server, Session, Way};
use crate::variants::{Started, Variant};

pub(crate) const VERSION: &str = "0.4.0";
/// It counts requests by their bytes, and clients; neither is to be what is measured.
const LIMITS: &[&str] = &["--max-active-clients", "1000", "--max-request-bytes", "100000000"];
/// Its log goes to stdout, and the benchmark does not read that.
const QUIET: &[&str] = &["--log-level", "error"];

/// Where its programs are.
#[derive(Clone)]
pub(crate) struct Mux {
    pub(crate) daemon: PathBuf,
    pub(crate) proxy: PathBuf,
}

impl Mux {
    /// Installs it if it is not there. An error says why it cannot be measured here.
    pub(crate) fn find() -> Result<Self, Failure> {
        let folder = peers::folder()?;
        let root = folder.join(format!("rmcp-mux-{VERSION}"));
        let program = |name| root.join("bin").join(name);
        if !program("rmcp-mux").exists() || !program("rmcp-mux-proxy").exists() {
            install(&folder.join("build"), &root)?;
        }
        // Copies, so that what runs them is of this run.
        let published = |name| badchild::publish(&program(name));
        Ok(Self { daemon: published("rmcp-mux"), proxy: published("rmcp-mux-proxy") })
    }

    pub(crate) fn way(self) -> Way {
        Way::new("rmcp-mux", move |server| {
            let (daemon, proxy) = self.start(server)?;
            Session::open_beside(&proxy, server, daemon)
        })
    }

    /// Starts one for this server, and says how to reach it.
    pub(crate) fn start(&self, server: &Server) -> Result<(Started, Variant), Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let socket = std::env::temp_dir().join(format!("mux-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let (program, words) = server.command.split_first().ok_or("no command")?;
        let before = [self.daemon.as_os_str(), "--socket".as_ref(), socket.as_ref(), "--cmd".as_ref(), program];
        let options = LIMITS.iter().chain(QUIET).chain(&["--"]).map(OsString::from);
        let daemon = Variant::other("rmcp-mux", before.into_iter().map(OsString::from).chain(options))
            .start_saying(words, Stdio::null())?;
        if !badchild::comes_true(badchild::PATIENCE, &mut || UnixStream::connect(&socket).is_ok()) {
            return Err("rmcp-mux does not listen".into());
        }
        let proxy = [self.proxy.as_os_str(), "--socket".as_ref(), socket.as_ref()];
        Ok((daemon, Variant::other("rmcp-mux", proxy)))
    }
}

fn install(build: &Path, root: &Path) -> Result<(), Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Its symbol in the tray needs libraries of a desktop.
    command.args([
        "install",
        "rmcp-mux",
        "--version",
        VERSION,
        "--locked",
        "--no-default-features",
        "--features",
        "cli",
    ]);
    command.arg("--root").arg(root).arg("--target-dir").arg(build).current_dir("/").stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).take(3).collect();
    Err(format!("cargo could not install rmcp-mux {VERSION}: {}", why.join("; ")).into())
}
