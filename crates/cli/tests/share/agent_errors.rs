//! The errors that the sessions of a shared child get say the same as those of a child of one's own, and name the log that has the child's
//! stderr. See `managed/agent_errors.rs`.

use badchild::{badchild, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::sharing::{BROKER, STEWARD, kill};
use testkit::stage::{Caller, Stage};
use testkit::{nostray, run_words};

/// A child that ends neither with its input nor by SIGTERM lives long enough to tell who was killed first.
const STUBBORN: [&str; 4] = ["--eof-grace", "300ms", "--term-grace", "400ms"];

fn details(stage: &Stage) -> String {
    let id = || String::from_utf8(stage.nostray(&["ps", "-q"]).stdout).expect("UTF-8");
    wait_until("it is on record", || !id().is_empty());
    format!("Details: nostray log {} --output", id().trim())
}

fn message(error: &Value) -> String {
    error["message"].as_str().unwrap_or_else(|| panic!("no message: {error}")).to_owned()
}

/// Several sessions of one child, and where their errors send their reader.
fn begun(stage: &Stage, count: usize, options: &[&str], server: &[&str]) -> (Vec<Caller>, String) {
    let callers = (0..count).map(|_| stage.shared(options, server)).collect();
    let details = details(stage);
    (callers, details)
}

/// Calls that the child has read and does not answer.
fn hanging(stage: &Stage, callers: &mut [Caller]) -> Vec<u64> {
    let ids: Vec<_> = callers.iter_mut().map(|caller| caller.ask("hang", json!({}))).collect();
    let read =
        || stage.lives().iter().flat_map(testkit::stage::Life::methods).filter(|method| method == "hang").count();
    wait_until("they are read", || read() == ids.len());
    ids
}

fn over(stage: &Stage, mut callers: Vec<Caller>) {
    callers.iter_mut().for_each(Caller::close);
    for caller in &mut callers {
        caller.code();
    }
    wait_until("only the broker is left", || stage.scene.processes().iter().all(|found| found.stat.name == BROKER));
    stage.named(BROKER).iter().for_each(|broker| broker.send(Signal::TERM));
    stage.scene.expect_empty();
}

#[test]
fn a_shared_server_that_dies_is_quoted_to_every_session_that_waits_for_it() {
    let stage = Stage::new();
    let (mut callers, details) = begun(&stage, 3, &["--backoff", "1h..1h"], &[]);
    let ids = hanging(&stage, &mut callers[..2]);
    let dying = callers[2].ask("die", json!({ "code": 1, "text": "API_KEY is not set" }));
    for (caller, id) in callers.iter_mut().zip(ids.into_iter().chain([dying])) {
        let error = caller.answer(id)["error"].clone();
        assert_eq!(
            message(&error),
            format!(
                "`badchild` exited with code 1 during this call; the call was not retried. Last words: API_KEY is not set. \
                 {details}"
            )
        );
        assert_eq!(error["data"]["nostray"]["cause"], "the child exited with code 1");
        assert_eq!(error["data"]["nostray"]["stderr"], json!(["API_KEY is not set"]));
    }
    // What the details show.
    let words: Vec<_> = details.split(' ').skip(2).collect();
    let shown = stage.nostray(&words);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("stderr: API_KEY is not set"), "{shown:?}");
    over(&stage, callers);
}

#[test]
fn a_shared_server_is_called_by_its_key() {
    let stage = Stage::new();
    let (mut callers, details) = begun(&stage, 1, &["--backoff", "1h..1h", "--key", "memory"], &[]);
    let error = callers[0].error("die", json!({ "signal": 9 }));
    assert_eq!(
        message(&error),
        format!("`memory` was killed by signal 9 (SIGKILL) during this call; the call was not retried. {details}")
    );
    over(&stage, callers);
}

