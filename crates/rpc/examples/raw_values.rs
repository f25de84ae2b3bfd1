//! What it costs to read an envelope: our scanner against serde_json's raw values.
//!
//! `cargo run --release -p nostray-rpc --example raw_values`; the module `scan` quotes the numbers.
#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use nostray_rpc::{Agreement, quick_read, read};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The members that say what a message is, as slices of the line.
#[derive(Deserialize)]
#[allow(dead_code, reason = "what counts is what it costs to find them")]
struct Borrowed<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The same as copies.
#[derive(Deserialize)]
#[allow(dead_code, reason = "what counts is what it costs to find them")]
struct Boxed {
    jsonrpc: Option<Box<RawValue>>,
    id: Option<Box<RawValue>>,
    method: Option<Box<RawValue>>,
    params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

/// What one reader makes of a line: whether it is a message.
type Reader<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

fn main() {
    let paths: [&[&str]; 3] = [&["params", "_meta", "progressToken"], &["params", "requestId"], &["params", "uri"]];
    let agreement = Agreement::new(paths);
    let readers: [(&str, Reader<'_>); 5] = [
        ("quick_read", Box::new(|line| quick_read(line).is_some())),
        ("read", Box::new(|line| read(line).is_ok())),
        ("check", Box::new(|line| agreement.check(line).is_ok())),
        ("&RawValue", Box::new(|line| serde_json::from_slice::<Borrowed<'_>>(line).is_ok())),
        ("Box<RawValue>", Box::new(|line| serde_json::from_slice::<Boxed>(line).is_ok())),
    ];
    let names: String = readers.iter().map(|(name, _)| format!("{name:>15}")).collect();
    println!("{:28}{:>9}{names}   read is faster than &RawValue", "ns a message", "bytes");
    for (name, line) in lines() {
        let times = measure(&readers, &line);
        let shown: String = times.iter().map(|time| format!("{time:>15.0}")).collect();
        println!("{name:28}{:>9}{shown}   {:.1} times", line.len(), times[3] / times[1]);
    }
}

fn lines() -> Vec<(&'static str, Vec<u8>)> {
    let call = r#"{"jsonrpc":"2.0","id":4711,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/home/someone/project/src/main.rs","offset":0,"limit":2000},"_meta":{"progressToken":12,"x":"abc"}}}"#;
    let text = |text: &str| result(&format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}"#));
    let row = r#"{"id":1234,"name":"thing","tags":["a","b","c"],"at":{"x":1.5,"y":-2},"ok":true}"#;
    let deep = format!("{}1{}", r#"{"a":["#.repeat(30), "]}".repeat(30));
    let code = "    if let Some(x) = \\\"y\\\" {\\n\\t\\treturn x;\\n    }\\n";
    vec![
        ("request, 200 B", call.into()),
        ("result, 200 B", text(&"all work and no play ".repeat(6))),
        ("result, 4 KiB of text", text(&"all work and no play ".repeat(192))),
        ("result, 4 KiB of objects", result(&format!("[{}]", vec![row; 50].join(",")))),
        ("result, 1 MiB of text", text(&"all work and no play ".repeat(49_900))),
        ("result, 1 MiB of code", text(&code.repeat(20_000))),
        ("result, 1 MiB of objects", result(&format!("[{}]", vec![row; 12_700].join(",")))),
        (
            "request, params 60 deep",
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{deep}}}"#).into(),
        ),
    ]
}

fn result(json: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":4711,"result":{json}}}"#).into()
}

/// Nanoseconds a message, for each reader. They take turns, in slices that are shorter than the scheduler's, and the best slice
/// counts: the others had company on the processor.
fn measure(readers: &[(&str, Reader<'_>)], line: &[u8]) -> Vec<f64> {
    let mut best = vec![f64::MAX; readers.len()];
    let rounds = (200_000 / line.len()).max(1);
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        for ((name, reader), best) in readers.iter().zip(&mut best) {
            let start = Instant::now();
            for _ in 0..rounds {
                assert!(reader(black_box(line)), "{name}");
            }
            *best = best.min(start.elapsed().as_secs_f64() * 1e9 / rounds as f64);
        }
    }
    best
}
