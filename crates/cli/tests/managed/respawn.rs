//! A child that crashes is restarted, and the host's session goes on.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use badchild::{Found, User, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::sharing::{Random, is_long};
use testkit::stage::{Caller, Stage, modern};

const QUICK: [&str; 3] = ["--respawn", "--backoff", "1ms..20ms"];

/// A session that has begun.
fn begun(stage: &Stage, options: &[&str], server: &[&str]) -> Caller {
    let mut caller = stage.start(options, server);
    caller.initialize();
    caller
}

#[test]
fn calls_in_flight_are_answered_once_and_at_once_with_how_the_child_died_and_its_last_lines() {
    let endings =
        [(json!({ "signal": 9 }), "SIGKILL"), (json!({ "signal": 6 }), "SIGABRT"), (json!({ "code": 3 }), "3")];
    for (ending, how) in endings {
        let stage = Stage::new();
        // A call that waited for the next child would wait for an hour.
        let mut caller = begun(&stage, &["--backoff", "1h..1h"], &["--stderr", "its first words"]);
        let others = [caller.ask("hang", json!({})), caller.ask("slow", json!({ "ms": 3_600_000 }))];
        let mut last = ending.clone();
        last["text"] = "its last words".into();
        let began = Instant::now();
        let dying = caller.ask("die", last);
        for id in others.into_iter().chain([dying]) {
            let answer = caller.answer(id);
            let error = &answer["error"];
            assert_eq!(error["code"], -32000, "{answer}");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains(how) && message.contains("the call was not retried"), "{message}");
            let stderr = error["data"]["nostray"]["stderr"].as_array().expect("lines");
            assert_eq!(*stderr, ["its first words", "its last words"], "{answer}");
        }
        assert!(began.elapsed() < Duration::from_secs(20), "took {:?}", began.elapsed());
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        assert_eq!(stage.lives().len(), 1);
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    }
}

/// The front knows to the byte what the child has read. A call that the child has not read was not made.
#[test]
fn calls_that_the_dead_child_never_read_are_made_with_the_next_child_in_order_and_once() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let mut caller = begun(&stage, &QUICK, &[]);
        let read = caller.ask("hang", json!({ "n": 0 }));
        caller.result("stop-reading", json!({ "file": stage.file("never") }));
        let child = stage.child();
        let calls: Vec<_> = (1..=5).map(|n| (n, caller.ask("echo", json!({ "n": n })))).collect();
        caller.tell("notifications/told", Some(json!({ "n": 6 })));
        let cancelled = caller.ask("echo", json!({ "n": 7 }));
        caller.tell("notifications/cancelled", Some(json!({ "requestId": cancelled })));
        let last = caller.ask("who", json!({ "n": 8 }));
        // Longer than the pipe's buffer, so that a part of it is not written yet.
        let long = "x".repeat(300_000);
        let longest = caller.ask("echo", json!({ "n": 9, "long": &long }));
        wait_until("the pipe is full", || child.unread_input() > 60_000);
        child.send(Signal::KILL);
        let cut_off = caller.answer(read);
        assert!(cut_off["error"]["message"].as_str().is_some_and(|text| text.contains("SIGKILL")), "{cut_off}");
        for (n, id) in calls {
            let answer = caller.answer(id);
            assert_eq!(answer["result"], json!({ "n": n }), "{answer}");
        }
        assert_ne!(caller.answer(last)["result"]["pid"], child.stat.pid.as_raw_pid());
        assert_eq!(caller.answer(longest)["result"]["long"], long);
        let next = &stage.lives()[1];
        let told = ["initialize", "notifications/initialized", "echo", "echo", "echo", "echo", "echo"];
        assert_eq!(next.methods()[..7], told, "{:?}", next.methods());
        assert_eq!(next.methods()[7..9], ["notifications/told", "who"], "{:?}", next.methods());
        assert!(stage.reads().values().all(|times| *times == 1), "{:?}", stage.reads());
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        caller.end(&stage);
    }
}

