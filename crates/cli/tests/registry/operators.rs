//! The operator's commands: `ps`, `stop`, `log`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

use badchild::{Found, Scene, User};
use nostray_pen::{Ask, Order};
use nostray_registry::Record;
use nostray_sys::{Pidfd, Signal};
use testkit::stage::Stage;
use testkit::{GRACES, nostray, own_processes, run_command, wait_until_on_record};

fn nostray_in(scene: &Scene, words: &[&str]) -> Output {
    scene.command(&nostray()).args(words).stdin(Stdio::null()).output().expect("run nostray")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn start(scene: &Scene, options: &[&str], manner: &[&str]) -> Child {
    let before = text(&nostray_in(scene, &["ps", "--json"]).stdout).matches("\"ready\"").count();
    let mut process = run_command(scene, &[&GRACES[..], options].concat(), manner).spawn().expect("start");
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    badchild::wait_until("the pen is on record", || {
        text(&nostray_in(scene, &["ps", "--json"]).stdout).matches("\"ready\"").count() == before + 1
    });
    process
}

#[test]
fn ps_finds_by_session_and_label_and_tells_scripts_by_its_exit_code() {
    let scene = Scene::apart(User::Current);
    assert_eq!(nostray_in(&scene, &["ps", "-q"]).status.code(), Some(1));
    let mut pens = [
        start(&scene, &["--session", "a", "--label", "k=1"], &["tree", "cooperative", "setsid"]),
        start(&scene, &["--session", "b", "--label", "k=1", "--label", "l=2"], &["pause"]),
    ];
    let count = |words: &[&str]| {
        let output = nostray_in(&scene, &[&["ps", "-q"], words].concat());
        (output.status.code(), text(&output.stdout).lines().count())
    };
    assert_eq!(count(&[]), (Some(0), 2));
    assert_eq!(count(&["--session", "a"]), (Some(0), 1));
    assert_eq!(count(&["--session", "c"]), (Some(1), 0));
    assert_eq!(count(&["--label", "k=1"]), (Some(0), 2));
    assert_eq!(count(&["--label", "k=1", "--label", "l=2"]), (Some(0), 1));
    let table = text(&nostray_in(&scene, &["ps", "--tree"]).stdout);
    assert!(table.lines().next().is_some_and(|line| line.starts_with("ID") && line.ends_with("COMMAND")), "{table}");
    assert!(table.contains("member setsid"), "{table}");
    let json = text(&nostray_in(&scene, &["ps", "--json", "--session", "a"]).stdout);
    for part in ["\"processes\": 2", "\"version\": 1", "\"session\": \"a\"", "\"state\": \"ready\""] {
        assert!(json.contains(part), "{part} is not in {json}");
    }
    let memory = json.lines().find_map(|line| line.trim().strip_prefix("\"memory\": ")).expect("memory");
    assert!(memory.trim_end_matches(',').parse::<u64>().expect("a number") > 50_000, "{json}");
    assert!(nostray_in(&scene, &["stop", "--all"]).status.success());
    for pen in &mut pens {
        pen.wait().expect("reap");
    }
    let all = text(&nostray_in(&scene, &["ps", "--all"]).stdout);
    assert_eq!(all.matches("it was asked to stop").count(), 2, "{all}");
    scene.expect_empty();
}

#[test]
fn stop_ends_what_was_meant_waits_for_it_and_says_how() {
    let scene = Scene::apart(User::Current);
    let mut meant = start(&scene, &["--session", "a"], &["tree", "stubborn", "daemon"]);
    let mut other = start(&scene, &["--session", "b"], &["pause"]);
    let output = nostray_in(&scene, &["stop", "--session", "a"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("SIGKILL") && said.contains("had to be killed"), "{said}");
    // `stop` returns only when the tree is empty.
    assert_eq!(scene.those_with("stubborn").len(), 0);
    assert_eq!(meant.wait().expect("reap").code(), Some(137));
    assert!(other.try_wait().expect("look").is_none(), "another session was touched");
    let id = text(&nostray_in(&scene, &["ps", "-q"]).stdout).trim().to_owned();
    assert_eq!(nostray_in(&scene, &["stop", "no-such-id"]).status.code(), Some(1));
    let output = nostray_in(&scene, &["stop", &id[..4]]);
    assert!(output.status.success() && text(&output.stdout).starts_with(&id), "{output:?}");
    assert_eq!(other.wait().expect("reap").code(), Some(143));
    assert_eq!(nostray_in(&scene, &["stop", "--all"]).status.code(), Some(1), "there is nothing to stop");
    assert_eq!(nostray_in(&scene, &["stop"]).status.code(), Some(2), "no pen was named");
    scene.expect_empty();
}

#[test]
fn stop_now_has_no_patience() {
    let scene = Scene::apart(User::Current);
    let options = ["--eof-grace", "1h", "--term-grace", "1h"];
    let mut process = run_command(&scene, &options, &["tree", "stubborn", "setsid"]).spawn().expect("start");
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    badchild::wait_until("the pen is on record", || nostray_in(&scene, &["stop", "--all", "--now"]).status.success());
    assert_eq!(process.wait().expect("reap").code(), Some(137));
    scene.expect_empty();
}

/// Both requests arrive while the keeper that gets them is stopped, so both are pending. Of two equal pending signals,
/// the kernel keeps only the first.
#[test]
fn a_second_request_is_heard_although_the_first_one_is_still_pending() {
    for round in 0..6 {
        // `stop` asks a guard directly. A managed front passes the request on, and must not start the next child.
        let is_managed = round % 2 == 1;
        let scene = Scene::apart(User::Current);
        let mut options = vec!["--eof-grace", "1h", "--term-grace", "1h"];
        options.extend(if is_managed { &["--respawn"][..] } else { &[] });
        let mut process = run_command(&scene, &options, &["tree", "stubborn", "setsid"]).spawn().expect("start");
        let tree = || scene.processes().iter().filter(|found| found.stat.name == "badchild").count();
        badchild::wait_until("the tree is there", || tree() == 2);
        let own = own_processes(&scene);
        wait_until_on_record(&scene, &own.guard);
        // The outermost keeper first: a running keeper continues a stopped inner one.
        let asked = if is_managed { &own.front } else { &own.guard };
        let held = if is_managed { vec![&own.front] } else { vec![&own.front, &own.spare, &own.guard] };
        for keeper in &held {
            keeper.send(Signal::STOP);
            badchild::wait_until("the keeper is stopped", || keeper.is_stopped());
        }
        let handle = Pidfd::open(asked.stat.pid).expect("is there");
        if is_managed {
            nostray_pen::give_order(&handle, Order::Restart).expect("ask");
        }
        for ask in [Ask::Stop, Ask::StopNow] {
            nostray_pen::ask(&handle, ask).expect("ask");
        }
        held.iter().for_each(|keeper| keeper.send(Signal::CONT));
        scene.expect_empty();
        assert_eq!(process.wait().expect("reap").code(), Some(137), "{is_managed}");
    }
}

/// A guard of an older version hands queued signals to its child, and its record does not say that it takes them.
#[test]
fn an_older_keeper_is_asked_by_a_signal_that_it_knows() {
    let scene = Scene::apart(User::Current);
    let mut process = start(&scene, &[], &["pause"]);
    let own = own_processes(&scene);
    let files = std::fs::read_dir(scene.runtime().join("nostray")).expect("records");
    let mut paths = files.map(|file| file.expect("a file").path());
    let path = paths.find(|path| path.extension().is_some_and(|kind| kind == "json")).expect("a record");
    let record = std::fs::read_to_string(&path).expect("read");
    assert!(record.contains(",\"queued\":true"), "{record}");
    let record: Record = serde_json::from_str(&record.replace(",\"queued\":true", "")).expect("a record");
    for keeper in [&own.front, &own.spare, &own.guard] {
        keeper.send(Signal::STOP);
        badchild::wait_until("the keeper is stopped", || keeper.is_stopped());
    }
    // Sends what `nostray stop` sends; the command itself would also continue the keepers.
    let guard = Pidfd::open(own.guard.stat.pid).expect("is there");
    nostray_pen::send(&guard, Ask::Stop, record.takes()).expect("ask");
    let is_pending = |signal: Signal| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", own.guard.stat.pid)).expect("is there");
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).expect("Linux");
        u64::from_str_radix(pending.trim(), 16).expect("a set") >> (signal.as_raw() - 1) & 1 == 1
    };
    let pending = [Signal::TERM, Signal::queued()].map(is_pending);
    assert_eq!(pending, [true, false], "an older guard would pass a queued signal on to its child");
    [&own.front, &own.spare, &own.guard].into_iter().for_each(|keeper| keeper.send(Signal::CONT));
    assert_eq!(process.wait().expect("reap").code(), Some(143));
    scene.expect_empty();
}

