//! `--lazy`: the front caches what a server says about itself, and answers a host without starting the server.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use badchild::{User, comes_true, wait_until};
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::stage::{Caller, Stage, modern};

/// All that a host asks for before its first call.
fn look_around(caller: &mut Caller) -> Vec<Value> {
    let mut seen = vec![caller.initialize()];
    for list in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        seen.push(caller.result(list, json!({})));
    }
    seen
}

fn facts(name: &str) -> Value {
    json!({ "tools": [{ "name": name }], "prompts": [{ "name": "p" }], "resources": [{ "uri": "a://b" }] })
}

fn cache_file(stage: &Stage) -> PathBuf {
    let mut files = std::fs::read_dir(stage.cache()).expect("a cache").map(|entry| entry.expect("entry").path());
    let file = files.next().expect("a file");
    assert_eq!(files.next(), None);
    file
}

/// Fills the cache by a first run, which is the server's first life.
fn filled(stage: &Stage, server: &[&str]) -> Vec<Value> {
    let mut caller = stage.start(&["--lazy"], server);
    let seen = look_around(&mut caller);
    caller.end(stage);
    assert_eq!(stage.lives().len(), 1);
    seen
}

#[test]
fn the_first_run_asks_the_server_and_the_next_ones_do_not() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        stage.facts(&facts("one"));
        let mut caller = stage.start(&["--lazy"], &["--api-key", "hunter2"]);
        assert!(
            !comes_true(Duration::from_millis(300), &mut || !stage.lives().is_empty()),
            "no call needs the server yet"
        );
        let first = look_around(&mut caller);
        assert_eq!(stage.lives().len(), 1);
        caller.end(&stage);

        let file = cache_file(&stage);
        let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&stage.cache())), (0o600, 0o700));
        let text = std::fs::read_to_string(&file).expect("read");
        assert!(!text.contains("hunter2") && !file.display().to_string().contains("hunter2"));

        for _ in 0..2 {
            let mut caller = stage.start(&["--lazy"], &["--api-key", "hunter2"]);
            assert_eq!(look_around(&mut caller), first);
            assert_eq!(caller.result("ping", json!({})), json!({}));
            assert_eq!(look_around(&mut caller)[1..], first[1..], "a second time");
            assert_eq!(stage.scene.processes().len(), 1, "only the front must run");
            caller.end(&stage);
        }
        assert_eq!(stage.lives().len(), 1, "the server must not be started again");
        assert_eq!(std::fs::read_to_string(&file).expect("read"), text);
    }
}

#[test]
fn the_first_call_starts_the_server_which_gets_the_hosts_handshake() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    filled(&stage, &[]);
    let mut caller = stage.start(&["--lazy"], &[]);
    look_around(&mut caller);
    assert_eq!(stage.lives().len(), 1);
    let told = caller.who();
    assert_eq!(told["heard"], json!(["initialize", "notifications/initialized", "who"]));
    assert_eq!(stage.lives().len(), 2);
    // The front asks for the server's lists. They have not changed, so the host gets no notification.
    wait_until("the front has asked for all four lists", || stage.lives()[1].heard.len() == 7);
    caller.who();
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

#[test]
fn a_changed_list_is_announced_at_the_next_start_and_cached() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    filled(&stage, &[]);
    stage.facts(&facts("two"));
    let mut caller = stage.start(&["--lazy"], &[]);
    assert_eq!(look_around(&mut caller)[1]["tools"], json!([{ "name": "one" }]));
    caller.who();
    caller.notified("notifications/tools/list_changed");
    caller.who();
    assert_eq!(caller.unasked(), Vec::<Value>::new(), "only changed lists must be announced");
    assert_eq!(caller.result("tools/list", json!({}))["tools"], json!([{ "name": "two" }]));
    caller.end(&stage);

    let mut caller = stage.start(&["--lazy"], &[]);
    assert_eq!(look_around(&mut caller)[1]["tools"], json!([{ "name": "two" }]));
    assert_eq!(stage.lives().len(), 2, "the cache was not renewed");
    caller.end(&stage);

    // Also when the host gets the notification and does not ask again.
    stage.facts(&facts("three"));
    let mut caller = stage.start(&["--lazy"], &[]);
    look_around(&mut caller);
    caller.who();
    caller.notified("notifications/tools/list_changed");
    caller.end(&stage);
    let mut caller = stage.start(&["--lazy"], &[]);
    assert_eq!(look_around(&mut caller)[1]["tools"], json!([{ "name": "three" }]));
    assert_eq!(stage.lives().len(), 3, "the cache was not renewed");
    caller.end(&stage);
}

