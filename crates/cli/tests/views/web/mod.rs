//! `nostray web`: who gets in, what the page shows, what it does, and how it ends. The page is tested in a real browser.

mod acts;
mod bounded;
mod browser;
mod busy;
mod ends;
pub(crate) mod http;
mod journal;
mod keyboard;
mod looks;
mod origins;
mod picture;
mod refused;
mod shows;
mod troubles;

use serde_json::Value;
use testkit::stage::Stage;

/// What `nostray ps --json` says of each child.
pub(crate) fn pens(stage: &Stage) -> Vec<Value> {
    let output = stage.nostray(&["ps", "--json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    shown["pens"].as_array().cloned().expect("an array")
}

/// What it says of the child with this name.
pub(crate) fn pen(stage: &Stage, name: &str) -> Value {
    pens(stage).into_iter().find(|pen| pen["name"] == name).unwrap_or_else(|| panic!("no child is called {name}"))
}
