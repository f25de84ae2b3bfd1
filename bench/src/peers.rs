//! What nostray is compared with: found in PATH or installed below the build folder, in the version that this folder's lists name. What is
//! not to be had here is left out, and the reason said.

mod debian;
mod npm;
mod pypi;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::mux::Mux;
use crate::programs::in_path;

pub(crate) use npm::everything;

/// A program, or why it cannot be measured here.
pub(crate) type Peer = Result<PathBuf, Failure>;

/// All programs that nostray is compared with.
pub(crate) struct Peers {
    pub(crate) tini: Peer,
    pub(crate) dumb_init: Peer,
    pub(crate) bwrap: Peer,
    pub(crate) setpriv: Peer,
    pub(crate) supervisord: Peer,
    pub(crate) pm2: Peer,
    pub(crate) mcp_proxy: Peer,
    pub(crate) supergateway: Peer,
    pub(crate) mux: Result<Mux, Failure>,
}

impl Peers {
    /// Finds all peers, and installs those that are missing; the first time takes minutes.
    pub(crate) fn find(mut doing: impl FnMut(&str)) -> Self {
        doing("tini, dumb-init, bubblewrap and setpriv");
        let works = |peer: Peer, words: &[&str]| peer.and_then(|program| probed(program, words));
        let tini = works(debian::find("tini", "tini"), &["--version"]);
        let dumb_init = works(debian::find("dumb-init", "dumb-init"), &["--version"]);
        let bwrap =
            works(debian::find("bwrap", "bubblewrap"), &["--dev-bind", "/", "/", "--unshare-pid", "--", "/bin/true"]);
        let setpriv = works(debian::find("setpriv", "util-linux"), &["--pdeathsig", "TERM", "/bin/true"]);
        doing("supervisor and mcp-proxy");
        let (supervisord, mcp_proxy) = (pypi::find("supervisord"), pypi::find("mcp-proxy"));
        doing("pm2 and supergateway");
        let (pm2, supergateway) = (npm::find("pm2"), npm::find("supergateway"));
        doing("rmcp-mux");
        let mux = Mux::find();
        Self { tini, dumb_init, bwrap, setpriv, supervisord, pm2, mcp_proxy, supergateway, mux }
    }

    /// The peers that are missing, and why.
    pub(crate) fn missing(&self) -> Vec<String> {
        let why = |name: &str, error: Option<&Failure>| error.map(|why| format!("{name}: {why}"));
        let programs = [
            ("tini", &self.tini),
            ("dumb-init", &self.dumb_init),
            ("bubblewrap", &self.bwrap),
            ("setpriv", &self.setpriv),
            ("supervisord", &self.supervisord),
            ("pm2", &self.pm2),
            ("mcp-proxy", &self.mcp_proxy),
            ("supergateway", &self.supergateway),
        ];
        let programs = programs.into_iter().filter_map(|(name, peer)| why(name, peer.as_ref().err()));
        programs.chain(why("rmcp-mux", self.mux.as_ref().err())).collect()
    }

    /// The versions of the peers that are installed.
    pub(crate) fn versions(&self) -> Vec<String> {
        let said = |peer: &Peer, word: &str| {
            let output = Command::new(peer.as_ref().ok()?).arg(word).stdin(Stdio::null()).output().ok()?;
            let said = [output.stdout, output.stderr].concat();
            Some(String::from_utf8_lossy(&said).lines().next()?.trim().to_owned())
        };
        let debian = [
            (&self.tini, "tini"),
            (&self.dumb_init, "dumb-init"),
            (&self.bwrap, "bubblewrap"),
            (&self.setpriv, "setpriv"),
        ];
        let debian = debian.into_iter().filter_map(|(peer, name)| {
            let said = said(peer, "--version")?;
            let number =
                said.split_whitespace().find(|word| word.trim_start_matches('v').starts_with(char::is_numeric));
            Some(format!("{name} {}", number.unwrap_or(&said).trim_start_matches('v')))
        });
        let listed = [
            (&self.supervisord, "supervisor", pypi::version("supervisor")),
            (&self.mcp_proxy, "mcp-proxy", pypi::version("mcp-proxy")),
            (&self.pm2, "pm2", npm::version("pm2")),
            (&self.supergateway, "supergateway", npm::version("supergateway")),
        ];
        let listed = listed.into_iter().filter(|(peer, ..)| peer.is_ok());
        let listed = listed.map(|(_, name, version)| format!("{name} {}", version.unwrap_or_default()));
        let mux = self.mux.is_ok().then(|| format!("rmcp-mux {}", crate::mux::VERSION));
        debian.chain(listed).chain(mux).collect()
    }
}

/// The folder below which all of them are.
pub(crate) fn folder() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").ok_or("no target folder")?).join("bench-peers"))
}

/// The lists of versions, which are part of the sources.
fn lists() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// A program that must be in PATH for the others to be installed.
fn tool(name: &str) -> Peer {
    in_path(name).ok_or_else(|| format!("{name} is not in PATH").into())
}

/// Runs an installer; an error has the first lines that say what went wrong.
fn install(command: &mut Command) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = said.lines().filter(|line| line.to_lowercase().contains("err")).take(3).collect();
    Err(format!("{} could not install it: {}", command.get_program().display(), errors.join("; ")).into())
}

/// The program, if it does what is wanted of it on this machine.
fn probed(program: PathBuf, words: &[&str]) -> Peer {
    let output = Command::new(&program).args(words).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(program);
    }
    Err(format!("it fails here: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
