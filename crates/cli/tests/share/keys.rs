//! Which sessions share a child: sessions that would notice no difference, and sessions that name the same key. No
//! others.

use std::path::Path;
use std::process::Command;

use badchild::{Folder, badchild, wait_until};
use serde_json::{Value, json};
use testkit::many::{Many, initialize_with, text};
use testkit::stage::{Caller, VERSION_KEY, modern};

/// Starts a session for each change, and returns with each session the pid of the child that answers it.
fn pids(many: &Many, options: &[&str], changes: &[&dyn Fn(&mut Command)]) -> (Vec<Caller>, Vec<i64>) {
    let start = |change: &&dyn Fn(&mut Command)| {
        let mut caller = many.share_in(options, &[], change);
        caller.initialize();
        let pid = caller.pid();
        (caller, pid)
    };
    changes.iter().map(start).unzip()
}

#[test]
fn sessions_with_the_same_command_directory_and_environment_share_a_child() {
    let many = Many::new();
    let nothing = |_: &mut Command| {};
    let (callers, pids) = pids(&many, &[], &[&nothing, &nothing, &nothing]);
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(many.stage.lives().len(), 1);
    assert_eq!(many.stewards().len(), 1);
    many.broker();
    many.end_all(callers);
}

#[test]
fn another_directory_variable_or_argument_is_another_child() {
    let many = Many::new();
    let (elsewhere, link) = (Folder::new("elsewhere"), Folder::new("link"));
    let changes: [&dyn Fn(&mut Command); 6] = [
        &|_| {},
        &|command| {
            command.current_dir(elsewhere.path());
        },
        &|command| {
            command.env("KEYS_TEST", "1");
        },
        &|command| {
            command.env("KEYS_TEST", "2");
        },
        &|command| {
            command.env("KEYS_TEST", "");
        },
        &|command| {
            command.args(["--exit", "0"]);
        },
    ];
    let (callers, mut pids) = pids(&many, &[], &changes);
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), changes.len(), "two of the sessions share a child");
    // Each child has the directory and environment of its session.
    for (life, place) in many.stage.lives().iter().zip([Path::new("/"), elsewhere.path()]) {
        let cwd = std::fs::read_link(format!("/proc/{}/cwd", life.pid)).expect("is there");
        assert_eq!(cwd, place);
    }
    let environment = std::fs::read(format!("/proc/{}/environ", many.stage.lives()[3].pid)).expect("is there");
    assert!(environment.split(|byte| *byte == 0).any(|variable| variable == b"KEYS_TEST=2"));

    // The resolved directory counts, not the path by which the session got there.
    let path = link.path().join("link");
    std::os::unix::fs::symlink(elsewhere.path(), &path).expect("link");
    let mut same = many.share_in(&[], &[], |command| {
        command.current_dir(&path);
    });
    same.initialize();
    assert_eq!(same.pid(), i64::from(many.stage.lives()[1].pid));
    many.end_all(callers.into_iter().chain([same]));
    assert_eq!(many.stage.lives().len(), changes.len());
}

#[test]
fn variables_that_only_say_where_a_session_was_called_from_do_not_count() {
    let many = Many::new();
    let names =
        ["SHLVL", "PWD", "OLDPWD", "TMUX", "TMUX_PANE", "WINDOWID", "SSH_TTY", "SSH_CONNECTION", "_", "COLUMNS"];
    let with = |value: &'static str| {
        move |command: &mut Command| {
            command.envs(names.map(|name| (name, value)));
        }
    };
    let without = |command: &mut Command| {
        for name in names {
            command.env_remove(name);
        }
    };
    let (callers, pids) = pids(&many, &[], &[&with("1"), &with("2"), &without]);
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    many.end_all(callers);
}

