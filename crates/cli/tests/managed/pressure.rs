//! A slow host or child makes the other side wait. nostray uses no extra memory, and loses no line.

use std::io::Write;
use std::ops::Range;
use std::time::Duration;

use badchild::{Found, comes_true, wait_until};
use nostray_sys::Signal;
use nostray_sys::proc::bytes_moved;
use serde_json::{Value, json};
use testkit::stage::{Caller, Stage, shorten};

/// An upper bound for nostray's buffers, well below the amount of data that these tests send.
const LITTLE: u64 = 12 << 20;

fn begun(stage: &Stage, options: &[&str], server: &[&str]) -> Caller {
    let mut caller = stage.start(options, server);
    caller.initialize();
    caller
}

/// This entry of the process's `/proc/PID/status`, in bytes.
fn memory(found: &Found, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0 kB");
    line.trim().split(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("a number") * 1024
}

/// The highest peak of memory among nostray's processes, in bytes.
fn peak(stage: &Stage) -> u64 {
    stage.own().iter().map(|found| memory(found, "VmHWM:")).max().expect("a process of nostray")
}

/// Waits until a process moves no more bytes: it waits for its host or child.
fn wait_until_stuck(found: &Found) -> u64 {
    let mut last = 0;
    loop {
        // A process that can move bytes moves some within half a second.
        let moves = comes_true(Duration::from_millis(500), &mut || {
            let now = bytes_moved(found.stat.pid).expect("can be read");
            std::mem::replace(&mut last, now) != now
        });
        if !moves {
            return last;
        }
    }
}

#[test]
fn a_host_that_does_not_read_stalls_its_child_and_then_gets_everything() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn", "--hibernate", "200ms"], &[]);
    let before = peak(&stage);
    caller.pause(true);
    const COUNT: u64 = 2_000;
    const BYTES: usize = 100_000;
    let flood = caller.ask("flood", json!({ "count": COUNT, "bytes": BYTES }));
    // On a busy machine the child may have slept before.
    wait_until("the child has read the call", || {
        stage.lives().last().is_some_and(|life| life.methods().contains(&"flood".to_owned()))
    });
    let lives = stage.lives().len();
    let moved = wait_until_stuck(&stage.child());
    assert!(moved < 4 << 20, "the child could write {moved} bytes that the host does not read");
    assert!(peak(&stage) < before + LITTLE, "{} bytes", peak(&stage));
    assert_eq!(stage.lives().len(), lives, "the child was put to sleep with a call in flight");

    caller.pause(false);
    for n in 0..COUNT {
        let line = caller.next_line();
        let start = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"flood\",\"params\":{{\"n\":{n},\"text\":\"x");
        assert!(line.starts_with(start.as_bytes()), "{n}: {}", shorten(&line));
        assert!(line.len() >= BYTES && line.ends_with(b"x\"}}\n"), "{n}");
    }
    assert!(caller.answer(flood).get("result").is_some());
    assert!(peak(&stage) < before + LITTLE, "{} bytes", peak(&stage));
    caller.end(&stage);
}

/// stderr is for logs. The front drops lines rather than make the child wait.
#[test]
fn a_host_that_never_reads_stderr_does_not_stall_its_child() {
    let stage = Stage::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut caller = stage.start_in(&["--respawn"], &[], |command| {
        command.stderr(writer);
    });
    caller.initialize();
    let before = peak(&stage);
    for _ in 0..3 {
        caller.result("stderr", json!({ "text": "e".repeat(1000), "times": 5_000 }));
    }
    assert!(peak(&stage) < before + LITTLE, "{} bytes", peak(&stage));
    caller.result("stderr", json!({ "text": "almost the last" }));
    let error = caller.error("die", json!({ "text": "the last" }));
    let lines = error["data"]["nostray"]["stderr"].as_array().expect("lines").clone();
    assert_eq!(lines[18..], ["almost the last", "the last"], "the front must keep lines that the host does not read");
    caller.who();
    caller.end(&stage);
    drop(reader);
}

