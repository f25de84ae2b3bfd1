//! Long work shows on a terminal what it waits for, and leaves nothing of that line behind. Elsewhere it shows nothing.

use badchild::wait_until;
use testkit::nostray;
use testkit::person::Person;
use testkit::slots::kill_at_once;
use testkit::stage::Stage;

const SCREEN: [(&str, &str); 2] = [("TERM", "xterm"), ("COLUMNS", "200")];

#[test]
fn a_caller_that_waits_for_a_slot_sees_the_holder_and_for_how_long() {
    let stage = Stage::new();
    let mut holder = stage.start(&["--slot", "db", "--respawn", "--session", "first"], &[]);
    holder.initialize();
    wait_until("the holder is on record", || stage.states() == ["ready"]);
    let words = [&nostray().display().to_string(), "run", "--slot", "db", "echo", "it is mine"];
    let mut person = Person::starts_in(&stage.scene, &words, &SCREEN);
    person.sees("slot db is taken by ");
    person.sees("waiting");
    // The line is written anew each second.
    for _ in 0..2 {
        person.sees("\r\u{1b}[Kslot db is held by ");
        person.sees("(badchild, session first) for ");
    }
    holder.close();
    holder.code();
    person.sees("\r\u{1b}[Kit is mine");
    assert_eq!(person.exit_code(), Some(0));
    stage.scene.expect_empty();
}

#[test]
fn a_stop_with_graces_says_for_how_long_and_until_when() {
    let stage = Stage::new();
    let mut caller = stage.start_stubborn(&["--label", "name=stubborn", "--term-grace", "3s", "--eof-grace", "1h"]);
    caller.initialize();
    wait_until("the child is on record", || stage.states() == ["ready"]);
    let words = [&nostray().display().to_string(), "stop", "--all"];
    let mut person = Person::starts_in(&stage.scene, &words, &SCREEN);
    person.sees("(stubborn)  stopping for ");
    person.sees("SIGKILL after 3s");
    person.sees("\r\u{1b}[K");
    person.sees("stopped");
    assert_eq!(person.exit_code(), Some(0));
    caller.code();
    stage.scene.expect_empty();
}

#[test]
fn a_sweep_that_has_to_wait_says_for_how_long() {
    let stage = Stage::new();
    let mut caller = stage.start_stubborn(&["--term-grace", "3s", "--eof-grace", "1h", "--no-sweep"]);
    caller.initialize();
    wait_until("the child is on record", || stage.states() == ["ready"]);
    kill_at_once(&stage.own());
    let words = [&nostray().display().to_string(), "sweep"];
    let mut person = Person::starts_in(&stage.scene, &words, &SCREEN);
    person.sees("sweeping for ");
    person.sees("\r\u{1b}[K");
    person.sees("ended");
    assert_eq!(person.exit_code(), Some(0));
    caller.process.wait().expect("reap");
    stage.scene.expect_empty();
}
