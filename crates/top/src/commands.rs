//! Commands that a key starts: `nostray restart` and `nostray stop`, as processes of their own, so that the screen never waits for them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use nostray_sys::stream;
use nostray_view::Action;

use crate::app::Target;

/// At the end, a command gets this long to do what a person has asked for; then it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How often to look whether it has ended, then: the standard library has no wait with a deadline.
const PACE: Duration = Duration::from_millis(5);
/// Of what a command prints, no more is kept.
const MAX_SAID: usize = 1 << 16;

/// As it is said while it runs.
pub(crate) fn doing(action: Action) -> &'static str {
    match action {
        Action::Restart => "restarting",
        Action::Stop => "stopping",
    }
}

fn done(action: Action) -> &'static str {
    match action {
        Action::Restart => "restarted",
        Action::Stop => "stopped",
    }
}

/// How a command has ended.
#[derive(Debug)]
pub(crate) struct CommandResult {
    action: Action,
    name: String,
    pub(crate) is_success: bool,
    /// What it printed last.
    said: String,
}

impl CommandResult {
    pub(crate) fn text(&self) -> String {
        let said = if self.said.is_empty() { String::new() } else { format!(": {}", self.said) };
        match self.is_success {
            true => format!("{} {}{said}", done(self.action), self.name),
            false => format!("could not {} {}{said}", self.action.word(), self.name),
        }
    }
}

/// A command that runs.
#[derive(Debug)]
struct Running {
    action: Action,
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
    pub(crate) fn start(&mut self, action: Action, target: Target) -> Result<(), String> {
        if let Some(other) = self.running.iter().find(|other| other.target.id == target.id) {
            return Err(format!("{} {} already", doing(other.action), target.name));
        }
        let failed = |error: io::Error| format!("could not start `nostray {}`: {error}", action.word());
        let (output, process) = spawn(action, &target.id).map_err(failed)?;
        self.running.push(Running { action, target, process, output, said: Vec::new() });
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

fn spawn(action: Action, id: &str) -> io::Result<(OwnedFd, Child)> {
    let (output, to) = io::pipe()?;
    let output = OwnedFd::from(output);
    stream::do_not_wait(&output)?;
    let mut command = action.command(id);
    command.stdout(to.try_clone()?).stderr(to);
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
        CommandResult { action: self.action, name: self.target.name, is_success, said }
    }
}