/// The first life is a shell, which reads byte by byte and never past a line. It kills itself after the first call.
#[test]
fn a_child_that_has_read_one_of_several_lines_has_made_one_call() {
    for half in [false, true] {
        let stage = Stage::new();
        let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
        let (once, server) = (stage.file("once"), stage.server(&[]).join(" "));
        // A line that the child has read in part counts as read.
        let more = if half { "dd bs=1 count=9 2>/dev/null >&2" } else { ":" };
        let script = format!(
            "mkdir {once} 2>/dev/null || exec {server}; read line; echo '{hello}'; read line; read line; {more}; kill -9 $$"
        );
        let mut caller = stage.start_command(&QUICK, &["sh", "-c", &script]);
        caller.initialize();
        let call = |n: u64| {
            format!("{}\n", json!({ "jsonrpc": "2.0", "id": 100 + n, "method": "echo", "params": { "n": n } }))
        };
        // In one write, so that only newlines separate the lines.
        caller.write((1..=6).map(call).collect::<String>().as_bytes());
        for n in 1..=6 {
            let answer = caller.answer(100 + n);
            if n <= 1 + u64::from(half) {
                assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("SIGKILL")), "{answer}");
            } else {
                assert_eq!(answer["result"], json!({ "n": n }), "{answer}");
            }
        }
        assert_eq!(stage.reads(), (2 + u64::from(half)..=6).map(|n| (n, 1)).collect());
        // The server has other capabilities than the shell, so the host may get notifications.
        assert!(caller.unasked().iter().all(|message| message["id"].is_null()));
        caller.end(&stage);
    }
}

/// The child is killed at any moment while the host calls. Each call is answered once and read at most once, and a call
/// that was not read is made with the next child. With `outlived`, a descendant reads on after the child is killed.
#[test]
fn at_any_kill_of_the_child_each_call_is_answered_once_and_read_once_and_no_unread_call_is_lost() {
    let rounds = if is_long() { 2000 } else { 15 };
    in_parallel(vec![false, true], |outlived: bool| {
        let stage = Stage::new();
        let options = ["--respawn", "--backoff", "1ms..2ms", "--max-failures", "1000/1s"];
        let server = stage.server(&["--byte-by-byte"]);
        let server: Vec<_> = server.iter().map(String::as_str).collect();
        let shell = ["sh", "-c", "exec 3<&0; \"$@\" <&3 & wait", "sh"];
        let mut caller = stage.start_command(&options, &[if outlived { &shell[..] } else { &[] }, &server].concat());
        caller.initialize();
        let (mut random, mut n, mut failed) = (Random::new(u64::from(outlived)), 0, HashSet::new());
        for _ in 0..rounds {
            let mut victim = None;
            wait_until("a child", || {
                victim = stage.trees().into_iter().filter(Found::is_alive).min_by_key(|found| found.stat.start);
                victim.is_some()
            });
            let (victim, delay) = (victim.expect("found"), Duration::from_micros(random.below(600)));
            let killer = std::thread::spawn(move || {
                // The test varies the moment of the kill.
                std::thread::sleep(delay);
                victim.send(Signal::KILL);
            });
            let calls = 1 + random.below(12);
            let ids: Vec<_> = (n..n + calls).map(|n| (n, caller.ask("echo", json!({ "n": n })))).collect();
            n += calls;
            killer.join().expect("no panic");
            for (n, id) in ids {
                let answer = caller.answer(id);
                if answer.get("error").is_some() {
                    failed.insert(n);
                } else {
                    assert_eq!(answer["result"], json!({ "n": n }), "{answer}");
                }
            }
        }
        stage.expect_made_once(&failed);
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    });
}

