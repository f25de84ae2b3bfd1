//! The child is killed a thousand times, at random moments under load. Each request is answered exactly once, by a
//! result or by an error. Each kill leads to one start. At the end no process is left.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use badchild::random::Random;
use badchild::{Found, PATIENCE, comes_true};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::stage::{Caller, Stage};

const SESSIONS: u64 = 4;
const KILLS: usize = 250;

/// The host's open requests, and the number of answers.
#[derive(Default)]
struct Ledger {
    open: HashMap<u64, &'static str>,
    results: usize,
    errors: usize,
}

impl Ledger {
    fn ask(&mut self, caller: &mut Caller, random: &mut Random) {
        let (method, params) = match random.below(8) {
            0 => ("slow", json!({ "ms": random.below(5) })),
            1 => ("who", json!({})),
            2 => ("echo", json!({ "text": "x".repeat(usize::try_from(random.below(30_000)).expect("small")) })),
            3 => ("tools/list", json!({})),
            _ => ("echo", json!([1])),
        };
        let id = caller.ask(method, params);
        assert!(self.open.insert(id, method).is_none());
    }

    /// Checks one line: it answers an open request, which gets no second answer.
    fn take(&mut self, line: &[u8]) {
        let message: Value = serde_json::from_slice(line).expect("JSON");
        assert!(message["method"].is_null(), "no answer, but a request or notification: {message}");
        let id = message["id"].as_u64().expect("a number");
        let method = self.open.remove(&id).unwrap_or_else(|| panic!("answered twice, or never asked: {message}"));
        match message.get("result") {
            Some(result) => {
                assert!(method != "who" || result["initialized"] == true, "{message}");
                assert!(method != "who" || result["level"] == "notice", "{message}");
                self.results += 1;
            }
            None => {
                assert_eq!(message["error"]["code"], -32000, "{message}");
                self.errors += 1;
            }
        }
    }
}

/// Reads the starts from the server's record, each line once.
struct Starts {
    record: BufReader<File>,
    line: String,
    pids: Vec<i32>,
}

impl Starts {
    fn of(stage: &Stage) -> Self {
        let record = File::open(stage.file("record")).expect("a record");
        Self { record: BufReader::new(record), line: String::new(), pids: Vec::new() }
    }

    /// The process of this life, once it has started.
    fn wait_for(&mut self, stage: &Stage, life: usize) -> Option<Found> {
        let came = comes_true(PATIENCE, &mut || {
            while self.record.read_line(&mut self.line).expect("read") > 0 && self.line.ends_with('\n') {
                if let Some((pid, _)) = self.line.split_once(" start ") {
                    self.pids.extend(pid.parse::<i32>());
                }
                self.line.clear();
            }
            self.pids.len() > life
        });
        assert!(came, "start {life} did not come: {:?}\n{}", stage.states(), stage.journal());
        Found::by_pid(badchild::pid(self.pids[life]))
    }
}

fn storm(seed: u64) {
    let stage = Stage::new();
    let options = ["--backoff", "1ms..5ms", "--max-failures", "1000/1s"];
    let mut caller = stage.start(&options, &[]);
    caller.initialize();
    caller.result("logging/setLevel", json!({ "level": "notice" }));
    caller.result("resources/subscribe", json!({ "uri": "test://a" }));
    let (mut random, mut ledger, mut starts) = (Random::new(seed), Ledger::default(), Starts::of(&stage));
    for kill in 0..KILLS {
        let victim = starts.wait_for(&stage, kill).expect("only this test ends the child");
        // The kill comes at any time from the child's start until it has answered a few calls.
        for _ in 0..random.below(12) {
            ledger.ask(&mut caller, &mut random);
        }
        if random.below(3) > 0 {
            let until = Instant::now() + Duration::from_micros(random.below(15_000));
            while let Some(line) = caller.line_within(until.saturating_duration_since(Instant::now())) {
                ledger.take(&line);
            }
        }
        if kill % 4 == 0 {
            // A call is surely in flight. On a slow machine most kills come before the child gets a call.
            let hang = caller.ask("hang", json!({}));
            let echo = caller.ask("echo", json!([1]));
            ledger.open.extend([(hang, "hang"), (echo, "echo")]);
            while ledger.open.contains_key(&echo) {
                ledger.take(&caller.line_within(PATIENCE).expect("an answer"));
            }
        }
        victim.send(Signal::KILL);
    }
    starts.wait_for(&stage, KILLS);
    while !ledger.open.is_empty() {
        let line = caller.line_within(PATIENCE).unwrap_or_else(|| panic!("never answered: {:?}", ledger.open));
        ledger.take(&line);
    }
    let told = caller.who();
    assert_eq!(told["subscriptions"], json!(["test://a"]));
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    assert!(ledger.results > 50 && ledger.errors > 50, "{} results, {} errors", ledger.results, ledger.errors);
    assert_eq!(stage.trees().len(), 1);
    caller.end(&stage);
    assert_eq!(stage.lives().len(), KILLS + 1, "one start for each kill, and the first");
}

#[test]
fn a_thousand_kills_lose_no_request_and_leave_no_process() {
    in_parallel((1..=SESSIONS).collect(), |seed| storm(seed * 7919));
}
