//! The front gives up a server that keeps failing: it stops starting it, and answers each call at once with the reason.

use std::io::Write;
use std::time::{Duration, Instant};

use badchild::{User, wait_until};
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::stage::{Caller, Stage};

fn hello(caller: &mut Caller) -> Value {
    caller.call("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }))
}

#[test]
fn a_server_that_exits_at_once_is_started_a_few_times_and_then_every_call_is_told_why() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let options = ["--respawn", "--backoff", "5ms..20ms", "--max-failures", "4/1m"];
        let server = ["--stderr", "cannot open the database", "--exit-at-once", "3"];
        let mut caller = stage.start(&options, &server);
        wait_until("the server is given up", || stage.states() == ["tripped"]);
        assert_eq!(stage.lives().len(), 4);
        stage.expect_no_tree();
        let mut times = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            let answer = hello(&mut caller);
            times.push(began.elapsed());
            let error = &answer["error"];
            assert_eq!(error["code"], -32000);
            let message = error["message"].as_str().expect("text");
            assert!(message.contains("exited with code 3") && message.contains("was not made"), "{message}");
            assert_eq!(error["data"]["nostray"]["stderr"], json!(["cannot open the database"]));
        }
        // On a busy machine any one call may wait for the CPU.
        assert!(times.iter().min() < Some(&Duration::from_secs(5)), "told after {times:?}");
        assert_eq!(stage.lives().len(), 4, "a call started the server");
        wait_until("the front has reported it", || caller.errors().contains("cannot open the database"));
        let journal = stage.journal();
        assert!(journal.contains("exited with code 3"), "{journal}");
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    }
}

