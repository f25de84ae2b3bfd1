//! What an operator sees of a supervised child, and does to it, in every state of the child: a session is one line of
//! `ps`, a stop ends it for good, and a sweep leaves it alone.

use std::process::Output;
use std::time::Duration;

use badchild::{Found, User, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::stage::{Caller, Stage};

/// The states of a child, as `ps` names them.
const STATES: [&str; 6] = ["starting", "ready", "stopping", "asleep", "backing-off", "tripped"];

/// A session whose child is in this state, and stays in it until the test acts.
fn session_in(stage: &Stage, state: &str, name: &str) -> Caller {
    let mut options = vec!["--session", name, "--backoff", "1h..1h", "--eof-grace"];
    options.push(if state == "stopping" { "1h" } else { "200ms" });
    let server: &[&str] = match state {
        "starting" => &["--start-delay", "600000"],
        "stopping" => &["--ignore-eof"],
        "backing-off" | "tripped" => &["--exit-at-once", "3"],
        _ => &[],
    };
    match state {
        // Long enough for the handshake before. The server ignores the end of its input, so it stays in "stopping".
        "stopping" => options.extend(["--hibernate", "3s"]),
        "asleep" => options.extend(["--hibernate", "1s"]),
        "tripped" => options.extend(["--max-failures", "1/1h"]),
        _ => {}
    }
    let lives = stage.lives().len();
    let mut caller = stage.start(&options, server);
    wait_until("the child has started", || stage.lives().len() > lives);
    if ["ready", "stopping", "asleep"].contains(&state) {
        caller.initialize();
    }
    if state == "ready" {
        caller.result("fork", json!({ "kind": "daemon" }));
    }
    wait_until(state, || shown(stage, name)["state"] == state);
    let is_there = ["starting", "ready", "stopping"].contains(&state);
    wait_until("its processes are known", || shown(stage, name)["child"].is_object() == is_there);
    caller
}

/// The entry of a session in `ps --json`; null unless there is exactly one.
fn shown(stage: &Stage, name: &str) -> Value {
    let output = stage.nostray(&["ps", "--json", "--session", name]);
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    match all["pens"].as_array().map(Vec::as_slice) {
        Some([one]) => one.clone(),
        _ => Value::Null,
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_session_is_one_line_with_all_that_is_known_in_every_state() {
    in_parallel(STATES.to_vec(), |state| {
        let stage = Stage::new();
        let mut caller = session_in(&stage, state, "s");
        let before = stage.scene.processes();
        let pen = shown(&stage, "s");
        let id = pen["id"].as_str().expect("an id").to_owned();
        assert_eq!(text(&stage.nostray(&["ps", "-q"])), format!("{id}\n"), "{state}: not one line");
        assert_eq!(pen["front"]["pid"], caller.process.id());
        assert_eq!(pen["host"]["pid"], std::process::id());
        assert_eq!(pen["generation"], stage.lives().len());
        assert_eq!(pen["session"], "s");
        let processes = match state {
            "ready" => 2,
            "starting" | "stopping" => 1,
            _ => 0,
        };
        assert_eq!(pen["processes"], processes, "{pen}");
        assert_eq!(pen["tree"].as_array().map(Vec::len), Some(processes), "{pen}");
        let is_there = processes > 0;
        for name in ["guard", "spare", "child"] {
            assert_eq!(pen[name].is_object(), is_there, "{state}, {name}: {pen}");
        }
        if is_there {
            assert_eq!(pen["child"]["pid"], stage.lives().last().expect("one").pid);
            assert!(["cgroup", "subreaper"].contains(&pen["tier"].as_str().expect("text")), "{pen}");
            assert!(pen["memory"].as_u64() > Some(50_000), "{pen}");
        }
        let reason = ["stopping", "backing-off", "tripped"].contains(&state);
        assert_eq!(pen["reason"].is_string(), reason, "{pen}");
        let tree = text(&stage.nostray(&["ps", "--tree"]));
        // Heading, child, host and keepers; then the tree.
        assert_eq!(tree.lines().count(), 4 + processes, "{tree}");
        let host = format!(" {} for ", std::process::id());
        let is_host =
            |line: &str| line.starts_with("  held by ") && line.contains(&host) && line.ends_with(", session s");
        assert!(tree.lines().any(is_host), "{tree}");
        let mut keepers = format!("  kept by front {}", caller.process.id());
        if is_there {
            keepers += &format!(", spare {}, guard {}", pen["spare"]["pid"], pen["guard"]["pid"]);
        }
        assert!(tree.lines().any(|line| line == keepers), "no '{keepers}' in:\n{tree}");
        assert_eq!(tree.contains("member daemon"), state == "ready", "{tree}");
        let story = text(&stage.nostray(&["log", &id]));
        assert!(story.contains("started for session s") && story.contains("ready: child"), "{story}");
        // A sweep touches no process of the session, and counts the session once.
        for words in [&["sweep", "--dry-run"][..], &["sweep"]] {
            let swept = stage.nostray(words);
            assert_eq!(text(&swept), "1 active, not touched\n", "{state}");
        }
        assert!(before.iter().all(Found::is_alive), "{state}: the sweep ended a process");
        assert_eq!(stage.scene.processes().len(), before.len(), "{state}");
        assert_eq!(shown(&stage, "s")["state"], state);
        caller.process.kill().expect("kill");
    });
}

#[test]
fn a_stop_beats_everything_in_every_state() {
    let mut all = Vec::new();
    for state in STATES {
        for how in ["id", "session", "now", "include-active"] {
            all.push((state, how));
        }
    }
    in_parallel(all, |(state, how)| {
        let stage = Stage::for_user(if how == "session" { *User::all().last().expect("one") } else { User::Current });
        let mut caller = session_in(&stage, state, "s");
        let mut other = session_in(&stage, "ready", "other");
        let pen = shown(&stage, "s");
        let (id, lives) = (pen["id"].as_str().expect("an id"), stage.lives().len());
        let output = match how {
            "id" => stage.nostray(&["stop", id]),
            "session" => stage.nostray(&["stop", "--session", "s"]),
            "now" => stage.nostray(&["stop", "--now", id]),
            _ => {
                let asked = stage.nostray(&["sweep", "--include-active"]);
                assert_eq!(text(&asked).matches("was asked to stop").count(), 2, "{state}: {asked:?}");
                asked
            }
        };
        assert!(output.status.success(), "{state}, {how}: {output:?}");
        if how != "include-active" {
            assert!(text(&output).starts_with(id) && text(&output).contains("stopped"), "{state}: {output:?}");
            // `stop` returns only when the session has ended.
            assert!(caller.process.try_wait().expect("look").is_some(), "{state}, {how}");
            assert!(other.process.try_wait().expect("look").is_none(), "another session was touched");
            other.who();
            other.close();
        }
        // A session without a child ends with the code of its sleep or of its failure. A child that the stop ends gives
        // its own code.
        let codes: &[i32] = match state {
            "asleep" => &[0],
            "backing-off" | "tripped" => &[3],
            _ => &[143, 137, 0],
        };
        let code = caller.code();
        assert!(codes.contains(&code), "{state}, {how}: {code}");
        other.code();
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), lives, "{state}, {how}: a child was started");
        assert_eq!(stage.states(), Vec::<String>::new());
    });
}

/// The child keeps crashing and is restarted. A stop at any moment ends the session.
#[test]
fn a_stop_between_two_starts_is_a_stop() {
    in_parallel((0..12).collect(), |round: u64| {
        let stage = Stage::new();
        let options = ["--backoff", "1ms..10ms", "--max-failures", "1000/1s"];
        let mut caller = stage.start(&options, &["--exit-at-once", "1"]);
        wait_until("the child has been restarted a few times", || stage.lives().len() > 3);
        // Any moment between two starts.
        std::thread::sleep(Duration::from_micros(round * 1_337));
        let output = stage.nostray(if round < 6 { &["stop", "--all"] } else { &["stop", "--all", "--now"] });
        assert!(output.status.success(), "{output:?}");
        let lives = stage.lives().len();
        caller.code();
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), lives, "a child was started after the stop");
    });
}

