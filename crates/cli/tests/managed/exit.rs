//! `nostray run` exits with the supervised child's code, as it does without supervision. How a child was put to sleep
//! does not change the code.

use badchild::{User, wait_until};
use nostray_sys::Signal;
use serde_json::json;
use testkit::stage::Stage;
use testkit::{in_parallel, nostray};

#[test]
fn a_child_that_ends_with_its_input_gives_its_code() {
    for user in User::all() {
        for code in ["0", "7", "255"] {
            let stage = Stage::for_user(user);
            let mut caller = stage.start(&["--respawn"], &["--exit", code]);
            caller.initialize();
            caller.close();
            assert_eq!(caller.code().to_string(), code);
            stage.scene.expect_empty();
            let lives = stage.lives();
            assert!(lives.len() == 1 && lives[0].saw_the_end, "{lives:?}");
        }
    }
}

#[test]
fn a_child_that_does_not_end_with_its_input_gives_the_signal_that_ended_it() {
    let stage = Stage::new();
    let options = ["--respawn", "--eof-grace", "100ms", "--term-grace", "100ms"];
    let mut caller = stage.start_stubborn(&options);
    caller.initialize();
    caller.close();
    assert_eq!(caller.code(), 137);
    stage.scene.expect_empty();
}

#[test]
fn without_respawn_the_session_ends_with_the_child_and_with_its_code() {
    let endings = vec![(json!({ "code": 3 }), 3), (json!({ "code": 0 }), 0), (json!({ "signal": 15 }), 143)];
    in_parallel(endings, |(ending, code)| {
        let stage = Stage::new();
        let mut caller = stage.start(&["--protocol", "mcp"], &[]);
        caller.initialize();
        let error = caller.error("die", ending);
        assert_eq!(error["code"], -32000, "the waiting call gets this error: {error}");
        assert_eq!(caller.code(), code);
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), 1);
    });
}

#[test]
fn calls_that_the_host_made_before_it_closed_are_answered() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn"], &["--start-delay", "300"]);
    let hello = caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    caller.tell("notifications/initialized", None);
    let slow = caller.ask("slow", json!({ "ms": 500 }));
    // A last line without a newline counts as a line.
    caller.write(br#"{"jsonrpc":"2.0","id":"last","method":"echo","params":[1]}"#);
    caller.close();
    assert!(caller.answer(hello).get("result").is_some());
    assert_eq!(caller.answer("last")["result"], json!([1]));
    assert!(caller.answer(slow).get("result").is_some());
    assert_eq!(caller.code(), 0);
    stage.scene.expect_empty();
}

#[test]
fn a_front_whose_child_sleeps_exits_with_0_even_if_the_child_was_killed_to_sleep() {
    let stage = Stage::new();
    let options = ["--hibernate", "50ms", "--eof-grace", "50ms", "--term-grace", "50ms"];
    let mut caller = stage.start(&options, &["--ignore-eof"]);
    caller.initialize();
    caller.who();
    stage.wait_until_asleep();
    caller.end(&stage);
}

#[test]
fn signals_reach_the_child_and_end_it_as_they_do_without_supervision() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let stage = Stage::new();
        let mut caller = stage.start(&["--respawn"], &[]);
        caller.initialize();
        let waiting = caller.ask("hang", json!({}));
        caller.who();
        let front = badchild::Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small")));
        front.expect("is there").send(signal);
        assert_eq!(caller.answer(waiting)["error"]["code"], -32000, "{signal}");
        assert_eq!(caller.code(), code, "{signal}");
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), 1, "stopping beats starting");
    }
}

#[test]
fn a_host_that_is_killed_takes_everything_with_it() {
    let stage = Stage::new();
    let record = stage.file("record");
    let words = [nostray().display().to_string(), badchild::badchild().display().to_string()];
    let options = ["run", "--respawn", "--hibernate", "1h", "--eof-grace", "200ms", "--term-grace", "200ms", "--"];
    let command =
        [&[words[0].as_str()], &options[..], &[&words[1], "server", "--plain", "--record", &record]].concat();
    let mut host = badchild::Host::start(&stage.scene, &["--hold"], &command);
    host.line();
    wait_until("the server is there", || !stage.lives().is_empty());
    host.kill();
    stage.scene.expect_empty();
    assert_eq!(stage.lives().len(), 1);
}
