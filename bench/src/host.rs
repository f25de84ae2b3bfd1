//! A host that can be killed: `badchild host`, which starts a command as agents do, and a friend of it that has nothing to
//! do with the command.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use badchild::{FRIEND, Pid, Scene, TOKEN};
use nostray_sys::poll::{Until, wait};

use crate::Failure;

/// What a supervised child says instead of `ready`.
pub(crate) const READY: &str = r#"{"jsonrpc":"2.0","method":"ready"}"#;

/// A host, killed with the value. What it started is the scene's.
pub(crate) struct Host {
    process: Child,
    orders: ChildStdin,
    says: BufReader<ChildStdout>,
    friends: Scene,
}

impl Host {
    pub(crate) fn start(
        scene: &Scene,
        badchild: &Path,
        options: &[&str],
        command: &[OsString],
        stderr: Stdio,
    ) -> Result<Self, Failure> {
        let mut host = scene.command(badchild);
        let friends = Scene::new(scene.user);
        host.env(FRIEND, token(&friends)?)
            .arg("host")
            .args(options)
            .arg("--")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = host.stderr(stderr).spawn()?;
        let orders = process.stdin.take().ok_or("no pipe")?;
        let says = BufReader::new(process.stdout.take().ok_or("no pipe")?);
        Ok(Self { process, orders, says, friends })
    }

    pub(crate) fn pid(&self) -> Result<Pid, Failure> {
        Ok(badchild::pid(i32::try_from(self.process.id())?))
    }

    /// Waits until the command says `ready`.
    pub(crate) fn ready(&mut self, within: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + within;
        loop {
            match self.line(deadline)?.as_str() {
                "ready" | READY => return Ok(()),
                line if line.starts_with("front ") => {}
                line => return Err(format!("the host said '{line}'").into()),
            }
        }
    }

    /// The number of the command, which the host says as soon as it has started it.
    pub(crate) fn command(&mut self, within: Duration) -> Result<Pid, Failure> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(number) = self.line(deadline)?.strip_prefix("front ") {
                return Ok(badchild::pid(number.parse()?));
            }
        }
    }

    /// Has it say a line to the command, and waits for one with this in it.
    pub(crate) fn ask(&mut self, line: &str, answer: &str, within: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + within;
        writeln!(self.orders, "say {line}")?;
        while !self.line(deadline)?.contains(answer) {}
        Ok(())
    }

    /// The next line that it or its command says.
    fn line(&mut self, deadline: Instant) -> Result<String, Failure> {
        if self.says.buffer().is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if !wait(&[(self.says.get_ref().as_fd(), Until::Readable)], Some(left))?.contains(&true) {
                return Err("the command said nothing in time".into());
            }
        }
        let mut line = String::new();
        if self.says.read_line(&mut line)? == 0 {
            return Err("the host ended before its command was ready".into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    /// The scene of the friend, which it started beside the command.
    pub(crate) fn friends(&mut self) -> &mut Scene {
        &mut self.friends
    }

    /// Whether the friend, which it started beside the command, is alive.
    pub(crate) fn has_its_friend(&self) -> bool {
        self.friends.processes().len() == 1
    }

    /// Has it close its end of the command's stdin.
    pub(crate) fn close(&mut self) {
        // A host that is gone has closed it.
        writeln!(self.orders, "close").ok();
    }

    /// SIGKILL, without waiting for its effect.
    pub(crate) fn kill(&mut self) -> std::io::Result<()> {
        self.process.kill()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The token of a scene, for a host that marks its own children with it.
pub(crate) fn token(scene: &Scene) -> Result<OsString, Failure> {
    let command = scene.command("/".as_ref());
    let mut variables = command.get_envs();
    let token = variables.find_map(|(name, value)| value.filter(|_| name == TOKEN));
    Ok(token.ok_or("a scene has no token")?.to_owned())
}
