//! What is said to whom: single scenes. Long random sessions are in `random`.

mod random;
mod replays;

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

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}"#;

/// What a child that others keep has not got comes back, and is said to the next one: no error, and no call twice.
#[test]
fn what_comes_back_is_said_to_the_next_child_after_its_handshake_and_before_what_came_later() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.host_says(CALL);
    let (generation, before) = (stage.alive.take().expect("alive"), stage.host.len());
    stage.session.child_rested(generation, None, stage.now);
    assert_eq!(*stage.session.state(), State::Asleep);
    assert_eq!(stage.session.effects(), []);
    stage.session.take_back(CALL.as_bytes(), stage.now);
    stage.session.is_settled(None, stage.now);
    stage.perform();
    assert_eq!(stage.alive, Some(Generation(generation.0 + 1)), "it is needed");
    stage.host_says(r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"b"}}"#);
    stage.answer(0, r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#);
    let told: Vec<_> =
        stage.child.iter().filter_map(|message| message["id"].as_i64()).filter(|id| *id < 10).collect();
    assert_eq!(told, [0, 7, 8]);
    stage.answer(7, "{}");
    assert_eq!(stage.host[before..].iter().filter(|message| message["id"] == 7).count(), 1);
}

/// The handshake that it was told again, and whether its lists are the same: the host has not asked for that.
#[test]
fn what_was_said_on_the_hosts_behalf_is_not_said_again_when_it_comes_back() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    let before = stage.host.len();
    for answers in [false, true] {
        // Another child, which rests before or after it has answered the handshake.
        let generation = stage.alive.take().expect("alive");
        stage.session.child_rested(generation, None, stage.now);
        stage.session.is_settled(None, stage.now);
        stage.session.wake(stage.now);
        stage.perform();
        if answers {
            stage.answer(0, r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#);
        }
        let generation = stage.alive.take().expect("alive");
        let said: Vec<_> = stage.child.iter().map(Value::to_string).collect();
        assert_eq!(said.len(), if answers { 3 } else { 1 }, "{said:?}");
        stage.session.child_rested(generation, None, stage.now);
        for line in said.iter().skip(usize::from(answers)) {
            stage.session.take_back(line.as_bytes(), stage.now);
        }
        stage.session.is_settled(None, stage.now);
        assert!(!stage.session.is_waited_for(), "{said:?}");
        stage.session.wake(stage.now);
        stage.perform();
        assert_eq!(stage.told(), ["initialize"]);
        stage.answer(0, r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#);
        assert_eq!(stage.told(), ["initialize", "notifications/initialized", "tools/list"]);
    }
    assert_eq!(stage.host[before..], [] as [Value; 0]);
}

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
fn a_handshake_that_was_not_answered_waits_for_the_next_child_if_the_last_one_is_lost_by_no_fault_of_its_own() {
    let mut stage = Stage::new(settings());
    stage.host_says(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#);
    stage.session.keep_handshake();
    stage.dies();
    assert_eq!(stage.host, [] as [Value; 0], "the host was told nothing");
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.told(), ["initialize"]);
    stage.answer(0, "{}");
    assert_eq!(stage.host.len(), 1);
}

/// On a machine that is busy, the time to sleep may have come before the child was even started.
#[test]
fn what_is_said_to_a_child_that_is_to_end_before_it_was_there_waits_for_the_next_one() {
    let mut session = Session::new(settings(), None, false, 1);
    session.begin(Moment::ZERO);
    let now = Moment::from_secs(11);
    session.tick(now);
    assert_eq!(
        session.effects(),
        [Effect::Connect(Generation(1)), Effect::Disconnect(Generation(1), Why::Hibernate)]
    );
    session.child_started(Generation(1), now);
    let line = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    assert_eq!(session.host_says(line, line, now), Verdict::Swallow);
    assert_eq!(session.effects(), [Effect::Demand]);
    session.child_emptied(Generation(1), Cause::new("was put to sleep"), now);
    assert_eq!(session.effects(), [Effect::Connect(Generation(2))], "the host is told of no loss");
    session.child_started(Generation(2), now);
    let told = [line.as_slice(), b"\n"].concat();
    assert_eq!(session.effects(), [Effect::Told, Effect::ToChild(told)]);
}

#[test]
fn an_idle_child_sleeps_and_a_child_that_is_being_told_does_not() {
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
fn an_answer_for_a_dead_child_does_not_reach_the_next_child_that_uses_the_same_id() {
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
fn a_stream_that_no_child_has_opened_yet_is_opened_once_and_the_host_is_told() {
    let listen = r#"{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{}}}"#;
    let acknowledged = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}"#;
    // It has waited for the child.
    let mut stage = Stage::new(settings());
    stage.dies();
    stage.host_says(listen);
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.told(), ["subscriptions/listen"]);
    assert_eq!(stage.child_says(acknowledged), Verdict::Forward);
    // The child that heard it did not live to say that it is open.
    let mut stage = Stage::new(settings());
    stage.host_says(listen);
    stage.dies();
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.told(), ["subscriptions/listen"]);
    assert_eq!(stage.child_says(acknowledged), Verdict::Forward);
    stage.dies();
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.told(), ["subscriptions/listen"]);
    assert_eq!(stage.child_says(acknowledged), Verdict::Swallow);
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