#[test]
fn the_hosts_settings_are_replayed_to_the_next_child_in_order_and_word_for_word() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let mut caller = stage.start(&QUICK, &[]);
        caller.initialize();
        caller.result("echo", json!({ "nothing": "to be told again" }));
        for level in ["error", "info"] {
            caller.result("logging/setLevel", json!({ "level": level }));
        }
        for uri in ["test://a", "test://b", "test://c", "test://a"] {
            caller.result("resources/subscribe", json!({ "uri": uri }));
        }
        caller.result("resources/unsubscribe", json!({ "uri": "test://c" }));
        caller.tell("notifications/roots/list_changed", None);
        let first = caller.pid();
        caller.error("die", json!({}));
        let told = caller.who();
        assert_ne!(told["pid"].as_i64(), Some(first));
        assert_eq!(told["level"], "info");
        assert_eq!(told["subscriptions"], json!(["test://b", "test://a"]));
        assert_eq!(told["initialized"], true);

        let lives = stage.lives();
        let [before, after] = lives.as_slice() else { panic!("not two: {lives:#?}") };
        let expected = [
            "initialize",
            "notifications/initialized",
            "logging/setLevel",
            "resources/subscribe",
            "resources/subscribe",
            "who",
        ];
        assert_eq!(after.methods(), expected);
        for line in &after.heard[..5] {
            assert!(before.heard.contains(line), "the host never sent {line}");
        }
        assert_eq!(caller.unasked(), Vec::<Value>::new(), "the host got an answer that it did not ask for");
        caller.end(&stage);
    }
}

/// Several crashes in a row: the front replays the host's lines each time, not the lines of the last replay.
#[test]
fn each_kill_leads_to_one_start() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &[&QUICK[..], &["--max-failures", "100/1s"]].concat(), &[]);
    caller.result("logging/setLevel", json!({ "level": "debug" }));
    for round in 2..=6 {
        stage.child().send(Signal::KILL);
        wait_until("the next child has started", || stage.lives().len() >= round);
        let told = caller.who();
        assert_eq!(told["level"], "debug");
        assert_eq!(stage.lives().len(), round, "{:#?}", stage.lives());
        assert_eq!(stage.trees().len(), 1);
    }
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
    assert_eq!(stage.lives().len(), 6, "the end of the session must not start a child");
}