/// The host has closed its end of stderr. No process of nostray dies of SIGPIPE, and the session goes on.
#[test]
fn a_host_that_has_closed_stderr_does_not_stall_its_child() {
    let stage = Stage::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut caller = stage.start_in(&["--respawn"], &["--stderr", "hello"], |command| {
        command.stderr(writer);
    });
    caller.initialize();
    caller.result("stderr", json!({ "text": "e".repeat(1000), "times": 1_000 }));
    caller.error("die", json!({ "text": "the last" }));
    caller.who();
    caller.end(&stage);
}

#[test]
fn a_child_that_does_not_read_stalls_its_host_and_then_gets_everything() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"], &[]);
    let before = peak(&stage);
    let go = stage.file("go");
    caller.result("stop-reading", json!({ "file": go }));
    const COUNT: usize = 400;
    let text = "y".repeat(100_000);
    let mut stdin = caller.take_stdin();
    let writer = std::thread::spawn(move || {
        for n in 0..COUNT {
            let line =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":\"n{n}\",\"method\":\"echo\",\"params\":[\"{text}\"]}}\n");
            stdin.write_all(line.as_bytes()).expect("write");
        }
        stdin
    });
    let front = Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small"))).expect("is there");
    wait_until_stuck(&front);
    assert!(!writer.is_finished(), "the host could write 40 MB that the child does not read");
    assert!(peak(&stage) < before + LITTLE, "{} bytes", peak(&stage));
    std::fs::write(&go, "").expect("write");
    for n in 0..COUNT {
        let line = caller.next_line();
        assert!(
            line.starts_with(format!("{{\"jsonrpc\":\"2.0\",\"id\":\"n{n}\",\"result\"").as_bytes()),
            "{}",
            shorten(&line)
        );
        assert!(line.len() > 100_000);
    }
    caller.give_stdin(writer.join().expect("no panic"));
    assert!(peak(&stage) < before + LITTLE, "{} bytes", peak(&stage));
    caller.end(&stage);
}

/// The front sees that its host closes, or gets a signal, although the child does not read the host's lines.
#[test]
fn a_child_that_does_not_read_does_not_keep_the_session_alive() {
    for way in ["closed", "signal", "killed"] {
        let stage = Stage::new();
        let options = ["--respawn", "--eof-grace", "200ms", "--term-grace", "200ms"];
        let mut caller = begun(&stage, &options, &[]);
        caller.result("stop-reading", json!({ "file": stage.file("never") }));
        let mut stdin = caller.take_stdin();
        let writer = std::thread::spawn(move || {
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\"{}\"]}}\n",
                "y".repeat(50_000)
            );
            // Until the front has ended.
            for _ in 0..6 {
                if stdin.write_all(line.as_bytes()).is_err() {
                    break;
                }
            }
            stdin
        });
        let front =
            Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small"))).expect("is there");
        wait_until_stuck(&front);
        match way {
            "closed" => drop(writer.join().expect("no panic")),
            "signal" => front.send(Signal::TERM),
            _ => front.send(Signal::KILL),
        }
        stage.scene.expect_empty();
    }
}

#[test]
fn memory_for_lines_that_wait_for_a_slow_start_is_bounded() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn"], &["--plain", "--start-delay", "1500"]);
    wait_until("the child has started", || stage.lives().len() == 1);
    let before = peak(&stage);
    const COUNT: usize = 20_000;
    let text = "y".repeat(2_000);
    let mut stdin = caller.take_stdin();
    let writer = std::thread::spawn(move || {
        for n in 0..COUNT {
            let line =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":\"n{n}\",\"method\":\"echo\",\"params\":[\"{text}\"]}}\n");
            stdin.write_all(line.as_bytes()).expect("write");
        }
        stdin
    });
    for n in 0..COUNT {
        let line = caller.next_line();
        assert!(
            line.starts_with(format!("{{\"jsonrpc\":\"2.0\",\"id\":\"n{n}\",\"result\"").as_bytes()),
            "{}",
            shorten(&line)
        );
    }
    assert!(peak(&stage) < before + LITTLE, "{} bytes", peak(&stage));
    caller.give_stdin(writer.join().expect("no panic"));
    caller.end(&stage);
}