/// A front that was stopped (SIGSTOP) or killed does not take requests.
#[test]
fn a_session_whose_front_is_stopped_or_killed_can_be_stopped() {
    for signal in [Signal::STOP, Signal::KILL] {
        let stage = Stage::new();
        let options = ["--respawn", "--eof-grace", "1h", "--term-grace", "1h"];
        let script = "trap '' TERM; exec \"$@\"";
        let (badchild, record) = (badchild::badchild().display().to_string(), stage.file("record"));
        let command = ["sh", "-c", script, "sh", &badchild, "server", "--record", &record, "--ignore-eof"];
        let mut caller = stage.start_command(&options, &command);
        caller.initialize();
        wait_until("the child is on record", || stage.states() == ["ready"]);
        let front = Found::by_pid(badchild::pid(caller.process.id() as i32)).expect("is there");
        front.send(signal);
        if signal == Signal::KILL {
            // The guard ends the tree, after graces of an hour each.
            wait_until("the tree is stopping", || stage.states() == ["stopping"]);
        }
        let output = stage.nostray(&["stop", "--all", "--now"]);
        assert!(output.status.success(), "{signal}: {output:?}");
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), 1);
    }
}

/// A sweep leaves all processes and records of a live session alone.
#[test]
fn sweeps_do_not_disturb_a_session_whose_child_keeps_crashing_or_loses_its_keepers() {
    let stage = Stage::new();
    let options = ["--backoff", "1ms..10ms", "--max-failures", "1000/1s", "--eof-grace", "50ms", "--no-sweep"];
    let mut crashing = stage.start(&options, &["--exit-at-once", "1"]);
    let other = Stage::new();
    let mut losing = other.start(&options, &[]);
    losing.initialize();
    wait_until("the crashing child has started", || !stage.lives().is_empty());
    for round in 1..=8 {
        for keeper in other.own().iter().filter(|found| found.stat.name != "nostray") {
            keeper.send(Signal::KILL);
        }
        for stage in [&stage, &other] {
            let swept = stage.nostray(&["sweep"]);
            assert_eq!(text(&swept), "1 active, not touched\n");
        }
        // The old child may still answer a call, so wait for the next one.
        wait_until("the next child has started", || other.lives().len() > round);
        losing.who();
    }
    for (stage, caller) in [(&stage, &mut crashing), (&other, &mut losing)] {
        let journal = stage.journal();
        assert!(!journal.contains("swept"), "{journal}");
        assert!(caller.process.try_wait().expect("look").is_none(), "a session was ended");
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    }
    assert_eq!(other.lives().len(), 9, "one more child for each round");
}

