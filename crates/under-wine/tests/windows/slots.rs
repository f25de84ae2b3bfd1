//! A name that at most one live tree holds.

use std::time::Duration;

use under_wine::{DEADLINE, Stage, kill, within};

const NAME: &str = "under-wine";

fn hold(stage: &Stage, child: &str) {
    contend(stage, "waits", &[], "sleep", child);
}

/// A host whose child wants the slot of this stage.
fn contend(stage: &Stage, mode: &str, options: &[&str], role: &str, child: &str) {
    let name = name_of(stage);
    let options = [&["--slot", &name], options].concat();
    let mut host = stage.host(mode, &stage.contained(&options, role, &[child]));
    std::thread::spawn(move || host.wait().ok());
}

fn name_of(stage: &Stage) -> String {
    format!("{NAME}-{}", stage.token)
}

fn text(stage: &Stage, words: &[&str]) -> String {
    String::from_utf8(stage.run("nostray.exe", words).stdout).expect("text")
}

/// Waits until `slot show` says this.
fn shows(stage: &Stage, part: &str) -> String {
    let name = name_of(stage);
    let mut last = String::new();
    let shown = within(DEADLINE, || {
        last = text(stage, &["slot", "show", &name]);
        last.contains(part).then(|| last.clone())
    });
    shown.unwrap_or_else(|| panic!("{part} is not shown: {last}"))
}

fn end_all(stage: &Stage) {
    stage.seen().iter().for_each(|seen| kill(seen.pid));
    stage.time_until_empty();
}

#[test]
fn a_slot_is_held_by_one_and_the_next_one_waits() {
    let stage = Stage::new("slots");
    let name = name_of(&stage);
    hold(&stage, "first");
    stage.told("first");
    let said = stage.run("nostray.exe", &["run", "--slot", &name, "--if-taken", "fail", "--", "cmd", "/c", "exit 0"]);
    assert_eq!(said.status.code(), Some(75), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("is taken by"), "{said:?}");
    let words = ["run", "--slot", &name, "--wait-timeout", "300ms", "--", "cmd", "/c", "exit 0"];
    assert_eq!(stage.run("nostray.exe", &words).status.code(), Some(75));
    hold(&stage, "second");
    hold(&stage, "third");
    // Killed from outside: its tree is gone before the next one starts, and of the two that wait, one gets the slot.
    for _ in 0..2 {
        let running: Vec<_> =
            ["first", "second", "third"].into_iter().filter(|child| stage.has_told(child)).collect();
        assert_eq!(running.len(), 1, "{running:?}");
        let child = stage.find(&format!(" sleep {} ", stage.token)).map(|_| running[0]).expect("runs");
        let front = stage.seen().into_iter().find(|seen| {
            seen.line.contains("nostray.exe") && !seen.line.contains(" host ") && seen.line.ends_with(child)
        });
        std::fs::remove_file(stage.folder().join(child)).expect("removed");
        kill(front.expect("a front").pid);
        let next = under_wine::within(under_wine::DEADLINE, || {
            ["first", "second", "third"].into_iter().find(|other| stage.has_told(other))
        });
        assert!(next.is_some_and(|next| next != child), "{next:?}");
    }
    stage.seen().iter().for_each(|seen| kill(seen.pid));
    stage.time_until_empty();
}

#[test]
fn a_slot_is_listed_shown_and_released() {
    let stage = Stage::new("slot-release");
    let name = name_of(&stage);
    assert_eq!(stage.run("nostray.exe", &["slot", "show", &name]).status.code(), Some(1), "never used");
    hold(&stage, "first");
    stage.told("first");
    shows(&stage, ": ready");
    hold(&stage, "second");
    let shown = shows(&stage, "waits for");
    assert!(shown.contains("held by") && shown.contains("HISTORY"), "{shown}");
    let listed = text(&stage, &["slot", "list"]);
    let line = listed.lines().find(|line| line.contains(&name)).expect("is listed");
    assert!(line.contains("ready") && line.split_whitespace().any(|word| word == "1"), "one waits: {line}");
    let json = text(&stage, &["slot", "list", "--json"]);
    assert!(json.contains(&format!("\"name\": \"{name}\"")) && json.contains("\"for\": \"wait\""), "{json}");
    let released = stage.run("nostray.exe", &["slot", "release", &name]);
    assert!(released.status.success(), "{released:?}");
    assert!(String::from_utf8_lossy(&released.stdout).contains("was released by"), "{released:?}");
    stage.told("second");
    let left: Vec<_> = stage
        .seen()
        .into_iter()
        .filter(|seen| seen.line.ends_with(" first") && !seen.line.contains(" host "))
        .collect();
    assert!(left.is_empty(), "nothing is left of the first: {left:#?}");
    let shown = shows(&stage, "hand over");
    assert!(shown.contains("still"), "the second one holds it: {shown}");
    let held = stage.run("nostray.exe", &["slot", "hold", &name]);
    assert!(String::from_utf8_lossy(&held.stderr).contains("not there yet on Windows"), "{held:?}");
    end_all(&stage);
    shows(&stage, ": free");
}

