//! The options of a supervised child: an error says how to correct a wrong option, and each option by itself turns
//! supervision on.

use std::process::{Command, Output, Stdio};

use serde_json::json;
use testkit::stage::Stage;
use testkit::{in_parallel, nostray};

const OPTIONS: [&str; 13] = [
    "respawn",
    "backoff",
    "max-failures",
    "hibernate",
    "lazy",
    "warm",
    "max-memory",
    "max-age",
    "start-timeout",
    "call-timeout",
    "protocol",
    "replay",
    "max-line",
];

fn call(words: &[&str]) -> Output {
    Command::new(nostray()).args(words).stdin(Stdio::null()).output().expect("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn an_error_about_an_option_gives_an_example() {
    let wrong = [
        ("--backoff", "1s", "250ms..30s"),
        ("--backoff", "soon..later", "250ms..30s"),
        ("--backoff", "2s..1s", "shorter than the first"),
        ("--backoff", "0s..1s", "more than zero"),
        ("--max-failures", "5", "5/1m"),
        ("--max-failures", "0/1m", "5/1m"),
        ("--max-failures", "5/0s", "5/1m"),
        ("--max-failures", "often/1m", "5/1m"),
        ("--max-memory", "5X", "500M"),
        ("--max-memory", "0", "500M"),
        ("--max-memory", "-5M", "500M"),
        ("--max-line", "much", "500M"),
        ("--hibernate", "0s", "leave it out"),
        ("--hibernate", "10", "500ms"),
        ("--max-age", "0s", "leave it out"),
        ("--start-timeout", "never", "500ms"),
        ("--call-timeout", "5", "500ms"),
        ("--protocol", "xml", "mcp, jsonrpc"),
        ("--replay", "session.open=session.close", "session.open=session.close@params.sessionId"),
        ("--replay", "session.open=session.close@params.", "session.open=session.close@params.sessionId"),
        ("--replay", "session.open@params.sessionId", "session.open=session.close@params.sessionId"),
    ];
    for (option, value, hint) in wrong {
        let output = call(&["run", &format!("{option}={value}"), "--", "true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{option} {value}: {said}");
        assert!(said.contains(option) && said.contains(value) && said.contains(hint), "{option} {value}: {said}");
        assert_eq!(text(&output.stdout), "");
    }
    for twice in ["--hibernate", "--backoff"] {
        let output = call(&["run", twice, "1s..2s", twice, "1s..2s", "--", "true"]);
        assert_eq!(output.status.code(), Some(125));
    }
}

#[test]
fn help_manual_and_completions_have_all_options() {
    let help = text(&call(&["run", "--help"]).stdout);
    let page = text(&call(&["man", "run"]).stdout).replace("\\-", "-");
    let script = text(&call(&["completions", "bash"]).stdout);
    for option in OPTIONS {
        for (what, whole) in [("help", &help), ("man", &page), ("completions", &script)] {
            assert!(whole.contains(&format!("--{option}")), "--{option} is not in {what}");
        }
    }
    for default in ["250ms..30s", "5/1m", "64M", "mcp"] {
        assert!(help.contains(&format!("[default: {default}]")), "{default} is not in:\n{help}");
    }
}

#[test]
fn each_option_is_enough_to_supervise() {
    let options = vec![
        vec!["--respawn"],
        vec!["--backoff", "1ms..2ms"],
        vec!["--max-failures", "5/1m"],
        vec!["--hibernate", "1h"],
        vec!["--lazy"],
        vec!["--max-memory", "1.5GiB"],
        vec!["--max-age", "1h"],
        vec!["--start-timeout", "1m"],
        vec!["--call-timeout", "1m"],
        vec!["--protocol", "mcp"],
        vec!["--replay", "x"],
        vec!["--max-line", "1M"],
    ];
    in_parallel(options, |options| {
        let stage = Stage::new();
        let mut caller = stage.start(&options, &["--banner", "not for the host"]);
        caller.initialize();
        caller.who();
        assert_eq!(caller.unasked(), Vec::<serde_json::Value>::new(), "{options:?}");
        caller.end(&stage);
    });
    // Without any of these options every byte passes.
    let stage = Stage::new();
    let mut caller = stage.start(&[], &["--banner", "for the host"]);
    assert_eq!(caller.next_line(), b"for the host\n");
    caller.end(&stage);
}

/// Options for the tree apply to a supervised child, too.
#[test]
fn sessions_labels_and_the_pid_namespace_apply_to_a_supervised_child() {
    let stage = Stage::new();
    let options = ["--respawn", "--backoff", "1ms..2ms", "--session", "s", "--label", "k=v", "--isolate", "pid"];
    let mut caller = stage.start(&options, &["--plain"]);
    assert!(caller.pid() < 10, "the child must be in a pid namespace of its own");
    caller.error("die", json!({}));
    assert!(caller.pid() < 10);
    for words in [["ps", "-q", "--session", "s"], ["ps", "-q", "--label", "k=v"]] {
        let found = stage.nostray(&words);
        assert!(found.status.success(), "{words:?}");
        assert_eq!(text(&found.stdout).lines().count(), 1, "one session must be one line");
    }
    assert_eq!(stage.nostray(&["ps", "-q", "--session", "t"]).status.code(), Some(1));
    assert!(stage.nostray(&["stop", "--session", "s"]).status.success());
    caller.code();
    stage.scene.expect_empty();
}
