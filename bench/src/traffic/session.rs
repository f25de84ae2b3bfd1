//! A host's session with a server: started with pipes as a host does, greeted, and then called.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::Found;
use nostray_sys::Signal;

use super::lines::Lines;
use super::request::{Request, cut, is_said_by_itself, number_of};
use crate::Failure;
use crate::programs::is_started_with;
use crate::variants::{Started, Variant};

/// What a host says first.
pub(crate) const INITIALIZE: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\
    \"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"nostray-bench\",\"version\":\"1\"}}}\n";
const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

/// A server that knows the tool `echo`.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) command: Vec<OsString>,
}

impl Server {
    /// Whether this process is it: by all of its words, since a wrapper has them in its own.
    pub(crate) fn is(&self, found: &Found) -> bool {
        is_started_with(found, &self.command)
    }
}

/// One session, ended with the value.
pub(crate) struct Session {
    pub(super) started: Started,
    pub(super) lines: Lines,
    /// Of the next request; no number is used twice in a session.
    pub(super) next: u64,
    who: String,
    stderr: PathBuf,
    server: Server,
    /// What has to be there for it, and is ended after it.
    beside: Option<Started>,
}

impl Session {
    /// Starts and greets a server. The next call follows the greeting without a pause.
    pub(crate) fn open(variant: &Variant, server: &Server) -> Result<Self, Failure> {
        let who = format!("{} with {}", variant.name, server.name);
        // Servers chatter; it is of interest only when something goes wrong.
        let stderr = std::env::temp_dir().join(format!("stderr-{}-{}", variant.name, server.name).replace('/', "-"));
        let started = variant.start_saying(&server.command, Stdio::from(File::create(&stderr)?))?;
        let (server, beside) = (server.clone(), None);
        let mut session = Self { started, lines: Lines::new(), next: 0, who, stderr, server, beside };
        session.greet().map_err(|error| session.explain(&error))?;
        Ok(session)
    }

    /// The same with a server that another program has started. That program is ended after the session.
    pub(crate) fn open_beside(variant: &Variant, server: &Server, beside: Started) -> Result<Self, Failure> {
        let session = Self::open(variant, &Server { command: Vec::new(), ..server.clone() })?;
        Ok(Self { beside: Some(beside), server: server.clone(), ..session })
    }

    fn greet(&mut self) -> Result<(), Failure> {
        self.write(INITIALIZE)?;
        let is_hello = |line: &[u8]| line.windows(17).any(|part| part == b"\"protocolVersion\"");
        loop {
            let line = self.line()?;
            if is_hello(line) {
                break;
            }
            if !is_said_by_itself(line) {
                return Err(format!("not a greeting: {}", cut(line)).into());
            }
        }
        self.write(INITIALIZED)
    }

    /// One call. Says how long it took, and has the answer, in which the payload was found.
    pub(crate) fn call(&mut self, request: &mut Request) -> Result<(Duration, Vec<u8>), Failure> {
        self.call_unexplained(request).map_err(|error| self.explain(&error))
    }

    pub(super) fn call_unexplained(&mut self, request: &mut Request) -> Result<(Duration, Vec<u8>), Failure> {
        let number = self.next;
        self.next += 1;
        let start = Instant::now();
        // A server answers a call when it has all of it, so nothing comes back that would have to be read meanwhile.
        self.write(request.numbered(number))?;
        loop {
            let line = self.line()?;
            let time = start.elapsed();
            match number_of(line)? {
                None => continue,
                Some(got) if got == number && request.is_in(line) => return Ok((time, line.to_vec())),
                Some(_) => return Err(format!("not what was asked for: {}", cut(line)).into()),
            }
        }
    }

    pub(super) fn write(&mut self, line: &[u8]) -> Result<(), Failure> {
        Ok(self.started.input.as_mut().ok_or("no input")?.write_all(line)?)
    }

    fn line(&mut self) -> Result<&[u8], Failure> {
        while !self.lines.has_next() {
            if !self.lines.read(&mut self.started.output)? {
                return Err("it ended".into());
            }
        }
        Ok(self.lines.next().unwrap_or_default())
    }

    /// Whether this is the process that the host has started for it.
    pub(crate) fn is_started_as(&self, found: &Found) -> bool {
        self.started.id().to_string() == found.stat.pid.to_string()
    }

    /// All of its processes but the server.
    pub(crate) fn on_the_way(&self) -> Vec<Found> {
        let mut those = self.whole();
        those.retain(|found| !self.server.is(found));
        those
    }

    /// The server, however many there are of it.
    pub(crate) fn servers(&self) -> Vec<Found> {
        let mut those = self.whole();
        those.retain(|found| self.server.is(found));
        those
    }

    /// With what has to be there for it.
    pub(super) fn whole(&self) -> Vec<Found> {
        std::iter::once(&self.started).chain(&self.beside).flat_map(|started| started.scene.processes()).collect()
    }

    /// The session's processes that run this program, or the others.
    pub(crate) fn processes(&self, program: &Path, that_run_it: bool) -> Vec<Found> {
        let runs_it = |found: &Found| {
            let file = std::fs::read_link(format!("/proc/{}/exe", found.stat.pid));
            file.map(|file| file == program).ok()
        };
        let mut those = self.started.scene.processes();
        those.retain(|found| runs_it(found) == Some(that_run_it));
        those.sort_by_key(|found| (found.stat.start, found.stat.pid.as_raw_nonzero()));
        those
    }

    /// All processes that the host has started for it, and their descendants.
    pub(super) fn all_processes(&self) -> Vec<Found> {
        self.started.scene.processes()
    }

    /// Kills a session's processes, so that a read from them returns.
    pub(super) fn kill(processes: &[Found]) {
        processes.iter().for_each(|found| found.send(Signal::KILL));
    }

    /// An error with who made it, and what was said at the time.
    pub(super) fn explain(&self, error: &Failure) -> Failure {
        let said = std::fs::read_to_string(&self.stderr).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        let last: String = last.iter().rev().map(|line| format!("\n  {line}")).collect();
        format!("{}: {error}{last}", self.who).into()
    }
}