/// The variables of four sessions, as the hosts and the terminals that they run in set them.
const HOSTS: [&[(&str, &str)]; 4] = [
    &[
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_SESSION_ID", "2c5e9b0e-claude"),
        ("CLAUDE_CODE_SSE_PORT", "41337"),
        ("TERM", "xterm-kitty"),
        ("KITTY_WINDOW_ID", "3"),
        ("KITTY_PID", "4711"),
        ("WINDOWID", "12582920"),
        ("GPG_TTY", "/dev/pts/3"),
        ("XDG_SESSION_ID", "2"),
        ("XDG_VTNR", "1"),
        ("XDG_SEAT", "seat0"),
    ],
    &[
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_SESSION_ID", "77aa0f31-claude"),
        ("TMUX", "/tmp/tmux-1000/default,812,0"),
        ("TMUX_PANE", "%4"),
        ("TERM", "tmux-256color"),
        ("SSH_CLIENT", "10.0.0.1 50000 22"),
        ("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22"),
        ("SSH_TTY", "/dev/pts/7"),
        ("GPG_TTY", "/dev/pts/7"),
        ("XDG_SESSION_ID", "19"),
        ("XDG_SESSION_TYPE", "tty"),
    ],
    &[
        ("CLAUDECODE", "1"),
        ("OPENCODE_PID", "8123"),
        ("KONSOLE_DBUS_SESSION", "/Sessions/2"),
        ("KONSOLE_DBUS_WINDOW", "/Windows/1"),
        ("SHELL_SESSION_ID", "d0c7"),
        ("INVOCATION_ID", "5f0c"),
        ("JOURNAL_STREAM", "8:4711"),
        ("SHLVL", "3"),
    ],
    &[
        ("CLAUDECODE", "1"),
        ("CURSOR_TRACE_ID", "a1b2"),
        ("VSCODE_PID", "991"),
        ("VSCODE_IPC_HOOK_CLI", "/run/user/1000/vscode-ipc-1.sock"),
        ("TERM_PROGRAM", "vscode"),
        ("STY", "123.pts-0.host"),
        ("WINDOW", "1"),
        ("npm_lifecycle_event", "npx"),
    ],
];

fn set(variables: &'static [(&'static str, &'static str)]) -> impl Fn(&mut Command) {
    move |command: &mut Command| {
        // Remove the variables of the test's own terminal, which would be the same in all sessions.
        for (name, _) in HOSTS.iter().copied().flatten() {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
    }
}

#[test]
fn sessions_of_several_hosts_terminals_and_logins_share_one_child_under_the_names_that_their_hosts_gave() {
    let many = Many::new();
    let changes = HOSTS.map(set);
    let changes: Vec<&dyn Fn(&mut Command)> = changes.iter().map(|change| change as _).collect();
    let (mut callers, pids) = pids(&many, &[], &changes);
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}\n{}", many.stage.journal());
    // `--session` takes precedence over the host's name.
    let mut named = many.share_in(&["--session", "mine"], &[], set(HOSTS[0]));
    named.initialize();
    assert_eq!(named.pid(), pids[0]);
    callers.push(named);
    let shown = many.wait_for_leases(5);
    let leases = shown["shared"]["leases"].as_array().expect("a list");
    let sessions: Vec<_> = leases.iter().filter_map(|lease| lease["session"].as_str()).collect();
    assert_eq!(sessions, ["2c5e9b0e-claude", "77aa0f31-claude", "mine"], "{leases:#?}");
    let tree = many.says(&["ps", "--tree"]);
    let is_held_by =
        |line: &str| line.starts_with("  held by ") && line.contains(", session 77aa0f31-claude, front ");
    assert!(tree.lines().any(is_held_by), "{tree}");
    let stop = many.nostray(&["stop", "--session", "77aa0f31-claude"]);
    assert!(stop.status.success(), "{stop:?}");
    many.wait_for_leases(4);
    assert_eq!(callers.remove(1).code(), 0);
    many.end_all(callers);
    assert_eq!(many.stage.lives().len(), 1);
}