#[test]
fn the_journal_tells_why_each_pen_ended() {
    let scene = Scene::apart(User::Current);
    let mut process = start(&scene, &["--session", "s"], &["tree", "stubborn", "setsid"]);
    drop(process.stdin.take());
    process.wait().expect("reap");
    let refused = scene.command(&nostray()).args(["run", "--", "no-such-command"]).stderr(Stdio::null()).status();
    assert_eq!(refused.expect("run").code(), Some(127));
    let story = text(&nostray_in(&scene, &["log"]).stdout);
    let parts = [
        "started for session s",
        "ready: child",
        "stopping: stdin was closed",
        "2 did not end when asked",
        "was killed by signal 9 (SIGKILL)",
        "nothing is left of it",
        "could not be executed: cannot run 'no-such-command'",
    ];
    for part in parts {
        assert!(story.contains(part), "'{part}' is not in:\n{story}");
    }
    let json = text(&nostray_in(&scene, &["log", "--json"]).stdout);
    assert!(json.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{json}");
    assert!(json.contains("\"event\":\"stopping\",\"reason\":\"stdin-closed\""), "{json}");
    assert_eq!(text(&nostray_in(&scene, &["log", "--since", "2000-01-01T00:00:00Z"]).stdout), story);
    assert_eq!(text(&nostray_in(&scene, &["log", "--since", "2100-01-01T00:00:00Z"]).stdout), "");
    assert_eq!(text(&nostray_in(&scene, &["log", "no-such-id"]).stdout), "");
}

#[test]
fn log_follow_shows_what_happens() {
    let scene = Scene::apart(User::Current);
    let mut first = start(&scene, &[], &["pause"]);
    let mut follower = scene
        .command(&nostray())
        .args(["log", "--follow"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let mut until = |part: &str| while !lines.next().expect("goes on").expect("read").contains(part) {};
    until("ready");
    drop(first.stdin.take());
    until("stdin was closed");
    until("nothing is left of it");
    follower.kill().expect("kill");
    follower.wait().expect("reap");
    first.wait().expect("reap");
    scene.expect_empty();
}

/// A child, a session or a label may be called anything. Commands show the name on one line, without terminal control
/// sequences and without secrets; `--json` gives scripts the original text.
#[test]
fn a_name_forges_no_line_steers_no_terminal_and_shows_no_secret() {
    let scene = Scene::apart(User::Current);
    let (forged, steers) =
        ("x\n2026-01-01T00:00:00Z  k7f39q2x  nothing is left of it", "\x1b[2J\u{202e}\u{2028}\u{9b}31m");
    let secrets = [
        "--bearer",
        "hunter2",
        "--pat",
        "hunter2",
        "--key",
        "hunter2",
        "-p",
        "hunter2",
        "-k",
        "hunter2",
        "-HAuthorization:hunter2",
        "Cookie: session=hunter2",
        "--session-cookie=hunter2",
        "env API_KEY=hunter2 x",
        "https://joe:hunter2@h/?token=hunter2",
        "hunter2fd4e1c67a2d28fced849ee1bb76e739",
    ];
    let label = format!("l={steers}");
    let words = [&["pause", forged, steers][..], &secrets].concat();
    let mut pen = start(&scene, &["--session", forged, "--label", &label, "--slot", "db"], &words);
    let folder = scene.runtime().join("nostray");
    for file in std::fs::read_dir(&folder).expect("read").flatten() {
        let content = std::fs::read_to_string(file.path()).expect("read");
        assert!(!content.contains("hunter2"), "{}: {content}", file.path().display());
    }
    let mut shown = Vec::new();
    for words in [
        &["ps"][..],
        &["ps", "--tree"],
        &["ps", "--json"],
        &["slot", "show", "db"],
        &["slot", "list"],
        &["sweep"],
        &["log"],
    ] {
        shown.push((words, nostray_in(&scene, words)));
    }
    let json: serde_json::Value = serde_json::from_slice(&shown[2].1.stdout).expect("JSON");
    let pen_of = |json: &serde_json::Value| json["pens"][0].clone();
    assert_eq!(pen_of(&json)["session"], forged);
    assert_eq!(pen_of(&json)["labels"]["l"], steers);
    assert_eq!(pen_of(&json)["command"][2], forged);
    shown.push((&["stop"], nostray_in(&scene, &["stop", "--session", forged])));
    pen.wait().expect("reap");
    shown.push((&["log after the end"], nostray_in(&scene, &["log"])));
    shown.push((&["log --json"], nostray_in(&scene, &["log", "--json"])));
    shown.push((&["ps --all"], nostray_in(&scene, &["ps", "--all"])));
    shown.push((&["run"], nostray_in(&scene, &["run", "--", &format!("{forged}{steers}")])));
    shown.push((&["stop"], nostray_in(&scene, &["stop", forged])));
    shown.push((&["stop"], nostray_in(&scene, &["stop", steers])));
    for (words, output) in shown {
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains("hunter2"), "{words:?} shows a secret: {said}");
        assert!(!said.lines().any(|line| line.starts_with("2026-01-01")), "{words:?} has a forged line: {said}");
        let bad = said.chars().find(|c| *c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{202e}')));
        assert_eq!(bad, None, "{words:?}: {said:?}");
    }
    scene.expect_empty();
}

/// The journal quotes the command lines of the host and of the process that sent a signal. Both may contain a secret.
#[test]
fn the_command_lines_of_a_host_and_of_the_sender_of_a_signal_show_no_secret() {
    let scene = Scene::apart(User::Current);
    let words = testkit::run_words(&GRACES, &["pause"]);
    // The shell does not exec its last command, so it is the host of what it starts.
    let mut host = scene.command("sh".as_ref());
    host.args(["-c", "shift 3; \"$@\"; exit 0", "host", "--api-key", "hunter2", "token: hunter 2"]).args(&words);
    host.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut host = host.spawn().expect("start");
    let ps = || text(&nostray_in(&scene, &["ps", "--json"]).stdout);
    let log = || text(&nostray_in(&scene, &["log", "--json"]).stdout);
    badchild::wait_until("the start is in the journal", || log().contains("\"started\""));
    let shown: serde_json::Value = serde_json::from_str(&ps()).expect("JSON");
    let front = shown["pens"][0]["front"]["pid"].to_string();
    let script = "kill -TERM $4; read -r line; exit 0";
    let mut sender = scene.command("sh".as_ref());
    sender.args(["-c", script, "sender", "--api-key", "hunter2", "token: hunter 2", &front]).stdin(Stdio::piped());
    let mut sender = sender.spawn().expect("start");
    badchild::wait_until("the tree is empty", || log().contains("\"empty\""));
    drop(sender.stdin.take());
    sender.wait().expect("reap");
    host.wait().expect("reap");
    let (told, shown) = (log(), text(&nostray_in(&scene, &["log"]).stdout));
    let journal = std::fs::read_to_string(scene.runtime().join("nostray/journal")).expect("read");
    for said in [&told, &shown, &journal] {
        assert!(said.contains("host --api-key ***") && said.contains("sender --api-key ***"), "{said}");
        assert!(!said.contains("hunter"), "shows a secret: {said}");
    }
    scene.expect_empty();
}

/// Some hosts kill leftover servers by a pattern over command lines. A keeper that showed the child's command line
/// would be hit.
#[test]
fn only_front_and_child_show_the_childs_command_line() {
    for (how, options) in [("run", &[][..]), ("run", &["--respawn"]), ("share", &["--linger", "0s"])] {
        let stage = Stage::new();
        let server = stage.server(&[]);
        let mut caller = stage.launch(how, options, &server.iter().map(String::as_str).collect::<Vec<_>>(), |_| {});
        caller.initialize();
        let child = u32::try_from(caller.pid()).expect("a number");
        let raw = |found: &Found| found.stat.pid.as_raw_nonzero().get().unsigned_abs();
        let line = |found: &Found| text(&std::fs::read(format!("/proc/{}/cmdline", raw(found))).unwrap_or_default());
        let mut expected = vec![caller.process.id(), child];
        expected.sort_unstable();
        let mut hit = Vec::new();
        // A sweeper, which still shows its parent's command line, may be about to end.
        let is_so = badchild::comes_true(badchild::PATIENCE, &mut || {
            let all = stage.scene.processes();
            hit = all.into_iter().filter(|found| line(found).contains("badchild")).collect();
            hit.iter().map(raw).collect::<Vec<_>>() == expected
        });
        assert!(is_so, "{how} {options:?}: {hit:#?}");
        let records = text(&stage.nostray(&["ps", "--json"]).stdout);
        let mut named = Vec::new();
        for found in stage.own().iter().filter(|found| raw(found) != caller.process.id()) {
            let shown = line(found);
            if let Some((name, id)) = shown.trim_end_matches('\0').split_once(' ').filter(|(_, id)| !id.contains(' '))
            {
                assert_eq!(name, found.stat.name, "{how} {options:?}");
                assert!(records.contains(id.split('.').next().expect("a name")), "{shown} is not among {records}");
                named.push(name.to_owned());
            }
        }
        named.sort_unstable();
        let all = ["nostray-front", "nostray-guard", "nostray-spare", "nostray-steward"];
        let all = match how {
            "share" => &all[..],
            _ if options.is_empty() => &all[1..3],
            _ => &all[..3],
        };
        assert_eq!(named, all, "{how} {options:?}");
        caller.close();
        assert_eq!(caller.code(), 0, "{}", caller.errors());
        stage
            .scene
            .processes()
            .iter()
            .filter(|found| found.stat.name == "nostray-broker")
            .for_each(|broker| broker.send(Signal::TERM));
        stage.scene.expect_empty();
    }
}

/// Also for a supervised and a shared child, where a nostray process passes the signal on.
#[test]
fn the_journal_names_the_process_that_sent_a_signal() {
    for (how, options) in [("run", &[][..]), ("run", &["--respawn"]), ("share", &["--linger", "0s"])] {
        let stage = Stage::new();
        let server = stage.server(&[]);
        let mut caller = stage.launch(how, options, &server.iter().map(String::as_str).collect::<Vec<_>>(), |_| {});
        caller.initialize();
        let front = i32::try_from(caller.process.id()).expect("small");
        let victim = match how {
            "share" => stage.the("nostray-steward"),
            _ => Found::by_pid(badchild::pid(front)).expect("is there"),
        };
        victim.send(Signal::TERM);
        let from = format!("SIGTERM came from process {} (", std::process::id());
        badchild::wait_until("the journal names the sender", || stage.journal().contains(&from));
        badchild::wait_until("the signalled process has ended", || !victim.is_alive());
        let journal = stage.journal();
        assert!(!journal.contains("the broker was stopped"), "{how} {options:?}: {journal}");
        let handed_on =
            journal.lines().filter(|line| line.contains("SIGTERM came from") && !line.contains(&from)).count();
        assert_eq!(handed_on, 0, "{how} {options:?}: {journal}");
        caller.close();
        caller.code();
        stage
            .scene
            .processes()
            .iter()
            .filter(|found| found.stat.name == "nostray-broker")
            .for_each(|broker| broker.send(Signal::TERM));
        stage.scene.expect_empty();
    }
}
