//! What a person can do to a child in a view: by nostray's own commands, so that a key or a click does what they do in a shell.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What can be done to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `nostray restart`
    Restart,
    /// `nostray stop`
    Stop,
}

impl Action {
    /// The name of the command.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Stop => "stop",
        }
    }

    /// The command, about the child with this id, without input.
    #[must_use]
    pub fn command(self, id: &str) -> Command {
        // The journal quotes its command line, so it is called by its path. After an update the file of this program has no name any more.
        let usual = std::env::current_exe().ok().filter(|path| path.exists());
        let mut command = Command::new(usual.unwrap_or_else(|| PathBuf::from("/proc/self/exe")));
        command.args([self.word(), id]).stdin(Stdio::null());
        command
    }
}