/// Variables that decide for which account a server acts always count, also those whose names start like ignored ones.
#[test]
fn another_account_is_another_child_and_ps_and_log_name_the_variables_but_not_their_values() {
    const SECRETS: [&str; 6] = ["xyzzy-0", "xyzzy-1", "xyzzy-2", "xyzzy-3", "xyzzy-4", "xyzzy-5"];
    let names = ["CLAUDE_CODE_OAUTH_TOKEN", "AWS_PROFILE", "SSH_AUTH_SOCK", "npm_lifecycle_TOKEN", "SOME_API_KEY"];
    let many = Many::new();
    let first = set(HOSTS[0]);
    let mut callers = vec![many.share_in(&[], &[], |command| {
        first(command);
        command.envs(names.map(|name| (name, SECRETS[0])));
    })];
    callers[0].initialize();
    let mut pids = vec![callers[0].pid()];
    for (number, name) in names.into_iter().enumerate() {
        let mut caller = many.share_in(&[], &[], |command| {
            set(HOSTS[number % HOSTS.len()])(command);
            command.envs(names.map(|name| (name, SECRETS[0])));
            command.env(name, SECRETS[number + 1]);
        });
        caller.initialize();
        pids.push(caller.pid());
        callers.push(caller);
        let why = format!("the variable {name} differs");
        let journal = many.stage.journal();
        assert_eq!(journal.matches(&why).count(), 1, "'{why}' is not once in:\n{journal}");
        let shown = many.says(&["ps"]);
        assert_eq!(shown.matches(&why).count(), 1, "'{why}' is not once in:\n{shown}");
        let pens = many.pens();
        let because =
            pens.iter().filter(|pen| pen["shared"]["because"].as_str().is_some_and(|text| text.contains(&why)));
        assert_eq!(because.count(), 1, "{pens:#?}");
    }
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), names.len() + 1, "two accounts share a child");
    let shown = many.says(&["ps"]) + &many.stage.journal();
    for how in ["--share-env", "--key"] {
        assert!(shown.contains(how), "{how} is not in:\n{shown}");
    }
    for secret in &SECRETS[..] {
        assert!(!shown.contains(secret), "{shown}");
        assert_eq!(holding(&many.stage.scene.runtime(), secret), Vec::<String>::new());
    }
    // A session that joins one of the children later adds no entry to the journal.
    let before = many.stage.journal().matches("differs").count();
    let mut again = many.share_in(&[], &[], |command| {
        set(HOSTS[3])(command);
        command.envs(names.map(|name| (name, SECRETS[0])));
    });
    again.initialize();
    assert_eq!(again.pid(), callers[0].pid());
    assert_eq!(many.stage.journal().matches("differs").count(), before);
    callers.push(again);
    many.end_all(callers);
}

/// The child has the directory of the session that came first. A steward also waits for a dead steward's child in
/// another directory.
#[test]
fn the_directory_counts_unless_the_user_says_any_dir() {
    let many = Many::new();
    let elsewhere = Folder::new("elsewhere");
    let there = |command: &mut Command| {
        command.current_dir(elsewhere.path());
    };
    let (mut callers, apart) = pids(&many, &[], &[&|_| {}, &there]);
    assert_ne!(apart[0], apart[1]);
    for shown in [many.says(&["ps"]), many.stage.journal()] {
        assert_eq!(shown.matches("the directory differs").count(), 1, "{shown}");
        assert!(shown.contains("--any-dir"), "{shown}");
    }
    many.end(callers.remove(1));
    many.end(callers.remove(0));
    wait_until("both children have ended", || many.stewards().is_empty());

    let claim = many.stage.file("claim");
    let server = ["--claim", &claim, "--ignore-eof"];
    let options = ["--any-dir", "--eof-grace", "300ms", "--term-grace", "600ms"];
    let mut here = many.share_in(&options, &server, |_| {});
    here.initialize();
    let mut other = many.share_in(&options, &server, there);
    other.initialize();
    assert_eq!(here.pid(), other.pid());
    many.end(here);
    many.wait_for_leases(1);
    many.steward().send(nostray_sys::Signal::KILL);
    let pid = i64::from(many.stage.lives().pop().expect("is there").pid);
    let again = (0..3).find_map(|_| other.call("who", json!({}))["result"]["pid"].as_i64()).expect("is served");
    assert_ne!(again, pid);
    many.stage.expect_never_two();
    let cwd = std::fs::read_link(format!("/proc/{again}/cwd")).expect("is there");
    assert_eq!(cwd, elsewhere.path());
    many.end_all([other]);
}

#[test]
fn share_env_chooses_the_variables_that_count() {
    let many = Many::new();
    let with = |a: &'static str, b: &'static str, c: &'static str| {
        move |command: &mut Command| {
            command.env("KEYS_A", a).env("KEYS_B", b).env("KEYS_C", c);
        }
    };
    let changes: [&dyn Fn(&mut Command); 4] =
        [&with("1", "1", "1"), &with("1", "1", "2"), &with("1", "2", "1"), &with("2", "1", "1")];
    let (some, of_some) = pids(&many, &["--share-env", "KEYS_A,KEYS_B"], &changes);
    assert_eq!(of_some[0], of_some[1], "the third variable must not count");
    assert!(of_some[0] != of_some[2] && of_some[0] != of_some[3] && of_some[2] != of_some[3], "{of_some:?}");
    // The child has the environment of the session that came first.
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", of_some[0])).expect("is there");
    assert!(environment.contains("KEYS_C=1"));

    let (none, of_none) = pids(&many, &["--share-env", ""], &changes);
    assert!(of_none.iter().all(|pid| *pid == of_none[0]), "{of_none:?}");
    assert!(
        !of_some.contains(&of_none[0]),
        "a session that counts no variable shares with a session that counts some"
    );
    many.end_all(some.into_iter().chain(none));
}

