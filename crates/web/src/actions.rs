//! Restart and stop, by nostray's own commands, so that they do on the page what they do in a shell.

use std::process::{Command, Stdio};

use nostray_registry::census;
use nostray_sys::text::escaped;
use serde::Deserialize;
use serde_json::{Value, json};

/// What can be done to a child.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Restart,
    Stop,
}

/// The body of the request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) id: String,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Stop => "stop",
        }
    }

    /// Runs the command and waits for it. `None` if there is no such child: a command takes names and sessions as well, and would find others.
    pub(crate) fn run(self, target: &Target) -> Option<Value> {
        census().iter().any(|pen| pen.id == target.id).then(|| self.command(&target.id))
    }

    fn command(self, id: &str) -> Value {
        // Not the path of this program: another version may be there by now.
        let mut command = Command::new("/proc/self/exe");
        command.args([self.word(), id]).stdin(Stdio::null());
        match command.output() {
            Ok(output) => {
                let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                let lines = said.iter().flat_map(|text| text.lines()).map(escaped).collect::<Vec<_>>();
                json!({ "code": output.status.code(), "said": lines.join("\n") })
            }
            Err(error) => {
                json!({ "code": null, "said": format!("`nostray {}` could not be started: {error}", self.word()) })
            }
        }
    }
}