/// Calls that already wait get the error as well, not only later calls.
#[test]
fn calls_that_wait_for_a_server_that_is_given_up_are_told() {
    let stage = Stage::new();
    stage.facts(&json!({}));
    let options = ["--respawn", "--backoff", "50ms..50ms", "--max-failures", "3/1m"];
    let mut caller = stage.start(&options, &[]);
    caller.initialize();
    stage.facts(&json!({ "exit": 4 }));
    caller.error("die", json!({}));
    let waiting: Vec<_> = (0..10).map(|n| caller.ask("echo", json!({ "n": n }))).collect();
    for id in waiting {
        let message = caller.answer(id)["error"]["message"].as_str().expect("text").to_owned();
        assert!(message.contains("exited with code 4") && message.contains("was not made"), "{message}");
    }
    assert_eq!(stage.lives().len(), 3);
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

#[test]
fn pauses_between_starts_grow_up_to_the_longest() {
    let stage = Stage::new();
    let options = ["--backoff", "100ms..400ms", "--max-failures", "6/1m"];
    let mut caller = stage.start(&options, &["--exit-at-once", "1"]);
    wait_until("the server is given up", || stage.states() == ["tripped"]);
    let starts: Vec<_> = stage.lives().iter().map(|life| life.started).collect();
    let gaps: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Jitter takes up to half of each pause.
    let least = [50, 100, 200, 200, 200];
    assert_eq!(gaps.len(), least.len());
    assert!(gaps.iter().zip(least).all(|(gap, least)| *gap >= least), "{gaps:?}");
    assert!(gaps.iter().sum::<u64>() < 10_000, "{gaps:?}");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// After a while the next call starts the server again, once. A server that works again takes up the session.
#[test]
fn after_a_while_the_next_call_tries_again_and_one_failure_is_enough_then() {
    let stage = Stage::new();
    stage.facts(&json!({}));
    let options = ["--backoff", "1ms..10ms", "--max-failures", "3/5s"];
    let mut caller = stage.start(&options, &[]);
    caller.initialize();
    stage.facts(&json!({ "exit": 4 }));
    caller.error("die", json!({}));
    wait_until("the server is given up", || stage.states() == ["tripped"]);
    assert_eq!(stage.lives().len(), 3);
    wait_until("a call starts the server again", || {
        caller.error("who", json!({}));
        stage.lives().len() > 3
    });
    wait_until("the server is given up again", || stage.states() == ["tripped"]);
    assert_eq!(stage.lives().len(), 4, "one failure must be enough");
    stage.facts(&json!({}));
    let mut told = Value::Null;
    wait_until("the server works again", || {
        told = caller.call("who", json!({}));
        told.get("result").is_some()
    });
    assert_eq!(told["result"]["heard"], json!(["initialize", "notifications/initialized", "who"]));
    assert_eq!(stage.lives().len(), 5);
    caller.end(&stage);
}

#[test]
fn a_next_child_that_refuses_the_handshake_has_failed() {
    let stage = Stage::new();
    stage.facts(&json!({}));
    let options = ["--backoff", "1ms..10ms", "--max-failures", "3/1m"];
    let mut caller = stage.start(&options, &[]);
    caller.initialize();
    stage.facts(&json!({ "refuse": true }));
    caller.error("die", json!({}));
    let error = caller.error("who", json!({}));
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("refused the handshake"), "{message}");
    wait_until("the server is given up", || stage.states() == ["tripped"]);
    let lives = stage.lives();
    assert_eq!(lives.len(), 3);
    assert!(lives[1..].iter().all(|life| life.methods() == ["initialize"]), "{lives:?}");
    stage.expect_no_tree();
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

#[test]
fn a_command_that_is_not_there_ends_the_session_with_a_clear_message() {
    let script = |stage: &Stage| {
        let path = stage.file("not-executable");
        std::fs::write(&path, "text").expect("write");
        path
    };
    let stage = Stage::new();
    for (command, code) in [("no-such-command".to_owned(), 127), (script(&stage), 126)] {
        // Write the request before the front starts: the front ends as soon as it has answered, or if it finds no
        // request.
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        writeln!(writer, "{request}").expect("write");
        let mut caller = stage.launch("run", &["--respawn", "--hibernate", "1h"], &[&command], |run| {
            run.stdin(reader);
        });
        let answer = caller.answer(1);
        let message = answer["error"]["message"].as_str().expect("text");
        assert!(message.contains(&command), "{message}");
        assert_eq!(caller.code(), code);
        assert!(caller.errors().contains(&command), "{}", caller.errors());
        stage.scene.expect_empty();
    }
}

/// The command worked before, so it may work again: an update may just be replacing it.
#[test]
fn a_command_that_is_removed_later_is_a_failure_like_others() {
    let stage = Stage::new();
    let (program, away) = (stage.file("program"), stage.file("away"));
    let copied = std::process::Command::new("cp").arg(badchild::badchild()).arg(&program).status();
    assert!(copied.expect("run cp").success());
    let options = ["--backoff", "20ms..50ms", "--max-failures", "100/1m"];
    let mut caller = stage.start_command(&options, &[&program, "server"]);
    caller.initialize();
    std::fs::rename(&program, &away).expect("move");
    caller.error("die", json!({}));
    let waiting = caller.ask("who", json!({}));
    wait_until("the front has tried to start it", || stage.journal().contains("cannot run"));
    std::fs::rename(&away, &program).expect("move back");
    assert!(caller.answer(waiting).get("result").is_some());
    caller.end(&stage);
}

/// Many servers fail at once. Each is started a bounded number of times.
#[test]
fn each_of_many_failing_servers_is_started_a_bounded_number_of_times() {
    in_parallel((0..12).collect(), |_| {
        let stage = Stage::new();
        let options = ["--backoff", "5ms..20ms", "--max-failures", "5/1m"];
        let mut caller = stage.start(&options, &["--exit-at-once", "9"]);
        loop {
            assert_eq!(hello(&mut caller)["error"]["code"], -32000);
            if stage.lives().len() >= 5 {
                break;
            }
        }
        wait_until("the server is given up", || stage.states() == ["tripped"]);
        assert_eq!(stage.lives().len(), 5);
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    });
}
