//! What is said to whom: single scenes, and long random sessions in which every request is answered once.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::*;
use crate::backoff::{Backoff, Rate};

fn settings() -> Settings {
    Settings {
        protocol: Protocol::Mcp,
        policy: Policy {
            respawn: true,
            backoff: Backoff::default(),
            max_failures: Rate { times: 1000, within: Duration::from_secs(1) },
            sustained: Duration::from_secs(30),
            hibernate: Some(Duration::from_secs(10)),
            max_age: None,
            start_timeout: None,
            on_demand: false,
        },
        replay: Vec::new(),
        call_timeout: None,
    }
}

/// A session with a child that does what the test says.
struct Stage {
    session: Session,
    now: Moment,
    /// What the child was told since it started.
    child: Vec<Value>,
    /// What the host was told.
    host: Vec<Value>,
    alive: Option<Generation>,
    torn_down: Option<Why>,
}

impl Stage {
    fn new(settings: Settings) -> Self {
        let session = Session::new(settings, None, false, 1);
        let (child, host) = (Vec::new(), Vec::new());
        let mut stage = Self { session, now: Moment::ZERO, child, host, alive: None, torn_down: None };
        stage.session.begin(stage.now);
        stage.perform();
        stage
    }

    fn perform(&mut self) {
        while self.session.has_effects() {
            for effect in self.session.effects() {
                match effect {
                    Effect::ToHost(lines) => self.host.extend(values(&lines)),
                    Effect::ToChild(lines) => self.child.extend(values(&lines)),
                    Effect::Start(generation) => {
                        assert_eq!(self.alive, None);
                        self.alive = Some(generation);
                        self.torn_down = None;
                        self.child.clear();
                        self.session.child_started(generation, self.now);
                    }
                    Effect::TearDown(generation, why) => {
                        assert_eq!(self.alive, Some(generation));
                        self.torn_down = Some(why);
                    }
                }
            }
        }
    }

    fn host_says(&mut self, text: &str) {
        let raw = format!("{text}\n");
        let verdict = self.session.host_says(text.as_bytes(), raw.as_bytes(), self.now);
        match verdict {
            Verdict::Forward => self.child.extend(values(raw.as_bytes())),
            Verdict::Replace(line) => self.child.extend(values(&line)),
            Verdict::Swallow | Verdict::Log(_) => {}
        }
        self.perform();
    }

    fn child_says(&mut self, text: &str) -> Verdict {
        let verdict = self.session.child_says(text.as_bytes(), self.now);
        match &verdict {
            Verdict::Forward => self.host.extend(values(text.as_bytes())),
            Verdict::Replace(line) => self.host.extend(values(line)),
            Verdict::Swallow | Verdict::Log(_) => {}
        }
        self.perform();
        verdict
    }

    fn dies(&mut self) {
        let generation = self.alive.take().expect("alive");
        let cause = Cause("the child was killed by SIGKILL".to_owned());
        self.session.child_died(generation, cause.clone(), self.now);
        self.perform();
        self.session.child_emptied(generation, cause, self.now);
        self.perform();
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        self.session.tick(self.now);
        self.perform();
    }

