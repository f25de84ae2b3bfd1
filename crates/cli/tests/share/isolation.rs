//! No part of one session's messages reaches another session, also when their ids and tokens are equal.

use std::sync::Barrier;

use badchild::wait_until;
use serde_json::{Value, json};
use testkit::many::{Many, initialize_with};
use testkit::stage::{Caller, Life, modern, shorten};

const SESSIONS: usize = 8;
const STREAM: &str = "io.modelcontextprotocol/subscriptionId";

/// A text that only this session sends.
fn mark(session: usize) -> String {
    format!("<mark {session}>")
}

/// Checks that a line that a session got has no other session's mark.
fn expect_own(session: usize, line: &str) {
    for other in (0..SESSIONS).filter(|other| *other != session) {
        assert!(
            !line.contains(&mark(other)),
            "session {session} got a line of session {other}: {}",
            shorten(line.as_bytes())
        );
    }
}

/// What a session got in one round.
#[derive(Debug, Default)]
struct Seen {
    progress: usize,
    questions: usize,
}

/// What a round contains beside calls. A cancelled call may still send a request for a while, so a round has either
/// questions or cancellations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Talk {
    Questions,
    Cancels,
}

/// All kinds of calls of a session, at once and with the same ids and tokens as in the other sessions.
fn converse(session: usize, caller: &mut Caller, round: usize, talk: Talk) -> Seen {
    let mark = mark(session);
    let token = json!({ "progressToken": "token" });
    // The steward replaces the token by the same new value as the id.
    let progress = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":$id,\"progress\":1,\"message\":\"{mark}\"}}}}\n"
    );
    let question =
        json!({ "id": format!("{mark} {round}"), "method": "sampling/createMessage", "params": { "text": mark } });
    let requests = [
        ("echo", json!({ "mark": mark, "round": round, "_meta": token })),
        ("print", json!({ "text": progress, "_meta": token })),
        (mark.as_str(), json!({})),
        ("tools/call", json!({ "name": "echo", "arguments": { "mark": mark, "round": round } })),
        ("slow", json!({ "ms": 2, "mark": mark, "_meta": token })),
        if talk == Talk::Questions { ("ask", question) } else { ("echo", json!({ "answered": question["id"] })) },
    ];
    for (id, (method, params)) in requests.iter().enumerate() {
        caller.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }
    if talk == Talk::Cancels {
        let id = requests.len();
        caller.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "hang", "params": { "mark": mark } }));
        caller.tell("notifications/cancelled", Some(json!({ "requestId": id, "reason": mark })));
    }
    let (mut seen, mut answered) = (Seen::default(), vec![false; requests.len()]);
    while answered.contains(&false) || seen.progress == 0 {
        let line = String::from_utf8(caller.next_line()).expect("text");
        expect_own(session, &line);
        let message: Value = serde_json::from_str(&line).expect("JSON");
        match message["method"].as_str() {
            Some("notifications/progress") => {
                assert_eq!(message["params"], json!({ "progressToken": "token", "progress": 1, "message": mark }));
                seen.progress += 1;
            }
            Some("sampling/createMessage") => {
                assert_eq!(message["params"]["text"], mark);
                seen.questions += 1;
                caller.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "text": mark } }));
            }
            Some(other) => panic!("{session} got {other}: {line}"),
            None => {
                let id = usize::try_from(message["id"].as_u64().expect("a number")).expect("small");
                assert!(!std::mem::replace(&mut answered[id], true), "{session} got a second answer: {line}");
                match id {
                    0 => assert_eq!(
                        (&message["result"]["mark"], &message["result"]["round"]),
                        (&json!(mark), &json!(round))
                    ),
                    2 => assert!(
                        message["error"]["message"].as_str().is_some_and(|text| text.contains(&mark)),
                        "{line}"
                    ),
                    3 => assert_eq!(message["result"]["structuredContent"], json!({ "mark": mark, "round": round })),
                    5 => assert_eq!(message["result"]["answered"], format!("{mark} {round}")),
                    _ => assert!(message["result"].is_object(), "{line}"),
                }
            }
        }
    }
    assert_eq!(seen.progress, 1);
    seen
}

const ROUNDS: usize = 20;