#[test]
fn a_question_that_is_not_cached_starts_the_server() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    let mut caller = stage.start(&["--lazy"], &[]);
    caller.initialize();
    caller.result("tools/list", json!({}));
    caller.end(&stage);

    // Another version of the protocol.
    let mut caller = stage.start(&["--lazy"], &[]);
    assert_eq!(caller.initialize_as("2024-11-05")["protocolVersion"], "2024-11-05");
    assert_eq!(stage.lives().len(), 2);
    caller.end(&stage);
    // From then on both versions are cached.
    for version in ["2024-11-05", "2025-06-18"] {
        let mut caller = stage.start(&["--lazy"], &[]);
        assert_eq!(caller.initialize_as(version)["protocolVersion"], version);
        caller.end(&stage);
    }
    assert_eq!(stage.lives().len(), 2);
    // A list that no host has asked for before.
    let mut caller = stage.start(&["--lazy"], &[]);
    caller.initialize();
    assert_eq!(stage.lives().len(), 2);
    assert_eq!(caller.result("prompts/list", json!({}))["prompts"], json!([{ "name": "p" }]));
    assert_eq!(stage.lives().len(), 3);
    caller.end(&stage);
    // Another command is another server.
    let mut caller = stage.start(&["--lazy"], &["--exit", "0"]);
    caller.initialize();
    assert_eq!(stage.lives().len(), 4);
    caller.end(&stage);
}

#[test]
fn a_cache_that_is_damaged_or_of_another_user_is_not_used() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    filled(&stage, &[]);
    let file = cache_file(&stage);
    let whole = std::fs::read(&file).expect("read");
    let text = String::from_utf8_lossy(&whole).into_owned();
    let damaged = [
        Vec::new(),
        whole[..whole.len() / 2].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        vec![0; 4096],
        text.replace("\"version\":1", "\"version\":2").into_bytes(),
    ];
    for (n, bytes) in damaged.into_iter().enumerate() {
        std::fs::write(&file, bytes).expect("write");
        let mut caller = stage.start(&["--lazy"], &[]);
        assert_eq!(look_around(&mut caller)[1]["tools"], json!([{ "name": "one" }]));
        assert_eq!(stage.lives().len(), n + 2, "damaged cache {n} was used");
        assert_eq!(caller.errors(), "");
        caller.end(&stage);
        assert_eq!(std::fs::read(&file).expect("read"), whole, "the cache was not rewritten");
    }
    let believed = stage.lives().len();
    if User::all().contains(&User::Nobody) {
        std::os::unix::fs::chown(&file, Some(65_534), None).expect("chown");
        let mut caller = stage.start(&["--lazy"], &[]);
        caller.initialize();
        assert_eq!(stage.lives().len(), believed + 1, "another user's cache was used");
        caller.end(&stage);
    }
}

#[test]
fn without_a_directory_for_the_cache_the_server_is_started_each_time() {
    let stage = Stage::new();
    std::fs::write(stage.cache(), "a file in its place").expect("write");
    for round in 1..=2 {
        let mut caller = stage.start(&["--lazy"], &[]);
        look_around(&mut caller);
        caller.close();
        assert_eq!(caller.code(), 0);
        assert!(caller.errors().contains("could not be written down"), "{}", caller.errors());
        assert_eq!(stage.lives().len(), round);
    }
    stage.scene.expect_empty();
}

#[test]
fn thirty_lazy_servers_are_not_started_for_a_host_that_only_lists() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    let seen = filled(&stage, &[]);
    let callers: Vec<_> = (0..30).map(|_| stage.start(&["--lazy"], &[])).collect();
    let callers: Vec<_> = callers
        .into_iter()
        .map(|mut caller| {
            assert_eq!(look_around(&mut caller), seen);
            caller
        })
        .collect();
    assert_eq!(stage.lives().len(), 1);
    assert_eq!(stage.scene.processes().len(), 30);
    in_parallel(callers, |mut caller| {
        caller.close();
        assert_eq!(caller.code(), 0);
    });
    stage.scene.expect_empty();
    assert_eq!(stage.lives().len(), 1);
}

#[test]
fn a_list_of_several_pages_is_cached_page_by_page() {
    let stage = Stage::new();
    let tools = |last: &str| json!({ "tools": [{ "name": "1" }, { "name": "2" }, { "name": last }], "page": 1 });
    stage.facts(&tools("3"));
    let read = |caller: &mut Caller| {
        let (mut names, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let page = caller.result("tools/list", params);
            names.push(page["tools"][0]["name"].as_str().expect("a name").to_owned());
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return names;
            }
        }
    };
    for _ in 0..2 {
        let mut caller = stage.start(&["--lazy"], &[]);
        caller.initialize();
        assert_eq!(read(&mut caller), ["1", "2", "3"]);
        caller.end(&stage);
    }
    assert_eq!(stage.lives().len(), 1);
    stage.facts(&tools("4"));
    let mut caller = stage.start(&["--lazy"], &[]);
    caller.initialize();
    read(&mut caller);
    caller.who();
    caller.notified("notifications/tools/list_changed");
    assert_eq!(read(&mut caller), ["1", "2", "4"]);
    caller.end(&stage);
    let mut caller = stage.start(&["--lazy"], &[]);
    caller.initialize();
    assert_eq!(read(&mut caller), ["1", "2", "4"]);
    assert_eq!(stage.lives().len(), 2);
    caller.end(&stage);
}

