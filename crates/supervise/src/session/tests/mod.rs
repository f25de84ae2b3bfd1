//! What is said to whom: single scenes. Long random sessions are in `random`.

mod random;
mod replays;

mod asleep;
mod next_child;

use serde_json::Value;

use super::*;
use crate::backoff::Backoff;
use nostray_pen::Rate;

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
    /// What the child was told since it started, and how much of it it has certainly read.
    child: Vec<Value>,
    read: usize,
    /// What the host was told.
    host: Vec<Value>,
    alive: Option<Generation>,
    torn_down: Option<Why>,
}

impl Stage {
    fn new(settings: Settings) -> Self {
        let session = Session::new(settings, None, false, 1);
        let (child, host) = (Vec::new(), Vec::new());
        let mut stage = Self { session, now: Moment::ZERO, child, read: 0, host, alive: None, torn_down: None };
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
                    Effect::Connect(generation) => {
                        assert_eq!(self.alive, None);
                        self.alive = Some(generation);
                        self.torn_down = None;
                        self.child.clear();
                        self.read = 0;
                        self.session.child_started(generation, self.now);
                    }
                    Effect::Disconnect(generation, why) => {
                        assert_eq!(self.alive, Some(generation));
                        self.torn_down = Some(why);
                        self.session.child_is_torn_down(generation, why, b"", self.now);
                    }
                    Effect::Demand | Effect::Told => {}
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

    /// It dies, and has not read the last so many lines, which are returned.
    fn dies_before_it_reads(&mut self, count: usize) -> Vec<Value> {
        let unread = self.child.split_off(self.child.len() - count.min(self.child.len() - self.read));
        let lines: String = unread.iter().map(|line| format!("{line}\n")).collect();
        self.session.child_has_not_read(lines.as_bytes(), self.now);
        self.dies();
        unread
    }

    fn dies(&mut self) {
        let generation = self.alive.take().expect("alive");
        let cause = Cause::new("was killed by signal 9 (SIGKILL)");
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

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}"#;

#[test]
fn a_call_that_was_neither_given_back_nor_answered_is_an_error_and_a_waiting_call_is_refused() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.host_says(CALL);
    let generation = stage.alive.take().expect("alive");
    stage.session.child_rested(generation, None, stage.now);
    stage.session.is_settled(None, stage.now);
    stage.perform();
    let last = stage.host.last().expect("an answer");
    assert!(last["id"] == 7 && last["error"]["code"] == GONE, "{last}");

    stage.host_says(r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"b"}}"#);
    stage.session.refuse(&Cause::new("failed too often"), Outlook::Open, stage.now);
    stage.perform();
    // The next child was started, and is being told the handshake: what waits for it waits no more.
    let refused = stage.host.iter().filter(|message| message["id"] == 8 && message["error"]["code"] == GONE).count();
    assert_eq!(refused, 1);
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
    let replay = ["session.open", "hello"].map(|method| method.parse().expect("a method")).to_vec();
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
