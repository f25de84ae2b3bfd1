//! Hosts of a memory bridge (`badchild memory-host`), each a process of its own, and checks of their work.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use badchild::{Found, PATIENCE, Scene, badchild, wait_until};
use nostray_sys::Signal;
use serde_json::Value;

use crate::many::Many;
use crate::nostray;

/// A folder with the `node` of the bridge, and the file in which the bridge stores turns.
pub struct Memory {
    /// The sessions of the hosts.
    pub many: Many,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// With an empty store.
    pub fn new() -> Self {
        let many = Many::new();
        std::os::unix::fs::symlink(badchild(), many.stage.file("node")).expect("make a link");
        Self { many }
    }

    /// The scene that all hosts and bridges belong to.
    pub fn scene(&self) -> &Scene {
        &self.many.stage.scene
    }

    /// The bridge's own command.
    pub fn bridge(&self) -> Vec<String> {
        let store = self.many.stage.file("store");
        [self.many.stage.file("node"), "bridge.cjs".to_owned(), "--store".to_owned(), store].into()
    }

    /// The command that replaces it: nostray with these options.
    pub fn shared(&self, options: &[&str]) -> Vec<String> {
        let defaults = [("--eof-grace", "2s"), ("--term-grace", "2s"), ("--linger", "0s")];
        let defaults = defaults.into_iter().filter(|(name, _)| !options.contains(name));
        let defaults: Vec<_> = defaults.flat_map(|(name, time)| [name, time]).collect();
        let words = ["share"].iter().chain(options).chain(&defaults).map(|word| (*word).to_owned());
        let program = [nostray().display().to_string()];
        program.into_iter().chain(words).chain(["--".to_owned()]).chain(self.bridge()).collect()
    }

    /// Processes of the bridge, without the viewer.
    pub fn bridges(&self) -> Vec<Found> {
        let all = self.scene().those_with("bridge.cjs").into_iter();
        all.filter(|found| found.stat.name == "node" && !found.command.contains("--daemon")).collect()
    }

    /// The number of bridge processes so far.
    pub fn lives(&self) -> usize {
        std::fs::read_to_string(self.many.stage.file("store.lives")).unwrap_or_default().lines().count()
    }

    /// Processes of the viewer.
    pub fn viewers(&self) -> Vec<Found> {
        let all = self.scene().those_with("--daemon").into_iter();
        all.filter(|found| found.stat.name == "node").collect()
    }

    /// Kills every process of the bridge, and waits until they are gone.
    pub fn kill_bridges(&self) {
        let bridges = self.bridges();
        assert!(!bridges.is_empty(), "there is no bridge");
        bridges.iter().for_each(|bridge| bridge.send(Signal::KILL));
        wait_until("the bridges are gone", || !bridges.iter().any(Found::is_alive));
    }

    /// The stored turns: session, text, and the summary that a host made of the text.
    pub fn stored(&self) -> Vec<Value> {
        let store = std::fs::read_to_string(self.many.stage.file("store")).unwrap_or_default();
        store.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
    }

    /// Checks that each text was summarised by its own session.
    pub fn expect_no_crossing(&self) {
        for turn in self.stored() {
            let (session, text) = (turn["session"].as_str().expect("text"), turn["text"].as_str().expect("text"));
            assert_eq!(turn["summary"], format!("{session} read: {text}"), "a session was asked for another's");
        }
    }

    /// Starts a host. `command` is the bridge's own command, or its replacement.
    pub fn host(&self, options: &[&str], command: &[String], change: impl FnOnce(&mut Command)) -> Host {
        let mut host = self.scene().command(&badchild());
        host.arg("memory-host").args(options).arg("--").args(command);
        host.stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut host);
        let mut process = host.spawn().expect("start a host");
        let (send, lines) = channel();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Host { orders: process.stdin.take(), process, lines }
    }
}

/// A host that the test has started, and its output.
pub struct Host {
    /// The process `badchild memory-host`.
    pub process: Child,
    orders: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Host {
    /// Waits for this line. Lines about refused turns before it are skipped: the tally counts them.
    pub fn expect(&self, line: &str) {
        loop {
            match self.line() {
                said if said == line => return,
                said => assert!(said.starts_with("refused"), "{said} instead of {line}"),
            }
        }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line in time")
    }

    /// Ends a pause in the middle of a turn.
    pub fn go_on(&mut self) {
        self.orders.as_mut().expect("open").write_all(b"on\n").expect("write");
    }

    /// The number of stored turns, of lost turns, and of reconnects.
    pub fn tally(&self) -> (u64, u64, u64) {
        loop {
            let line = self.line();
            if let Some(tally) = line.strip_prefix("done ") {
                let tally: Value = serde_json::from_str(tally).expect("JSON");
                let number = |name: &str| tally[name].as_u64().expect("a number");
                return (number("stored"), number("lost"), number("reconnects"));
            }
        }
    }

    /// Closes its input, and checks that it exits with success.
    pub fn end(mut self) {
        drop(self.orders.take());
        assert!(self.process.wait().expect("reap").success());
    }

    /// Kills it, and reaps it.
    pub fn kill(mut self) {
        self.process.kill().expect("kill");
        self.process.wait().expect("reap");
    }
}
