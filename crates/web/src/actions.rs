//! Restart and stop, by nostray's own commands, so that they do on the page what they do in a shell.

use nostray_registry::census;
use nostray_sys::text::escaped;
use nostray_view::Action;
use serde::Deserialize;
use serde_json::{Value, json};

/// The body of the request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) id: String,
}

/// Runs the command and waits for it. `None` if there is no such child: a command takes names and sessions as well, and would find others.
pub(crate) fn run(action: Action, target: &Target) -> Option<Value> {
    census().iter().any(|pen| pen.id == target.id).then(|| outcome(action, &target.id))
}

fn outcome(action: Action, id: &str) -> Value {
    match action.command(id).output() {
        Ok(output) => {
            let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let lines = said.iter().flat_map(|text| text.lines()).map(escaped).collect::<Vec<_>>();
            json!({ "code": output.status.code(), "said": lines.join("\n") })
        }
        Err(error) => {
            json!({ "code": null, "said": format!("`nostray {}` could not be started: {error}", action.word()) })
        }
    }
}
