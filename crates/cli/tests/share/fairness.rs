//! A session that floods, does not read, or sends garbage hinders no other session, and costs the steward no memory.

use std::io::Write;
use std::time::Duration;

use badchild::{Found, PATIENCE, comes_true, wait_until};
use serde_json::{Value, json};
use testkit::many::Many;
use testkit::stage::{Caller, Stage, shorten};

/// An upper bound for the steward's memory, unless a single line is longer.
const LITTLE: u64 = 64 << 20;
/// More lines than all buffers hold between a host that does not read and its child.
const FLOOD: usize = 10_000;

/// This entry of the process's `/proc/PID/status`, in bytes.
fn memory(found: &Found, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).expect("is there");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("has this line");
    let number: u64 =
        line.trim_matches([':', '\t', ' ']).split(' ').next().expect("a number").parse().expect("digits");
    number * 1024
}

/// The steward's peak of memory, in bytes.
fn peak(many: &Many) -> u64 {
    memory(&many.steward(), "VmHWM")
}

/// Checks that the session's calls are answered, this many times.
fn expect_served(caller: &mut Caller, times: usize) {
    for number in 0..times {
        assert_eq!(caller.result("echo", json!([number])), json!([number]));
    }
}

/// The same for a session that gets nothing but answers, each of which may take this long.
fn expect_served_within(patience: Duration, caller: &mut Caller, times: usize) {
    for number in 0..times {
        let id = caller.ask("echo", json!([number]));
        let line = caller.line_within(patience).expect("an answer");
        let answer: Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!((&answer["id"], &answer["result"]), (&json!(id), &json!([number])), "{answer}");
    }
}

/// Writes [`FLOOD`] lines from another thread, since the front may stop reading. The session does not read.
fn say_without_reading(caller: &mut Caller, line: impl Fn(usize) -> String + Send + 'static) {
    caller.pause(true);
    let mut stdin = caller.take_stdin();
    std::thread::spawn(move || {
        // The thread ends with the session.
        for number in 0..FLOOD {
            if stdin.write_all(line(number).as_bytes()).is_err() {
                return;
            }
        }
        // The input stays open.
        std::thread::park();
    });
}

fn kill(mut caller: Caller) {
    caller.process.kill().expect("kill");
    caller.process.wait().expect("reap");
}

#[test]
fn a_session_that_asks_without_end_and_never_reads_hinders_no_other_session() {
    let many = Many::new();
    let mut callers = many.several(3, &[]);
    let mut flooding = callers.remove(0);
    // Long answers, so that not all of them fit into the pipes.
    let text = "x".repeat(2_000);
    say_without_reading(&mut flooding, move |id| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\",\"params\":[\"{text}\"]}}\n")
    });
    wait_until("the flood has begun", || {
        memory(&many.steward(), "VmRSS") > 0 && many.stage.lives()[0].heard.len() > 200
    });
    for caller in &mut callers {
        expect_served(caller, 300);
    }
    assert!(peak(&many) < LITTLE, "{} bytes", peak(&many));
    // The flooding session gets all its answers as soon as it reads.
    flooding.pause(false);
    for id in 0..FLOOD {
        let line = flooding.next_line();
        let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":[\"xxx");
        assert!(line.starts_with(start.as_bytes()), "{}", shorten(&line));
    }
    expect_served(&mut callers[0], 10);
    assert!(peak(&many) < LITTLE, "{} bytes", peak(&many));
    kill(flooding);
    many.end_all(callers);
    assert_eq!(many.stage.lives().len(), 1);
}

#[test]
fn calls_of_one_session_that_are_never_answered_leave_room_for_calls_of_others() {
    let many = Many::new();
    let mut callers = many.several(2, &[]);
    let mut hanging = callers.remove(0);
    say_without_reading(&mut hanging, |id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"hang\"}}\n"));
    wait_until("many calls are in flight", || many.stage.lives()[0].heard.len() > 1000);
    expect_served(&mut callers[0], 300);
    let hung = many.stage.lives()[0].methods().iter().filter(|method| *method == "hang").count();
    assert!(hung < FLOOD, "the steward passed all calls on");
    assert!(peak(&many) < LITTLE, "{} bytes", peak(&many));
    // When the session ends, its calls are cancelled.
    kill(hanging);
    expect_served(&mut callers[0], 10);
    let cancelled = || {
        let methods = many.stage.lives()[0].methods();
        let count = |name: &str| methods.iter().filter(|method| *method == name).count();
        count("notifications/cancelled") == count("hang")
    };
    wait_until("all its calls are cancelled", cancelled);
    many.end_all(callers);
}

#[test]
fn a_session_that_never_reads_hinders_no_notifications_for_others() {
    let many = Many::new();
    let mut callers = many.several(3, &[]);
    callers[0].pause(true);
    // These notifications name no session, so they go to all: together far more than the steward may keep for a session
    // that does not read.
    for _ in 0..40 {
        let id = callers[1].ask("flood", json!({ "count": 10, "bytes": 50_000 }));
        for caller in &mut callers[1..] {
            for number in 0..10 {
                let line = caller.next_line();
                let start =
                    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"flood\",\"params\":{{\"n\":{number},\"text\":\"x");
                assert!(line.starts_with(start.as_bytes()), "{}", shorten(&line));
            }
        }
        callers[1].answer(id);
    }
    assert!(peak(&many) < LITTLE, "{} bytes", peak(&many));
    // The session has lost some notifications, but its calls are answered.
    callers[0].pause(false);
    assert_eq!(callers[0].result("echo", json!(["still here"])), json!(["still here"]));
    for caller in &mut callers {
        expect_served(caller, 10);
    }
    callers.iter_mut().for_each(|caller| drop(caller.unasked()));
    many.end_all(callers);
}

