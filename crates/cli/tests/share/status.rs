//! `--status-fd` of a shared child: which of its incarnations a session talks to.

use badchild::wait_until;
use nostray_sys::Signal;
use serde_json::Value;
use testkit::nostray;
use testkit::sharing::{STEWARD, kill, release};
use testkit::stage::{Caller, Stage};

/// A session that writes its status lines to a file.
fn session(stage: &Stage, name: &str) -> Caller {
    session_in(stage, name, "")
}

/// The same with other variables.
fn session_in(stage: &Stage, name: &str, environment: &str) -> Caller {
    let (nostray, server) = (nostray().display().to_string(), stage.server(&[]));
    let file = stage.file(name);
    let script = format!("{environment} exec \"$@\" 9>>\"$0\"");
    let mut words = vec!["-c", &script, &file, &nostray, "share", "--status-fd", "9"];
    words.extend(["--linger", "200ms", "--eof-grace", "6s", "--backoff", "1ms..5ms"]);
    words.push("--");
    words.extend(server.iter().map(String::as_str));
    stage.start_plain("sh", &words)
}

fn said(stage: &Stage, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(stage.file(name)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn generations(stage: &Stage, name: &str) -> Vec<u64> {
    let said = said(stage, name);
    said.iter().filter(|line| line["event"] == "up").filter_map(|line| line["generation"].as_u64()).collect()
}

#[test]
fn every_session_is_told_of_each_new_child_once_and_in_order() {
    let stage = Stage::new();
    let mut first = session(&stage, "first");
    first.initialize();
    let mut second = session(&stage, "second");
    second.initialize();
    assert_eq!(first.pid(), second.pid());
    for (name, line) in [("first", 0), ("second", 0)] {
        let said = said(&stage, name);
        assert_eq!(said[line]["event"], "attached", "{said:#?}");
        assert_eq!(said[line + 1]["event"], "up", "{said:#?}");
    }
    kill(&stage.servers());
    assert_eq!(first.pid(), second.pid());
    for name in ["first", "second"] {
        assert_eq!(generations(&stage, name), [1, 2], "{:#?}", said(&stage, name));
        let down: Vec<_> = said(&stage, name).into_iter().filter(|line| line["event"] == "down").collect();
        assert!(
            down.len() == 1 && down[0]["text"].as_str().is_some_and(|text| text.contains("signal 9")),
            "{down:#?}"
        );
    }
    release(first);
    release(second);
    stage.expect_no_tree();
}

/// The next steward counts from one again, and the session's numbers must not go back.
#[test]
fn the_number_grows_over_the_death_of_the_steward() {
    let stage = Stage::new();
    let mut only = session(&stage, "status");
    only.initialize();
    only.pid();
    kill(&stage.servers());
    only.pid();
    stage.the(STEWARD).send(Signal::KILL);
    wait_until("the session has noticed", || {
        said(&stage, "status").iter().filter(|line| line["event"] == "down").count() == 2
    });
    only.pid();
    let seen = generations(&stage, "status");
    assert!(seen.is_sorted_by(|a, b| a < b) && seen.len() >= 3, "{seen:?}");
    release(only);
    stage.expect_no_tree();
}

/// Without status lines a session that ends before its first message is a probe, and the command runs by itself.
#[test]
fn a_session_exists_before_its_first_message() {
    let stage = Stage::new();
    let first = session(&stage, "first");
    wait_until("the child is up", || generations(&stage, "first") == [1] && stage.lives().len() == 1);
    release(first);
    stage.expect_no_tree();
    assert_eq!(stage.lives().len(), 1, "the command was run once more, as a probe: {:#?}", stage.lives());
}

#[test]
fn a_session_that_cannot_share_is_told_that_it_is_alone() {
    let stage = Stage::new();
    let nowhere = "export XDG_RUNTIME_DIR=/dev/null XDG_STATE_HOME=/dev/null HOME=/dev/null;";
    let mut alone = session_in(&stage, "status", nowhere);
    alone.initialize();
    alone.pid();
    let said = said(&stage, "status");
    assert_eq!(said[0]["event"], "alone", "{said:#?}");
    assert_eq!(generations(&stage, "status"), [1]);
    release(alone);
    stage.scene.expect_empty();
}
