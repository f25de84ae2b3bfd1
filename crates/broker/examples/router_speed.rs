//! What a message costs in the router: `cargo run --release -p nostray-broker --example router_speed`.
#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use nostray_broker::{FromChild, FromSession, ReverseTo, Router, Routing, SessionId};
use nostray_supervise::{Moment, Protocol};

/// The allocator of `nostray`.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: nostray_sys::allocator::Allocator = nostray_sys::allocator::Allocator;

fn main() {
    let small = "/home/someone/project/src/main.rs";
    let text = "all work and no play ".repeat(50_000);
    let rows = vec![r#"{\"id\":1234,\"name\":\"thing\",\"tags\":[1,2,3]}"#; 20_000].join(",");
    println!("{:60} {:>9} {:>12} {:>12}", "", "bytes", "a request", "a result");
    for (name, body) in [("small", small), ("a mebibyte of text", &text), ("a mebibyte with escapes", &rows)] {
        for modern in [false, true] {
            for id_last in [false, true] {
                for sessions in [1, 8] {
                    run(name, body, modern, id_last, sessions);
                }
            }
        }
    }
}

fn run(name: &str, body: &str, modern: bool, id_last: bool, sessions: u64) {
    let mut router = {
        let mut last = 0;
        let counted = move || {
            last += 1;
            last
        };
        let routing =
            Routing { protocol: Protocol::Mcp, reverse: ReverseTo::Certain, route_by: Vec::new(), window: 1024 };
        Router::new(routing, Box::new(counted))
    };
    let now = Moment::ZERO;
    let version = if modern {
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"#
    } else {
        ""
    };
    let params = format!(
        r#"{{"name":"read_file","arguments":{{"path":"{body}"}},"_meta":{{{version}"progressToken":4711}}}}"#
    );
    let request = if id_last {
        format!(r#"{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":4711}}"#)
    } else {
        format!(r#"{{"jsonrpc":"2.0","id":4711,"method":"tools/call","params":{params}}}"#)
    };
    let result = |id: u64| {
        let body =
            format!(r#"{{"content":[{{"type":"text","text":"{body}"}}],"resultType":"complete","isError":false}}"#);
        if id_last {
            format!(r#"{{"result":{body},"jsonrpc":"2.0","id":{id:06}}}"#).replace(r#""id":0"#, r#""id":1"#)
        } else {
            format!(r#"{{"jsonrpc":"2.0","id":{id:06},"result":{body}}}"#).replace(r#""id":0"#, r#""id":1"#)
        }
    };
    // The id is written over in place, so that making a line is not measured.
    let mut answer = result(0).into_bytes();
    let place = answer.windows(11).position(|window| window == br#""id":100000"#).expect("the id") + 5;

    for session_id in 1..=sessions {
        router.join(SessionId(session_id));
    }
    let mut next: u64 = 0;
    if !modern {
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
        for session_id in 1..=sessions {
            router.session_says(SessionId(session_id), hello.as_bytes(), now);
            if session_id == 1 {
                next += 1;
                router.child_says(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, now);
            }
        }
        router.effects();
    }
    // Ids of six digits.
    while next < 100_000 {
        next += 1;
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert!(matches!(router.session_says(SessionId(1), line, now), FromSession::ToChild(_)));
        router.child_says(format!(r#"{{"jsonrpc":"2.0","id":{next},"result":{{}}}}"#).as_bytes(), now);
    }

    let group = if request.len() > 10_000 { 8 } else { 64 };
    // Other programs run too, so the best group counts.
    let (mut asking, mut answering) = (Duration::MAX, Duration::MAX);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) && next + group < 1_000_000 {
        let before = Instant::now();
        for turn in 0..group {
            let verdict = router.session_says(SessionId(turn % sessions + 1), black_box(request.as_bytes()), now);
            assert!(matches!(black_box(verdict), FromSession::ToChild(_)));
        }
        asking = asking.min(before.elapsed());
        let mut spent = Duration::ZERO;
        for _ in 0..group {
            next += 1;
            answer[place..place + 6].copy_from_slice(next.to_string().as_bytes());
            let before = Instant::now();
            let verdict = router.child_says(black_box(&answer), now);
            spent += before.elapsed();
            assert!(matches!(black_box(verdict), FromChild::To(..)));
        }
        answering = answering.min(spent);
    }
    let show = |time: Duration| {
        let one = time.as_secs_f64() / group as f64;
        if one < 1e-6 { format!("{:.0} ns", one * 1e9) } else { format!("{:.1} us", one * 1e6) }
    };
    let layout = if id_last { "id last" } else { "id first" };
    let era = if modern { "newer era" } else { "older era" };
    let name = format!("{name}, {era}, {layout}, {sessions} session{}", if sessions > 1 { "s" } else { "" });
    println!("{name:60} {:>9} {:>12} {:>12}", request.len(), show(asking), show(answering));
}
