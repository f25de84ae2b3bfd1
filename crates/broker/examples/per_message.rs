//! What nostray does to a short message beside the system calls: the session of a front, and the router of a steward, with 256 calls in
//! flight; and beside them what the least costs that any program could do with the same bytes. docs/benchmarks.md quotes it.
//!
//! `cargo run --release -p nostray-broker --example per_message` prints nanoseconds a message and direction, of the fastest of many
//! rounds. With `-- --count` it runs itself under `valgrind --tool=callgrind` and prints instructions, which other load does not change.
#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use nostray_broker::{FromChild, FromSession, ReverseTo, Router, Routing, SessionId};
use nostray_registry::Traffic;
use nostray_rpc::{Found, Lines};
use nostray_supervise::{Generation, Moment, Policy, Protocol, Session, Settings, Verdict};
use nostray_sys::masks::{BLOCK, Masks};
use serde_json::value::RawValue;

const IN_FLIGHT: usize = 256;
const ROUNDS: u32 = 400;
/// Instructions do not vary.
const ROUNDS_COUNTED: u32 = 40;
const LENGTH: usize = 200;
const NOW: Moment = Moment::from_secs(1);
const ONLY: SessionId = SessionId(1);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
const HELLO: &str =
    r#","result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// What is measured, there and back. Each has a function of its own, by whose name callgrind counts; it says that name, since the compiler
/// merges functions that do the same.
type Measured<'a> = (&'static str, [&'static str; 2], Box<dyn FnOnce(u32) -> [Duration; 2] + 'a>);

fn main() {
    let measured: [Measured<'_>; 6] = [
        ("front", ["front_there", "front_back"], Box::new(front)),
        ("steward", ["steward_there", "steward_back"], Box::new(|rounds| steward(rounds, false))),
        ("steward, no two calls alike", ["varied_there", "varied_back"], Box::new(|rounds| steward(rounds, true))),
        ("least: line ends, and a copy", ["ends_there", "ends_back"], Box::new(ends)),
        ("least: one look at every byte", ["masks_there", "masks_back"], Box::new(masks)),
        ("serde_json: id and method", ["serde_there", "serde_back"], Box::new(serde)),
    ];
    match &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        [] => {
            println!("{:32}{:>8}{:>8}", "ns a message", "there", "back");
            for (who, _, run) in measured {
                let [there, back] = run(ROUNDS).map(|time| time.as_nanos() as f64 / IN_FLIGHT as f64);
                println!("{who:32}{there:>8.0}{back:>8.0}");
            }
        }
        [option] if option == "--count" => {
            println!("{:32}{:>8}{:>8}", "instructions a message", "there", "back");
            for (who, functions, _) in measured {
                let [there, back] =
                    functions.map(|function| counted(function) / f64::from(ROUNDS_COUNTED) / IN_FLIGHT as f64);
                println!("{who:32}{there:>8.0}{back:>8.0}");
            }
        }
        // Started by callgrind for one function: no other has to run.
        [function] => {
            for (_, functions, run) in measured {
                if functions.contains(&function.as_str()) {
                    run(ROUNDS_COUNTED);
                }
            }
        }
        _ => println!("nothing, or --count"),
    }
}

/// The instructions inside of a function, by callgrind.
fn counted(function: &str) -> f64 {
    let this = std::env::current_exe().expect("this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=per_message::{function}"))
        .arg(this)
        .arg(function)
        .output()
        .expect("valgrind is installed");
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim().parse());
    count.expect("callgrind says what it has counted").expect("a number")
}

/// A call of 200 bytes. Of varied calls no two that are near each other have the same members.
fn call(id: usize, varied: bool) -> String {
    let name = if varied { format!("message{}", id % 97) } else { "message".to_owned() };
    let begin = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"{name}":""#
    );
    let end = "\"}}}\n";
    format!("{begin}{}{end}", "x".repeat(LENGTH - begin.len() - end.len()))
}