#[test]
fn a_holder_is_replaced_and_nothing_of_it_is_left_when_the_next_one_starts() {
    let stage = Stage::new("slot-replace");
    contend(&stage, "waits", &[], "tree", "");
    ["child", "grandchild", "detached", "new-console", "orphan", "nested"]
        .iter()
        .for_each(|role| drop(stage.told(role)));
    shows(&stage, ": ready");
    contend(&stage, "waits", &["--if-taken", "replace"], "sleep", "next");
    stage.told("next");
    let is_of_tree = |line: &str| !line.contains("nostray.exe") && !line.ends_with(" next");
    let left: Vec<_> = stage.seen().into_iter().filter(|seen| is_of_tree(&seen.line)).collect();
    assert!(left.is_empty(), "{left:#?}");
    assert_eq!(stage.told("code"), "1", "the first one was ended");
    end_all(&stage);
}

#[test]
fn a_holder_that_is_starting_is_not_replaced_before_it_is_ready() {
    let stage = Stage::new("slot-starting");
    // The front is stopped inside of its start. Its child may run already, and a child that runs is replaced, but not in the middle of a start.
    let (front, ()) = stage.freeze(|| contend(&stage, "waits", &[], "sleep", "first"));
    let shown = shows(&stage, "held by");
    assert!(shown.contains(": starting"), "{shown}");
    contend(&stage, "waits", &["--if-taken", "replace"], "sleep", "next");
    shows(&stage, "wants to replace");
    // For longer than a holder may take to answer, after which one that is ready would be ended.
    let is_touched = || {
        let is_there = stage.seen().iter().any(|seen| {
            seen.line.contains("nostray.exe") && !seen.line.contains(" host ") && seen.line.ends_with(" first")
        });
        (!is_there || stage.has_told("next")).then_some(())
    };
    assert!(within(Duration::from_secs(7), is_touched).is_none(), "{:#?}", stage.seen());
    let shown = text(&stage, &["slot", "show", &name_of(&stage)]);
    assert!(shown.contains(": starting") && shown.contains("wants to replace"), "{shown}");
    stage.thaw(&front);
    stage.told("next");
    let left: Vec<_> = stage
        .seen()
        .into_iter()
        .filter(|seen| seen.line.ends_with(" first") && !seen.line.contains(" host "))
        .collect();
    assert!(left.is_empty(), "nothing is left of the first: {left:#?}");
    // The first one was ready before anything was asked of it.
    let log = text(&stage, &["log"]);
    let id = log.lines().find(|line| line.contains(&format!("{}: taken", name_of(&stage))));
    let id = id.and_then(|line| line.split_whitespace().nth(1)).expect("an id");
    let at = |part: &str| log.lines().position(|line| line.contains(id) && line.contains(part));
    let order = [at("started for"), at("ready: child"), at("asked to hand over"), at("nothing is left")];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{log}");
    end_all(&stage);
}

#[test]
fn a_host_that_was_replaced_does_not_replace_its_replacer() {
    let stage = Stage::new("slot-war");
    contend(&stage, "again", &["--if-taken", "replace"], "sleep", "first");
    stage.told("first");
    shows(&stage, ": ready");
    contend(&stage, "waits", &["--if-taken", "replace"], "sleep", "next");
    stage.told("next");
    // The host of the first one starts it again, as hosts do.
    stage.told("second-front");
    let shown = shows(&stage, "waits for");
    assert!(shown.contains(": ready") && !shown.contains("wants to replace"), "{shown}");
    let lives: Vec<_> = stage.seen().into_iter().filter(|seen| !seen.line.contains("nostray.exe")).collect();
    assert!(lives.len() == 1 && lives[0].line.ends_with(" next"), "{lives:#?}");
    end_all(&stage);
}

#[test]
fn of_many_that_replace_each_other_no_two_live_at_once() {
    const MANY: usize = 6;
    let stage = Stage::new("slot-race");
    let options = ["--if-taken", "replace", "--max-handovers", "100/1m"];
    (0..MANY).for_each(|_| contend(&stage, "waits", &options, "alone", "up"));
    let count = |is_meant: fn(&str) -> bool| stage.seen().iter().filter(|seen| is_meant(&seen.line)).count();
    let is_host = |line: &str| line.contains(" host ");
    let is_child = |line: &str| line.contains(" alone ") && !line.contains("nostray.exe");
    let is_over = || (count(is_host) == 1 && count(is_child) == 1).then_some(());
    assert!(within(DEADLINE, is_over).is_some(), "{:#?}", stage.seen());
    assert!(!stage.has_told("twice"), "two lived at once");
    end_all(&stage);
}
