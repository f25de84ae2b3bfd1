//! A user at a terminal, who types keys and reads the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use badchild::{PATIENCE, Scene, badchild, comes_true, open_terminal};
use nostray_sys::poll::{Until, wait};

/// A user at a terminal.
pub struct Person {
    /// The other end of the terminal.
    pub master: File,
    /// What is on the screen, after the last text that was waited for.
    pub seen: String,
    /// The command on the terminal.
    pub process: Child,
}

impl Person {
    /// Starts a command on a new terminal.
    pub fn starts(scene: &Scene, words: &[&str]) -> Self {
        Self::starts_in(scene, words, &[("TERM", "dumb")])
    }

    /// The same, with these variables in the environment.
    pub fn starts_in(scene: &Scene, words: &[&str], environment: &[(&str, &str)]) -> Self {
        let (master, path) = open_terminal().expect("a terminal");
        let mut command = scene.command(&badchild());
        command.args(["on-terminal", &path, "--output-too", "--"]).args(words);
        command.env("PS1", "prompt> ").env_remove("PROMPT_COMMAND").envs(environment.iter().copied());
        let process = command.stdin(Stdio::null()).spawn().expect("start");
        Self { master: master.into(), seen: String::new(), process }
    }

    /// Presses keys.
    pub fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("type");
    }

    /// Waits for a text on the screen, after the texts that earlier calls waited for.
    pub fn sees(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "'{text}' does not appear, but: {:?}", self.seen);
            self.reads(left);
        }
    }

    /// Reads what comes within this time.
    pub fn reads(&mut self, time: Duration) -> bool {
        let came = wait(&[(self.master.as_fd(), Until::Readable)], Some(time)).expect("poll")[0];
        if came {
            let mut bytes = [0; 4096];
            let n = self.master.read(&mut bytes).unwrap_or_else(|e| panic!("{e}, after {:?}", self.seen));
            self.seen += &String::from_utf8_lossy(&bytes[..n]);
        }
        came
    }

    /// Waits for the end of the command.
    pub fn exit_code(mut self) -> Option<i32> {
        let mut status = None;
        comes_true(PATIENCE, &mut || {
            status = self.process.try_wait().expect("look");
            status.is_some()
        });
        status.expect("the command does not end").code()
    }
}