/// The journal records what happens to a session; `log ID` prints all of it.
#[test]
fn the_journal_tells_what_happened_to_each_child() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn", "--backoff", "1ms..5ms", "--hibernate", "3s"], &[]);
    caller.initialize();
    caller.error("die", json!({ "code": 3 }));
    caller.who();
    stage.wait_until_asleep();
    caller.who();
    let id = shown_id(&stage);
    wait_until("the child is ready or asleep", || ["ready", "asleep"].contains(&stage.states().concat().as_str()));
    assert!(stage.nostray(&["stop", &id]).status.success());
    caller.code();
    let story = text(&stage.nostray(&["log", &id]));
    for part in [
        &format!("{id}.1  ready: child"),
        &format!("{id}.1  the child exited with code 3"),
        &format!("{id}  the child exited with code 3; number 2 starts in"),
        &format!("{id}.2  stopping: put to sleep"),
        &format!("{id}  asleep until the next call"),
        &format!("{id}.3  ready: child"),
        &format!("{id}  number 3 answers"),
    ] {
        assert!(story.contains(part.as_str()), "'{part}' is not in:\n{story}");
    }
    stage.scene.expect_empty();
}

fn shown_id(stage: &Stage) -> String {
    text(&stage.nostray(&["ps", "-q"])).trim().to_owned()
}
