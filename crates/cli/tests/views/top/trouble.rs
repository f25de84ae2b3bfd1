//! What is broken is said, and the rest is shown.

use std::os::unix::fs::PermissionsExt;

use nostray_sys::Signal;
use testkit::sharing::BROKER;
use testkit::stage::Stage;
use testkit::tmux::Tmux;

use super::{end, line_of};
use crate::supervised;

#[test]
fn records_that_cannot_be_read_are_said() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let caller = supervised(&stage, "memory");
    let folder = stage.scene.runtime().join("nostray");
    let allow = |mode: u32| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).expect("chmod");
    // A folder that others may write to is not read; that is so for root, too.
    allow(0o777);
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows("records cannot be read: ");
    allow(0o700);
    let screen = terminal.shows_that("it is read again", |screen| line_of(screen, "memory").is_some());
    assert!(!screen.contains("cannot read"), "{screen}");
    let records: Vec<_> = std::fs::read_dir(&folder)
        .expect("read")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| std::fs::read(path).is_ok_and(|text| text.starts_with(b"{") && !path.ends_with("journal")))
        .collect();
    assert!(!records.is_empty());
    let kept: Vec<_> = records.iter().map(|path| std::fs::read(path).expect("read")).collect();
    records.iter().for_each(|path| std::fs::write(path, "{ damaged").expect("write"));
    let screen = terminal.shows("unreadable");
    assert!(!screen.contains("panicked"), "{screen}");
    terminal.press(&["t"]);
    terminal.shows("its record is damaged");
    for (path, text) in records.iter().zip(kept) {
        std::fs::write(path, text).expect("write");
    }
    terminal.shows_that("it is whole again", |screen| line_of(screen, "memory").is_some());
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, vec![caller]);
}

#[test]
fn a_stopped_broker_is_said_and_the_rest_goes_on() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let mut callers = vec![stage.shared(&["--key", "memory"], &[])];
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows("1 session, 1 child");
    let broker = stage.the(BROKER);
    broker.send(Signal::STOP);
    let said = format!("the broker {} is stopped", broker.stat.pid);
    terminal.shows(&said);
    callers.push(supervised(&stage, "meanwhile"));
    terminal.shows_that("the list goes on", |screen| line_of(screen, "meanwhile").is_some());
    broker.send(Signal::CONT);
    terminal.shows_that("it goes on", |screen| !screen.contains(&said));
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, callers);
}