#[test]
fn a_key_stands_for_directory_and_environment() {
    let many = Many::new();
    let elsewhere = Folder::new("elsewhere");
    let changes: [&dyn Fn(&mut Command); 3] = [
        &|_| {},
        &|command| {
            command.current_dir(elsewhere.path());
        },
        &|command| {
            command.env("KEYS_TEST", "1");
        },
    ];
    let (mut callers, named) = pids(&many, &["--key", "memory"], &changes);
    assert!(named.iter().all(|pid| *pid == named[0]), "{named:?}");
    let (others, other) = pids(&many, &["--key", "other"], &changes[..1]);
    let (plain, nameless) = pids(&many, &[], &changes[..1]);
    assert!(other[0] != named[0] && nameless[0] != named[0] && nameless[0] != other[0]);
    let keys: Vec<_> = many.pens().iter().map(|pen| pen["shared"]["key"].clone()).collect();
    for key in [json!("memory"), json!("other"), Value::Null] {
        assert_eq!(keys.iter().filter(|shown| **shown == key).count(), 1, "{keys:?}");
    }
    callers.extend(others.into_iter().chain(plain));
    many.end_all(callers);
}

#[test]
fn a_key_in_use_for_another_command_is_refused_and_both_commands_are_shown() {
    let many = Many::new();
    let mut first = many.begun(&["--key", "memory"]);
    let mut other = many.share(&["--key", "memory"], &["--exit", "7"]);
    assert_eq!(other.code(), 125);
    let errors = other.errors();
    assert!(errors.contains("--key memory is in use"), "{errors}");
    assert_eq!(errors.matches("badchild server --record").count(), 2, "not both commands are shown: {errors}");
    assert_eq!(errors.matches("--exit 7").count(), 1, "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert_eq!(many.stage.lives().len(), 1, "a child was started for the refused session");
    first.who();
    many.end(first);
    many.stage.scene.expect_empty();
    // The key is free when its last session has ended.
    let mut next = many.share(&["--key", "memory"], &["--exit", "7"]);
    next.initialize();
    many.end_all([next]);
}

#[test]
fn a_secret_in_the_environment_is_nowhere_on_disk() {
    const SECRET: &str = "xyzzy-31415926-do-not-tell";
    let many = Many::new();
    let secret = |command: &mut Command| {
        command.env("SOME_API_KEY", SECRET);
    };
    let mut first = many.share_in(&["--session", "s"], &["--stderr", "hello"], secret);
    first.initialize();
    let mut second = many.share_in(&[], &["--stderr", "hello"], secret);
    second.initialize();
    assert_eq!(first.pid(), second.pid());
    let stranger = many.share_in(&["--key", "k"], &["--stderr", "hello"], secret);
    first.error("die", json!({}));
    first.who();
    many.wait_for_leases_of_any(2);
    let place = many.stage.scene.runtime();
    let found = holding(&place, SECRET);
    assert_eq!(found, Vec::<String>::new());
    assert!(!holding(&place, "badchild").is_empty(), "the search must find text in these files");
    for words in [&["ps", "--json"][..], &["ps", "--tree"], &["log"], &["broker", "status", "--json"]] {
        assert!(!text(&many.nostray(words)).contains(SECRET), "{words:?}");
    }
    // Of the processes, only the steward and the child have the secret, because they need it.
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", many.broker().stat.pid)).expect("read");
    assert!(!environment.contains(SECRET), "the broker has the secret");
    many.end_all([first, second, stranger]);
    assert_eq!(holding(&place, SECRET), Vec::<String>::new());
}

/// The files below a folder that contain this text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if std::fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn sessions_share_only_with_equal_versions_and_capabilities() {
    let many = Many::new();
    let sampling = json!({ "sampling": {}, "roots": { "listChanged": true } });
    // The same capabilities in another order.
    let same = json!({ "roots": { "listChanged": true }, "sampling": {} });
    let hellos = [
        ("2025-06-18", json!({})),
        ("2025-06-18", sampling.clone()),
        ("2025-03-26", json!({})),
        ("2025-06-18", json!({})),
        ("2025-06-18", same),
        ("2025-03-26", json!({})),
    ];
    let mut callers = Vec::new();
    for (version, capabilities) in &hellos {
        let mut caller = many.share(&["--linger", "5s"], &[]);
        let result = initialize_with(&mut caller, version, capabilities);
        assert_eq!(result["protocolVersion"], *version);
        let told = caller.who();
        assert_eq!(told["initialize"]["protocolVersion"], *version);
        assert_eq!(told["initialize"]["capabilities"], *capabilities);
        assert_eq!(told["initialized"], true);
        callers.push(caller);
    }
    let pids: Vec<_> = callers.iter_mut().map(Caller::pid).collect();
    assert_eq!(pids[..3], pids[3..], "sessions with equal handshakes do not share");
    assert!(pids[0] != pids[1] && pids[0] != pids[2] && pids[1] != pids[2], "{pids:?}");
    let lives = many.stage.lives();
    assert_eq!(lives.len(), 3);
    for life in &lives {
        let count = life.methods().iter().filter(|method| *method == "initialize").count();
        assert_eq!(count, 1, "{:#?}", life.heard);
    }
    let journal = many.stage.journal();
    for why in [
        "a child of its own for some sessions: its capabilities are not those that the shared child was told",
        "a child of its own for some sessions: it speaks 2025-03-26 and the shared child was told 2025-06-18",
    ] {
        assert_eq!(journal.matches(why).count(), 1, "'{why}' is not once in:\n{journal}");
    }
    let because: Vec<_> = many.pens().iter().map(|pen| pen["shared"]["because"].is_string()).collect();
    assert_eq!(because.iter().filter(|known| **known).count(), 2);
    let stop = many.nostray(&["stop", "--all"]);
    assert!(stop.status.success(), "{stop:?}");
    many.expect_no_process();
}