    /// The handshake, with a server that has this list of tools.
    fn handshake(&mut self, tools: &str) {
        self.host_says(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#);
        self.answer(0, r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#);
        self.host_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self.host_says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        self.answer(1, tools);
    }

    fn answer(&mut self, id: i64, result: &str) -> Verdict {
        self.child_says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
    }

    /// The methods that the child was told, in their order.
    fn told(&self) -> Vec<&str> {
        self.child.iter().filter_map(|message| message["method"].as_str()).collect()
    }
}

fn values(lines: &[u8]) -> Vec<Value> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

const TOOLS: &str = r#"{"tools":[{"name":"a"}]}"#;

#[test]
fn a_new_child_is_told_what_the_old_one_knew_and_the_host_sees_nothing_of_it() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.host_says(r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    stage.answer(2, "{}");
    for (id, uri) in [(3, "a://1"), (4, "a://2")] {
        let params = format!(r#"{{"uri":"{uri}"}}"#);
        stage
            .host_says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/subscribe","params":{params}}}"#));
        stage.answer(id, "{}");
    }
    stage.host_says(r#"{"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"a://1"}}"#);
    stage.answer(5, "{}");
    stage.host_says(r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"a"}}"#);
    let before = stage.host.len();
    stage.dies();
    assert_eq!(stage.host.len(), before + 1, "one error");
    assert_eq!(stage.host[before]["id"], 6);
    assert!(stage.host[before]["error"]["message"].as_str().is_some_and(|m| m.contains("SIGKILL")));

    stage.host_says(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}"#);
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.told(), ["initialize"]);
    stage.answer(0, r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#);
    assert_eq!(stage.told()[1..], ["notifications/initialized", "logging/setLevel"]);
    stage.answer(2, "{}");
    assert_eq!(stage.told().last(), Some(&"resources/subscribe"));
    assert_eq!(stage.child.last().map(|message| &message["params"]["uri"]), Some(&Value::from("a://2")));
    stage.answer(4, "{}");
    assert_eq!(stage.told()[4..], ["tools/call", "tools/list"], "the call that waited, and our own question");
    assert_eq!(stage.host.len(), before + 1, "the host has seen nothing of it");
    stage.answer(7, r#"{"content":[]}"#);
    assert_eq!(stage.host.last().map(|message| &message["id"]), Some(&Value::from(7)));
    let own = stage.child.last().expect("the question")["id"].as_i64().expect("a number");
    assert_eq!(stage.answer(own, TOOLS), Verdict::Swallow);
    assert_eq!(stage.host.len(), before + 2);
}

#[test]
fn other_tools_or_capabilities_are_told_as_the_host_understands_it() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.dies();
    stage.passes(Duration::from_secs(1));
    let before = stage.host.len();
    stage.answer(0, r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}}}"#);
    let own = stage.child.last().expect("the question")["id"].as_i64().expect("a number");
    stage.answer(own, r#"{"tools":[{"name":"b"}]}"#);
    let told: Vec<_> = stage.host[before..].iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(told, ["notifications/prompts/list_changed", "notifications/tools/list_changed"]);
}

/// On a machine that is busy, the time to sleep may have come before the child was even started.
#[test]
fn what_is_said_to_a_child_that_is_to_end_before_it_was_there_waits_for_the_next_one() {
    let mut session = Session::new(settings(), None, false, 1);
    session.begin(Moment::ZERO);
    let now = Moment::from_secs(11);
    session.tick(now);
    assert_eq!(session.effects(), [Effect::Start(Generation(1)), Effect::TearDown(Generation(1), Why::Hibernate)]);
    session.child_started(Generation(1), now);
    let line = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    assert_eq!(session.host_says(line, line, now), Verdict::Swallow);
    session.child_emptied(Generation(1), Cause("it was put to sleep".to_owned()), now);
    assert_eq!(session.effects(), [Effect::Start(Generation(2))], "nobody is told that anything was lost");
    session.child_started(Generation(2), now);
    let told = [line.as_slice(), b"\n"].concat();
    assert_eq!(session.effects(), [Effect::ToChild(told)]);
}

#[test]
fn a_child_that_nobody_asks_anything_sleeps_and_one_that_is_being_told_does_not() {
    let mut stage = Stage::new(settings());
    stage.passes(Duration::from_secs(11));
    assert_eq!(stage.torn_down, Some(Why::Hibernate), "the host is silent");
    stage.dies();
    stage.handshake(TOOLS);
    stage.dies();
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.told(), ["initialize"]);
    stage.passes(Duration::from_secs(60));
    assert_eq!(stage.torn_down, None, "a slow start is not sleep");
    stage.answer(0, r#"{"capabilities":{"tools":{}}}"#);
    stage.passes(Duration::from_secs(11));
    assert_eq!(stage.torn_down, Some(Why::Hibernate));
}

#[test]
fn a_log_level_is_no_reason_to_wake_a_child_and_the_next_one_is_told() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.passes(Duration::from_secs(11));
    stage.dies();
    let set = |id, level| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#)
    };
    stage.host_says(&set(2, "debug"));
    assert_eq!(stage.alive, Some(Generation(2)), "it has not said that it has any");
    stage.answer(0, r#"{"capabilities":{"tools":{},"logging":{}}}"#);
    stage.answer(2, "{}");
    let own = stage.child.last().expect("the question")["id"].as_i64().expect("a number");
    stage.answer(own, TOOLS);
    stage.passes(Duration::from_secs(11));
    stage.dies();
    stage.host_says(&set(3, "error"));
    assert_eq!(stage.alive, None);
    assert_eq!(stage.host.last(), Some(&serde_json::json!({ "jsonrpc": "2.0", "id": 3, "result": {} })));
    stage.host_says(&set(4, "loud"));
    assert_eq!(stage.alive, Some(Generation(3)), "what is wrong is for the server to say");
    stage.answer(0, r#"{"capabilities":{"tools":{},"logging":{}}}"#);
    assert_eq!(stage.child[2]["params"]["level"], "error");
}

#[test]
fn an_answer_for_a_dead_child_does_not_reach_the_next_one_that_uses_the_same_id() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    let ask = r#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#;
    stage.child_says(ask);
    assert_eq!(stage.host.last().map(|message| &message["id"]), Some(&Value::from(0)));
    stage.dies();
    let cancel = stage.host.last().expect("a cancel").clone();
    assert_eq!((&cancel["method"], &cancel["params"]["requestId"]), (&"notifications/cancelled".into(), &0.into()));
    stage.passes(Duration::from_secs(1));
    stage.answer(0, r#"{"capabilities":{"tools":{}}}"#);
    stage.child_says(ask);
    let renamed = stage.host.last().expect("the question")["id"].clone();
    assert_ne!(renamed, Value::from(0), "the host still works on the first one");
    let before = stage.child.len();
    stage.host_says(r#"{"jsonrpc":"2.0","id":0,"result":{"roots":["old"]}}"#);
    assert_eq!(stage.child.len(), before);
    stage.host_says(&format!(r#"{{"jsonrpc":"2.0","id":{renamed},"result":{{"roots":["new"]}}}}"#));
    let answer = stage.child.last().expect("an answer");
    assert_eq!((&answer["id"], &answer["result"]["roots"][0]), (&0.into(), &"new".into()));
}

#[test]
fn a_stream_of_the_newer_era_lets_the_child_sleep_and_is_opened_again() {
    let mut stage = Stage::new(settings());
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let listen = format!(
        r#"{{"jsonrpc":"2.0","id":"listen-1","method":"subscriptions/listen","params":{{{meta},"notifications":{{"toolsListChanged":true}}}}}}"#
    );
    let acknowledged = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"}}}"#;
    stage.host_says(&listen);
    assert_eq!(stage.child_says(acknowledged), Verdict::Forward);
    stage.host_says(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{meta}}}}}"#));
    stage.answer(1, TOOLS);
    stage.passes(Duration::from_secs(11));
    assert_eq!(stage.torn_down, Some(Why::Hibernate));
    // What it says to the stream while it goes is not for the host.
    let late = r#"{"jsonrpc":"2.0","id":"listen-1","error":{"code":-32000,"message":"Connection closed"}}"#;
    assert!(matches!(stage.child_says(late), Verdict::Log(_)));
    let before = stage.host.len();
    stage.dies();
    stage.host_says(&format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{{meta}}}}}"#));
    assert_eq!(stage.told(), ["subscriptions/listen", "tools/call", "tools/list"], "no handshake");
    assert_eq!(stage.child_says(acknowledged), Verdict::Swallow);
    let own = stage.child.last().expect("the question")["id"].as_i64().expect("a number");
    stage.answer(own, r#"{"tools":[]}"#);
    let told = &stage.host[before];
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen-1");
    // An end of the stream that the server means reaches the host, and is the end of it.
    assert_eq!(
        stage.child_says(r#"{"jsonrpc":"2.0","id":"listen-1","result":{"resultType":"complete"}}"#),
        Verdict::Forward
    );
    stage.dies();
    stage.passes(Duration::from_secs(1));
    assert!(!stage.told().contains(&"subscriptions/listen"));
}

#[test]
fn a_server_that_asked_back_is_not_put_to_sleep_before_it_has_its_answer() {
    let mut stage = Stage::new(settings());
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    stage.host_says(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{meta}}}}}"#));
    stage.answer(1, r#"{"resultType":"input_required","requestState":"x"}"#);
    stage.passes(Duration::from_secs(300));
    assert_eq!(stage.torn_down, None);
    stage.host_says(&format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{{meta},"requestState":"x"}}}}"#
    ));
    stage.answer(2, r#"{"resultType":"complete"}"#);
    stage.passes(Duration::from_secs(11));
    assert_eq!(stage.torn_down, Some(Why::Hibernate));
}