#[test]
fn the_newer_era_is_cached_too() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    let look = |caller: &mut Caller| {
        let discovered = caller.result("server/discover", modern(json!({})));
        [discovered, caller.result("tools/list", modern(json!({})))]
    };
    let mut caller = stage.start(&["--lazy"], &["--modern"]);
    let seen = look(&mut caller);
    caller.end(&stage);
    let mut caller = stage.start(&["--lazy"], &["--modern"]);
    assert_eq!(look(&mut caller), seen);
    assert_eq!(stage.lives().len(), 1);
    let called = caller.result("tools/call", modern(json!({ "name": "who" })));
    assert_eq!(called["structuredContent"]["heard"], json!(["tools/call"]));
    assert_eq!(stage.lives().len(), 2);
    caller.end(&stage);
    // A client may ask for a list in its first message.
    let mut caller = stage.start(&["--lazy"], &["--modern"]);
    assert_eq!(caller.result("tools/list", modern(json!({}))), seen[1]);
    assert_eq!(stage.lives().len(), 2);
    caller.end(&stage);
}

/// The server announces that a list has changed: the front drops that list from the cache.
#[test]
fn a_list_that_the_server_announces_as_changed_is_asked_for_again() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    let mut caller = stage.start(&["--lazy"], &[]);
    look_around(&mut caller);
    caller.result("notify", json!({ "method": "notifications/tools/list_changed" }));
    caller.notified("notifications/tools/list_changed");
    caller.end(&stage);
    let mut caller = stage.start(&["--lazy"], &[]);
    caller.initialize();
    caller.result("prompts/list", json!({}));
    assert_eq!(stage.lives().len(), 1);
    caller.result("tools/list", json!({}));
    assert_eq!(stage.lives().len(), 2);
    caller.end(&stage);
}

#[test]
fn a_lazy_child_can_hibernate_and_is_not_started_to_be_put_to_sleep() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    filled(&stage, &[]);
    let mut caller = stage.start(&["--lazy", "--hibernate", "100ms", "--respawn"], &[]);
    look_around(&mut caller);
    assert!(!comes_true(Duration::from_millis(400), &mut || stage.lives().len() > 1), "started without a call");
    caller.who();
    stage.wait_until_asleep();
    assert_eq!(caller.result("tools/list", json!({}))["tools"], json!([{ "name": "one" }]));
    assert_eq!(stage.lives().len(), 2, "a list must not wake the child");
    caller.who();
    assert_eq!(stage.lives().len(), 3);
    caller.end(&stage);
}

/// The front answers from the cache also while the child is awake, so the child counts as idle.
#[test]
fn cached_lists_do_not_keep_the_child_awake() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    filled(&stage, &[]);
    let mut caller = stage.start(&["--lazy", "--hibernate", "1s"], &[]);
    look_around(&mut caller);
    caller.who();
    let sleeps = comes_true(badchild::PATIENCE, &mut || {
        assert_eq!(caller.result("tools/list", json!({}))["tools"], json!([{ "name": "one" }]));
        stage.states() == ["asleep"]
    });
    assert!(sleeps, "the child is {:?}", stage.states());
    assert_eq!(stage.lives().len(), 2);
    caller.end(&stage);
}

#[test]
fn warm_fills_the_cache_for_every_version_and_says_what_it_found() {
    let stage = Stage::new();
    stage.facts(&facts("one"));
    let (record, facts) = (stage.file("record"), stage.file("facts"));
    let badchild = badchild::badchild().display().to_string();
    let server = ["server", "--record", &record, "--facts", &facts];
    let warmed = stage.nostray(&[&["run", "--warm", "--", &badchild][..], &server].concat());
    let said = String::from_utf8_lossy(&warmed.stdout).into_owned();
    assert!(warmed.status.success(), "{warmed:?}");
    assert!(said.contains("2025-06-18: 1 tools, 1 prompts, 1 resources"), "{said}");
    stage.scene.expect_empty();
    let starts = stage.lives().len();
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let mut caller = stage.start(&["--lazy"], &[]);
        caller.initialize_as(version);
        assert_eq!(caller.result("tools/list", json!({}))["tools"], json!([{ "name": "one" }]));
        caller.end(&stage);
    }
    assert_eq!(stage.lives().len(), starts);
    let failed = stage.nostray(&["run", "--warm", "--", "no-such-command"]);
    assert!(!failed.status.success());
    assert!(String::from_utf8_lossy(&failed.stderr).contains("no-such-command"), "{failed:?}");
}
