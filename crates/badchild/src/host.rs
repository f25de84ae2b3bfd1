//! A host that starts a command, can be killed, and has a friend that must not be touched.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::{FRIEND, Found, Pid, Scene, badchild, pid};

/// A host that a test has started, with its orders and its output.
#[derive(Debug)]
pub struct Host {
    process: Child,
    orders: ChildStdin,
    says: BufReader<ChildStdout>,
    friends: Scene,
}

impl Host {
    /// Starts `badchild host OPTIONS -- COMMAND`. Its stdout is the command's stdout, too.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(scene: &Scene, options: &[&str], command: &[&str]) -> Self {
        Self::start_as(scene, &badchild(), options, command)
    }

    /// The same with another name of the program `badchild`.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start_as(scene: &Scene, program: &Path, options: &[&str], command: &[&str]) -> Self {
        let mut host = scene.command(program);
        let friends = Scene::new(scene.user);
        host.env(FRIEND, &friends.token).arg("host").args(options).arg("--").args(command);
        if std::env::var_os("BADCHILD_LOUD").is_none() {
            host.stderr(Stdio::null());
        }
        let mut process = host.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start a host");
        let orders = process.stdin.take().expect("piped");
        let says = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, orders, says, friends }
    }

    /// The next line that the host or its command prints; empty at the end.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("read from the host");
        line.trim_end().to_owned()
    }

    /// Reads lines until the front's number and the command's `ready` have come, and returns the front.
    ///
    /// # Panics
    /// If one of them does not come.
    pub fn ready(&mut self) -> Found {
        let (mut front, mut ready) = (None, false);
        while front.is_none() || !ready {
            let line = self.line();
            match line.strip_prefix("front ") {
                Some(number) => front = Found::by_pid(pid(number.parse().expect("a number"))),
                None if line == "ready" => ready = true,
                None => panic!("the host said '{line}'"),
            }
        }
        front.expect("seen")
    }

    /// Makes the host write a line to its command.
    pub fn say(&mut self, line: &str) {
        self.order(&format!("say {line}"));
    }

    /// Gives the host an order.
    pub fn order(&mut self, order: &str) {
        // The host may have ended already.
        writeln!(self.orders, "{order}").ok();
    }

    /// Kills it, and waits for its end.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(&mut self) {
        self.process.kill().expect("kill the host");
        self.process.wait().expect("reap the host");
    }

    /// Checks that the process that the host started beside its command still lives.
    ///
    /// # Panics
    /// If it is not.
    pub fn expect_friend_untouched(&self) {
        assert_eq!(self.friends.processes().len(), 1, "another child of the same host was hit");
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> Pid {
        pid(i32::try_from(self.process.id()).expect("small"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
