//! A real terminal with a shell in it, as a person has it: tmux, with a server of its own, which shows what is on the screen.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use badchild::{Found, PATIENCE, comes_true};

use crate::nostray;
use crate::stage::Stage;

/// What the shell shows when it waits for a command.
pub const PROMPT: &str = "prompt>";

/// The terminal.
pub struct Tmux<'a> {
    stage: &'a Stage,
}

impl<'a> Tmux<'a> {
    /// A terminal of this size with a shell. `None` where there is no tmux, and the test is skipped.
    ///
    /// # Panics
    /// If there is no tmux and `CI` is set.
    pub fn start(stage: &'a Stage, columns: u16, rows: u16) -> Option<Self> {
        if !Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success()) {
            assert!(std::env::var_os("CI").is_none(), "there is no tmux, and CI is set");
            writeln!(std::io::stderr(), "SKIPPED a test on a real terminal: there is no tmux").ok();
            return None;
        }
        let terminal = Self { stage };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let started = terminal.call(&["new-session", "-d", "-x", &columns, "-y", &rows, "bash", "--norc", "-i"]);
        assert!(started.status.success(), "{started:?}");
        terminal.shows(PROMPT);
        Some(terminal)
    }

    fn call(&self, words: &[&str]) -> Output {
        let mut command = self.stage.scene.command("/usr/bin/env".as_ref());
        for variable in ["NO_COLOR", "COLUMNS", "LINES", "TMUX", "PROMPT_COMMAND"] {
            command.arg("-u").arg(variable);
        }
        command.args(["TERM=xterm-256color", "LC_ALL=C.UTF-8", &format!("PS1={PROMPT} "), "HISTFILE="]);
        command.args(["tmux", "-u", "-f", "/dev/null", "-S", &self.stage.file("tmux")]).args(words);
        command.stdin(Stdio::null()).output().expect("run tmux")
    }

    /// Presses keys, by the names that tmux has for them.
    pub fn press(&self, keys: &[&str]) {
        let pressed = self.call(&[&["send-keys"], keys].concat());
        assert!(pressed.status.success(), "{pressed:?}");
    }

    /// Types this text.
    pub fn types(&self, text: &str) {
        self.press(&["-l", text]);
    }

    /// Types a line for the shell.
    pub fn runs(&self, line: &str) {
        self.types(line);
        self.press(&["Enter"]);
    }

    /// Starts `nostray WORDS` in the shell, and returns its process.
    pub fn runs_nostray(&self, words: &str) -> Found {
        let part = format!("{} {words}", nostray().display());
        self.runs(&part);
        let mut found = Vec::new();
        comes_true(PATIENCE, &mut || {
            found = self.stage.scene.those_with(&part);
            found.retain(|process| process.stat.name == "nostray");
            found.len() == 1
        });
        assert_eq!(found.len(), 1, "{found:#?}\n{}", self.screen());
        found.remove(0)
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.call(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// The same, with colours.
    pub fn coloured(&self) -> String {
        String::from_utf8_lossy(&self.call(&["capture-pane", "-p", "-e"]).stdout).into_owned()
    }

    /// Waits until this is on the screen, and returns the screen.
    pub fn shows(&self, text: &str) -> String {
        self.shows_that(&format!("'{text}' is on the screen"), |screen| screen.contains(text))
    }

    /// Waits until all of this is on the screen, and returns the screen. A screen may be read while a frame is being drawn, so a test
    /// that asserts several parts of a frame has to wait for each of them.
    pub fn shows_all(&self, texts: &[&str]) -> String {
        self.shows_that(&format!("all of {texts:?} is on the screen"), |screen| {
            texts.iter().all(|text| screen.contains(text))
        })
    }

    /// Waits until the screen is like that, and returns it.
    pub fn shows_that(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let came = comes_true(PATIENCE, &mut || {
            screen = self.screen();
            is_so(&screen)
        });
        assert!(came, "did not happen: {what}. The screen:\n{screen}");
        screen
    }

    /// Another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        let resized = self.call(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        assert!(resized.status.success(), "{resized:?}");
    }

    /// The settings of the terminal, as `stty` in its shell says them. The shell must wait for a command.
    pub fn settings(&self) -> String {
        let file = self.stage.file("settings");
        std::fs::remove_file(&file).ok();
        self.runs(&format!("stty -a >{file}.new; mv {file}.new {file}"));
        badchild::wait_until("stty has written", || std::path::Path::new(&file).exists());
        std::fs::read_to_string(file).expect("read")
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.call(&["kill-server"]);
    }
}