#[test]
fn the_host_is_told_when_a_new_child_has_other_lists_and_only_then() {
    let stage = Stage::new();
    let tools = |last: &str| json!([{ "name": "one" }, { "name": "two" }, { "name": last }]);
    let same = json!({ "tools": tools("three"), "prompts": [{ "name": "p" }], "page": 2 });
    stage.facts(&same);
    let mut caller = begun(&stage, &QUICK, &[]);
    let first = caller.result("tools/list", json!({}));
    let second = caller.result("tools/list", json!({ "cursor": first["nextCursor"] }));
    assert_eq!(second["tools"], json!([{ "name": "three" }]));

    // The same lists: the front reads them to the last page, and the host gets no notification.
    caller.error("die", json!({}));
    caller.who();
    wait_until("the front has read both pages", || {
        stage.lives()[1].methods().iter().filter(|method| *method == "tools/list").count() == 2
    });
    caller.who();
    assert_eq!(caller.unasked(), Vec::<Value>::new());

    // Another last page.
    stage.facts(&json!({ "tools": tools("four"), "prompts": [{ "name": "q" }], "page": 2 }));
    caller.error("die", json!({}));
    caller.who();
    caller.notified("notifications/tools/list_changed");
    caller.who();
    // The host has never asked for prompts, so it gets no notification about them.
    assert_eq!(caller.unasked(), Vec::<Value>::new());

    // The host asks again. Then the next child has another capability.
    caller.result("tools/list", json!({}));
    caller.result("prompts/list", json!({}));
    let capabilities = json!({ "tools": { "listChanged": true }, "prompts": { "listChanged": true }, "logging": {} });
    stage.facts(
        &json!({ "tools": tools("four"), "prompts": [{ "name": "q" }], "page": 2, "capabilities": capabilities }),
    );
    caller.error("die", json!({}));
    caller.who();
    caller.notified("notifications/prompts/list_changed");
    caller.notified("notifications/resources/list_changed");
    caller.who();
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

#[test]
fn requests_wait_for_a_child_that_is_starting_and_keep_their_order() {
    let stage = Stage::new();
    let mut caller = stage.start(&QUICK, &["--start-delay", "400"]);
    // Sent before the first child reads.
    let hello = caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    caller.tell("notifications/initialized", None);
    let early = caller.ask("who", json!({}));
    assert!(caller.answer(hello).get("result").is_some());
    let first = caller.answer(early)["result"]["pid"].clone();
    stage.child().send(Signal::KILL);
    let ids: Vec<_> = (0..50).map(|n| caller.ask("echo", json!({ "n": n }))).collect();
    for (n, id) in ids.into_iter().enumerate() {
        let line: Value = serde_json::from_slice(&caller.next_line()).expect("JSON");
        // A call that was written before the front saw the kill may be lost with the child.
        if line["error"]["code"] != -32000 {
            assert_eq!(line, json!({ "jsonrpc": "2.0", "id": id, "result": { "n": n } }));
        }
        assert_eq!(line["id"], id);
    }
    assert_ne!(caller.who()["pid"], first);
    assert_eq!(stage.lives().len(), 2);
    caller.end(&stage);
}

#[test]
fn for_a_protocol_that_is_not_mcp_the_methods_that_the_user_names_are_replayed() {
    let stage = Stage::new();
    let options = [&QUICK[..], &["--protocol", "jsonrpc", "--replay", "session.open", "--replay", "hint"]].concat();
    let mut caller = stage.start(&options, &["--plain"]);
    let opened = caller.result("session.open", json!({ "user": "x" }));
    assert_eq!(opened, json!({ "open": true }));
    caller.tell("hint", Some(json!({ "n": 1 })));
    caller.tell("gossip", Some(json!({ "n": 2 })));
    // Methods of MCP have no meaning here.
    caller.error("logging/setLevel", json!({ "level": "info" }));
    caller.error("die", json!({}));
    let told = caller.who();
    assert_eq!(told["opened"], json!({ "user": "x" }));
    assert_eq!(told["heard"], json!(["session.open", "hint", "who"]));
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    let lives = stage.lives();
    assert_eq!(lives[1].heard[..2], lives[0].heard[..2], "word for word");
    caller.end(&stage);
}

#[test]
fn only_open_sessions_are_replayed() {
    let stage = Stage::new();
    let replay = ["--protocol", "jsonrpc", "--replay", "session.open=session.close@params.sessionId"];
    let mut caller = stage.start(&[&QUICK[..], &replay].concat(), &["--plain"]);
    for name in ["a", "b", "c", "b"] {
        caller.result("session.open", json!({ "sessionId": name }));
    }
    caller.result("session.close", json!({ "sessionId": "a" }));
    caller.tell("session.close", Some(json!({ "sessionId": "c" })));
    caller.error("die", json!({}));
    let told = caller.who();
    assert_eq!((&told["opened"], &told["heard"]), (&json!({ "sessionId": "b" }), &json!(["session.open", "who"])));
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

/// The next child numbers its own requests from 0 again.
#[test]
fn requests_of_the_dead_child_are_cancelled_and_a_late_answer_does_not_reach_the_next_child() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &QUICK, &["--ask-when-ready"]);
    let asked = caller.notified("roots/list");
    assert_eq!(asked["id"], 0);
    caller.error("die", json!({}));
    assert_eq!(caller.notified("notifications/cancelled")["params"]["requestId"], 0);
    let again = caller.notified("roots/list");
    assert_ne!(again["id"], 0, "the host may still work on the first request");
    caller.send(&json!({ "jsonrpc": "2.0", "id": 0, "result": { "roots": ["too late"] } }));
    assert_eq!(caller.who()["answers"], json!([]));
    caller.send(&json!({ "jsonrpc": "2.0", "id": again["id"], "result": { "roots": ["in time"] } }));
    assert_eq!(caller.who()["answers"], json!([0]), "the child must see its own id");
    assert!(!format!("{:?}", stage.lives()[1].heard).contains("too late"));

    // The id is free again. Requests and answers within one life pass unchanged.
    let call = caller.ask("ask", json!({ "id": 0, "method": "roots/list" }));
    assert_eq!(caller.notified("roots/list")["id"], 0);
    caller.send(&json!({ "jsonrpc": "2.0", "id": 0, "result": {} }));
    assert!(caller.answer(call).get("result").is_some());
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

/// A generation starts when the tree of the last one is empty, not when its child has ended: the next child would find
/// the old tree's locks, ports and databases in use.
#[test]
fn the_next_child_starts_only_when_the_tree_of_the_last_one_is_empty() {
    in_parallel(vec!["plain", "term-ignoring", "setsid", "daemon", "holding-stdout"], |kind| {
        let stage = Stage::new();
        let mut caller = begun(&stage, &[&QUICK[..], &["--term-grace", "6s"]].concat(), &[]);
        caller.result("fork", json!({ "kind": kind }));
        // A process in the middle of an exec shows no environment, by which the test finds it; wait.
        wait_until("child and descendant run", || stage.trees().len() > 1);
        let before = stage.trees();
        let (dying, began) = (caller.ask("die", json!({})), Instant::now());
        assert_eq!(caller.answer(dying)["error"]["code"], -32000);
        // The host gets the error at once, although a descendant may still live.
        assert!(began.elapsed() < Duration::from_secs(5), "{kind}: told after {:?}", began.elapsed());
        caller.who();
        let left: Vec<_> = before.iter().filter(|found| found.is_alive()).collect();
        assert!(left.is_empty(), "{kind}: {left:?}");
        assert_eq!(stage.lives().len(), 2);
        caller.end(&stage);
    });
}

/// Such a child can never answer again.
#[test]
fn a_child_that_has_closed_its_output_is_replaced() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &QUICK, &[]);
    let first = stage.lives()[0].pid;
    let call = caller.ask("close-output", json!({}));
    assert_eq!(caller.answer(call)["error"]["code"], -32000);
    assert_ne!(caller.pid(), i64::from(first));
    assert_eq!(stage.trees().len(), 1);
    caller.end(&stage);
}

