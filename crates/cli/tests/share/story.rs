//! What the journal tells of a shared child and of a daemon: why each was ended, and that no call will wake what no session holds.

use badchild::{badchild, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::nostray;
use testkit::sharing::{BROKER, kill, release};
use testkit::stage::Stage;

/// The entries of the journal, once so many trees are empty.
fn entries(stage: &Stage, trees: usize) -> Vec<Value> {
    let read = || -> Vec<Value> {
        let lines = std::fs::read_to_string(stage.scene.runtime().join("nostray/journal")).unwrap_or_default();
        lines.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    wait_until("all is told", || read().iter().filter(|entry| entry["event"] == "empty").count() == trees);
    read()
}

/// The same in short, of the steward (without a generation) or of its child.
fn story(entries: &[Value], of_child: bool) -> Vec<String> {
    let is_meant = |entry: &&Value| entry["id"].as_str().expect("an id").contains('.') == of_child;
    let in_short = |entry: &Value| {
        let event = entry["event"].as_str().expect("an event");
        let detail = ["reason", "how", "why", "linger"].into_iter().find_map(|name| entry.get(name));
        match detail {
            Some(Value::String(text)) => format!("{event}: {text}"),
            Some(other) => format!("{event}: {other}"),
            None => event.to_owned(),
        }
    };
    entries.iter().filter(is_meant).map(in_short).collect()
}

fn no_broker(stage: &Stage) {
    wait_until("only the broker is left", || stage.scene.processes().iter().all(|found| found.stat.name == BROKER));
    stage.named(BROKER).iter().for_each(|broker| broker.send(Signal::TERM));
    stage.scene.expect_empty();
}

#[test]
fn a_shared_child_is_ended_since_no_session_holds_it_and_does_not_sleep() {
    for (linger, milliseconds, in_words) in [
        ("200ms", 200, "ended, since no session has held it for 200ms"),
        ("0s", 0, "ended, since no session holds it any more"),
    ] {
        let stage = Stage::new();
        let mut caller = stage.shared(&["--linger", linger], &[]);
        caller.who();
        release(caller);
        let entries = entries(&stage, 1);
        let told = story(&entries, false);
        assert_eq!(
            told,
            ["attached", "answering", "detached: its input ended", &format!("unheld: {milliseconds}")],
            "{entries:#?}"
        );
        let child = story(&entries, true);
        assert_eq!(child, ["started", "ready", "stopping: not-held", "exited: exited with code 0", "empty"]);
        assert!(stage.journal().contains(in_words), "{}", stage.journal());
        assert!(stage.journal().contains("stopping: no session holds it any more"), "{}", stage.journal());
        no_broker(&stage);
    }
}

#[test]
fn a_daemon_is_ended_since_no_holder_is_left() {
    let stage = Stage::new();
    let (program, badchild) = (nostray().display().to_string(), badchild().display().to_string());
    let words = ["hold", "--key", "d", "--linger", "100ms", "--term-grace", "500ms", "--", &badchild, "pause"];
    let holder = stage.start_plain(&program, &words);
    wait_until("it is ready", || stage.states() == ["ready"]);
    release(holder);
    let entries = entries(&stage, 1);
    assert_eq!(story(&entries, false), ["attached", "detached: its input ended", "unheld: 100"], "{entries:#?}");
    let child = story(&entries, true);
    let killed = "exited: was killed by signal 15 (SIGTERM)";
    assert_eq!(child, ["started", "ready", "stopping: not-held", killed, "empty"], "{entries:#?}");
    no_broker(&stage);
}

#[test]
fn a_daemon_that_could_not_be_executed_was_never_ready() {
    let stage = Stage::new();
    let program = nostray().display().to_string();
    let mut holder = stage.start_plain(&program, &["hold", "--key", "d", "--", "no-such-command"]);
    assert_eq!(holder.code(), 127, "{}", holder.errors());
    let entries = entries(&stage, 1);
    let child = story(&entries, true);
    assert_eq!(child.len(), 3, "{child:?}");
    assert!(child[0] == "started" && child[1].starts_with("not-executed: cannot run"), "{child:?}");
    assert!(!entries.iter().any(|entry| entry["event"] == "ready"), "{entries:#?}");
    no_broker(&stage);
}

#[test]
fn a_session_whose_host_was_killed_was_not_closed() {
    for _ in 0..10 {
        let stage = Stage::new();
        let (mut host, _front) = stage.shared_by_host(&[], &[], &[]);
        host.kill();
        let entries = entries(&stage, 1);
        let told = story(&entries, false);
        assert!(told.contains(&"detached: its host has ended".to_owned()), "{told:?}");
        no_broker(&stage);
    }
}

#[test]
fn a_shared_child_that_died_while_no_session_held_it_was_not_ended() {
    let stage = Stage::new();
    let mut caller = stage.shared(&["--linger", "1h"], &[]);
    caller.who();
    release(caller);
    wait_until("no session holds it", || stage.journal().contains("0 are left"));
    stage.child().send(Signal::KILL);
    let entries = entries(&stage, 1);
    assert_eq!(story(&entries, false), ["attached", "answering", "detached: its input ended"], "{entries:#?}");
    let child = story(&entries, true);
    assert_eq!(child, ["started", "ready", "exited: was killed by signal 9 (SIGKILL)", "empty"]);
    no_broker(&stage);
}

#[test]
fn a_shared_child_ends_because_its_broker_was_killed() {
    let stage = Stage::new();
    let mut caller = stage.shared(&[], &[]);
    caller.who();
    kill(&[stage.the(BROKER)]);
    // A call that the old child has read is answered with an error.
    wait_until("the session has another child", || caller.call("who", json!({})).get("result").is_some());
    release(caller);
    let entries = entries(&stage, 2);
    let told = story(&entries, false);
    assert_eq!(told[2..4], ["stopping: broker-gone", "detached: the broker has ended"], "{told:#?}");
    assert!(!told[..4].iter().any(|event| event.starts_with("unheld")), "{told:#?}");
    no_broker(&stage);
}
