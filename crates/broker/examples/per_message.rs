//! What nostray does to a short message beside the system calls: the session of a front, and the router of a steward, with 256 calls in
//! flight, in nanoseconds a message and direction.
//!
//! `cargo run --release -p nostray-broker --example per_message`. Under `valgrind --tool=callgrind` it counts instructions, which other
//! load does not change; docs/benchmarks.md quotes them.
#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use std::time::{Duration, Instant};

use nostray_broker::{FromChild, FromSession, ReverseTo, Router, Routing, SessionId};
use nostray_registry::Traffic;
use nostray_rpc::{Found, Lines};
use nostray_supervise::{Generation, Moment, Policy, Protocol, Session, Settings, Verdict};

const IN_FLIGHT: usize = 256;
const ROUNDS: u32 = 400;
const LENGTH: usize = 200;
const NOW: Moment = Moment::from_secs(1);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
const HELLO: &str =
    r#","result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn main() {
    for (who, [there, back]) in [("session", session()), ("router", router())] {
        let messages = f64::from(ROUNDS) * IN_FLIGHT as f64;
        let [there, back] = [there, back].map(|time| time.as_nanos() as f64 / messages);
        println!("{who}: {there:.0} ns there, {back:.0} ns back");
    }
}

/// A call of 200 bytes.
fn call(id: usize) -> String {
    let begin = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":""#
    );
    let end = "\"}}}\n";
    format!("{begin}{}{end}", "x".repeat(LENGTH - begin.len() - end.len()))
}

/// Its result.
fn result(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"message":"{}"}}}}}}"#,
        "x".repeat(120)
    ) + "\n"
}

fn calls(round: u32) -> String {
    (0..IN_FLIGHT).map(|at| call(1_000_000 + round as usize * IN_FLIGHT + at)).collect()
}

/// The id of a line.
fn id(line: &str) -> &str {
    let rest = line.split_once("\"id\":").map_or("", |(_, rest)| rest);
    rest.split_once(',').map_or("", |(id, _)| id)
}

/// Hands each line to `take`, and returns how long that took.
fn each_line(text: &str, lines: &mut Lines, mut take: impl FnMut(&[u8], &[u8])) -> Duration {
    lines.space()[..text.len()].copy_from_slice(text.as_bytes());
    lines.filled(text.len());
    let start = Instant::now();
    while let Some(Found::Whole(span)) = lines.next_found() {
        take(lines.bytes(span.text), lines.bytes(span.raw));
    }
    start.elapsed()
}

/// The front of a supervised child.
fn session() -> [Duration; 2] {
    let settings =
        Settings { protocol: Protocol::Mcp, policy: Policy::default(), replay: Vec::new(), call_timeout: None };
    let mut session = Session::new(settings, None, false, 1);
    Traffic::new().into_iter().for_each(|traffic| session.count_traffic(traffic));
    session.begin(NOW);
    session.child_started(Generation(1), NOW);
    session.host_says(INITIALIZE.as_bytes(), INITIALIZE.as_bytes(), NOW);
    session.child_says(format!(r#"{{"jsonrpc":"2.0","id":0{HELLO}"#).as_bytes(), NOW);
    session.host_says(INITIALIZED.as_bytes(), INITIALIZED.as_bytes(), NOW);
    session.effects();
    let (mut lines, mut times) = (Lines::new(usize::MAX), [Duration::ZERO; 2]);
    for round in 0..ROUNDS {
        let calls = calls(round);
        times[0] += each_line(&calls, &mut lines, |text, raw| {
            assert_eq!(session.host_says(text, raw, NOW), Verdict::Forward);
        });
        let results: String = calls.lines().map(|call| result(id(call))).collect();
        times[1] += each_line(&results, &mut lines, |text, _| {
            assert_eq!(session.child_says(text, NOW), Verdict::Forward);
        });
    }
    times
}

/// The steward of a shared child with one session.
fn router() -> [Duration; 2] {
    const ONLY: SessionId = SessionId(1);
    let mut random = nostray_sys::process::random_numbers();
    let ids = Box::new(move || (random() >> 11).cast_signed().max(1));
    let routing =
        Routing { protocol: Protocol::Mcp, reverse: ReverseTo::default(), route_by: Vec::new(), window: IN_FLIGHT };
    let mut router = Router::new(routing, ids);
    Traffic::new().into_iter().for_each(|traffic| router.count_traffic(traffic));
    router.join(ONLY);
    let FromSession::ToChild(edits) = router.session_says(ONLY, INITIALIZE.as_bytes(), NOW) else { return [NOW; 2] };
    let told = String::from_utf8_lossy(&edits.line(INITIALIZE.as_bytes())).into_owned();
    router.child_says(format!(r#"{{"jsonrpc":"2.0","id":{}{HELLO}"#, id(&told)).as_bytes(), NOW);
    router.session_says(ONLY, INITIALIZED.as_bytes(), NOW);
    router.effects();
    let (mut lines, mut times, mut out) = (Lines::new(usize::MAX), [Duration::ZERO; 2], Vec::new());
    for round in 0..ROUNDS {
        out.clear();
        times[0] += each_line(&calls(round), &mut lines, |text, _| match router.session_says(ONLY, text, NOW) {
            FromSession::ToChild(edits) => {
                edits.apply(text, &mut out);
                out.push(b'\n');
            }
            other => panic!("{other:?}"),
        });
        let results: String = String::from_utf8_lossy(&out).lines().map(|call| result(id(call))).collect();
        out.clear();
        times[1] += each_line(&results, &mut lines, |text, _| match router.child_says(text, NOW) {
            FromChild::To(_, edits) => {
                edits.apply(text, &mut out);
                out.push(b'\n');
            }
            other => panic!("{other:?}"),
        });
    }
    times
}
