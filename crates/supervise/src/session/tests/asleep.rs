//! What lets a child sleep, what wakes it, and which streams are opened again.

use super::*;

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
