//! What the next child is told of what the last one knew.

use super::*;

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

/// The dead child had the cancel already, so the next one would do for ever what its host does not want.
#[test]
fn a_call_that_was_cancelled_before_a_child_has_read_it_is_answered_and_not_made() {
    let mut stage = Stage::new(Settings { protocol: Protocol::JsonRpc, ..settings() });
    let call = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"hang"}}"#);
    let cancel = |id: i64| format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#);
    for id in [1, 2] {
        stage.host_says(&call(id));
    }
    stage.host_says(&cancel(1));
    assert_eq!(stage.told(), ["hang", "hang", "$/cancelRequest"], "what a child can read goes to it");
    let generation = stage.alive.take().expect("alive");
    stage.session.child_rested(generation, None, stage.now);
    // The calls come back, and the cancel does not.
    for id in [1, 2] {
        stage.session.take_back(call(id).as_bytes(), stage.now);
    }
    stage.session.is_settled(None, stage.now);
    let waits = |stage: &Stage, id: i64| !stage.host.iter().any(|message| message["id"] == id);
    stage.child.clear();
    stage.perform();
    assert_eq!(stage.host.last().map(|message| &message["error"]["code"]), Some(&Value::from(-32800)));
    assert!(!waits(&stage, 1) && waits(&stage, 2));
    let told: Vec<_> = stage.child.iter().filter_map(|message| message["id"].as_i64()).collect();
    assert_eq!(told, [2], "the next child is asked what its host still wants");
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
