//! What cannot be known is said, and is not the end: a damaged record, a folder that is open to others, a stopped broker.

use std::os::unix::fs::PermissionsExt;

use nostray_sys::Signal;
use testkit::sharing::BROKER;
use testkit::stage::Stage;

use super::http::{Web, next_event};
use crate::supervised;

#[test]
fn a_damaged_record_is_a_row_that_says_so() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let caller = supervised(&stage, "well");
    // A record beside the real one.
    let damaged = stage.scene.runtime().join("nostray/zzzzzzzz.json");
    std::fs::write(&damaged, "{").expect("write");
    std::fs::set_permissions(&damaged, std::fs::Permissions::from_mode(0o600)).expect("chmod");
    let mut viewer = web.events();
    let snapshot = next_event(&mut viewer, "snapshot");
    let rows = snapshot["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{snapshot:#}");
    assert!(rows.iter().any(|row| row["why"].as_str().is_some_and(|why| why.contains("damaged"))), "{snapshot:#}");
    assert!(rows.iter().any(|row| row["name"] == "well" && row["state"] == "ready"));
    std::fs::remove_file(damaged).expect("remove");
    web.end();
    caller.end(&stage);
}

#[test]
fn a_registry_that_cannot_be_read_is_said_and_comes_back() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let caller = supervised(&stage, "well");
    let folder = stage.scene.runtime().join("nostray");
    let mode = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).expect("chmod");
    let mut viewer = web.events();
    assert_eq!(next_event(&mut viewer, "snapshot")["notes"].as_array().map(Vec::len), Some(0));
    mode(0o755);
    let change = loop {
        let change = next_event(&mut viewer, "change");
        if change["notes"][0].is_string() {
            break change;
        }
    };
    let note = change["notes"][0].as_str().expect("a note");
    assert!(note.contains("cannot be read") && note.contains("chmod 700"), "{note}");
    mode(0o700);
    while next_event(&mut viewer, "change")["notes"][0].is_string() {}
    let mut viewer = web.events();
    assert_eq!(next_event(&mut viewer, "snapshot")["rows"][0]["name"], "well");
    drop(viewer);
    web.end();
    caller.end(&stage);
}

#[test]
fn a_stopped_broker_is_said_and_everything_else_goes_on() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut caller = stage.shared(&["--key", "memory"], &[]);
    let mut viewer = web.events();
    next_event(&mut viewer, "snapshot");
    let broker = stage.the(BROKER);
    broker.send(Signal::STOP);
    let told = |event: &serde_json::Value| event["notes"][0].as_str().is_some_and(|note| note.contains("is stopped"));
    while !told(&next_event(&mut viewer, "change")) {}
    assert!(caller.pid() > 0);
    assert_eq!(web.get("/metrics", &[]).status, 200);
    broker.send(Signal::CONT);
    while told(&next_event(&mut viewer, "change")) {}
    drop(viewer);
    web.end();
    caller.end(&stage);
}