#[test]
fn a_line_of_64_mebibytes_passes_both_ways_while_others_are_served() {
    let many = Many::new();
    let mut callers = many.several(2, &[]);
    // Anonymous memory only: VmRSS would count pages of the program file as well.
    let before = memory(&many.steward(), "RssAnon");
    // With its frame, the line is slightly below the limit: the id that the child sees may be longer than the host's.
    let length = (64 << 20) - 100;
    let long = "w".repeat(length);
    let mut stdin = callers[0].take_stdin();
    let writer = std::thread::spawn(move || {
        let start = b"{\"jsonrpc\":\"2.0\",\"id\":\"the long one\",\"method\":\"echo\",\"params\":[\"";
        stdin.write_all(start).expect("write");
        stdin.write_all(long.as_bytes()).expect("write");
        stdin.write_all(b"\"]}\n").expect("write");
        stdin
    });
    // A server of a debug build needs a while for this line, and answers no other call meanwhile.
    expect_served_within(4 * PATIENCE, &mut callers[1], 50);
    let line = callers[0].line_within(4 * PATIENCE).expect("the long line comes back");
    assert_eq!(line.len(), length + "{\"jsonrpc\":\"2.0\",\"id\":\"the long one\",\"result\":[\"\"]}\n".len());
    assert!(
        line.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":\"the long one\",\"result\":[\"www"),
        "{}",
        shorten(&line)
    );
    assert!(line.ends_with(b"www\"]}\n"));
    let stdin = writer.join().expect("written");
    callers[0].give_stdin(stdin);
    for caller in &mut callers {
        expect_served(caller, 10);
    }
    // The steward returns the memory.
    let mut now = 0;
    let is_back = comes_true(PATIENCE, &mut || {
        now = memory(&many.steward(), "RssAnon");
        now < before + (4 << 20)
    });
    assert!(is_back, "{before} bytes before, {now} now");
    many.end_all(callers);
}

#[test]
fn a_line_that_is_too_long_is_answered_with_an_error_and_no_other_session_notices() {
    let many = Many::new();
    let mut callers = many.several(2, &["--max-line", "64K"]);
    for _ in 0..3 {
        let error = callers[0].error("big", json!({ "bytes": 100_000 }));
        assert_eq!(error["code"], -32603, "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("--max-line")), "{error}");
        let error = callers[0].error("echo", json!({ "text": "x".repeat(100_000) }));
        assert_eq!(error["code"], -32600, "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("--max-line")), "{error}");
        callers[0].tell("notifications/long", Some(json!({ "text": "x".repeat(100_000) })));
        let room = "x".repeat(65_000);
        assert_eq!(callers[0].result("echo", json!([room])), json!([room]));
        expect_served(&mut callers[1], 3);
    }
    for caller in &mut callers {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    let heard = many.stage.lives()[0].heard.clone();
    assert!(!heard.iter().any(|line| line.contains("notifications/long")));
    many.end_all(callers);
}

#[test]
fn lines_of_a_session_that_are_no_messages_reach_neither_the_child_nor_other_sessions() {
    let many = Many::new();
    let mut callers = many.several(2, &[]);
    let garbage: [(&[u8], i64); 10] = [
        (b"no JSON at all\n", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\n", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"echo\",\"params\":\"\xff\"}\n", -32700),
        (b"\"text\"\n", -32700),
        (b"17\n", -32700),
        (b"!{\"down\":{}}\n", -32700),
        (b"!\"heard\"\n", -32700),
        (b"\x00\x01\x02\n", -32700),
        (b"{\"some\":\"object\"}\n", -32600),
        (b"{}\n", -32600),
    ];
    for (line, code) in garbage {
        callers[0].write(line);
        let answer = callers[0].wait_for(&shorten(line), |message| message["error"].is_object());
        assert_eq!(answer["error"]["code"], code, "{}: {answer}", shorten(line));
        expect_served(&mut callers[1], 1);
    }
    // Empty lines and an answer to no request are ignored.
    callers[0].write(b"\n \n\r\n{\"jsonrpc\":\"2.0\",\"id\":\"nobody\",\"result\":{}}\n");
    for caller in &mut callers {
        expect_served(caller, 3);
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    let heard = many.stage.lives()[0].heard.clone();
    for line in &heard {
        let message: Value = serde_json::from_str(line).expect("JSON");
        assert!(message["method"].is_string(), "{line}");
    }
    many.end_all(callers);
}

/// The input ends in the middle of a line: the line is dropped.
#[test]
fn half_a_line_at_the_end_of_a_session_does_not_reach_the_child() {
    let many = Many::new();
    let mut callers = many.several(2, &[]);
    let mut leaving = callers.remove(0);
    leaving.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"half a line\"");
    many.end(leaving);
    expect_served(&mut callers[0], 3);
    assert_eq!(heard_of(&many.stage, "half a line"), 0);
    many.end_all(callers);
}

fn heard_of(stage: &Stage, what: &str) -> usize {
    stage.lives().iter().flat_map(|life| &life.heard).filter(|line| line.contains(what)).count()
}