#[test]
fn discover_first_and_initialize_after_is_the_older_era() {
    let mut stage = Stage::new(settings());
    stage.host_says(r#"{"jsonrpc":"2.0","id":9,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#);
    stage.child_says(r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"Method not found"}}"#);
    stage.handshake(TOOLS);
    stage.dies();
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.told(), ["initialize"], "and no probe");
}

#[test]
fn a_batch_is_answered_as_one_when_its_child_dies_and_as_it_comes_otherwise() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.host_says(r#"[{"jsonrpc":"2.0","id":2,"method":"x"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":3,"method":"y"}]"#);
    assert_eq!(
        stage.child_says(r#"[{"jsonrpc":"2.0","id":2,"result":1},{"jsonrpc":"2.0","id":3,"result":2}]"#),
        Verdict::Forward
    );
    assert!(matches!(stage.answer(3, "3"), Verdict::Log(_)), "answered already");
    stage.host_says(r#"[{"jsonrpc":"2.0","id":4,"method":"x"},{"jsonrpc":"2.0","id":5,"method":"y"}]"#);
    stage.dies();
    let errors = stage.host.last().and_then(Value::as_array).expect("a batch");
    assert_eq!(errors.iter().map(|error| error["id"].as_i64()).collect::<Vec<_>>(), [Some(4), Some(5)]);
}

#[test]
fn what_takes_too_long_is_answered_cancelled_and_its_late_answer_dropped() {
    let mut stage = Stage::new(Settings { call_timeout: Some(Duration::from_secs(5)), ..settings() });
    stage.handshake(TOOLS);
    stage.host_says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#);
    stage.passes(Duration::from_secs(5));
    assert_eq!(stage.host.last().map(|message| &message["error"]["code"]), Some(&Value::from(-32001)));
    let cancel = stage.child.last().expect("a cancel");
    assert_eq!((&cancel["method"], &cancel["params"]["requestId"]), (&"notifications/cancelled".into(), &2.into()));
    assert!(matches!(stage.answer(2, "{}"), Verdict::Log(_)));
    assert_eq!(stage.torn_down, None);
}

#[test]
fn a_cancel_takes_back_what_still_waits() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.dies();
    stage.host_says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#);
    stage.host_says(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    stage.passes(Duration::from_secs(1));
    stage.answer(0, r#"{"capabilities":{"tools":{}}}"#);
    assert!(!stage.told().contains(&"tools/call"));
}

#[test]
fn a_plain_protocol_has_what_the_user_named_told_again() {
    let replay = vec!["session.open".to_owned(), "hello".to_owned()];
    let mut stage = Stage::new(Settings { protocol: Protocol::JsonRpc, replay, ..settings() });
    stage.host_says(r#"{"jsonrpc":"2.0","method":"hello"}"#);
    for session in ["a", "b"] {
        stage.host_says(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"session.open","params":{{"sessionId":"{session}"}}}}"#
        ));
        stage.answer(1, "{}");
    }
    stage.host_says(r#"{"jsonrpc":"2.0","id":2,"method":"initialize"}"#);
    stage.answer(2, "{}");
    stage.dies();
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.told(), ["hello", "session.open"]);
    stage.answer(1, "{}");
    assert_eq!(stage.told(), ["hello", "session.open", "session.open"]);
    stage.answer(1, "{}");
    stage.host_says(r#"{"jsonrpc":"2.0","id":3,"method":"x"}"#);
    assert_eq!(stage.told().last(), Some(&"x"));
}

#[test]
fn a_child_that_refuses_the_handshake_is_a_failed_start() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.dies();
    stage.passes(Duration::from_secs(1));
    stage.child_says(r#"{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"no"}}"#);
    assert_eq!(stage.torn_down, Some(Why::BadStart));
    stage.dies();
    assert!(matches!(stage.session.state(), State::BackingOff { .. }), "{:?}", stage.session.state());
}

#[test]
fn what_is_no_message_is_for_the_log_and_an_answer_that_is_not_text_is_an_error() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    let before = stage.host.len();
    for garbage in
        ["hello", "null", "[]", "[1]", "{", r#"{"level":"info"}"#, r#"{"jsonrpc":"2.0","id":77,"result":1}"#]
    {
        assert!(matches!(stage.session.child_says(garbage.as_bytes(), stage.now), Verdict::Log(_)), "{garbage}");
    }
    assert_eq!(stage.session.child_says(b"  ", stage.now), Verdict::Swallow);
    stage.host_says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#);
    let broken = b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"\xff\"}";
    assert!(matches!(stage.session.child_says(broken, stage.now), Verdict::Log(_)));
    stage.perform();
    assert_eq!((stage.host.len(), &stage.host[before]["error"]["code"]), (before + 1, &Value::from(-32603)));
}

/// A generator of numbers that are random enough, and the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Kills, sleeps, stops, cancels, batches and time-outs in any order: each request is answered exactly once, by a result or an
/// error, and is given to one child at most; one that was cancelled at most once.
#[test]
fn in_any_session_each_request_is_answered_once_and_made_once() {
    for seed in 0..400 {
        let mut dice = Dice(seed * 104_729 + 7);
        let call_timeout = (seed % 3 == 0).then_some(Duration::from_secs(2));
        let mut stage = Stage::new(Settings { call_timeout, ..settings() });
        stage.handshake(TOOLS);
        let (mut asked, mut cancelled) = (VecDeque::new(), HashSet::new());
        let mut given: HashMap<i64, HashSet<u64>> = HashMap::new();
        let mut next = 100;
        for _ in 0..300 {
            match dice.below(14) {
                0..=3 => {
                    stage.host_says(&format!(r#"{{"jsonrpc":"2.0","id":{next},"method":"tools/call"}}"#));
                    asked.push_back(next);
                    next += 1;
                }
                4 => {
                    let (a, b) = (next, next + 1);
                    stage.host_says(&format!(
                        r#"[{{"jsonrpc":"2.0","id":{a},"method":"x"}},{{"jsonrpc":"2.0","id":{b},"method":"y"}}]"#
                    ));
                    asked.extend([a, b]);
                    next += 2;
                }
                5 if !asked.is_empty() => {
                    let id = asked[dice.below(asked.len())];
                    stage.host_says(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                    ));
                    cancelled.insert(id);
                }
                6 if stage.alive.is_some() => stage.dies(),
                7 => stage.passes(Duration::from_millis(dice.below(4000) as u64)),
                8 if stage.torn_down.is_some() && stage.alive.is_some() => stage.dies(),
                9 if stage.alive.is_some() => {
                    stage.child_says(r#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#);
                    stage.host_says(r#"{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}"#);
                }
                _ => answer_something(&mut stage, &mut dice),
            }
            let generation = stage.alive.map_or(0, |generation| generation.0);
            let messages = stage.child.iter().flat_map(|m| m.as_array().cloned().unwrap_or_else(|| vec![m.clone()]));
            for id in messages.filter(|m| m["method"].is_string()).filter_map(|m| m["id"].as_i64()) {
                if (100..1_000_000).contains(&id) && generation > 0 {
                    given.entry(id).or_default().insert(generation);
                }
            }
        }
        // The end: nobody answers any more.
        if stage.alive.is_some() {
            stage.dies();
        }
        stage.session.stop(stage.now);
        stage.perform();
        if stage.alive.is_some() {
            stage.dies();
        }
        let mut answers: HashMap<i64, usize> = HashMap::new();
        let messages = stage.host.iter().flat_map(|m| m.as_array().cloned().unwrap_or_else(|| vec![m.clone()]));
        for id in messages.filter(|m| m["method"].is_null()).filter_map(|m| m["id"].as_i64()) {
            *answers.entry(id).or_default() += 1;
        }
        for id in 100..next {
            let count = answers.get(&id).copied().unwrap_or(0);
            let fine = count == 1 || (count == 0 && cancelled.contains(&id));
            assert!(fine, "seed {seed}: request {id} was answered {count} times");
            assert!(given.get(&id).is_none_or(|to| to.len() == 1), "seed {seed}: request {id} was made twice");
        }
    }
}

/// The child answers one of the requests that it has been given, perhaps a second time.
fn answer_something(stage: &mut Stage, dice: &mut Dice) {
    if stage.alive.is_none() || stage.child.is_empty() {
        return;
    }
    let message = stage.child[dice.below(stage.child.len())].clone();
    let messages = message.as_array().cloned().unwrap_or_else(|| vec![message]);
    for message in messages {
        if let (Some(id), true) = (message["id"].as_i64(), message["method"].is_string()) {
            let result = match message["method"].as_str() {
                Some("tools/list") => TOOLS,
                _ => r#"{"capabilities":{"tools":{}}}"#,
            };
            stage.answer(id, result);
        }
    }
}
