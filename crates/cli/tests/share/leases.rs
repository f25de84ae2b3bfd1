//! A session is a lease. It ends with its input, its front or its host. After the last lease the child lingers for the
//! next session. A session that comes while the child is being ended gets the next child.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use badchild::{PATIENCE, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::sharing::{BY_COMMAND, Watch, kill, release};
use testkit::stage::Stage;
use testkit::{in_parallel, nostray};

const NOT_LONG: Duration = Duration::from_millis(300);

#[test]
fn a_session_that_comes_during_the_linger_gets_the_same_child() {
    let stage = Stage::new();
    // Long enough to come back in time on a busy machine.
    let options = ["--linger", "15s"];
    let mut first = stage.shared(&options, &[]);
    let pid = first.pid();
    // A session ends when the steward has let go of it.
    release(first);
    let mut second = stage.shared(&options, &[]);
    assert_eq!(second.pid(), pid);
    // A session stops the linger, and the last release starts it anew. Wait longer than the linger to prove that.
    std::thread::sleep(Duration::from_millis(15_100));
    assert_eq!(second.pid(), pid);
    release(second);
    let mut third = stage.shared(&options, &[]);
    assert_eq!(third.pid(), pid);
    let released = Instant::now();
    release(third);
    stage.expect_no_tree();
    assert!(released.elapsed() >= Duration::from_secs(15), "ended after {:?}", released.elapsed());
    stage.expect_over(1, NOT_LONG);
    assert_eq!(stage.lives()[0].methods().iter().filter(|method| *method == "initialize").count(), 1);
}

/// What is in flight when a host ends its input may still be answered; but not if the host reads no more.
#[test]
fn a_session_whose_host_has_closed_both_ways_ends_at_once_with_a_call_in_flight() {
    let stage = Stage::new();
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let server = stage.server(&[]);
    let mut share = stage.scene.command(&nostray());
    share.args(["share", "--linger", "0s", "--eof-grace", "12s", "--term-grace", "500ms", "--"]).args(&server);
    share.stdin(OwnedFd::from(theirs.try_clone().expect("a copy"))).stdout(OwnedFd::from(theirs));
    let mut front = share.spawn().expect("start");
    drop(share);
    let mut lines = BufReader::new(ours.try_clone().expect("a copy"));
    for (id, method) in [(1, "initialize"), (2, "hang"), (3, "who")] {
        writeln!(&ours, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} })).expect("write");
    }
    let mut line = String::new();
    while !line.contains("\"id\":3") {
        line.clear();
        assert!(lines.read_line(&mut line).expect("read") > 0, "the session has ended");
    }
    ours.shutdown(Shutdown::Both).expect("shut down");
    // Long before the grace, which the child still has: it is in the middle of the call.
    let ended = badchild::comes_true(Duration::from_secs(6), &mut || front.try_wait().expect("look").is_some());
    assert!(ended, "it waits for an answer that no process reads");
    stage.expect_no_tree();
}

/// Short graces, so that a child ends soon, also in the middle of its start.
const IMPATIENT: [&str; 4] = ["--eof-grace", "100ms", "--term-grace", "100ms"];

/// A host gives up before the server has started, and tries again. It finds the start that its first try began.
#[test]
fn a_child_that_is_starting_is_kept_for_the_next_session_of_an_impatient_host() {
    in_parallel(vec![&[][..], &["--hibernate", "300ms"], &["--start-timeout", "1m"]], |options| {
        let stage = Stage::new();
        let options = [&["--linger", "400ms"], &IMPATIENT[..], options].concat();
        let server = ["--start-delay", "5000"];
        let mut impatient = stage.share(&options, &server);
        impatient.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
        assert_eq!(impatient.line_within(Duration::from_secs(1)), None);
        drop(impatient);
        // Longer than the linger.
        std::thread::sleep(Duration::from_millis(800));
        let mut served = stage.shared(&options, &server);
        served.who();
        assert_eq!(stage.lives().len(), 1, "{options:?}: {:#?}\n{}", stage.lives(), stage.journal());
        let released = Instant::now();
        release(served);
        stage.expect_over(1, NOT_LONG);
        assert!(released.elapsed() < PATIENCE, "the linger must count as usual after the start");
    });
}

/// The linger counts from ready. No session comes back, so the child ends after it has answered.
#[test]
fn a_child_that_its_only_session_left_while_it_was_starting_ends_after_it_is_ready() {
    let stage = Stage::new();
    let mut caller = stage.share(&[&["--linger", "300ms"], &IMPATIENT[..]].concat(), &["--start-delay", "2000"]);
    caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    stage.wait_for_life(1);
    wait_until("the child has the handshake in its pipe", || {
        stage.states() == ["starting"] && stage.child().unread_input() > 0
    });
    drop(caller);
    stage.scene.expect_empty();
    assert!(stage.lives()[0].saw_the_end, "{:#?}", stage.lives());
    assert_eq!(stage.lives()[0].methods(), ["initialize"]);
}

