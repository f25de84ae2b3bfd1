//! What an operator sees of slots and does to them: list, show, release, the journal, `ps`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::{Found, User, badchild, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::slots::{MANAGED, NOT_NOW, Ring, SLOT, end};
use testkit::{in_parallel, nostray};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn says(ring: &Ring, words: &[&str]) -> String {
    let output = ring.stage.nostray(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    text(&output.stdout)
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn list_shows_slots_that_are_held_or_waited_for_and_with_all_every_slot() {
    let ring = Ring::new();
    let empty = says(&ring, &["slot", "list"]);
    assert_eq!(empty.lines().count(), 1, "only the header: {empty}");
    assert_eq!(says(&ring, &["slot", "list", "--json"]).parse::<Value>().expect("JSON")["slots"], json!([]));
    let mut used = ring.stage.start_command(&["--slot", "used"], &["true"]);
    assert_eq!(used.code(), 0);
    let holder = ring.holder(&[]);
    let waiter = ring.waiter(&[], 0);
    let list = says(&ring, &["slot", "list"]);
    assert!(!list.contains("used"), "{list}");
    let line = list.lines().find(|line| line.starts_with("db ")).unwrap_or_else(|| panic!("no db in {list}"));
    let id = ring.show()["holder"]["id"].as_str().expect("an id").to_owned();
    for part in ["ready", &id, " 1 ", "sh -c"] {
        assert!(line.contains(part), "'{part}' is not in: {line}");
    }
    let all = says(&ring, &["slot", "list", "--all"]);
    assert!(all.lines().any(|line| line.starts_with("used ") && line.contains("free")), "{all}");
    drop(waiter);
    assert_eq!(end(holder), 0);
    assert_eq!(says(&ring, &["slot", "list"]).lines().count(), 1);
}

/// Scripts get the same keys in each state.
#[test]
fn json_is_parseable_and_has_the_same_keys_in_every_state() {
    let ring = Ring::new();
    let slot_keys = ["history", "holder", "name", "state", "waiting"];
    let holder = ring.holder(&["--session", "first"]);
    let waiter = ring.waiter(&["--session", "second"], 0);
    let shown = ring.show();
    assert_eq!(keys(&shown), slot_keys);
    let holder_keys = ["child", "command", "front", "guard", "host", "id", "session", "since", "started", "state"];
    assert_eq!(keys(&shown["holder"]), holder_keys);
    assert_eq!(keys(&shown["waiting"][0]), ["command", "for", "id", "pid", "session", "since"]);
    assert_eq!(shown["waiting"][0]["for"], "wait");
    assert_eq!((&shown["holder"]["session"], &shown["waiting"][0]["session"]), (&json!("first"), &json!("second")));
    assert_eq!(shown["waiting"][0]["pid"], waiter.process.id());
    assert_eq!(shown["holder"]["front"]["pid"], holder.process.id());
    let listed: Value = says(&ring, &["slot", "list", "--json"]).parse().expect("JSON");
    assert_eq!(listed["version"], 1);
    assert_eq!(listed["slots"][0], shown, "list and show differ");
    drop(waiter);
    assert_eq!(end(holder), 0);
    wait_until("the slot is free", || ring.state() == "free");
    let free = ring.show();
    assert_eq!(keys(&free), slot_keys);
    assert_eq!((&free["holder"], &free["waiting"]), (&Value::Null, &json!([])));
    let tenure = &free["history"][0];
    for key in ["id", "command", "taken", "ready", "ended", "why"] {
        assert!(!tenure[key].is_null(), "{key} is not in {tenure:#}");
    }
    assert!(tenure["ended"]["time"].as_u64() >= tenure["taken"]["time"].as_u64());
    let state = |words: &[&str]| text(&ring.stage.nostray(words).stdout).parse::<Value>().is_ok();
    assert!(state(&["slot", "list", "--all", "--json"]));
}

#[test]
fn show_lists_the_holder_the_waiters_and_past_holders() {
    let ring = Ring::new();
    let first = ring.holder(&[]);
    ring.wait_until_settled(&first);
    assert_eq!(end(first), 0);
    let mut holder = ring.holder(&["--eof-grace", "200ms", "--term-grace", "30s"]);
    holder.result("fork", json!({ "kind": "term-ignoring" }));
    let waiter = ring.waiter(&[], 0);
    let mut newcomer = ring.waiter(&["--if-taken", "replace"], 1);
    wait_until("the holder is stopping", || ring.state() == "stopping");
    let shown = says(&ring, &["slot", "show", SLOT]);
    for part in [
        "slot db: stopping",
        "held by ",
        "it was asked to hand over its slot",
        "wants to replace it for ",
        " waits for ",
        "WHY IT ENDED",
        "stdin was closed",
        "still",
    ] {
        assert!(shown.contains(part), "'{part}' is not in:\n{shown}");
    }
    // The waiter that is served next is shown first.
    let (replaces, waits) = (shown.find("wants to replace"), shown.find(" waits for "));
    assert!(replaces < waits, "{shown}");
    assert!(shown.contains(&format!("process {}", waiter.process.id())), "{shown}");
    let unknown = ring.stage.nostray(&["slot", "show", "unknown"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("there is no slot unknown"), "{unknown:?}");
    drop(waiter);
    assert!(ring.stage.nostray(&["slot", "release", "--now", SLOT]).status.success());
    holder.code();
    ring.expect_holder(&mut newcomer);
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// No command and no file shows a secret of a command line.
#[test]
fn a_secret_on_the_command_line_is_shown_nowhere() {
    const SECRET: &str = "xyzzy-27182818-do-not-tell";
    let ring = Ring::new();
    let run = |options: &[&str]| {
        let script = format!("exec 9>&1; exec {} server", badchild().display());
        ring.stage.start_command(&[&["--slot", SLOT], options].concat(), &["sh", "-c", &script, "--api-key", SECRET])
    };
    let mut holder = run(&[]);
    holder.initialize();
    let waiter = run(&[]);
    wait_until("the waiter waits", || ring.waiting().len() == 1);
    let mut refused = run(&["--if-taken", "fail"]);
    assert_eq!(refused.code(), NOT_NOW);
    let mut seen = vec![refused.errors(), waiter.errors(), ring.stage.journal()];
    seen.extend(
        [&["slot", "list"][..], &["slot", "list", "--json"], &["slot", "show", SLOT]].map(|it| says(&ring, it)),
    );
    for entry in std::fs::read_dir(ring.place()).expect("read").flatten().filter(|it| it.file_name() != "alive") {
        // A file that is just being written may have been renamed.
        if let Ok(bytes) = std::fs::read(entry.path()) {
            seen.push(text(&bytes));
        }
    }
    assert!(seen.iter().any(|text| text.contains("--api-key")), "the search must find the option");
    assert!(seen.iter().all(|text| !text.contains(SECRET)), "{seen:#?}");
    drop(waiter);
    assert_eq!(end(holder), 0);
    ring.expect_over();
}

#[test]
fn release_ends_the_holder_with_its_graces_and_returns_when_nothing_is_left() {
    in_parallel(vec![(&[][..], false), (&MANAGED, false), (&[], true), (&MANAGED, true)], |(options, now)| {
        let ring = Ring::new();
        // With `--now`, a grace that is longer than a busy machine takes for the whole release.
        let grace = if now { Duration::from_secs(30) } else { Duration::from_millis(1200) };
        let term_grace = format!("{}ms", grace.as_millis());
        let mut holder = ring.holder(&[&["--eof-grace", "200ms", "--term-grace", &term_grace], options].concat());
        holder.result("fork", json!({ "kind": "term-ignoring" }));
        holder.result("fork", json!({ "kind": "daemon" }));
        let began = Instant::now();
        let words = if now { &["slot", "release", "--now", SLOT][..] } else { &["slot", "release", SLOT] };
        let said = says(&ring, words);
        let took = began.elapsed();
        assert!(ring.stage.trees().is_empty(), "release returned too early");
        assert!(said.contains("slot db was released by"), "{said}");
        assert_eq!(now, took < grace, "{took:?}");
        holder.code();
        // The slot is free for the next command at once.
        let mut next = ring.run(&["--if-taken", "fail"], &[]);
        ring.expect_holder(&mut next);
        assert_eq!(end(next), 0);
        ring.expect_over();
    });
}

/// The guard is stopped, and has seen neither request yet.
#[test]
fn a_request_with_now_is_heard_although_a_request_without_now_is_pending() {
    let nostray = nostray().display().to_string();
    in_parallel(vec![&["slot", "release", "--now", SLOT][..], &["stop", "--all", "--now"]], |words| {
        let ring = Ring::new();
        let mut holder = ring.holder(&["--eof-grace", "10m", "--term-grace", "10m"]);
        holder.result("fork", json!({ "kind": "term-ignoring" }));
        // The outermost keeper first: a running keeper continues a stopped inner one.
        let keepers = ring.keepers(&holder);
        for keeper in &keepers {
            keeper.send(Signal::STOP);
            wait_until("the keeper is stopped", || keeper.is_stopped());
        }
        let guard = keepers.iter().find(|found| found.stat.name == "nostray-guard").expect("a guard");
        // Sends what `nostray stop` sends; the command itself would also continue the keepers.
        let handle = nostray_sys::Pidfd::open(guard.stat.pid).expect("a handle");
        nostray_pen::ask(&handle, nostray_pen::Ask::Stop).expect("asked");
        wait_until("the request is pending", || is_pending(guard, Signal::queued()));
        let mut impatient = ring.stage.start_plain(&nostray, words);
        assert_eq!(impatient.code(), 0, "{}", impatient.errors());
        holder.code();
        ring.stage.expect_no_tree();
    });
}

fn is_pending(found: &Found, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap_or_default();
    u64::from_str_radix(pending.trim(), 16).is_ok_and(|set| set >> (signal.as_raw() - 1) & 1 == 1)
}

/// Many rounds: a guard ends shortly after its tree, and `release` must wait for that.
#[test]
fn a_slot_that_was_released_is_free_for_the_very_next_command() {
    let ring = Ring::new();
    for round in 0..15 {
        let holder = ring.holder(if round % 2 == 0 { &[] } else { &MANAGED });
        says(&ring, &["slot", "release", SLOT]);
        let mut next = ring.stage.start_command(&["--slot", SLOT, "--if-taken", "fail"], &["true"]);
        assert_eq!(next.code(), 0, "round {round}: {}", next.errors());
        drop(holder);
    }
    ring.expect_over();
}

#[test]
fn a_waiter_gets_a_slot_that_is_released() {
    let ring = Ring::new();
    let mut holder = ring.holder(&[]);
    let mut first = ring.waiter(&[], 0);
    let mut second = ring.waiter(&MANAGED, 1);
    let said = says(&ring, &["slot", "release", SLOT]);
    assert!(said.contains("was released"), "{said}");
    holder.code();
    ring.expect_holder(&mut first);
    says(&ring, &["slot", "release", SLOT]);
    first.code();
    ring.expect_holder(&mut second);
    assert_eq!(end(second), 0);
    ring.expect_over();
}

#[test]
fn releasing_a_free_slot_is_fine_and_releasing_an_unknown_slot_is_an_error() {
    let ring = Ring::new();
    let unknown = ring.stage.nostray(&["slot", "release", SLOT]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("there is no slot db"), "{unknown:?}");
    assert_eq!(end(ring.holder(&[])), 0);
    for words in [&["slot", "release", SLOT][..], &["slot", "release", "--now", SLOT]] {
        assert_eq!(says(&ring, words), "slot db is free\n");
    }
    assert_eq!(ring.stage.nostray(&["slot", "release", "--all"]).status.code(), Some(2));
    ring.expect_over();
}

/// `stop` ends a holder like any pen, and its slot becomes free.
#[test]
fn stop_and_restart_treat_a_holder_as_any_other_pen() {
    let ring = Ring::new();
    let mut holder = ring.holder(&MANAGED);
    let pid = holder.pid();
    let id = ring.show()["holder"]["id"].as_str().expect("an id").to_owned();
    // A restart keeps the slot: no waiter gets it in between.
    let waiter = ring.waiter(&[], 0);
    says(&ring, &["restart", &id]);
    wait_until("the next child answers", || holder.pid() != pid);
    assert_eq!(ring.waiting().len(), 1, "a waiter got the slot");
    assert_eq!(ring.show()["holder"]["id"], *id);
    drop(waiter);
    says(&ring, &["stop", &id]);
    holder.code();
    ring.expect_over();
}

#[test]
fn the_journal_and_ps_tell_what_happened() {
    let ring = Ring::new();
    let mut holder = ring.holder(&[]);
    let first = ring.show()["holder"]["id"].as_str().expect("an id").to_owned();
    assert!(says(&ring, &["ps"]).contains(&first));
    let pens: Value = says(&ring, &["ps", "--json"]).parse().expect("JSON");
    assert_eq!(pens["pens"][0]["slot"], SLOT, "{pens:#}");
    let mut refused = ring.run(&["--if-taken", "fail"], &[]);
    assert_eq!(refused.code(), NOT_NOW);
    let mut newcomer = ring.run(&["--if-taken", "replace"], &[]);
    ring.expect_holder(&mut newcomer);
    holder.code();
    let second = ring.show()["holder"]["id"].as_str().expect("an id").to_owned();
    let log = says(&ring, &["log"]);
    let line_with = |id: &str, part: &str| log.lines().any(|line| line.contains(id) && line.contains(part));
    assert!(line_with(&first, "slot db: taken") || line_with(&first, "taken"), "{log}");
    assert!(line_with(&second, "asked to hand over"), "{log}");
    assert!(line_with(&first, "it was asked to hand over its slot"), "{log}");
    assert!(line_with(&second, "taken"), "{log}");
    assert!(log.lines().any(|line| line.contains("nostray slot show db")), "the refusal: {log}");
    let entries = says(&ring, &["log", "--json"]);
    for line in entries.lines().filter(|line| line.contains("\"slot\"")) {
        let entry: Value = line.parse().expect("JSON");
        assert!(entry["slot"] == SLOT && entry["what"].is_string(), "{entry}");
    }
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// A waiter has no child, so it is in the slot's queue and not in `ps`.
#[test]
fn a_waiter_is_not_in_ps() {
    let ring = Ring::new();
    let holder = ring.holder(&[]);
    let waiter = ring.waiter(&MANAGED, 0);
    let pens: Value = says(&ring, &["ps", "--json"]).parse().expect("JSON");
    assert_eq!(pens["pens"].as_array().map(Vec::len), Some(1), "{pens:#}");
    drop(waiter);
    assert_eq!(end(holder), 0);
    ring.expect_over();
}

#[test]
fn a_closed_stdout_is_no_reason_to_panic() {
    let ring = Ring::new();
    let mut holder = ring.holder(&[]);
    for words in [
        &["slot", "list"][..],
        &["slot", "list", "--json"],
        &["slot", "show", SLOT],
        &["slot", "show", "--json", SLOT],
        &["slot", "release", SLOT],
    ] {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        let mut command = ring.stage.scene.command(&nostray());
        let output = command.args(words).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output();
        let output = output.expect("run");
        assert!(output.status.code().is_some(), "{words:?}: {output:?}");
        assert!(!text(&output.stderr).contains("panic"), "{words:?}: {output:?}");
    }
    holder.code();
    ring.expect_over();
}

/// Each user has slots of their own.
#[test]
fn the_slots_of_one_user_are_not_those_of_another() {
    if User::all().len() < 2 {
        return;
    }
    let rings: Vec<_> = User::all().into_iter().map(Ring::for_user).collect();
    let mut holders: Vec<_> = rings.iter().map(|ring| ring.run(&["--if-taken", "fail"], &[])).collect();
    for (ring, holder) in rings.iter().zip(&mut holders) {
        ring.expect_holder(holder);
    }
    for (ring, holder) in rings.iter().zip(holders) {
        assert_eq!(end(holder), 0);
        ring.expect_over();
    }
}

/// Help, completions and the manual describe slots.
#[test]
fn help_completions_and_the_manual_describe_slots() {
    let ring = Ring::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = says(&ring, &["completions", shell]);
        for word in ["slot", "if-taken", "wait-timeout", "max-handovers", "release"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let page = says(&ring, &["man", "slot"]);
    assert!(page.contains("nostray") && page.contains("release"), "{page}");
    let page = says(&ring, &["man", "run"]);
    for word in ["if\\-taken", "replace", "75"] {
        assert!(page.contains(word), "{word} is not in the page of run");
    }
    let help = says(&ring, &["run", "--help"]);
    for word in ["--slot", "--if-taken", "first come, first served", "[default: wait]", "75"] {
        assert!(help.contains(word), "{word} is not in the help of run");
    }
    for what in ["list", "show", "release"] {
        assert!(says(&ring, &["slot", what, "--help"]).contains("Examples:\n  nostray slot"), "{what}");
    }
}
