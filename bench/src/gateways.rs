//! Programs that put a server of pipes on the network: mcp-proxy and supergateway. A host of pipes reaches it through two of their
//! processes: one with the server, which listens, and one for each session of a host, which calls there.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Failure;
use crate::peers::Peers;
use crate::traffic::{Server, Session, Way};
use crate::variants::{Started, Variant};

/// One of them, and how its two sides talk.
#[derive(Clone)]
pub(crate) struct Gateway {
    pub(crate) name: &'static str,
    program: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Streamable HTTP. All sessions have one server.
    McpProxy,
    /// Streamable HTTP. Each session has a server of its own, and what is sent may have 100 kB: its library's limit, for which it has no
    /// option.
    Supergateway,
    /// Server-sent events, which is what it does unless told otherwise. All sessions have one server.
    SupergatewaySse,
}

impl Gateway {
    /// The gateways that are installed.
    pub(crate) fn all(peers: &Peers) -> Vec<Self> {
        let all = [
            ("mcp-proxy", &peers.mcp_proxy, Kind::McpProxy),
            ("supergateway", &peers.supergateway, Kind::Supergateway),
            ("supergateway, SSE", &peers.supergateway, Kind::SupergatewaySse),
        ];
        let here = |(name, peer, kind): (_, &Result<PathBuf, Failure>, _)| {
            Some(Self { name, program: peer.as_ref().ok()?.clone(), kind })
        };
        all.into_iter().filter_map(here).collect()
    }

    /// Whether all sessions have one server.
    pub(crate) fn shares(&self) -> bool {
        self.kind != Kind::Supergateway
    }

    /// Whether each answer goes to every session, so that only one session at a time can ask.
    pub(crate) fn answers_every_session(&self) -> bool {
        self.kind == Kind::SupergatewaySse
    }

    pub(crate) fn way(self) -> Way {
        Way::new(self.name, move |server| {
            let (listener, caller) = self.start(server)?;
            Session::open_beside(&caller, server, listener)
        })
    }

    /// Starts the side that listens, and says how to reach it.
    pub(crate) fn start(&self, server: &Server) -> Result<(Started, Variant), Failure> {
        let port = free_port()?;
        let listener = Variant::other(self.name, self.listens(server, port));
        let log = log_file();
        let mut started = listener.start_saying(&[], Stdio::from(File::create(&log)?))?;
        let mut has_ended = false;
        badchild::comes_true(badchild::PATIENCE, &mut || {
            has_ended = started.has_ended();
            has_ended || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        });
        if has_ended || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let last = said.lines().next_back().unwrap_or("it has said nothing");
            return Err(format!("{} does not listen: {last}", self.name).into());
        }
        Ok((started, Variant::other(self.name, self.calls(port))))
    }

    fn listens(&self, server: &Server, port: u16) -> Vec<OsString> {
        let port = port.to_string();
        let program = self.program.as_os_str();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        // Both write about every message unless told not to.
        let own = match self.kind {
            // Without its environment a server is not known to be of this run.
            Kind::McpProxy => words(&["--log-level", "ERROR", "--pass-environment", "--port", &port, "--"]),
            Kind::Supergateway => {
                let how = ["--outputTransport", "streamableHttp", "--stateful"];
                words(&[&["--logLevel", "none", "--port", &port], &how[..], &["--stdio"]].concat())
            }
            Kind::SupergatewaySse => words(&["--logLevel", "none", "--port", &port, "--stdio"]),
        };
        let command = match self.kind {
            Kind::McpProxy => server.command.clone(),
            Kind::Supergateway | Kind::SupergatewaySse => vec![for_a_shell(&server.command)],
        };
        std::iter::once(program.to_owned()).chain(own).chain(command).collect()
    }

    fn calls(&self, port: u16) -> Vec<OsString> {
        let (mcp, sse) = (format!("http://127.0.0.1:{port}/mcp"), format!("http://127.0.0.1:{port}/sse"));
        let own = match self.kind {
            Kind::McpProxy => ["--log-level", "ERROR", "--transport", "streamablehttp", &mcp].to_vec(),
            Kind::Supergateway => ["--logLevel", "none", "--streamableHttp", &mcp].to_vec(),
            Kind::SupergatewaySse => ["--logLevel", "none", "--sse", &sse].to_vec(),
        };
        std::iter::once(self.program.clone().into()).chain(own.into_iter().map(OsString::from)).collect()
    }
}

/// A port at which no process listens now. The kernel does not give it to the next process that asks for any port.
fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn log_file() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    std::env::temp_dir().join(format!("gateway-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// As one word; in its place, the shell has the command, and no process of its own.
fn for_a_shell(words: &[OsString]) -> OsString {
    let quoted = |word: &OsString| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
    let all: Vec<String> = words.iter().map(quoted).collect();
    format!("exec {}", all.join(" ")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_makes_the_same_words_of_it() {
        let words = ["printf", "%s|", "a b", "it's", "$HOME"].map(OsString::from);
        let output = std::process::Command::new("sh").arg("-c").arg(for_a_shell(&words)).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a b|it's|$HOME|");
    }
}