/// A session first looks for the child of the first session of its key. When that child has ended, it still finds the
/// child of sessions of its own kind.
#[test]
fn sessions_of_one_kind_share_also_when_the_first_session_of_another_kind_has_left() {
    let many = Many::new();
    let begin = |capabilities: Value| {
        let mut caller = many.share(&["--linger", "0s"], &[]);
        initialize_with(&mut caller, "2025-06-18", &capabilities);
        let pid = caller.pid();
        (caller, pid)
    };
    let (first, other) = begin(json!({ "sampling": {} }));
    let (second, pid) = begin(json!({}));
    assert_ne!(pid, other);
    many.end(first);
    wait_until("the first session's child has ended", || many.stewards().len() == 1);
    let (third, same) = begin(json!({}));
    assert_eq!(same, pid, "two children for sessions that would share one");
    let (fourth, other) = begin(json!({ "sampling": {} }));
    assert_ne!(other, pid);
    assert_eq!(many.stage.lives().len(), 3);
    many.end_all([second, third, fourth]);
}

#[test]
fn both_eras_of_mcp_use_one_command_and_each_its_own_child() {
    let many = Many::new();
    let mut callers: Vec<Caller> = (0..4).map(|_| many.share(&[], &["--both"])).collect();
    let mut pids = Vec::new();
    for (number, caller) in callers.iter_mut().enumerate() {
        if number % 2 == 0 {
            caller.initialize();
            pids.push(caller.pid());
        } else {
            let found = caller.result("server/discover", modern(json!({})));
            assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
            pids.push(caller.result("who", modern(json!({})))["pid"].as_i64().expect("a number"));
        }
    }
    assert_eq!(pids[..2], pids[2..]);
    assert_ne!(pids[0], pids[1]);
    let journal = many.stage.journal();
    assert!(journal.contains("it speaks without a handshake"), "{journal}");
    for life in many.stage.lives() {
        let modern = life.heard.iter().filter(|line| line.contains(VERSION_KEY)).count();
        assert!(modern == 0 || modern == life.heard.len(), "both eras at one child: {:#?}", life.heard);
    }
    // The sessions of both eras go on when their children crash.
    for (number, caller) in callers.iter_mut().enumerate().take(2) {
        let params = if number == 0 { json!({}) } else { modern(json!({})) };
        caller.error("die", params.clone());
        caller.result("who", params);
    }
    many.end_all(callers);
    assert_eq!(many.stage.lives().len(), 4);
}

/// The protocol options are part of the key.
#[test]
fn another_protocol_is_another_child() {
    let many = Many::new();
    let command = [&badchild().display().to_string(), "server", "--plain"];
    let mut mcp = many.share_command(&[], &command, |_| {});
    let mut plain = many.share_command(&["--protocol", "jsonrpc"], &command, |_| {});
    let routed = ["--protocol", "jsonrpc", "--route-by", "params.sessionId"];
    let mut routed = many.share_command(&routed, &command, |_| {});
    let pids = [mcp.pid(), plain.pid(), routed.pid()];
    assert!(pids[0] != pids[1] && pids[0] != pids[2] && pids[1] != pids[2], "{pids:?}");
    many.end_all([mcp, plain, routed]);
}
