//! What an operator sees of shared children, and does to them: which sessions hold which child, stopping one session or
//! all, restarting a child under its sessions, and the broker itself.

use std::process::Command;
use std::time::Duration;

use badchild::{Found, PATIENCE, comes_true, wait_until};
use nostray_supervise::link::VERSION;
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::many::{Many, errors, text};
use testkit::stage::Caller;

fn names(pen: &Value) -> Vec<String> {
    let leases = pen["shared"]["leases"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<_> =
        leases.iter().map(|lease| lease["session"].as_str().unwrap_or_default().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn ps_shows_one_child_with_all_sessions_that_hold_it() {
    let many = Many::new();
    let mut callers = many.several(3, &["--key", "memory", "--label", "team=a"]);
    let pid = callers[0].pid();
    many.wait_for_leases(3);
    wait_until("the child is on record", || {
        let pen = many.pen();
        pen["child"]["pid"] == pid && pen["state"] == "ready"
    });
    let pen = many.pen();
    assert_eq!(names(&pen), ["s0", "s1", "s2"]);
    assert_eq!(pen["shared"]["key"], "memory");
    for (caller, lease) in callers.iter().zip(pen["shared"]["leases"].as_array().expect("leases")) {
        assert_eq!(lease["front"]["pid"], caller.process.id());
        assert_eq!(lease["labels"], json!({ "team": "a" }));
        assert!(lease["since"].as_u64() >= pen["started"].as_u64(), "{lease}");
    }
    assert_eq!((&pen["generation"], &pen["restarts"]), (&json!(1), &json!(0)));
    assert_eq!(pen["front"]["pid"], many.steward().stat.pid.as_raw_nonzero().get());
    assert_eq!(pen["processes"], 1);

    let id = many.id();
    assert_eq!(many.says(&["ps", "-q"]), format!("{id}\n"), "not one line");
    for selection in [&["--session", "s1"][..], &["--label", "team=a"]] {
        assert_eq!(many.says(&[&["ps", "-q"], selection].concat()), format!("{id}\n"));
    }
    assert_eq!(many.nostray(&["ps", "-q", "--session", "s7"]).status.code(), Some(1));
    let table = many.says(&["ps"]);
    let row = |table: &str| table.lines().nth(1).unwrap_or_default().to_owned();
    assert!(row(&table).starts_with(&format!("{id}  memory  ready  ")) && row(&table).contains(" ×3  "), "{table}");
    assert!(row(&table).contains("  s0, s1, s2  "), "{table}");
    assert_eq!(table.lines().count(), 2, "{table}");
    let tree = many.says(&["ps", "--tree"]);
    assert_eq!(tree.lines().count(), 2 + 3 + 1 + 1, "{tree}");
    for (number, caller) in callers.iter().enumerate() {
        let own = format!(" {} for ", std::process::id());
        let end = format!(", session s{number}, front {}", caller.process.id());
        let is_it = |line: &str| line.starts_with("  held by ") && line.contains(&own) && line.ends_with(&end);
        assert!(tree.lines().any(is_it), "{tree}");
    }
    // A sweep touches none of these processes. Wait until processes that lost the race to be the broker, and sweepers,
    // have ended: three fronts, broker, steward, three keepers of the pen, and the child are left.
    let mut before = Vec::new();
    let are_all = comes_true(PATIENCE, &mut || {
        before = many.stage.scene.processes();
        before.len() == 9
    });
    assert!(are_all, "{before:#?}");
    assert_eq!(many.says(&["sweep"]), "1 active, not touched\n");
    assert!(before.iter().all(Found::is_alive));

    callers[0].error("die", json!({}));
    callers[1].who();
    wait_until("the next child is on record", || many.pen()["generation"] == 2 && many.pen()["state"] == "ready");
    assert_eq!(many.pen()["restarts"], 1);
    assert_eq!(names(&many.pen()), ["s0", "s1", "s2"]);
    many.end(callers.remove(1));
    assert_eq!(names(&many.wait_for_leases(2)), ["s0", "s2"]);
    let table = many.says(&["ps"]);
    assert!(row(&table).contains(" ×2  ") && row(&table).contains("  s0, s2  "), "{table}");
    many.end(callers.remove(1));
    many.wait_for_leases(1);
    let table = many.says(&["ps"]);
    assert!(!row(&table).contains('×') && row(&table).contains("  s0  "), "{table}");
    many.end_all(callers);
    assert_eq!(many.pens(), Vec::<Value>::new());
}

#[test]
fn stopping_a_session_ends_only_that_session_and_the_child_ends_with_the_last() {
    in_parallel(vec![false, true], |now| {
        let many = Many::new();
        let mut callers = many.several(3, &["--linger", "100ms"]);
        let mut other = many.share(&["--session", "other", "--label", "x=1"], &["--exit", "0"]);
        other.initialize();
        many.wait_for_leases_of_any(4);
        let pid = callers[0].pid();
        let hanging = callers[0].ask("hang", json!({}));
        let words: &[&str] = if now { &["stop", "--now", "--session"] } else { &["stop", "--session"] };
        let said = many.says(&[words, &["s1"]].concat());
        assert!(said.contains("session s1") && said.contains("let go of it"), "{said}");
        assert!(
            callers[1].process.try_wait().expect("look").is_some(),
            "stop must return only when the session has ended"
        );
        assert_eq!(callers[1].code(), 0, "{}", callers[1].errors());
        assert_eq!((callers[0].pid(), callers[2].pid()), (pid, pid), "the child must live on for the other sessions");
        // The call of another session is not cancelled.
        let heard = many.stage.lives()[0].heard.clone();
        assert!(!heard.iter().any(|line| line.contains("notifications/cancelled")), "{heard:#?}");
        callers[0].tell("notifications/cancelled", Some(json!({ "requestId": hanging })));

        assert!(many.nostray(&[words, &["s0"]].concat()).status.success());
        assert!(many.nostray(&[words, &["s2"]].concat()).status.success());
        assert_eq!((callers[0].code(), callers[2].code()), (0, 0));
        wait_until("the child ends with its last session", || many.pens().len() == 1);
        // Stop by label.
        other.who();
        assert!(many.nostray(&["stop", "--label", "x=1"]).status.success());
        assert_eq!(other.code(), 0);
        many.expect_no_process();
        assert_eq!(many.nostray(&["stop", "--session", "s0"]).status.code(), Some(1), "there is nothing to stop");
        let journal = many.stage.journal();
        assert!(journal.contains("let go by"), "{journal}");
        assert_eq!(many.stage.lives().len(), 2);
    });
}

#[test]
fn stopping_a_child_ends_all_its_sessions_and_no_others() {
    // The sessions end with the child's exit code.
    for (words, code) in [(&["stop"][..], 143), (&["stop", "--now"], 137)] {
        let many = Many::new();
        let mut callers = many.several(3, &["--key", "a"]);
        callers[0].result("fork", json!({ "kind": "daemon" }));
        callers[1].ask("hang", json!({}));
        let id = many.id();
        let mut other = many.begun(&["--key", "b"]);
        let said = many.says(&[words, &[&id]].concat());
        assert!(said.starts_with(&id) && said.contains("stopped"), "{said}");
        for caller in &mut callers {
            assert_eq!(caller.code(), code, "{}", caller.errors());
        }
        other.who();
        assert_eq!(many.pens().len(), 1);
        many.end_all([other]);
        assert_eq!(many.stage.lives().len(), 2, "a child was started again");
    }
}

#[test]
fn a_restart_gives_the_sessions_a_new_child_between_calls() {
    let many = Many::new();
    let mut callers = many.several(3, &["--key", "memory"]);
    callers[0].result("logging/setLevel", json!({ "level": "error" }));
    callers[1].result("resources/subscribe", json!({ "uri": "test://a" }));
    many.wait_for_leases(3);
    let (id, first) = (many.id(), callers[0].pid());
    // The restart waits for the calls in flight of all sessions.
    let slow = callers[2].ask("slow", json!({ "ms": 700 }));
    wait_until("the call is in flight", || many.stage.lives()[0].methods().contains(&"slow".to_owned()));
    let said = many.says(&["restart", &id]);
    assert!(said.starts_with(&format!("{id}  number 2 runs")), "{said}");
    let answer = callers[2].answer(slow);
    assert_eq!(answer["result"]["pid"], first, "the call was cut off: {answer}");
    // Each front replays its session before it passes this call on.
    callers.iter_mut().for_each(|caller| drop(caller.who()));
    for caller in &mut callers {
        let told = caller.who();
        assert_ne!(told["pid"], first);
        assert_eq!(told["initialized"], true);
        assert_eq!(told["level"], "error");
        assert_eq!(told["subscriptions"], json!(["test://a"]));
    }
    assert!(many.stage.lives()[0].saw_the_end, "the child must see the end of its input");

    // By key, and by the beginning of the id.
    assert!(many.says(&["restart", "memory"]).contains("number 3 runs"));
    assert!(many.says(&["restart", &id[..4]]).contains("number 4 runs"));
    let pids: Vec<_> = callers.iter_mut().map(Caller::pid).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]));
    assert_eq!(many.stage.lives().len(), 4);

    // A child with a call in flight is not cut off. It is restarted when no call is in flight.
    let hanging = callers[1].ask("hang", json!({}));
    wait_until("the call is in flight", || many.stage.lives()[3].methods().contains(&"hang".to_owned()));
    let refused = many.nostray(&["restart", "--wait", "200ms", "memory"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("not quiet"), "{refused:?}");
    assert_eq!(callers[0].pid(), pids[0]);
    callers[1].tell("notifications/cancelled", Some(json!({ "requestId": hanging })));
    wait_until("the child is restarted", || many.stage.lives().len() == 5);
    for caller in &mut callers {
        assert_ne!(caller.pid(), pids[0]);
        assert_eq!(caller.unasked(), Vec::<Value>::new(), "no session must get a message");
    }
    let missing = many.nostray(&["restart", "nobody"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(errors(&missing).contains("there is no 'nobody'"), "{missing:?}");
    many.end_all(callers);
}

#[test]
fn a_supervised_child_can_be_restarted_and_an_unsupervised_one_is_refused() {
    let many = Many::new();
    let mut caller = many.stage.start(&["--respawn", "--session", "managed"], &[]);
    caller.initialize();
    let first = caller.pid();
    let id = many.id();
    assert!(many.says(&["restart", &id]).contains("number 2 runs"));
    assert_ne!(caller.pid(), first);
    caller.end(&many.stage);

    let mut plain = many.stage.start(&[], &[]);
    plain.initialize();
    wait_until("the child is on record", || many.pens().len() == 1);
    let (id, first) = (many.id(), plain.pid());
    let refused = many.nostray(&["restart", &id]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("not supervised") && errors(&refused).contains("--respawn"), "{refused:?}");
    assert_eq!(plain.pid(), first);
    plain.end(&many.stage);

    // A child that sleeps is started by the next call, as usual.
    let mut asleep = many.begun(&["--hibernate", "50ms"]);
    wait_until("the child is asleep", || many.stage.states() == ["asleep"]);
    let said = many.says(&["restart", &many.id()]);
    assert!(said.contains("asleep"), "{said}");
    asleep.who();
    many.end_all([asleep]);
}

/// A child without a call yet, or a child that hangs in its start, is restarted at once.
#[test]
fn a_child_that_has_not_answered_yet_can_be_restarted() {
    let many = Many::new();
    let mut plain = many.share(&["--protocol", "jsonrpc", "--key", "plain"], &["--plain"]);
    wait_until("the child has started", || many.stage.lives().len() == 1);
    assert!(many.says(&["restart", "plain"]).contains("number 2 runs"));
    assert_eq!(plain.pid(), i64::from(many.stage.lives()[1].pid));

    let mut hanging = many.share(&["--key", "hanging"], &["--start-delay", "600000"]);
    wait_until("the child has started", || many.stage.lives().len() == 3);
    let id = hanging.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    let said = many.says(&["restart", "hanging"]);
    assert!(said.contains("number 2 runs"), "{said}");
    wait_until("the next child has started", || many.stage.lives().len() == 4);
    assert!(many.nostray(&["stop", "--all", "--now"]).status.success());
    assert_eq!(hanging.answer(id)["error"]["code"], -32000);
    many.expect_no_process();
}

/// When a child is stopped, the steward returns calls that it has not passed on. A call that arrives when the steward
/// has ended cannot be returned, but is answered all the same.
#[test]
fn a_call_that_the_steward_can_no_longer_return_is_answered() {
    let many = Many::new();
    let mut caller = many.share(&["--key", "k"], &["--start-delay", "600000"]);
    wait_until("the child has started", || many.stage.lives().len() == 1);
    let front = i32::try_from(caller.process.id()).expect("small");
    let front = Found::by_pid(badchild::pid(front)).expect("is there");
    // The stopped front passes the call on, and only then learns of the ends of the first child and of the steward.
    front.send(Signal::STOP);
    let id = caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    assert!(many.says(&["restart", "k"]).contains("number 2 runs"));
    assert!(many.nostray(&["stop", "--all", "--now"]).status.success());
    front.send(Signal::CONT);
    let error = caller.answer(id)["error"].clone();
    assert_eq!(error["code"], -32000);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("SIGKILL")), "{error}");
    assert_eq!(caller.code(), 137, "{}", caller.errors());
    many.expect_no_process();
}

#[test]
fn a_restart_starts_a_child_that_was_given_up() {
    let many = Many::new();
    many.stage.facts(&json!({ "exit": 3 }));
    let options = ["--key", "k", "--backoff", "1ms..5ms", "--max-failures", "2/1h"];
    let mut callers: Vec<Caller> = (0..2).map(|_| many.share(&options, &[])).collect();
    wait_until("the child is given up", || many.stage.states() == ["tripped"]);
    let error = callers[0].error("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("exited with code 3")), "{error}");
    assert!(many.pen()["reason"].as_str().is_some_and(|text| text.contains("exited with code 3")));
    many.stage.facts(&json!({}));
    let said = many.says(&["restart", "k"]);
    assert!(said.contains("runs"), "{said}");
    let pids: Vec<_> = callers.iter_mut().map(|caller| (caller.initialize(), caller.pid()).1).collect();
    assert_eq!(pids[0], pids[1]);
    many.end_all(callers);
}

#[test]
fn the_broker_reports_its_status() {
    let many = Many::new();
    let none = many.nostray(&["broker", "status"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(errors(&none).contains("no broker runs"), "{none:?}");
    let none = many.nostray(&["broker", "status", "--json"]);
    assert_eq!(none.status.code(), Some(1));
    assert_eq!(serde_json::from_slice::<Value>(&none.stdout).expect("JSON"), json!({ "running": false }));
    assert_eq!(many.nostray(&["broker", "stop"]).status.code(), Some(1));
    assert!(many.brokers().is_empty(), "status and stop must not start a broker");

    let mut callers = many.several(2, &["--key", "memory"]);
    callers.push(many.begun(&["--key", "other"]));
    many.wait_for_leases_of_any(3);
    let said = many.says(&["broker", "status"]);
    let pid = many.broker().stat.pid;
    assert!(said.starts_with(&format!("broker {pid} (nostray ")), "{said}");
    assert!(said.contains("2 shared, 3 sessions") && said.contains("memory"), "{said}");
    let status: Value = serde_json::from_str(&many.says(&["broker", "status", "--json"])).expect("JSON");
    assert_eq!(status["running"], true);
    assert_eq!(status["pid"], pid.as_raw_nonzero().get());
    assert_eq!(status["stopping"], false);
    let mut children: Vec<_> = status["children"].as_array().expect("children").iter().map(names).collect();
    children.sort();
    assert_eq!(children, [vec![String::new()], vec!["s0".to_owned(), "s1".to_owned()]]);
    many.end_all(callers);
}

#[test]
fn sessions_outlive_a_broker_that_is_stopped_or_restarted() {
    in_parallel(vec!["stop", "restart"], |how| {
        let many = Many::new();
        let mut callers = many.several(2, &[]);
        callers[0].result("fork", json!({ "kind": "daemon" }));
        let (broker, pid) = (many.broker(), callers[0].pid());
        let hanging = callers[1].ask("hang", json!({}));
        wait_until("the call is in flight", || many.stage.lives()[0].methods().contains(&"hang".to_owned()));
        let said = many.says(&["broker", how]);
        assert!(said.contains("stopped") && said.contains(&broker.stat.pid.to_string()), "{said}");
        assert!(!broker.is_alive(), "the command must return only when the broker has ended");
        let error = callers[1].answer(hanging)["error"].clone();
        assert_eq!(error["code"], -32000, "{error}");
        if how == "restart" {
            wait_until("the next broker runs", || many.brokers().len() == 1);
            wait_until("the next child has started", || many.stage.lives().len() == 2);
        } else {
            let nothing = comes_true(Duration::from_millis(300), &mut || !many.brokers().is_empty());
            assert!(!nothing, "a broker was started without a call");
            assert_eq!(many.stage.trees().len(), 0);
        }
        let pids: Vec<_> = callers.iter_mut().map(Caller::pid).collect();
        assert!(pids[0] == pids[1] && pids[0] != pid, "{pids:?}");
        many.broker();
        for caller in &mut callers {
            assert_eq!(caller.unasked(), Vec::<Value>::new());
            assert_eq!(caller.errors(), "");
        }
        many.end_all(callers);
        assert_eq!(many.stage.lives().len(), 2);
    });
}

#[test]
fn the_journal_tells_which_sessions_held_the_child_and_why_they_let_go() {
    let many = Many::new();
    let mut callers = many.several(4, &[]);
    let fronts: Vec<_> = callers.iter().map(|caller| caller.process.id()).collect();
    many.wait_for_leases(4);
    let id = many.id();
    for (session, front) in fronts.iter().enumerate() {
        let held = format!("{id}  held by {front} (s{session}); {} in all", session + 1);
        assert!(many.stage.journal().contains(&held), "'{held}' is not in:\n{}", many.stage.journal());
    }
    many.end(callers.remove(3));
    assert!(many.nostray(&["stop", "--session", "s2"]).status.success());
    callers.remove(2).process.kill().ok();
    callers.remove(1).process.kill().expect("kill");
    many.wait_for_leases(1);
    many.end_all(callers);
    let story = many.says(&["log", &id]);
    for front in &fronts {
        assert_eq!(story.matches(&format!("let go by {front}: ")).count(), 1, "{story}");
    }
    assert!(story.contains(&format!("let go by {}: its input ended; 3 are left", fronts[3])), "{story}");
    assert!(story.contains(&format!("let go by {}: its input ended; 0 are left", fronts[0])), "{story}");
    assert!(story.contains("nothing is left of it"), "{story}");
}

#[test]
fn the_childs_output_is_kept_in_the_log() {
    let many = Many::new();
    let mut first = many.share(&[], &["--stderr", "a word on stderr", "--banner", "a banner on stdout"]);
    first.initialize();
    let mut second = many.share(&[], &["--stderr", "a word on stderr", "--banner", "a banner on stdout"]);
    second.initialize();
    second.result("stderr", json!({ "text": "and another" }));
    first.result("print", json!({ "text": "{\"jsonrpc\":\"2.0\",\"id\":\"nobody\",\"result\":1}\n" }));
    let id = many.id();
    let kept = ["stderr: a word on stderr", "a banner on stdout", "stderr: and another", "nobody"];
    wait_until("all output is in the log", || {
        let said = text(&many.nostray(&["log", &id, "--output"]));
        kept.iter().all(|part| said.contains(part))
    });
    for caller in [&mut first, &mut second] {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    many.end_all([first, second]);
    let said = many.says(&["log", &id, "--output"]);
    assert!(kept.iter().all(|part| said.contains(part)), "the log does not outlive the child: {said}");
}

#[test]
fn brokers_of_two_versions_serve_only_their_own_sessions_until_these_end() {
    let many = Many::new();
    let newer = |command: &mut Command| {
        command.env("NOSTRAY_BROKER_VERSION", "7");
    };
    let mut old = many.several(2, &["--share-env", ""]);
    let share = || {
        let mut caller = many.share_in(&["--share-env", ""], &[], newer);
        caller.initialize();
        caller
    };
    let mut new = vec![share(), share()];
    // Wait until processes that lost the race to be a broker have ended.
    wait_until("two brokers and two stewards", || (many.brokers().len(), many.stewards().len()) == (2, 2));
    let (of_old, of_new) = (old[0].pid(), new[0].pid());
    assert!(of_old == old[1].pid() && of_new == new[1].pid() && of_old != of_new);
    // `ps` shows the children of both brokers, and `broker status` asks the broker of its own version.
    assert_eq!(many.pens().len(), 2);
    let status: Value = serde_json::from_str(&many.says(&["broker", "status", "--json"])).expect("JSON");
    assert_eq!(status["children"].as_array().map(Vec::len), Some(1), "{status}");
    let brokers = many.brokers();
    let older =
        brokers.iter().find(|broker| broker.command.contains(&format!("broker-{VERSION}.sock"))).expect("is there");
    assert_eq!(status["pid"], older.stat.pid.as_raw_nonzero().get());
    // The old broker serves its own sessions until they end, also when the new broker ends.
    let newest = brokers.iter().find(|broker| broker.command.contains("broker-7.sock")).expect("is there");
    newest.send(Signal::TERM);
    wait_until("the new broker leaves", || !newest.is_alive());
    assert_eq!(old[0].pid(), of_old);
    assert_ne!(new[1].pid(), of_new);
    old.into_iter().for_each(|caller| many.end(caller));
    wait_until("the old broker leaves", || !older.is_alive());
    new[0].who();
    many.end_all(new);
}
