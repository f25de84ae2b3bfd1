//! What a client can take is bounded, also without the token: heads, connections, time; and a viewer that does not read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use badchild::PATIENCE;
use nostray_sys::proc::memory_of;
use testkit::stage::Stage;

use super::http::{Web, next_event};
use crate::supervised;

/// A head may take 10 s; what a busy machine adds.
const HEAD_TIMEOUT: Duration = Duration::from_secs(25);

#[test]
fn a_huge_head_is_refused() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let long = "x".repeat(100_000);
    let statuses = [
        web.get("/", &[("X-Long", &long)]).status,
        web.get(&format!("/{long}"), &[]).status,
        web.get("/", &vec![("X-Many", "y"); 500]).status,
        // Without an end, and without a sense.
        web.send(&vec![b'x'; 1_000_000]).status,
        web.send(b"\0\r\n\r\n").status,
    ];
    // A connection that is reset while the client still writes shows no status.
    assert!(statuses.iter().all(|status| [0, 400, 414, 431].contains(status)), "{statuses:?}");
    assert_eq!(web.get("/", &[]).status, 200);
    web.end();
}

/// More than the server takes at once, none of which ever ends its head.
#[test]
fn slow_clients_are_cut_off_and_others_are_served() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut slow: Vec<TcpStream> = (0..200).map(|_| web.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: ").expect("write");
    }
    let began = Instant::now();
    assert_eq!(web.get("/", &[]).status, 200);
    assert!(began.elapsed() < 2 * HEAD_TIMEOUT, "{:?}", began.elapsed());
    // Cut off, or told that it took too long: its end comes.
    let mut answer = Vec::new();
    slow[0].read_to_end(&mut answer).ok();
    web.end();
}

/// It misses changes, and gets another snapshot; meanwhile nothing is kept for it.
#[test]
fn a_viewer_that_does_not_read_makes_nothing_grow() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let caller = supervised(&stage, "one");
    let mut reading = web.events();
    next_event(&mut reading, "snapshot");
    let _stalled: Vec<_> = (0..20).map(|_| web.events()).collect();
    let pid = badchild::pid(i32::try_from(web.process.id()).expect("a pid"));
    let before = memory_of(pid).expect("memory");
    // Time itself is tested here: one change a second.
    for _ in 0..5 {
        next_event(&mut reading, "change");
    }
    let after = memory_of(pid).expect("memory");
    assert!(after < before + (8 << 20), "{before} before, {after} after");
    drop(reading);
    web.end();
    caller.end(&stage);
}

#[test]
fn without_a_viewer_it_does_nothing() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut viewer = web.events();
    next_event(&mut viewer, "change");
    drop(viewer);
    let switches = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", web.process.id())).expect("tasks").flatten();
        let of = |status: String| -> u64 {
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).expect("a line");
            line.split_whitespace().last().and_then(|number| number.parse().ok()).expect("a number")
        };
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok()).map(of).sum()
    };
    // The server notices that a viewer has left when it sends the next change.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = switches();
        // Time itself is tested here.
        std::thread::sleep(Duration::from_secs(3));
        if switches() == before {
            break;
        }
        assert!(Instant::now() < deadline, "it goes on working for no viewer");
    }
    web.end();
}
