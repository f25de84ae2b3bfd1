//! The contenders, and how a host starts a server with each.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Failure;
use crate::compare::Ground;
use crate::host::Host;
use crate::mux::Mux;
use crate::peers::Peer;
use crate::share::ways::SHARE;
use crate::traffic::{INITIALIZE, Server};
use crate::variants::{BWRAP, BWRAP_PID, Started};

/// What is in the answer to [`INITIALIZE`].
const ANSWERED: &str = r#""id":0"#;

/// One of them.
pub(super) struct Contender {
    pub(super) name: &'static str,
    /// Whether it is nostray's.
    pub(super) ours: bool,
    how: How,
}

enum How {
    /// These words in front of the server's; what is said goes through.
    Before(Vec<OsString>),
    Supervisord(PathBuf),
    Pm2(PathBuf),
    McpProxy(PathBuf),
    Supergateway(PathBuf),
    Mux(Mux),
}

/// All contenders that are installed.
pub(super) fn all(ground: &Ground) -> Vec<Contender> {
    let peers = &ground.peers;
    let before = |peer: &Peer, words: &[&str]| {
        let program = peer.as_ref().ok()?.clone().into_os_string();
        Some(How::Before(std::iter::once(program).chain(words.iter().map(OsString::from)).collect()))
    };
    let nostray = |words: &[&str]| before(&Ok(ground.programs.nostray.clone()), words);
    let found = |peer: &Peer, how: fn(PathBuf) -> How| peer.as_ref().ok().cloned().map(how);
    let bwrap_pid = [&BWRAP[..], &BWRAP_PID].concat();
    let all = [
        ("nothing", Some(How::Before(Vec::new()))),
        ("tini -s", before(&peers.tini, &["-s", "--"])),
        ("dumb-init", before(&peers.dumb_init, &["--"])),
        ("setpriv TERM", before(&peers.setpriv, &["--pdeathsig", "TERM", "--"])),
        ("setpriv KILL", before(&peers.setpriv, &["--pdeathsig", "KILL", "--"])),
        ("bwrap", before(&peers.bwrap, &BWRAP)),
        ("bwrap --unshare-pid", before(&peers.bwrap, &bwrap_pid)),
        ("supervisord", found(&peers.supervisord, How::Supervisord)),
        ("pm2-runtime", found(&peers.pm2, How::Pm2)),
        ("mcp-proxy", found(&peers.mcp_proxy, How::McpProxy)),
        ("supergateway", found(&peers.supergateway, How::Supergateway)),
        ("rmcp-mux", peers.mux.as_ref().ok().cloned().map(How::Mux)),
    ];
    let all = all.into_iter().map(|(name, how)| (name, false, how));
    let ours = [
        ("nostray run", true, nostray(&["run", "--"])),
        // Its linger is a wish, not a delay; how long it takes to end is the question.
        ("nostray share", true, nostray(&[SHARE, &["--"]].concat())),
    ];
    all.chain(ours).filter_map(|(name, ours, how)| Some(Contender { name, ours, how: how? })).collect()
}

/// What a host is to start, and how to see that it serves.
pub(super) struct Staged {
    pub(super) words: Vec<OsString>,
    door: Door,
    /// The daemon that has to be there before the host.
    pub(super) daemon: Option<Started>,
}

/// Where the server is to be spoken to.
enum Door {
    /// Through the wrapper.
    Stdio,
    /// By HTTP.
    Port(u16),
    /// Nowhere: it is kept running, that is all.
    Nowhere,
}

impl Contender {
    /// Whether an interpreter has to be started for it, which takes memory, and a second of a processor.
    pub(super) fn is_interpreted(&self) -> bool {
        matches!(self.how, How::Supervisord(_) | How::Pm2(_) | How::McpProxy(_) | How::Supergateway(_))
    }

