//! How fast lines are cut, read and summarized: `cargo run --release -p nostray-rpc --example speed`.
#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use nostray_rpc::{Lines, LongLineReader, read};

/// The allocator of `nostray`.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: nostray_sys::allocator::Allocator = nostray_sys::allocator::Allocator;

fn main() {
    let small = br#"{"jsonrpc":"2.0","id":4711,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/home/someone/project/src/main.rs","offset":0,"limit":2000},"_meta":{"progressToken":12,"x":"abcdef"}}}"#;
    let typescript = br#"{"method":"notifications/progress","params":{"progressToken":3,"progress":17,"total":100,"message":"indexing"},"jsonrpc":"2.0"}"#;
    let long_text =
        result(&format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "all work and no play ".repeat(50_000)));
    let code = "    if let Some(x) = \\\"y\\\" {\\n\\t\\treturn x;\\n    }\\n".repeat(20_000);
    let escapes = result(&format!(r#"{{"content":[{{"type":"text","text":"{code}"}}]}}"#));
    let row = r#"{"id":1234,"name":"thing","tags":["a","b","c"],"at":{"x":1.5,"y":-2},"ok":true}"#;
    let dense = result(&format!("[{}]", vec![row; 12_000].join(",")));
    let numbers = result(&format!("[{}]", vec!["[1,2],[3,4,{}]"; 60_000].join(",")));
    let foreign = result(&format!(r#"{{"text":"{}"}}"#, "Ни одного забытого процесса. ".repeat(20_000)));

    println!("{:34} {:>10} {:>12} {:>10}", "", "bytes", "a message", "GB/s");
    show("read: a call", small.len(), || black_box(read(black_box(small))).is_ok());
    show("read: a notification", typescript.len(), || black_box(read(black_box(typescript))).is_ok());
    for (name, line) in [
        ("one long string", &long_text),
        ("a string full of escapes", &escapes),
        ("rows of small objects", &dense),
        ("brackets mostly", &numbers),
        ("text that is not ASCII", &foreign),
    ] {
        show(&format!("read: {name}"), line.len(), || black_box(read(black_box(line))).is_ok());
        show(&format!("long line: {name}"), line.len(), || {
            let mut reader = LongLineReader::new();
            line.chunks(64 << 10).for_each(|piece| reader.feed(black_box(piece)));
            reader.finish().is_response
        });
    }

    let mut stream = Vec::new();
    while stream.len() < 16 << 20 {
        stream.extend_from_slice(small);
        stream.push(b'\n');
    }
    let count = stream.len() / (small.len() + 1);
    show("lines: 200 bytes each, all of them", stream.len(), || cut(&stream, usize::MAX) == count);
    for mebibytes in [1_usize, 8, 64] {
        let mut line = vec![b'x'; mebibytes << 20];
        line.push(b'\n');
        show(&format!("lines: one of {mebibytes} MiB"), line.len(), || cut(&line, usize::MAX) == 1);
        show(&format!("lines: one of {mebibytes} MiB, too long"), line.len(), || cut(&line, 1 << 20) == 1);
    }
}

fn result(json: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{json}}}"#).into_bytes()
}

fn cut(stream: &[u8], max_line: usize) -> usize {
    let mut lines = Lines::new(max_line);
    let mut count = 0;
    for piece in stream.chunks(64 << 10) {
        let mut rest = piece;
        while !rest.is_empty() {
            let space = lines.space();
            let take = space.len().min(rest.len());
            space[..take].copy_from_slice(&rest[..take]);
            lines.filled(take);
            rest = &rest[take..];
            while lines.next_line().is_some() {
                count += 1;
            }
        }
    }
    count
}

/// Runs it for a while, several times over, and shows the best.
fn show(name: &str, bytes: usize, mut what: impl FnMut() -> bool) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let mut rounds = 0_u32;
        while start.elapsed() < Duration::from_millis(60) {
            for _ in 0..if bytes < 10_000 { 1000 } else { 1 } {
                assert!(what(), "{name}");
                rounds += 1;
            }
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(rounds));
    }
    let time = if best < 1e-6 { format!("{:.0} ns", best * 1e9) } else { format!("{:.1} us", best * 1e6) };
    println!("{name:34} {bytes:>10} {time:>12} {:>10.2}", bytes as f64 / best / 1e9);
}
