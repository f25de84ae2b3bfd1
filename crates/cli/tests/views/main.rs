//! What nostray runs, as people and other programs see it: counted, live on a terminal, on a page, and as metrics.

mod counted;
mod metrics;
mod top;
mod web;

use badchild::wait_until;
use testkit::stage::{Caller, Stage};

/// A supervised child with this name, from the moment on at which the registry says that it is ready. Its host has its
/// answer a little earlier.
fn supervised(stage: &Stage, name: &str) -> Caller {
    let mut caller = stage.start(&["--respawn", "--label", &format!("name={name}")], &["--banner", "some server"]);
    caller.initialize();
    wait_until("it is ready", || web::pen(stage, name)["state"] == "ready");
    caller
}