#[test]
fn a_shared_program_that_is_not_there_is_named_with_the_next_step() {
    let stage = Stage::new();
    let mut caller = stage.share_command(&[], &["no-such-command"]);
    let error = caller.error("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    let text = message(&error);
    let (said, details) = text.split_once(" Details: ").expect("details");
    assert_eq!(
        said,
        "`no-such-command` could not be started: cannot run 'no-such-command': not found; check its spelling, and that \
         it is in the PATH that the host gives to its children (or name it with its full path). This call was not made, \
         and the server is not started again in this session."
    );
    assert!(details.starts_with("nostray log ") && details.ends_with(" --output"), "{text}");
    assert_eq!(caller.code(), 127);
    over(&stage, vec![caller]);
    let journal = stage.journal();
    assert!(!journal.contains("ready") && journal.contains("could not be executed: cannot run"), "{journal}");
}

#[test]
fn a_shared_server_that_failed_too_often_says_when_it_is_tried_again() {
    let stage = Stage::new();
    stage.facts(&json!({}));
    let (mut callers, details) = begun(&stage, 1, &["--backoff", "1ms..1ms", "--max-failures", "2/1m"], &[]);
    stage.facts(&json!({ "exit": 3 }));
    callers[0].error("die", json!({}));
    wait_until("it is given up", || stage.states() == ["tripped"]);
    let text = message(&callers[0].error("who", json!({})));
    let (before, rest) = text.split_once("another ").expect("when");
    let (time, after) = rest.split_once(';').expect("a clause");
    assert_eq!(before, "`badchild` failed too often (--max-failures 2/1m), and is not started for ");
    assert_eq!(after, format!(" most recently it exited with code 3. This call was not made. {details}"));
    let seconds: u64 = time.trim_end_matches('s').parse().unwrap_or(if time == "1m" { 60 } else { 0 });
    assert!((1..=60).contains(&seconds), "{text}");
    over(&stage, callers);
}

#[test]
fn a_shared_server_that_is_ended_by_nostray_says_why() {
    let stage = Stage::new();
    let (mut callers, details) = begun(&stage, 2, &["--max-memory", "60M"], &[]);
    let ids = hanging(&stage, &mut callers);
    callers[0].ask("grow", json!({ "mb": 180 }));
    for (caller, id) in callers.iter_mut().zip(ids) {
        assert_eq!(
            message(&caller.answer(id)["error"]),
            format!(
                "`badchild` was restarted during this call: its process tree used more memory than --max-memory allows; \
                 the call was not retried. {details}"
            )
        );
    }
    over(&stage, callers);

    let stage = Stage::new();
    let options = [&STUBBORN[..], &["--start-timeout", "500ms", "--backoff", "1h..1h"]].concat();
    let mut caller = stage.share_command(&options, &["sh", "-c", "read line; echo slow >&2; exec sleep 1000"]);
    let waiting = caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    let details = self::details(&stage);
    let text = message(&caller.answer(waiting)["error"]);
    let after = text.split_once(' ').expect("a name").1;
    assert!(
        text.ends_with(&format!(
            " was ended during this call: it took longer to start than --start-timeout allows; the call was not retried. \
             Last words: slow. {details}"
        )),
        "{after}"
    );
    over(&stage, vec![caller]);
}

#[test]
fn a_session_learns_that_the_broker_or_the_process_that_kept_its_server_has_ended() {
    for (whom, keeper) in [(BROKER, "broker"), (STEWARD, "process")] {
        let stage = Stage::new();
        let (mut callers, details) = begun(&stage, 2, &STUBBORN, &["--ignore-eof"]);
        let ids = hanging(&stage, &mut callers);
        kill(&[stage.the(whom)]);
        for (caller, id) in callers.iter_mut().zip(ids) {
            assert_eq!(
                message(&caller.answer(id)["error"]),
                format!(
                    "`badchild` was lost during this call: the {keeper} that kept it has ended; the call was not retried. \
                     {details}"
                )
            );
            caller.who();
        }
        over(&stage, callers);
    }
}

#[test]
fn a_session_learns_that_the_broker_was_stopped() {
    let stage = Stage::new();
    let (mut callers, details) = begun(&stage, 1, &[], &[]);
    let ids = hanging(&stage, &mut callers);
    assert!(stage.nostray(&["broker", "stop"]).status.success());
    assert_eq!(
        message(&callers[0].answer(ids[0])["error"]),
        format!(
            "`badchild` was stopped during this call: the broker that kept it was stopped; the call was not retried. {details}"
        )
    );
    over(&stage, callers);
}

#[test]
fn a_session_whose_server_is_not_restarted_is_told_so() {
    let stage = Stage::new();
    let (mut callers, details) = begun(&stage, 1, &["--no-respawn"], &[]);
    callers[0].result("stop-reading", json!({ "file": stage.file("never") }));
    // It has read nothing of this.
    let unread = callers[0].ask("who", json!({}));
    wait_until("it has got it", || stage.child().unread_input() > 0);
    stage.child().send(Signal::KILL);
    assert_eq!(
        message(&callers[0].answer(unread)["error"]),
        format!(
            "`badchild` was killed by signal 9 (SIGKILL). This call was not made, and the server is not started again in \
             this session. {details}"
        )
    );
    callers[0].code();
    over(&stage, callers);
}

#[test]
fn lines_that_are_too_long_name_the_shared_server_and_the_limit() {
    let stage = Stage::new();
    let (mut callers, details) = begun(&stage, 1, &["--max-line", "64K"], &[]);
    let text = message(&callers[0].error("big", json!({ "bytes": 100_000 })));
    let (before, after) = text.split_once("it has 100").expect("a length");
    assert_eq!(before, "the answer of `badchild` to this call was dropped: ");
    assert!(
        after.ends_with(&format!(" bytes, more than --max-line 65536 allows; the call was not retried. {details}")),
        "{text}"
    );
    let text = message(&callers[0].error("echo", json!({ "text": "x".repeat(100_000) })));
    assert!(text.starts_with("this request was not passed on to `badchild`: it has 100"), "{text}");
    over(&stage, callers);
}

#[test]
fn a_session_whose_server_does_not_get_its_slot_is_told_who_has_it() {
    let stage = Stage::new();
    let words = run_words(&["--slot", "db"], &["pause"]);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let mut holder = stage.start_plain(words[0], &words[1..]);
    assert_eq!(holder.next_line(), b"ready\n");
    wait_until("the slot is held", || stage.states() == ["ready"]);
    let options = ["--slot", "db", "--if-taken", "share", "--wait-timeout", "300ms"];
    let mut caller = stage.launch("run", &options, &[&badchild().display().to_string(), "server"], |_| {});
    let text = message(&caller.error("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} })));
    assert!(text.starts_with("`db` could not be started: slot db is taken by "), "{text}");
    assert!(text.contains(" This call was not made, and the server is not started again in this session."), "{text}");
    assert_eq!(caller.code(), 75);
    holder.close();
    holder.code();
    over(&stage, vec![caller]);
}

#[test]
fn a_session_that_requires_a_shared_server_and_gets_none_is_told_why() {
    let stage = Stage::new();
    // Another command has this name.
    let (first, _) = begun(&stage, 1, &["--key", "taken"], &[]);
    let mut caller = stage.share_command(&["--key", "taken"], &[&nostray().display().to_string(), "--version"]);
    let text = message(&caller.error("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} })));
    assert!(
        text.starts_with(
            "`taken` could not be started: it cannot be shared: --key taken is in use for another command: that one is "
        ) && text.ends_with(" This call was not made, and the server is not started again in this session."),
        "{text}"
    );
    assert_eq!(caller.code(), 125);
    over(&stage, first);
}