    /// Makes ready what is to be there before the host. `folder` is for its files.
    pub(super) fn stage(&self, server: &[OsString], folder: &Path) -> Result<Staged, Failure> {
        let words = |before: &[&dyn AsRef<std::ffi::OsStr>]| -> Vec<OsString> {
            before.iter().map(|word| word.as_ref().to_owned()).collect()
        };
        let then_server = |before: Vec<OsString>| before.into_iter().chain(server.iter().cloned()).collect();
        Ok(match &self.how {
            How::Before(before) => Staged { words: then_server(before.clone()), door: Door::Stdio, daemon: None },
            How::Supervisord(program) => {
                let settings = folder.join("supervisord.conf");
                std::fs::write(&settings, supervisord_settings(&line(server)?, folder))?;
                let words = words(&[program, &"-n", &"-c", &settings]);
                Staged { words, door: Door::Nowhere, daemon: None }
            }
            How::Pm2(program) => {
                let home = |name: &str| [OsString::from(format!("{name}=")), folder.into()].into_iter().collect();
                let (home, pm2_home): (OsString, OsString) = (home("HOME"), home("PM2_HOME"));
                let (first, rest) = server.split_first().ok_or("no server")?;
                let runtime = program.with_file_name("pm2-runtime");
                let mut words = words(&[&"env", &home, &pm2_home, &runtime, &"start", first]);
                words.extend(["--name", "server", "--interpreter", "none", "--"].map(OsString::from));
                words.extend(rest.iter().cloned());
                Staged { words, door: Door::Nowhere, daemon: None }
            }
            How::McpProxy(program) => {
                let port = free_port()?;
                let number = port.to_string();
                // Without the second word the server has another environment, without what tells that it is of this run.
                let before = words(&[program, &"--pass-environment", &"--port", &number, &"--"]);
                Staged { words: then_server(before), door: Door::Port(port), daemon: None }
            }
            How::Supergateway(program) => {
                let port = free_port()?;
                let words = words(&[program, &"--stdio", &line(server)?, &"--port", &port.to_string()]);
                Staged { words, door: Door::Port(port), daemon: None }
            }
            How::Mux(mux) => {
                let server = Server { name: "tree".to_owned(), command: server.to_vec() };
                let (daemon, proxy) = mux.start(&server)?;
                Staged { words: proxy.words(&[], &[]), door: Door::Stdio, daemon: Some(daemon) }
            }
        })
    }
}

impl Staged {
    /// Waits until the tree has made this file, and the server can be spoken to.
    pub(super) fn until_it_serves(&self, host: &mut Host, complete: &Path, within: Duration) -> Result<(), Failure> {
        let happens = |what: &str, is_so: &mut dyn FnMut() -> bool| {
            let seen = badchild::comes_true(within, is_so);
            if seen { Ok(()) } else { Err(Failure::from(format!("within {within:?}, {what}"))) }
        };
        if let Door::Stdio = self.door {
            // Some start a server only when the host speaks.
            host.ask(str::from_utf8(INITIALIZE)?.trim_end(), ANSWERED, within)?;
        }
        happens("the tree was not complete", &mut || complete.exists())?;
        if let Door::Port(port) = self.door {
            happens("nothing listened at the port", &mut || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        }
        Ok(())
    }
}

/// Its defaults, but for where its files are.
fn supervisord_settings(server: &str, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "[supervisord]\nnodaemon=true\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile={folder}/supervisord.pid\n\
         childlogdir={folder}\n\n[program:server]\ncommand={server}\n"
    )
}

/// The command in one line, for contenders that want that; no word of it has a space in it.
fn line(server: &[OsString]) -> Result<String, Failure> {
    let words: Option<Vec<&str>> =
        server.iter().map(|word| word.to_str().filter(|word| !word.contains(' '))).collect();
    Ok(words.ok_or("the folder for temporary files has a space in its name, or is not UTF-8")?.join(" "))
}

/// A port at which no process listens now. If another process takes it, the wrapper ends, which is noticed.
fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