#[test]
fn what_the_dead_child_has_not_read_is_told_to_the_next_one_in_its_order() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    let call = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
    let cancel =
        |id: i64| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    (10..15).for_each(|id| stage.host_says(&call(id)));
    stage.host_says(&cancel(12));
    // An id twice: the first is answered with an error, and the second is made.
    stage.host_says(&call(10));
    stage.host_says(r#"{"jsonrpc":"2.0","id":20,"method":"ping"}"#);
    stage.host_says(
        r#"[{"jsonrpc":"2.0","id":30,"method":"x"},{"jsonrpc":"2.0","id":31,"method":"y"},{"jsonrpc":"2.0","method":"z"}]"#,
    );
    stage.host_says(&cancel(30));
    let unread = stage.dies_before_it_reads(9);
    assert_eq!(unread[0]["id"], 11);
    let errors: Vec<_> = stage.host.iter().filter(|line| line["error"].is_object()).map(|line| &line["id"]).collect();
    assert_eq!(errors, [10]);
    // What is cancelled only now is not told either.
    stage.host_says(&cancel(13));
    stage.passes(Duration::from_secs(60));
    stage.answer(0, r#"{"capabilities":{"tools":{}}}"#);
    let told: Vec<_> = stage.child.iter().skip(2).map(|line| line["id"].as_i64().unwrap_or(-1)).collect();
    assert_eq!(told[..5], [11, 14, 10, 20, -1], "{:?}", stage.child);
    let batch: Vec<_> = stage.child[6].as_array().expect("a batch").iter().map(|line| &line["method"]).collect();
    assert_eq!(batch, ["y", "z"]);
}

#[test]
fn a_ping_in_flight_keeps_no_child_awake_and_is_answered_when_it_falls_asleep() {
    let mut stage = Stage::new(settings());
    stage.handshake(TOOLS);
    stage.passes(Duration::from_secs(9));
    stage.host_says(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    assert_eq!(stage.told().last(), Some(&"ping"), "it is asked while it is there");
    stage.passes(Duration::from_secs(1));
    assert_eq!(stage.torn_down, Some(Why::Hibernate));
    let answers =
        |stage: &Stage, id: i64| stage.host.iter().filter(|line| line["id"] == id).cloned().collect::<Vec<_>>();
    assert_eq!(answers(&stage, 5), [json!({ "jsonrpc": "2.0", "id": 5, "result": {} })]);
    // It answers all the same, and another one comes.
    stage.answer(5, "{}");
    stage.host_says(r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#);
    assert_eq!((answers(&stage, 5).len(), answers(&stage, 6).len()), (1, 1));
    stage.dies();
    assert_eq!(*stage.session.state(), State::Asleep);
}
