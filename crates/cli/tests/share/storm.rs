//! Sessions come and go at random, with calls, while the child, fronts, stewards, brokers and keepers of pens are
//! killed at random. There is never more than one child. Each request is answered exactly once as long as its front
//! lives. No process is left at the end.
//!
//! `NOSTRAY_LONG=1`: as many sessions and as much time as issue 5 asks for. `NOSTRAY_SEED=N`: the same random numbers
//! again.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use badchild::{PATIENCE, comes_true};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::sharing::{BROKER, PEN, Random, STEWARD, Watch, is_long};
use testkit::stage::{Caller, Stage};

/// A child that is slow to end, so that a next child that starts too early meets it.
const SERVER: [&str; 1] = ["--ignore-eof"];
const OPTIONS: [&str; 11] = [
    "--require-share",
    "--linger",
    "100ms",
    "--eof-grace",
    "60ms",
    "--term-grace",
    "60ms",
    "--backoff",
    "1ms..20ms",
    "--max-failures",
    "1000/1s",
];

#[derive(Default)]
struct Tally {
    sessions: AtomicUsize,
    cut_short: AtomicUsize,
    results: AtomicUsize,
    errors: AtomicUsize,
    /// The number of kinds of victims that were killed so far.
    kinds: AtomicUsize,
}

impl Tally {
    /// Whether enough has happened for the test to prove something. How soon depends on the load of the machine.
    fn is_enough(&self, sessions: u64) -> bool {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        count(&self.sessions) > sessions as usize && count(&self.results) > 200 && count(&self.kinds) > 4
    }
}

/// One session, and its open requests.
struct Session<'a> {
    caller: Caller,
    name: String,
    asked: u64,
    open: HashMap<u64, Value>,
    tally: &'a Tally,
}

/// The session's front was killed, so no more answers come.
struct CutShort;

impl Session<'_> {
    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let (id, expected) = (self.asked, if method == "echo" { params.clone() } else { Value::Null });
        self.open.insert(id, expected);
        self.caller.try_send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Checks one line: it answers an open request, which gets no second answer. True if it is a result.
    fn take(&mut self, line: &[u8]) -> bool {
        let name = &self.name;
        let message: Value = serde_json::from_slice(line).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(message["method"].is_null(), "{name}: no answer, but a request or notification: {message}");
        let expected = message["id"].as_u64().and_then(|id| self.open.remove(&id));
        let expected = expected.unwrap_or_else(|| panic!("{name}: answered twice, or never asked: {message}"));
        if let Some(result) = message.get("result") {
            assert!(expected.is_null() || *result == expected, "{name}: not {expected} but {message}");
            self.tally.results.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        assert_eq!(message["error"]["code"], -32000, "{name}: {message}");
        self.tally.errors.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Waits for all answers. True if the last one was a result.
    fn settle(&mut self, stage: &Stage) -> Result<bool, CutShort> {
        let (deadline, mut went_well) = (Instant::now() + PATIENCE, false);
        while !self.open.is_empty() {
            if let Some(line) = self.caller.line_within(Duration::from_millis(100)) {
                went_well = self.take(&line);
            } else if let Some(status) = self.caller.process.try_wait().expect("wait") {
                assert_eq!(status.signal(), Some(9), "{}: {status:?} {}", self.name, self.caller.errors());
                return Err(CutShort);
            } else if Instant::now() > deadline {
                let (name, open, errors) = (&self.name, &self.open, self.caller.errors());
                panic!(
                    "{name}: never answered: {open:?}\n{errors}\n{:#?}\n{}",
                    stage.scene.processes(),
                    stage.journal()
                );
            }
        }
        Ok(went_well)
    }

    fn play(&mut self, stage: &Stage, random: &mut Random) -> Result<(), CutShort> {
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        // A handshake may be cut off like any call.
        self.ask("initialize", hello.clone());
        while !self.settle(stage)? {
            self.ask("initialize", hello.clone());
        }
        self.caller.try_send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        for _ in 0..random.below(8) {
            for n in 0..=random.below(6) {
                match random.below(6) {
                    0 => self.ask("slow", json!({ "ms": random.below(60) })),
                    1 => self.ask("tools/list", json!({})),
                    2 => self.ask("resources/subscribe", json!({ "uri": format!("test://{}", random.below(5)) })),
                    _ => self.ask("echo", json!({ "who": self.name, "n": n })),
                };
            }
            self.settle(stage)?;
            // The pace of a host.
            std::thread::sleep(Duration::from_millis(random.below(200)));
        }
        Ok(())
    }

    /// Ends in one of the ways in which sessions end.
    fn end(mut self, random: &mut Random) {
        match random.below(4) {
            // In the middle of a call.
            0 => {
                self.ask("slow", json!({ "ms": 20 }));
                self.caller.close();
            }
            1 => {
                self.caller.process.kill().expect("kill");
            }
            _ => self.caller.close(),
        }
        let mut status = None;
        comes_true(PATIENCE, &mut || {
            status = self.caller.process.try_wait().expect("wait");
            status.is_some()
        });
        let status = status.unwrap_or_else(|| panic!("{} does not end: {}", self.name, self.caller.errors()));
        let is_killed = status.signal() == Some(9);
        assert!(status.success() || is_killed, "{}: {status:?} {}", self.name, self.caller.errors());
        while let Some(line) = self.caller.line_within(Duration::from_millis(10)) {
            if line.ends_with(b"\n") || !is_killed {
                self.take(&line);
            }
        }
    }
}

const WITH_STEWARDS: &str = "broker and stewards";

/// Kills a random kind of process every now and then, until the test is over.
fn kill_at_random(
    stage: &Stage,
    random: &mut Random,
    tally: &Tally,
    is_over: &AtomicBool,
) -> HashMap<&'static str, usize> {
    let mut killed = HashMap::new();
    // One of each kind first, in random order; after that, random kinds.
    let mut due = vec!["child", "front", STEWARD, BROKER, WITH_STEWARDS, PEN[0], PEN[1], PEN[2]];
    while !is_over.load(Ordering::Relaxed) {
        // The pace of the kills.
        std::thread::sleep(Duration::from_millis(50 + random.below(400)));
        let next = (!due.is_empty()).then(|| random.below(due.len() as u64) as usize);
        let whom = match (next, random.below(20)) {
            (Some(next), _) => due[next],
            (None, 0..8) => "child",
            (None, 8..12) => "front",
            (None, 12..15) => STEWARD,
            (None, 15..17) => BROKER,
            (None, 17) => WITH_STEWARDS,
            (None, _) => PEN[random.below(3) as usize],
        };
        let processes = stage.scene.processes();
        let mut victims: Vec<_> = processes
            .iter()
            .filter(|found| match whom {
                "child" => found.command.contains("badchild server") && !found.command.contains("nostray "),
                "front" => found.command.contains("nostray share "),
                WITH_STEWARDS => [BROKER, STEWARD].contains(&found.stat.name.as_str()),
                name => found.stat.name == name,
            })
            .collect();
        if whom == "front" && !victims.is_empty() {
            victims = vec![victims[random.below(victims.len() as u64) as usize]];
        }
        victims.iter().for_each(|victim| victim.send(Signal::KILL));
        if victims.is_empty() {
            continue; // no process of this kind lives just now
        }
        if let Some(next) = next {
            due.swap_remove(next);
            tally.kinds.fetch_add(1, Ordering::Relaxed);
        }
        *killed.entry(whom).or_default() += victims.len();
    }
    killed
}