/// Its result.
fn result(call: &str, varied: bool) -> String {
    let id = id(call);
    let name =
        if varied { format!("message{}", id.len() + call.len() * id.len() % 97) } else { "message".to_owned() };
    let before = if varied { &id[id.len() - 2..] } else { "" };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"{name}{before}":"{}"}}}}}}"#,
        "x".repeat(120)
    ) + "\n"
}

fn calls(round: u32, varied: bool) -> String {
    (0..IN_FLIGHT).map(|at| call(1_000_000 + round as usize * IN_FLIGHT + at, varied)).collect()
}

fn results(calls: &str, varied: bool) -> String {
    calls.lines().map(|call| result(call, varied)).collect()
}

/// The id of a line.
fn id(line: &str) -> &str {
    let rest = line.split_once("\"id\":").map_or("", |(_, rest)| rest);
    rest.split_once(',').map_or("", |(id, _)| id)
}

/// Lines that have just been read.
fn lines_of(text: &str, lines: &mut Lines) {
    lines.space()[..text.len()].copy_from_slice(text.as_bytes());
    lines.filled(text.len());
}

/// Hands each line to `take`.
#[inline(always)]
fn each_line(lines: &mut Lines, mut take: impl FnMut(&[u8], &[u8])) {
    while let Some(Found::Whole(span)) = lines.next_found() {
        take(lines.bytes(span.text), lines.bytes(span.raw));
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// The front of a supervised child.
fn front(rounds: u32) -> [Duration; 2] {
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
    let (mut lines, mut times) = (Lines::new(usize::MAX), [Duration::MAX; 2]);
    for round in 0..rounds {
        let calls = calls(round, false);
        lines_of(&calls, &mut lines);
        times[0] = times[0].min(timed(|| front_there(&mut lines, &mut session)));
        lines_of(&results(&calls, false), &mut lines);
        times[1] = times[1].min(timed(|| front_back(&mut lines, &mut session)));
    }
    times
}

#[inline(never)]
fn front_there(lines: &mut Lines, session: &mut Session) {
    each_line(lines, |text, raw| assert_eq!(session.host_says(text, raw, NOW), Verdict::Forward));
}

#[inline(never)]
fn front_back(lines: &mut Lines, session: &mut Session) {
    each_line(lines, |text, _| assert_eq!(session.child_says(text, NOW), Verdict::Forward));
}

/// The steward of a shared child with one session.
fn steward(rounds: u32, varied: bool) -> [Duration; 2] {
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
    let (mut lines, mut times, mut out) = (Lines::new(usize::MAX), [Duration::MAX; 2], Vec::new());
    let [there, back] = if varied { [varied_there, varied_back] } else { [steward_there, steward_back] };
    for round in 0..rounds {
        out.clear();
        lines_of(&calls(round, varied), &mut lines);
        times[0] = times[0].min(timed(|| there(&mut lines, &mut router, &mut out)));
        lines_of(&results(&String::from_utf8_lossy(&out), varied), &mut lines);
        out.clear();
        times[1] = times[1].min(timed(|| back(&mut lines, &mut router, &mut out)));
    }
    times
}

#[inline(always)]
fn to_child(lines: &mut Lines, router: &mut Router, out: &mut Vec<u8>) {
    each_line(lines, |text, _| match router.session_says(ONLY, text, NOW) {
        FromSession::ToChild(edits) => {
            edits.apply(text, out);
            out.push(b'\n');
        }
        other => panic!("{other:?}"),
    });
}

#[inline(always)]
fn to_session(lines: &mut Lines, router: &mut Router, out: &mut Vec<u8>) {
    each_line(lines, |text, _| match router.child_says(text, NOW) {
        FromChild::To(_, edits) => {
            edits.apply(text, out);
            out.push(b'\n');
        }
        other => panic!("{other:?}"),
    });
}

#[inline(never)]
fn steward_there(lines: &mut Lines, router: &mut Router, out: &mut Vec<u8>) {
    black_box("steward_there");
    to_child(lines, router, out);
}

#[inline(never)]
fn steward_back(lines: &mut Lines, router: &mut Router, out: &mut Vec<u8>) {
    black_box("steward_back");
    to_session(lines, router, out);
}

#[inline(never)]
fn varied_there(lines: &mut Lines, router: &mut Router, out: &mut Vec<u8>) {
    black_box("varied_there");
    to_child(lines, router, out);
}

#[inline(never)]
fn varied_back(lines: &mut Lines, router: &mut Router, out: &mut Vec<u8>) {
    black_box("varied_back");
    to_session(lines, router, out);
}

/// The same lines for a reader that knows no session.
fn least(rounds: u32, there: fn(&mut Lines, &mut Vec<u8>), back: fn(&mut Lines, &mut Vec<u8>)) -> [Duration; 2] {
    let (mut lines, mut times, mut out) = (Lines::new(usize::MAX), [Duration::MAX; 2], Vec::new());
    for round in 0..rounds {
        let calls = calls(round, false);
        lines_of(&calls, &mut lines);
        times[0] = times[0].min(timed(|| there(&mut lines, &mut out)));
        lines_of(&results(&calls, false), &mut lines);
        out.clear();
        times[1] = times[1].min(timed(|| back(&mut lines, &mut out)));
        out.clear();
    }
    times
}

/// Where lines end, and a copy of each: what any program does that passes lines on and changes something in them.
fn ends(rounds: u32) -> [Duration; 2] {
    least(rounds, ends_there, ends_back)
}

#[inline(always)]
fn copied(lines: &mut Lines, out: &mut Vec<u8>) {
    each_line(lines, |_, raw| out.extend_from_slice(raw));
    black_box(out);
}

#[inline(never)]
fn ends_there(lines: &mut Lines, out: &mut Vec<u8>) {
    black_box("ends_there");
    copied(lines, out);
}

#[inline(never)]
fn ends_back(lines: &mut Lines, out: &mut Vec<u8>) {
    black_box("ends_back");
    copied(lines, out);
}

/// Line ends, and which bytes of each line are quotes, backslashes and brackets: what any check of the grammar has to see.
fn masks(rounds: u32) -> [Duration; 2] {
    least(rounds, masks_there, masks_back)
}

#[inline(always)]
fn looked_at(lines: &mut Lines) {
    each_line(lines, |text, _| {
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        let mut last = [b' '; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        for block in blocks.iter().chain([&last]) {
            let masks = Masks::of(block);
            black_box((masks.ends_text(), masks.brackets()));
        }
    });
}

#[inline(never)]
fn masks_there(lines: &mut Lines, _: &mut Vec<u8>) {
    black_box("masks_there");
    looked_at(lines);
}

#[inline(never)]
fn masks_back(lines: &mut Lines, _: &mut Vec<u8>) {
    black_box("masks_back");
    looked_at(lines);
}

/// Line ends, and the members that say what a message is, as serde_json finds them.
fn serde(rounds: u32) -> [Duration; 2] {
    least(rounds, serde_there, serde_back)
}

/// The members that say what a message is, as slices of the line.
#[derive(serde::Deserialize)]
struct Borrowed<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
}

#[inline(always)]
fn deserialized(lines: &mut Lines) {
    each_line(lines, |text, _| {
        let message: Borrowed<'_> = serde_json::from_slice(text).expect("a message");
        black_box((message.id, message.method));
    });
}

#[inline(never)]
fn serde_there(lines: &mut Lines, _: &mut Vec<u8>) {
    black_box("serde_there");
    deserialized(lines);
}

#[inline(never)]
fn serde_back(lines: &mut Lines, _: &mut Vec<u8>) {
    black_box("serde_back");
    deserialized(lines);
}
