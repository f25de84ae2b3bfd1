//! A terminal of a given size, and a command of nostray's on it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::Instant;

use badchild::{PATIENCE, badchild, comes_true, open_terminal, resize_terminal};
use nostray_sys::poll::{Until, wait};

use crate::nostray;
use crate::stage::Stage;

/// The terminal.
pub struct Screen {
    master: File,
    /// What has come, and was not waited for yet.
    pub seen: String,
    /// The beginning of a character, the rest of which has not come yet.
    begun: Vec<u8>,
    /// The command.
    pub process: Child,
}

impl Screen {
    /// Starts `nostray WORDS` on a new terminal of 24 lines that knows colours, with these variables besides.
    pub fn start(stage: &Stage, columns: u16, variables: &[(&str, &str)], words: &[&str]) -> Self {
        let (master, path) = open_terminal().expect("a terminal");
        resize_terminal(&master, columns, 24).expect("resize");
        let mut command = stage.scene.command(&badchild());
        command.args(["on-terminal", &path, "--output-too", "--"]).arg(nostray()).args(words);
        command.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("COLUMNS").envs(variables.iter().copied());
        let process = command.stdin(Stdio::null()).spawn().expect("start");
        Self { master: master.into(), seen: String::new(), begun: Vec::new(), process }
    }

    /// Runs `nostray WORDS` on such a terminal, and returns all that it shows, without carriage returns.
    pub fn shows(stage: &Stage, columns: u16, variables: &[(&str, &str)], words: &[&str]) -> String {
        let mut screen = Self::start(stage, columns, variables, words);
        while screen.reads_more() {}
        assert_eq!(screen.code(), Some(0), "{words:?}: {}", screen.seen);
        screen.seen.replace('\r', "")
    }

    /// Another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        resize_terminal(&self.master, columns, rows).expect("resize");
    }

    /// Closes the terminal, as when its window is closed.
    pub fn close_terminal(&mut self) {
        self.master = File::open("/dev/null").expect("open");
    }

    /// Presses keys.
    pub fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("type");
    }

    /// Waits for a text, and returns what came before it. Both are not seen again.
    pub fn sees(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                let mut before = std::mem::replace(&mut self.seen, rest);
                before.truncate(at);
                return before;
            }
            assert!(self.reads_more(), "'{text}' does not appear, but: {:?}", self.seen);
        }
    }

    /// Reads what comes next. False if no process has the terminal any more.
    fn reads_more(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nothing more comes, after: {:?}", self.seen);
            if wait(&[(self.master.as_fd(), Until::Readable)], Some(left)).expect("poll")[0] {
                break;
            }
        }
        let mut bytes = [0; 4096];
        let Ok(count @ 1..) = self.master.read(&mut bytes) else { return false };
        self.begun.extend(&bytes[..count]);
        let whole = std::str::from_utf8(&self.begun).map_or_else(|error| error.valid_up_to(), str::len);
        let text: Vec<u8> = self.begun.drain(..whole).collect();
        self.seen += &String::from_utf8(text).expect("text");
        true
    }

    /// Closes the terminal, as a closed window does.
    pub fn hang_up(&mut self) {
        // The last descriptor of the master.
        self.master = File::open("/dev/null").expect("open");
    }

    /// Waits for the end of the command, and returns its exit code.
    pub fn code(&mut self) -> Option<i32> {
        let mut status = None;
        comes_true(PATIENCE, &mut || {
            status = self.process.try_wait().expect("look");
            status.is_some()
        });
        status.expect("it does not end").code()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The text without colours, and the texts that had one.
pub fn without_colours(shown: &str) -> (String, Vec<String>) {
    let (mut plain, mut coloured) = (String::new(), Vec::new());
    let mut parts = shown.split("\x1b[");
    plain += parts.next().unwrap_or_default();
    for part in parts {
        let (code, text) = part.split_once('m').expect("a colour");
        if code != "0" {
            coloured.push(text.to_owned());
        }
        plain += text;
    }
    (plain, coloured)
}