#[test]
fn nothing_is_doubled_lost_or_left_while_sessions_come_and_go_and_any_process_is_killed() {
    let (sessions, time) = if is_long() { (200, 60) } else { (60, 8) };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let given = std::env::var("NOSTRAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| u64::from(now.subsec_nanos()));
    let stage = Arc::new(Stage::new());
    let (watch, tally, is_over) = (Watch::over(&stage), Tally::default(), AtomicBool::new(false));
    let until = Instant::now() + Duration::from_secs(time);
    let one_after_the_other = |slot: u64| {
        let mut random = Random::new(seed.wrapping_add(slot * 7919));
        // Sessions do not all start at the same instant; another test does that.
        std::thread::sleep(Duration::from_millis(random.below(1000)));
        for round in 0.. {
            let now = Instant::now();
            if now > until && (tally.is_enough(sessions) || now > until + PATIENCE) {
                break;
            }
            let (caller, name) = (stage.share(&OPTIONS, &SERVER), format!("seed {seed}, session {slot}.{round}"));
            let mut session = Session { caller, name, asked: 0, open: HashMap::new(), tally: &tally };
            tally.sessions.fetch_add(1, Ordering::Relaxed);
            match session.play(&stage, &mut random) {
                Ok(()) => session.end(&mut random),
                Err(CutShort) => drop(tally.cut_short.fetch_add(1, Ordering::Relaxed)),
            }
            // The pace of a user.
            std::thread::sleep(Duration::from_millis(random.below(500)));
        }
    };
    let killed = std::thread::scope(|scope| {
        let one = &one_after_the_other;
        let killer = scope.spawn(|| kill_at_random(&stage, &mut Random::new(seed), &tally, &is_over));
        let slots: Vec<_> = (0..sessions).map(|slot| scope.spawn(move || (one)(slot))).collect();
        let ended: Vec<_> = slots.into_iter().map(|slot| slot.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        let killed = killer.join().expect("no panic");
        assert!(ended.iter().all(Result::is_ok), "seed {seed}, killed: {killed:?}");
        killed
    });
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    let (came, results, errors) = (count(&tally.sessions), count(&tally.results), count(&tally.errors));
    let story = format!(
        "seed {seed}: {came} sessions, {} cut short, {results} results, {errors} errors, {} lives, killed {killed:?}",
        count(&tally.cut_short),
        stage.lives().len(),
    );
    assert!(tally.is_enough(sessions), "{story}");
    // A tree whose keepers were all killed may need a sweep.
    stage.nostray(&["sweep"]);
    stage.scene.expect_empty();
    let lives = stage.lives().len();
    stage.expect_over(lives, Duration::from_secs(if is_long() { 60 } else { 2 }));
    watch.expect_one();
}