/// Eight sessions talk to one child at the same time. Returns the number of requests of the child that reached a
/// session, and all messages that the child got.
fn all_at_once(talk: Talk) -> (usize, Vec<Value>) {
    let many = Many::new();
    let capabilities = json!({ "sampling": {} });
    let mut callers: Vec<Caller> = (0..SESSIONS).map(|_| many.share(&[], &[])).collect();
    callers.iter_mut().for_each(|caller| drop(initialize_with(caller, "2025-06-18", &capabilities)));
    let barrier = Barrier::new(SESSIONS);
    let questions = std::thread::scope(|scope| {
        let mut playing = Vec::new();
        for (session, caller) in callers.iter_mut().enumerate() {
            let barrier = &barrier;
            playing.push(scope.spawn(move || {
                barrier.wait();
                (0..ROUNDS).map(|round| converse(session, caller, round, talk).questions).sum::<usize>()
            }));
        }
        playing.into_iter().map(|play| play.join().expect("no panic")).sum()
    });
    for (session, caller) in callers.iter_mut().enumerate() {
        caller.who();
        assert_eq!(caller.unasked(), Vec::<Value>::new(), "{session}");
    }
    many.end_all(callers);
    let lives = many.stage.lives();
    assert_eq!(lives.len(), 1);
    (questions, lives[0].heard.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

#[test]
fn eight_sessions_with_equal_ids_and_tokens_see_only_their_own() {
    let (questions, heard) = all_at_once(Talk::Questions);
    // At first the steward may not know which session a question is for, and refuses it. Then it lets sessions take
    // turns, and knows.
    assert!(questions > SESSIONS * ROUNDS / 2, "{questions} questions reached a session");
    for answer in heard.iter().filter(|message| message["result"].is_object()) {
        let (id, text) = (answer["id"].as_str().expect("text"), answer["result"]["text"].as_str().expect("text"));
        assert!(id.starts_with(text), "{answer}");
    }
}

#[test]
fn each_of_eight_sessions_cancels_only_its_own_calls() {
    let (_, heard) = all_at_once(Talk::Cancels);
    let of = |method: &'static str| heard.iter().filter(move |message| message["method"] == method);
    for cancel in of("notifications/cancelled") {
        let call = of("hang").find(|call| call["id"] == cancel["params"]["requestId"]);
        let call = call.unwrap_or_else(|| panic!("{cancel} names no call"));
        assert_eq!(call["params"]["mark"], cancel["params"]["reason"]);
    }
    // The child gets neither a call that was cancelled before it was passed on, nor its cancellation.
    let count = of("hang").count();
    assert!(count > 0, "no call was passed on to the child");
    assert_eq!(of("notifications/cancelled").count(), count);
}

#[test]
fn resource_updates_reach_only_the_sessions_that_have_subscribed() {
    let many = Many::new();
    let mut callers = many.several(SESSIONS, &[]);
    for (session, caller) in callers.iter_mut().enumerate() {
        caller.result("resources/subscribe", json!({ "uri": format!("test://{}", mark(session)) }));
        if session % 2 == 0 {
            caller.result("resources/subscribe", json!({ "uri": "test://even" }));
        }
    }
    let update = |caller: &mut Caller, uri: &str| {
        caller.result("notify", json!({ "method": "notifications/resources/updated", "params": { "uri": uri } }));
    };
    for session in 0..SESSIONS {
        update(&mut callers[(session + 1) % SESSIONS], &format!("test://{}", mark(session)));
    }
    update(&mut callers[1], "test://even");
    // A session that unsubscribes gets no more updates, and the others still do.
    callers[0].result("resources/unsubscribe", json!({ "uri": "test://even" }));
    update(&mut callers[1], "test://even");
    for (session, caller) in callers.iter_mut().enumerate() {
        caller.who();
        let uris: Vec<_> = caller.unasked().iter().map(|update| update["params"]["uri"].clone()).collect();
        let mut expected = vec![json!(format!("test://{}", mark(session)))];
        let times = if session == 0 { 1 } else { 2 * usize::from(session % 2 == 0) };
        expected.extend(vec![json!("test://even"); times]);
        assert_eq!(uris, expected, "{session}");
    }
    // The child gets each subscription once. It gets the end of the common one only when the last subscriber has gone.
    let told = many.stage.lives()[0].heard.clone();
    assert_eq!(told.iter().filter(|line| line.contains("resources/subscribe") && line.contains("even")).count(), 1);
    assert_eq!(told.iter().filter(|line| line.contains("resources/unsubscribe")).count(), 0);
    let last = callers.remove(6);
    for caller in callers.drain(1..) {
        many.end(caller);
    }
    many.wait_for_leases(2);
    assert!(callers[0].who()["subscriptions"].as_array().is_some_and(|all| all.contains(&json!("test://even"))));
    many.end(last);
    wait_until("the child has no common subscription any more", || {
        callers[0].who()["subscriptions"] == json!([format!("test://{}", mark(0))])
    });
    many.end_all(callers);
}

#[test]
fn log_messages_are_filtered_by_the_level_of_each_session() {
    const LEVELS: [&str; SESSIONS] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let many = Many::new();
    let mut callers = many.several(SESSIONS, &[]);
    // The quietest session first: the child gets the most verbose level of all sessions.
    for (session, caller) in callers.iter_mut().enumerate().rev() {
        caller.result("logging/setLevel", json!({ "level": LEVELS[session] }));
        assert_eq!(caller.who()["level"], LEVELS[session]);
    }
    for level in LEVELS {
        let params = json!({ "level": level, "data": format!("a word of {level}") });
        callers[3].result("notify", json!({ "method": "notifications/message", "params": params }));
    }
    for (session, caller) in callers.iter_mut().enumerate() {
        caller.who();
        let levels: Vec<_> = caller.unasked().iter().map(|message| message["params"]["level"].clone()).collect();
        assert_eq!(levels, LEVELS[session..], "{session}");
    }
    // When the session with the most verbose level ends, the child gets the next level.
    many.end(callers.remove(0));
    wait_until("the child has the next level", || callers[0].who()["level"] == "info");
    many.end_all(callers);
}

#[test]
fn a_notification_for_all_sessions_reaches_all_sessions() {
    let many = Many::new();
    let mut callers = many.several(SESSIONS, &[]);
    callers[0].result("notify", json!({ "method": "notifications/tools/list_changed" }));
    for caller in &mut callers {
        caller.notified("notifications/tools/list_changed");
    }
    many.end_all(callers);
}

#[test]
fn a_session_can_neither_answer_nor_cancel_for_another() {
    let many = Many::new();
    let capabilities = json!({ "sampling": {} });
    let mut callers: Vec<Caller> = (0..2).map(|_| many.share(&[], &[])).collect();
    callers.iter_mut().for_each(|caller| drop(initialize_with(caller, "2025-06-18", &capabilities)));
    let question = json!({ "id": "q", "method": "sampling/createMessage", "params": {} });
    let asking = callers[1].ask("ask", question);
    callers[1].notified("sampling/createMessage");
    // Only session 1 has a call in flight, so the question is for it. Session 0 sends false answers and cancellations.
    callers[0].send(&json!({ "jsonrpc": "2.0", "id": "q", "result": { "text": "a lie" } }));
    callers[0].send(&json!({ "jsonrpc": "2.0", "id": "q", "error": { "code": 1, "message": "a lie" } }));
    let ids: Vec<Value> =
        (0..40).map(Value::from).chain([json!(asking), json!("q"), json!(asking.to_string())]).collect();
    for id in ids {
        callers[0].tell("notifications/cancelled", Some(json!({ "requestId": id, "reason": "a lie" })));
        callers[0].tell("notifications/progress", Some(json!({ "progressToken": id, "progress": 1 })));
    }
    callers[0].who();
    callers[1].send(&json!({ "jsonrpc": "2.0", "id": "q", "result": { "text": "the truth" } }));
    assert_eq!(callers[1].answer(asking)["result"]["answered"], "q");
    let heard = many.stage.lives()[0].heard.clone();
    assert!(!heard.iter().any(|line| line.contains("a lie")), "{heard:#?}");
    assert_eq!(heard.iter().filter(|line| line.contains("the truth")).count(), 1);
    for caller in &mut callers {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    many.end_all(callers);
}

#[test]
fn streams_of_the_newer_era_with_equal_ids_are_kept_apart() {
    let many = Many::new();
    let mut callers: Vec<Caller> = (0..SESSIONS).map(|_| many.share(&[], &["--modern"])).collect();
    let mut streams = Vec::new();
    for (session, caller) in callers.iter_mut().enumerate() {
        let wanted = json!({ "resourceSubscriptions": [mark(session)] });
        let params = modern(json!({ "notifications": wanted }));
        caller.send(&json!({ "jsonrpc": "2.0", "id": "stream", "method": "subscriptions/listen", "params": params }));
        let begun = caller.notified("notifications/subscriptions/acknowledged");
        assert_eq!(begun["params"]["_meta"][STREAM], "stream");
        assert_eq!(begun["params"]["notifications"], wanted);
        let listens = caller.result("who", modern(json!({})))["listens"].clone();
        streams.push(listens.as_array().and_then(|all| all.last().cloned()).expect("an id"));
    }
    for (session, id) in streams.iter().enumerate() {
        let params = json!({ "uri": mark(session), "_meta": { STREAM: id } });
        let notify = json!({ "method": "notifications/resources/updated", "params": params });
        callers[(session + 3) % SESSIONS].result("notify", modern(notify));
    }
    for (session, caller) in callers.iter_mut().enumerate() {
        let update = caller.notified("notifications/resources/updated");
        assert_eq!(update["params"], json!({ "uri": mark(session), "_meta": { STREAM: "stream" } }));
        caller.result("who", modern(json!({})));
        assert_eq!(caller.unasked(), Vec::<Value>::new(), "{session}");
    }
    // Each stream was opened once, also those that had to wait for the child.
    let opened = many.stage.lives()[0].methods();
    assert_eq!(opened.iter().filter(|method| *method == "subscriptions/listen").count(), SESSIONS);
    // One session ends its own stream.
    callers[2].tell("notifications/cancelled", Some(json!({ "requestId": "stream" })));
    wait_until("the child has closed the stream", || {
        let listens = callers[2].result("who", modern(json!({})))["listens"].clone();
        listens.as_array().is_some_and(|all| all.len() == SESSIONS - 1 && !all.contains(&streams[2]))
    });
    assert_eq!(many.stage.lives().len(), 1);
    many.end_all(callers);
}

/// A session's first message may open a stream, and the child that other sessions share may be of the wrong era for it.
#[test]
fn a_stream_that_is_opened_at_another_child_is_acknowledged_there() {
    let many = Many::new();
    let mut older = many.share(&[], &["--both"]);
    older.initialize();
    let mut newer: Vec<Caller> = (0..2).map(|_| many.share(&[], &["--both"])).collect();
    for caller in &mut newer {
        let params = modern(json!({ "notifications": {} }));
        caller.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params }));
        let begun = caller.notified("notifications/subscriptions/acknowledged");
        assert_eq!(begun["params"]["_meta"][STREAM], 1);
    }
    let lives = many.stage.lives();
    assert_eq!(lives.len(), 2);
    let count = |life: &Life| life.methods().iter().filter(|method| *method == "subscriptions/listen").count();
    assert_eq!((count(&lives[0]), count(&lives[1])), (0, 2));
    older.who();
    for caller in &mut newer {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    many.end_all(newer.into_iter().chain([older]));
}

/// A session cannot infer the ids of other sessions' calls from its own.
#[test]
fn ids_on_the_wire_cannot_be_guessed() {
    let many = Many::new();
    let mut callers = many.several(2, &[]);
    for round in 0..20 {
        callers.iter_mut().for_each(|caller| drop(caller.result("echo", json!({ "round": round }))));
    }
    many.end_all(callers);
    let lives = many.stage.lives();
    let heard = lives[0].heard.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ids: Vec<u64> =
        heard.filter(|line| line["method"] == "echo").filter_map(|line| line["id"].as_u64()).collect();
    assert_eq!(ids.len(), 40);
    assert!(ids.iter().all(|id| *id < 1 << 53), "some readers keep only 53 bits: {ids:?}");
    // Random numbers of 53 bits: two of forty are this close once in ten million runs.
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[1] - pair[0] > 1 << 10), "{ids:?}");
}