/// The front's own errors are bounded as well: it stops reading from a host that does not read answers.
#[test]
fn a_host_that_asks_and_does_not_read_is_stalled_also_without_a_child() {
    let stage = Stage::new();
    let options = ["--backoff", "1ms..2ms", "--max-failures", "2/1h"];
    let mut caller = stage.start(&options, &["--stderr", &"why ".repeat(100), "--exit-at-once", "1"]);
    wait_until("the server is given up", || stage.states() == ["tripped"]);
    let before = peak(&stage);
    caller.pause(true);
    const COUNT: usize = 100_000;
    let mut stdin = caller.take_stdin();
    let writer = std::thread::spawn(move || {
        for n in 0..COUNT {
            if writeln!(stdin, "{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"echo\"}}").is_err() {
                break;
            }
        }
    });
    let front = Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small"))).expect("is there");
    wait_until_stuck(&front);
    assert!(!writer.is_finished(), "the front read on although the host does not read");
    assert!(peak(&stage) < before + LITTLE, "{} bytes", peak(&stage));
    // The front goes on where it stopped, and answers each call in order.
    caller.pause(false);
    for n in 0..2_000 {
        let answer: Value = serde_json::from_slice(&caller.next_line()).expect("JSON");
        assert_eq!((answer["id"].as_u64(), answer["error"]["code"].as_i64()), (Some(n), Some(-32000)));
    }
    caller.process.kill().expect("kill");
    writer.join().expect("no panic");
    stage.scene.expect_empty();
}

/// Lines of many lengths, in both directions at once: all arrive, in order.
#[test]
fn traffic_in_both_directions_is_passed_on_whole_and_in_order() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"], &[]);
    let lengths: Vec<usize> = (0..300).map(|n| (n * n * 37) % 200_000).collect();
    let mut stdin = caller.take_stdin();
    let sent = lengths.clone();
    let writer = std::thread::spawn(move || {
        for (n, length) in sent.into_iter().enumerate() {
            let text = "z".repeat(length);
            writeln!(stdin, "{{\"jsonrpc\":\"2.0\",\"id\":\"n{n}\",\"method\":\"echo\",\"params\":[\"{text}\"]}}")
                .expect("write");
        }
        stdin
    });
    for (n, length) in lengths.into_iter().enumerate() {
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"n{n}\",\"result\":[\"{}\"]}}\n", "z".repeat(length));
        assert!(caller.next_line() == expected.as_bytes(), "{n}");
    }
    caller.give_stdin(writer.join().expect("no panic"));
    caller.end(&stage);
}

/// Calls what never answers, and cancels it, once for each number. The child has read all of it when this returns.
fn cancel_calls(caller: &mut Caller, ids: Range<u64>) {
    let (mut stdin, mut lines) = (caller.take_stdin(), String::new());
    for id in ids.clone() {
        let cancel =
            format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}},"jsonrpc":"2.0"}}"#);
        lines += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"hang\"}}\n{cancel}\n");
        if lines.len() > 32 << 10 || id + 1 == ids.end {
            stdin.write_all(lines.as_bytes()).expect("nostray reads");
            lines.clear();
        }
    }
    caller.give_stdin(stdin);
    caller.who();
}

/// Most servers never answer a cancelled call, and a session lasts for days.
#[test]
fn calls_that_were_cancelled_and_are_never_answered_take_no_memory() {
    const COUNT: u64 = 12_000;
    for how in ["run", "share"] {
        let stage = Stage::new();
        let badchild = badchild::badchild().display().to_string();
        let options: &[&str] = if how == "run" { &["--respawn"] } else { &["--linger", "0s"] };
        let mut caller = stage.launch(how, options, &[&badchild, "server"], |_| {});
        caller.initialize();
        caller.who();
        cancel_calls(&mut caller, 1000..2 * COUNT);
        let memory = |found: &Found| memory(found, "RssAnon:");
        let mut last = 0;
        // What the first of them needed, the next ones need again. How many come at a time, and so how large a buffer was, depends on the
        // load of the machine; but a leak grows in every round.
        let is_flat = (2..6).any(|round| {
            let before: Vec<_> = stage.own().into_iter().map(|found| (memory(&found), found)).collect();
            cancel_calls(&mut caller, round * COUNT..(round + 1) * COUNT);
            let mut grown = || {
                last = before.iter().map(|(before, found)| memory(found).saturating_sub(*before)).max().unwrap_or(0);
                last
            };
            comes_true(Duration::from_secs(5), &mut || grown() < 256 << 10)
        });
        assert!(is_flat, "{how}: {last} bytes more for {COUNT} calls");
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    }
}