/// Neither the end of its input nor SIGTERM ends the child, so that sessions can come while it is being ended.
#[test]
fn a_session_that_comes_while_the_child_is_being_ended_waits_and_gets_the_next_child() {
    let stage = Arc::new(Stage::new());
    let watch = Watch::over(&stage);
    let options = ["--linger", "0s", "--eof-grace", "1s", "--term-grace", "3s"];
    // The server itself ignores SIGTERM only when it has read the end of its input, which may be too late.
    let server = stage.server(&["--claim", &stage.file("claim"), "--ignore-eof"]);
    let mut command = vec!["sh", "-c", "trap '' TERM; exec \"$@\"", "sh"];
    command.extend(server.iter().map(String::as_str));
    let mut first = stage.share_command(&options, &command);
    first.initialize();
    first.pid();
    let old = stage.child();
    let began = Instant::now();
    release(first);
    wait_until("the child is being ended", || stage.lives()[0].saw_the_end);
    // Several sessions at once.
    let mut next: Vec<_> = (0..3).map(|_| stage.share_command(&options, &command)).collect();
    for caller in &mut next {
        // The front answers the handshake from memory. The call waits for the next child.
        caller.initialize();
        caller.pid();
        assert!(!old.is_alive(), "the old child still lives after {:?}", began.elapsed());
    }
    assert!(
        began.elapsed() >= Duration::from_secs(4),
        "the next child came before the graces were over: {:?}",
        began.elapsed()
    );
    assert_eq!(stage.lives().len(), 2);
    let pid = i64::from(stage.lives()[1].pid);
    for caller in &mut next {
        assert_eq!(caller.pid(), pid);
    }
    next.into_iter().for_each(release);
    stage.expect_over(2, NOT_LONG);
    watch.expect_one();
}

/// Each end happens beside a session that goes on.
#[test]
fn a_session_ends_with_its_input_with_its_front_and_with_its_host() {
    in_parallel(vec!["input", "front", "SIGTERM", "host", "host, with the pipe held"], |end| {
        let stage = Stage::new();
        let mut other = stage.shared(&BY_COMMAND, &[]);
        let pid = other.pid();
        let hold = if end.contains("held") { &["--hold"][..] } else { &[] };
        let (mut host, front) = stage.shared_by_host(hold, &BY_COMMAND, &[]);
        stage.wait_for_leases(&[2]);
        host.say(&json!({ "jsonrpc": "2.0", "id": 3, "method": "hang", "params": {} }).to_string());
        wait_until("the call is in flight", || {
            stage.lives()[0].methods().last().is_some_and(|method| method == "hang")
        });
        match end {
            "input" => host.order("close"),
            "front" => front.send(Signal::KILL),
            "SIGTERM" => front.send(Signal::TERM),
            _ => host.kill(),
        }
        stage.wait_for_leases(&[1]);
        wait_until("the front is gone", || !front.is_alive());
        // No session waits for the call any more, so the steward cancels it.
        wait_until("the call is cancelled", || {
            stage.lives()[0].methods().iter().any(|m| m == "notifications/cancelled")
        });
        assert_eq!(other.pid(), pid, "{end}: the other session's child changed");
        assert_eq!(other.unasked(), Vec::<Value>::new(), "{end}");
        drop(host);
        release(other);
        stage.expect_over(1, NOT_LONG);
    });
}

#[test]
fn calls_in_flight_at_the_end_of_the_input_are_still_answered() {
    for others in [0, 2] {
        let stage = Stage::new();
        let options = ["--linger", "0s", "--eof-grace", "10m"];
        let others: Vec<_> = (0..others).map(|_| stage.shared(&options, &[])).collect();
        let mut caller = stage.shared(&options, &[]);
        let slow: Vec<_> = [300, 10, 600].map(|ms| caller.ask("slow", json!({ "ms": ms }))).into();
        let quick = caller.ask("who", json!({}));
        let began = Instant::now();
        caller.close();
        for id in slow.into_iter().chain([quick]) {
            assert!(caller.answer(id).get("result").is_some());
        }
        assert_eq!(caller.code(), 0, "{}", caller.errors());
        assert!(
            began.elapsed() < PATIENCE,
            "the front waited although all calls were answered: {:?}",
            began.elapsed()
        );
        others.into_iter().for_each(release);
        stage.expect_over(1, NOT_LONG);
        assert!(stage.lives()[0].saw_the_end);
    }
}

/// The host writes its whole input at once, as with a file as stdin, before there is a broker or a child.
#[test]
fn a_session_that_writes_everything_before_there_is_a_child_gets_every_answer() {
    let stage = Stage::new();
    for round in 1..=2 {
        let options = ["--linger", "0s", "--eof-grace", "10m"];
        let mut caller = stage.share(&options, &["--start-delay", "200"]);
        let hello = caller.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
        caller.tell("notifications/initialized", None);
        let ids: Vec<_> = (0..20).map(|n| caller.ask("echo", json!({ "n": n }))).collect();
        caller.close();
        assert!(caller.answer(hello).get("result").is_some());
        for (n, id) in ids.into_iter().enumerate() {
            assert_eq!(caller.answer(id)["result"], json!({ "n": n }));
        }
        assert_eq!(caller.code(), 0, "{}", caller.errors());
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), round);
    }
}

/// A stopped front cannot notice that its host has died. Its lease ends all the same.
#[test]
fn a_front_that_is_stopped_while_its_host_dies_holds_nothing() {
    let stage = Stage::new();
    let (mut host, front) = stage.shared_by_host(&["--hold"], &BY_COMMAND, &[]);
    stage.wait_for_leases(&[1]);
    front.send(Signal::STOP);
    wait_until("the front is stopped", || front_state(&front) == Some('T'));
    host.kill();
    stage.expect_no_tree();
    kill(&[front]);
    drop(host);
    stage.expect_over(1, NOT_LONG);
}

fn front_state(front: &badchild::Found) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", front.stat.pid)).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
