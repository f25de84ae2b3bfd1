//! The errors that nostray answers in the place of a child name the server, say what happened and that the call was not retried, quote the
//! server's last words, and say where to look. Agents see the message, and little else.

use std::time::Duration;

use badchild::{badchild, wait_until};
use serde_json::{Value, json};
use testkit::stage::{Caller, Stage};

/// A session that has begun, and where its errors send their reader.
fn begun(stage: &Stage, options: &[&str], server: &[&str]) -> (Caller, String) {
    let mut caller = stage.start(options, server);
    caller.initialize();
    let details = details(stage);
    (caller, details)
}

fn details(stage: &Stage) -> String {
    let id = || String::from_utf8(stage.nostray(&["ps", "-q"]).stdout).expect("UTF-8");
    wait_until("it is on record", || !id().is_empty());
    format!("Details: nostray log {}", id().trim())
}

fn message(error: &Value) -> &str {
    error["message"].as_str().unwrap_or_else(|| panic!("no message: {error}"))
}

fn hello(caller: &mut Caller) -> Value {
    caller.error("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }))
}

fn over(mut caller: Caller, stage: &Stage) {
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

#[test]
fn a_server_that_dies_during_a_call_is_quoted() {
    for (ending, how) in
        [(json!({ "code": 1 }), "exited with code 1"), (json!({ "signal": 9 }), "was killed by signal 9 (SIGKILL)")]
    {
        let stage = Stage::new();
        let (mut caller, details) = begun(&stage, &["--backoff", "1h..1h"], &["--stderr", "starting"]);
        let mut last = ending.clone();
        last["text"] = "API_KEY is not set".into();
        let error = caller.error("die", last);
        assert_eq!(
            message(&error),
            format!(
                "`badchild` {how} during this call; the call was not retried. Last words: API_KEY is not set. {details}"
            )
        );
        // Scripts know these.
        assert_eq!(error["data"]["nostray"]["cause"], format!("the child {how}"));
        assert_eq!(error["data"]["nostray"]["stderr"], json!(["starting", "API_KEY is not set"]));
        over(caller, &stage);
    }
}

#[test]
fn a_server_that_said_nothing_is_not_quoted() {
    let stage = Stage::new();
    let (mut caller, details) = begun(&stage, &["--backoff", "1h..1h"], &[]);
    let error = caller.error("die", json!({ "code": 7 }));
    assert_eq!(
        message(&error),
        format!("`badchild` exited with code 7 during this call; the call was not retried. {details}")
    );
    over(caller, &stage);
}

/// A server may write anything to its stderr.
#[test]
fn last_words_show_no_secret_steer_no_terminal_and_are_cut() {
    for (said, quoted) in [
        ("login with --token hunter2 failed", "login with --token *** failed.".to_owned()),
        ("\u{1b}[31mfatal\u{1b}[0m\u{7}", "\\u{1b}[31mfatal\\u{1b}[0m\\u{7}.".to_owned()),
        (&"x ".repeat(300), format!("{}…", "x ".repeat(100).trim_end())),
    ] {
        let stage = Stage::new();
        let (mut caller, details) = begun(&stage, &["--backoff", "1h..1h"], &[]);
        let error = caller.error("die", json!({ "code": 1, "text": said }));
        assert_eq!(
            message(&error),
            format!(
                "`badchild` exited with code 1 during this call; the call was not retried. Last words: {quoted} {details}"
            )
        );
        assert!(!error.to_string().contains("hunter2"), "{error}");
        over(caller, &stage);
    }
}

#[test]
fn the_name_is_the_label_or_made_of_the_command() {
    let stage = Stage::new();
    let program = badchild().display().to_string();
    for (options, expected) in [(&[][..], "badchild"), (&["--label", "name=my server"], "my server")] {
        let mut caller =
            stage.start_command(&[&["--backoff", "1h..1h"], options].concat(), &["env", &program, "server"]);
        caller.initialize();
        let error = caller.error("die", json!({ "code": 1 }));
        let expected = format!("`{expected}` exited with code 1 during this call; the call was not retried. ");
        assert!(message(&error).starts_with(&expected), "{error}");
        over(caller, &stage);
    }
}

#[test]
fn a_program_that_is_not_there_is_named_with_the_next_step() {
    let stage = Stage::new();
    let mut caller = stage.start_command(&["--respawn"], &["no-such-command"]);
    let error = hello(&mut caller);
    let text = message(&error);
    let (said, details) = text.split_once(" Details: ").expect("details");
    assert_eq!(
        said,
        "`no-such-command` could not be started: cannot run 'no-such-command': not found; check its spelling, and that \
         it is in the PATH that the host gives to its children (or name it with its full path). This call was not made, \
         and the server is not started again in this session."
    );
    assert!(details.starts_with("nostray log "), "{text}");
    assert_eq!(caller.code(), 127);
    stage.scene.expect_empty();
}

#[test]
fn a_server_that_is_not_started_again_says_so() {
    let stage = Stage::new();
    // Supervised, but without --respawn.
    let mut caller = stage.start(&["--hibernate", "1h", "--protocol", "mcp"], &["--start-delay", "3600000"]);
    let waiting = caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    wait_until("it is asked", || stage.lives().len() == 1);
    let details = details(&stage);
    stage.child().send(nostray_sys::Signal::KILL);
    let error = caller.answer(waiting)["error"].clone();
    // It was not read, and no other child follows that could read it.
    assert_eq!(
        message(&error),
        format!(
            "`badchild` was killed by signal 9 (SIGKILL). This call was not made, and the server is not started again in \
             this session. {details}"
        )
    );
    over(caller, &stage);
}

#[test]
fn a_server_that_failed_too_often_says_when_it_is_tried_again() {
    let stage = Stage::new();
    let options = ["--backoff", "1ms..1ms", "--max-failures", "3/1m"];
    let mut caller = stage.start(&options, &["--stderr", "no database", "--exit-at-once", "3"]);
    wait_until("it is given up", || stage.states() == ["tripped"]);
    let details = details(&stage);
    let error = hello(&mut caller);
    let text = message(&error);
    let (before, rest) = text.split_once("another ").expect("when");
    let (time, after) = rest.split_once(';').expect("a clause");
    assert_eq!(before, "`badchild` failed too often (--max-failures 3/1m), and is not started for ");
    assert_eq!(
        after,
        format!(" most recently it exited with code 3. This call was not made. Last words: no database. {details}")
    );
    let seconds: u64 = time.trim_end_matches('s').parse().unwrap_or(if time == "1m" { 60 } else { 0 });
    assert!((1..=60).contains(&seconds), "{text}");
    over(caller, &stage);
}

#[test]
fn a_start_that_takes_too_long_is_a_timeout() {
    let stage = Stage::new();
    // It has read the handshake, and does not answer: so this call was made.
    let script = "read line; echo reading the database >&2; exec sleep 1000";
    let options = ["--start-timeout", "500ms", "--backoff", "1h..1h", "--eof-grace", "100ms"];
    let mut caller = stage.start_command(&options, &["sh", "-c", script, "slow-server"]);
    let details = details(&stage);
    let error = hello(&mut caller);
    assert_eq!(
        message(&error),
        format!(
            "`{}` was ended during this call: it took longer to start than --start-timeout allows; the call was not \
             retried. Last words: reading the database. {details}",
            name(&stage)
        )
    );
    over(caller, &stage);
}

/// What `ps` would call the child.
fn name(stage: &Stage) -> String {
    let shown: Value = serde_json::from_slice(&stage.nostray(&["ps", "--json"]).stdout).expect("JSON");
    let words: Vec<String> = serde_json::from_value(shown["pens"][0]["command"].clone()).expect("a command");
    nostray_registry::short_name(&words)
}

#[test]
fn a_call_that_takes_too_long_is_a_timeout_also_if_it_never_reached_the_server() {
    let stage = Stage::new();
    let (mut caller, details) = begun(&stage, &["--call-timeout", "1s", "--backoff", "1h..1h"], &[]);
    let error = caller.error("hang", json!({}));
    assert_eq!(error["code"], -32001);
    assert_eq!(
        message(&error),
        format!(
            "`badchild` did not answer within 1s (--call-timeout). The call was cancelled and was not retried; the server \
             keeps running. {details}"
        )
    );
    // After its first crash it is restarted at once.
    for _ in 0..2 {
        caller.error("die", json!({ "code": 4, "text": "no room" }));
    }
    wait_until("it waits", || stage.states() == ["backing-off"]);
    let error = caller.error("who", json!({}));
    assert_eq!(error["code"], -32001);
    let text = message(&error);
    let (before, rest) = text.split_once("within 1s (--call-timeout): ").expect("a reason");
    assert_eq!(before, "`badchild` was not there for this call ");
    let (why, after) = rest.split_once(" This call").expect("two sentences");
    assert!(why.starts_with("it exited with code 4, and is started again within "), "{text}");
    assert_eq!(after, format!(" was not made. Last words: no room. {details}"));
    over(caller, &stage);
}

#[test]
fn a_server_that_is_ended_by_nostray_says_why() {
    let stage = Stage::new();
    let (mut caller, details) = begun(&stage, &["--max-memory", "60M"], &[]);
    let hang = caller.ask("hang", json!({}));
    caller.ask("grow", json!({ "mb": 180 }));
    assert_eq!(
        message(&caller.answer(hang)["error"]),
        format!(
            "`badchild` was restarted during this call: its process tree used more memory than --max-memory allows; the \
             call was not retried. {details}"
        )
    );
    over(caller, &stage);

    let stage = Stage::new();
    let (mut caller, details) = begun(&stage, &["--respawn"], &["--ignore-eof"]);
    let hang = caller.ask("hang", json!({}));
    wait_until("it is asked", || stage.lives()[0].methods().contains(&"hang".to_owned()));
    let id = details.rsplit(' ').next().expect("an id");
    assert!(stage.nostray(&["stop", "--now", id]).status.success());
    assert_eq!(
        message(&caller.answer(hang)["error"]),
        format!("`badchild` was stopped during this call; the call was not retried. {details}")
    );
    caller.code();
    stage.scene.expect_empty();
}

/// A child that hangs in its start is never quiet, so a restart does not wait for it.
#[test]
fn a_server_that_is_restarted_says_so() {
    let stage = Stage::new();
    let script = "read line; exec sleep 1000";
    let mut caller = stage.start_command(&["--respawn", "--eof-grace", "100ms"], &["sh", "-c", script]);
    let waiting = caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    wait_until("it has read it", || stage.trees().iter().any(|found| found.command == "sleep 1000"));
    let (details, name) = (details(&stage), name(&stage));
    let id = details.rsplit(' ').next().expect("an id").to_owned();
    stage.nostray(&["restart", "--wait", "1s", &id]);
    assert_eq!(
        message(&caller.answer(waiting)["error"]),
        format!(
            "`{name}` was restarted during this call: a user or a program asked for that; the call was not retried. \
             {details}"
        )
    );
    over(caller, &stage);
}

#[test]
fn lines_that_are_too_long_name_the_server_and_the_limit() {
    let stage = Stage::new();
    let (mut caller, details) = begun(&stage, &["--max-line", "64K"], &[]);
    let error = caller.error("big", json!({ "bytes": 100_000 }));
    let text = message(&error);
    let length = 100_000 + r#"{"jsonrpc":"2.0","id":2,"result":""}"#.len();
    assert_eq!(
        text,
        format!(
            "the answer of `badchild` to this call was dropped: it has {length} bytes, more than --max-line 65536 \
             allows; the call was not retried. {details}"
        )
    );
    let error = caller.error("echo", json!({ "text": "x".repeat(100_000) }));
    let text = message(&error);
    assert!(
        text.starts_with("this request was not passed on to `badchild`: it has 100")
            && text.ends_with(" bytes, more than --max-line 65536 allows"),
        "{text}"
    );
    let error = caller.error("print", json!({ "hex": format!("{}ff22{}", hex(r#"{"jsonrpc":"2.0","id":$id,"result":""#), hex("}\n")), "silent": true }));
    assert_eq!(
        message(&error),
        format!(
            "the answer of `badchild` to this call was dropped: it is not UTF-8, so it is not JSON; the call was not \
             retried. {details}"
        )
    );
    caller.end(&stage);
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_keepers_of_a_server_may_be_killed_as_well() {
    let stage = Stage::new();
    let (mut caller, details) = begun(&stage, &["--backoff", "1h..1h"], &["--ignore-eof"]);
    let hang = caller.ask("hang", json!({}));
    wait_until("it is asked", || stage.lives()[0].methods().contains(&"hang".to_owned()));
    let old = stage.trees();
    let guard = stage.own().into_iter().find(|found| found.stat.name == "nostray-guard");
    guard.expect("a guard").send(nostray_sys::Signal::KILL);
    assert_eq!(
        message(&caller.answer(hang)["error"]),
        format!(
            "`badchild` was ended during this call: nostray's own processes around it were killed; the call was not \
             retried. {details}"
        )
    );
    // Not longer than its graces. The next one is started at once.
    assert!(badchild::comes_true(Duration::from_secs(30), &mut || old.iter().all(|found| !found.is_alive())));
    over(caller, &stage);
}