/// A current client first probes for the newer protocol. A server that sees the probe may refuse the older handshake,
/// so the front does not replay the probe.
#[test]
fn after_a_fallback_only_the_handshake_is_replayed() {
    let stage = Stage::new();
    let mut caller = stage.start(&QUICK, &[]);
    caller.error("server/discover", modern(json!({})));
    caller.initialize();
    caller.error("die", json!({}));
    caller.who();
    assert_eq!(stage.lives()[1].methods(), ["initialize", "notifications/initialized", "who"]);
    caller.end(&stage);
}

#[test]
fn in_the_newer_era_only_streams_are_replayed() {
    let stage = Stage::new();
    let mut caller = stage.start(&QUICK, &["--modern"]);
    caller.result("server/discover", modern(json!({})));
    let filter = json!({ "toolsListChanged": true });
    let stream = caller.ask("subscriptions/listen", modern(json!({ "notifications": filter })));
    let acknowledged = caller.notified("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], stream);
    let over = caller.ask("subscriptions/listen", modern(json!({ "notifications": {} })));
    caller.notified("notifications/subscriptions/acknowledged");
    caller.tell("notifications/cancelled", Some(json!({ "requestId": over })));
    caller.result("tools/list", modern(json!({})));

    caller.error("die", modern(json!({})));
    let told = caller.result("who", modern(json!({})));
    assert_eq!(told["listens"], json!([stream]), "the stream is open again, the cancelled one is not");
    let mut methods = stage.lives()[1].methods();
    methods.retain(|method| method != "tools/list"); // the front checks whether the list has changed
    assert_eq!(methods, ["subscriptions/listen", "who"]);
    caller.result("who", modern(json!({})));
    assert_eq!(caller.unasked(), Vec::<Value>::new(), "the host must not get a second acknowledgement");
    // Notifications on the stream reach the host.
    let params = json!({ "uri": "a://b", "_meta": { "io.modelcontextprotocol/subscriptionId": stream } });
    caller.result("notify", modern(json!({ "method": "notifications/resources/updated", "params": params })));
    assert_eq!(caller.notified("notifications/resources/updated")["params"], params);
    caller.end(&stage);
}

#[test]
fn in_the_newer_era_a_changed_list_is_announced_on_the_stream_that_subscribed_to_it() {
    let stage = Stage::new();
    stage.facts(&json!({ "tools": [{ "name": "one" }] }));
    let mut caller = stage.start(&QUICK, &["--modern"]);
    let ask = json!({ "notifications": { "toolsListChanged": true } });
    let stream = caller.ask("subscriptions/listen", modern(ask));
    caller.notified("notifications/subscriptions/acknowledged");
    caller.ask("subscriptions/listen", modern(json!({ "notifications": { "promptsListChanged": true } })));
    caller.notified("notifications/subscriptions/acknowledged");
    caller.result("tools/list", modern(json!({})));
    stage.facts(&json!({ "tools": [{ "name": "two" }] }));
    caller.error("die", modern(json!({})));
    caller.result("who", modern(json!({})));
    let changed = caller.notified("notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], stream);
    caller.result("who", modern(json!({})));
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

/// Stopping beats starting: the front does not wait for the end of the backoff, an hour.
#[test]
fn a_host_that_closes_during_the_backoff_ends_the_session_at_once() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--backoff", "1h..1h"], &[]);
    // After its first crash it is restarted at once.
    for _ in 0..2 {
        caller.error("die", json!({}));
    }
    stage.expect_no_tree();
    let waiting = caller.ask("who", json!({}));
    caller.close();
    assert_eq!(caller.answer(waiting)["error"]["code"], -32000);
    caller.code();
    stage.scene.expect_empty();
    assert_eq!(stage.lives().len(), 2);
}

/// After a kill of any one nostray process, the session goes on with the next child, or it ends with its front. In both
/// cases no process stays, and no call waits for ever.
#[test]
fn a_session_survives_the_kill_of_any_keeper_of_its_child() {
    let names = |stage: &Stage| {
        let mut names: Vec<_> = stage.own().into_iter().map(|found| (found.stat.name.clone(), found)).collect();
        names.sort_by_key(|(_, found)| found.stat.start);
        names
    };
    let count = {
        let stage = Stage::new();
        let mut caller = begun(&stage, &QUICK, &[]);
        caller.who();
        let count = names(&stage).len();
        caller.end(&stage);
        count
    };
    for victim in 0..count {
        let stage = Stage::new();
        let mut caller = begun(&stage, &QUICK, &[]);
        caller.who();
        let own = names(&stage);
        let (name, found) = &own[victim];
        let is_front = u32::try_from(found.stat.pid.as_raw_pid()).ok() == Some(caller.process.id());
        found.send(Signal::KILL);
        if is_front {
            stage.scene.expect_empty();
            continue;
        }
        wait_until("the victim is dead", || !found.is_alive());
        // A call may be cut off if the child ends with the keeper. The next call is answered.
        let answered = (0..3).any(|_| caller.call("who", json!({})).get("result").is_some());
        assert!(answered, "{name} was killed, and no child answers: {}", caller.errors());
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    }
}
