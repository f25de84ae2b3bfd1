//! Commands that a key starts: `nostray restart` and `nostray stop`, as processes of their own, so that the screen never waits for them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nostray_sys::stream;

use crate::app::Target;

/// At the end, a command gets this long to do what a person has asked for; then it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How often to look whether it has ended, then.
const PACE: Duration = Duration::from_millis(5);
/// Of what a command prints, no more is kept.
const MAX_SAID: usize = 1 << 16;

/// What a key does to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Restart,
    Stop,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Stop => "stop",
        }
    }

    /// As it is said while it runs.
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Restart => "restarting",
            Self::Stop => "stopping",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Restart => "restarted",
            Self::Stop => "stopped",
        }
    }
}

/// How a command has ended.
#[derive(Debug)]
pub(crate) struct CommandResult {
    verb: Verb,
    name: String,
    pub(crate) is_success: bool,
    /// What it printed last.
    said: String,
}

impl CommandResult {
    pub(crate) fn text(&self) -> String {
        let said = if self.said.is_empty() { String::new() } else { format!(": {}", self.said) };
        match self.is_success {
            true => format!("{} {}{said}", self.verb.done(), self.name),
            false => format!("could not {} {}{said}", self.verb.word(), self.name),
        }
    }
}

/// A command that runs.
#[derive(Debug)]
struct Running {
    verb: Verb,
    target: Target,
    process: Child,
    /// Its stdout and stderr. The end of it is the end of the command.
    output: OwnedFd,
    said: Vec<u8>,
}

/// The commands that run.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    running: Vec<Running>,
}

impl Commands {
    /// Starts one. Refuses a second command about the same child.
    pub(crate) fn start(&mut self, verb: Verb, target: Target) -> Result<(), String> {
        if let Some(other) = self.running.iter().find(|other| other.target.id == target.id) {
            return Err(format!("{} {} already", other.verb.doing(), target.name));
        }
        let failed = |error: io::Error| format!("could not start `nostray {}`: {error}", verb.word());
        let (output, process) = spawn(verb, &target.id).map_err(failed)?;
        self.running.push(Running { verb, target, process, output, said: Vec::new() });
        Ok(())
    }

    /// What to wait for.
    pub(crate) fn to_poll(&self) -> Vec<BorrowedFd<'_>> {
        self.running.iter().map(|running| running.output.as_fd()).collect()
    }

    /// The commands that have ended.
    pub(crate) fn take_results(&mut self) -> Vec<CommandResult> {
        let (mut results, mut running) = (Vec::new(), Vec::new());
        for mut command in std::mem::take(&mut self.running) {
            if command.reads_to_the_end() {
                results.push(command.result());
            } else {
                running.push(command);
            }
        }
        self.running = running;
        results
    }

    /// Waits for those that run, but not for long, so that no process is left of them.
    pub(crate) fn end(&mut self) {
        let deadline = Instant::now() + END_TIMEOUT;
        for mut command in self.running.drain(..) {
            while matches!(command.process.try_wait(), Ok(None)) {
                if Instant::now() > deadline {
                    command.process.kill().ok(); // it may have ended by itself meanwhile
                }
                std::thread::sleep(PACE);
            }
        }
    }
}

fn spawn(verb: Verb, id: &str) -> io::Result<(OwnedFd, Child)> {
    let (output, to) = io::pipe()?;
    let output = OwnedFd::from(output);
    stream::do_not_wait(&output)?;
    // After an update the file of this program has no name any more.
    let usual = std::env::current_exe().ok().filter(|path| path.exists());
    let program = usual.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut command = Command::new(program);
    command.args([verb.word(), id]).stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to);
    Ok((output, command.spawn()?))
}

impl Running {
    fn reads_to_the_end(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match stream::read(&self.output, &mut bytes) {
                Ok(Some(0)) | Err(_) => return true,
                Ok(Some(count)) if self.said.len() < MAX_SAID => self.said.extend(&bytes[..count]),
                Ok(Some(_)) => {}
                Ok(None) => return false,
            }
        }
    }

    fn result(mut self) -> CommandResult {
        // It has closed its output, so it ends now.
        let is_success = self.process.wait().is_ok_and(|status| status.success());
        let said = String::from_utf8_lossy(&self.said);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let last = last.trim().trim_start_matches("nostray: ").trim_start_matches(&self.target.id);
        let said = last.trim_start_matches(':').trim().to_owned();
        CommandResult { verb: self.verb, name: self.target.name, is_success, said }
    }
}
