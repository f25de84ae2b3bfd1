//! A bridge that is no MCP server, modelled on one in use: it speaks JSON-RPC lines, has sessions of its own, which it
//! names in each message, sends requests of its own (`srv-N`) that any session may answer, and prints log lines on its
//! stdout in between.

use std::time::Duration;

use badchild::{Found, comes_true, wait_until};
use nostray_sys::{Pid, Signal};
use serde_json::{Value, json};
use testkit::many::Many;
use testkit::stage::Caller;

const OPTIONS: [&str; 10] = [
    "--protocol",
    "jsonrpc",
    "--route-by",
    "params.sessionId",
    "--reverse",
    "newest",
    "--replay",
    "session.open",
    "--backoff",
    "1ms..5ms",
];

/// The same without `--route-by` and `--reverse`: messages name no session, and no session answers for others.
const CERTAIN: [&str; 7] =
    ["--protocol", "jsonrpc", "--respawn", "--replay", "session.open", "--backoff", "1ms..5ms"];

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A host that has opened one session of the bridge.
fn open(many: &Many, name: &str) -> Caller {
    let mut caller = many.share(&OPTIONS, &["--plain", "--banner", "[bridge] listening"]);
    let opened = caller.result("session.open", json!({ "sessionId": name, "user": "u" }));
    assert_eq!(opened, json!({ "open": true }));
    caller
}

/// Makes the bridge send a notification, and waits until it is sent.
fn say(by: &mut Caller, method: &str, params: &Value) {
    by.result("notify", json!({ "method": method, "params": params }));
}

/// Makes the bridge send a request after it has answered the call, so that no call is in flight.
fn ask(by: &mut Caller, id: &str, params: &Value) {
    by.result("ask", json!({ "id": id, "method": "host.llm.complete", "params": params, "afterwards": true }));
}

/// Makes the bridge send a request while a call is in flight.
fn ask_meanwhile(by: &mut Caller, id: &str, params: &Value) {
    by.result("ask", json!({ "id": id, "method": "host.llm.complete", "params": params, "no_wait": true }));
}

fn answers(many: &Many, by: &mut Caller) -> Value {
    assert_eq!(many.stewards().len(), 1);
    by.who()["answers"].clone()
}

#[test]
fn equal_ids_of_two_hosts_never_meet() {
    let many = Many::new();
    let mut callers = [open(&many, "a"), open(&many, "b")];
    assert_eq!(callers[0].pid(), callers[1].pid());
    let params = |number: usize, round: u64| json!({ "sessionId": NAMES[number], "round": round, "whose": number });
    for round in 0..200_u64 {
        for (number, caller) in callers.iter_mut().enumerate() {
            let params = params(number, round);
            caller.send(&json!({ "jsonrpc": "2.0", "id": 1000 + round % 3, "method": "echo", "params": params }));
        }
    }
    for round in 0..200_u64 {
        for (number, caller) in callers.iter_mut().enumerate() {
            let answer: Value = serde_json::from_slice(&caller.next_line()).expect("JSON");
            assert_eq!(answer["id"], 1000 + round % 3);
            assert_eq!(answer["result"], params(number, round));
        }
    }
    many.end_all(callers);
}

#[test]
fn notifications_go_to_the_session_that_they_name_and_to_all_if_they_name_none() {
    let many = Many::new();
    let mut callers = [open(&many, "a"), open(&many, "b"), open(&many, "c")];
    // The session that makes the bridge send them is never the session that they name.
    for (number, name) in NAMES.iter().enumerate() {
        let by = &mut callers[(number + 1) % 3];
        say(by, "events.notify", &json!({ "sessionId": name, "event": format!("for {name}") }));
        say(by, "logs.forward", &json!({ "sessionId": name, "line": format!("of {name}") }));
        by.result("print", json!({ "text": "[bridge] a plain line on stdout\n" }));
    }
    say(&mut callers[0], "logs.forward", &json!({ "line": "for all" }));
    say(&mut callers[0], "events.notify", &json!({ "sessionId": "nobody's", "event": "unknown" }));
    for caller in &mut callers {
        caller.who();
    }
    for (caller, name) in callers.iter_mut().zip(NAMES) {
        let said: Vec<_> = caller.unasked().iter().map(|message| message["params"].clone()).collect();
        assert_eq!(
            said,
            [
                json!({ "sessionId": name, "event": format!("for {name}") }),
                json!({ "sessionId": name, "line": format!("of {name}") }),
                json!({ "line": "for all" }),
                json!({ "sessionId": "nobody's", "event": "unknown" }),
            ]
        );
    }
    let printed = many.stage.printed();
    assert_eq!(printed.matches("[bridge] a plain line on stdout").count(), 3, "{printed}");
    assert!(printed.contains("[bridge] listening"), "{printed}");

    // A notification for a session that has ended reaches no session.
    let [first, mut second, third] = callers;
    many.end(first);
    many.wait_for_leases(2);
    say(&mut second, "events.notify", &json!({ "sessionId": "a", "event": "too late" }));
    second.who();
    assert_eq!(second.unasked(), Vec::<Value>::new());
    many.end_all([second, third]);
}

#[test]
fn a_request_of_the_bridge_is_answered_by_the_session_it_names_or_by_the_newest() {
    let many = Many::new();
    let (mut first, mut second) = (open(&many, "a"), open(&many, "b"));
    // The request names a session.
    ask(&mut second, "srv-1", &json!({ "sessionId": "a", "prompt": "for a" }));
    let asked = first.notified("host.llm.complete");
    assert_eq!((&asked["id"], &asked["params"]["prompt"]), (&json!("srv-1"), &json!("for a")));
    first.send(&json!({ "jsonrpc": "2.0", "id": "srv-1", "result": { "text": "yes" } }));
    wait_until("the bridge has its answer", || answers(&many, &mut first) == json!(["srv-1"]));
    // The request names no session.
    ask(&mut first, "srv-2", &json!({ "prompt": "for anybody" }));
    let asked = second.notified("host.llm.complete");
    assert_eq!(asked["id"], "srv-2");
    // The answer of another session does not count.
    first.send(&json!({ "jsonrpc": "2.0", "id": "srv-2", "result": { "text": "from the wrong one" } }));
    first.who();
    second.send(&json!({ "jsonrpc": "2.0", "id": "srv-2", "result": { "text": "from the right one" } }));
    wait_until("the bridge has its answer", || answers(&many, &mut second) == json!(["srv-1", "srv-2"]));
    // The request names no session, but only one session has a call in flight.
    ask_meanwhile(&mut first, "srv-3", &json!({ "prompt": "for the caller" }));
    assert_eq!(first.notified("host.llm.complete")["id"], "srv-3");
    first.send(&json!({ "jsonrpc": "2.0", "id": "srv-3", "result": {} }));
    wait_until("the bridge has its answer", || answers(&many, &mut second) == json!(["srv-1", "srv-2", "srv-3"]));
    let heard = many.stage.lives()[0].heard.clone();
    assert!(!heard.iter().any(|line| line.contains("from the wrong one")));
    assert_eq!(heard.iter().filter(|line| line.contains("from the right one")).count(), 1);
    for caller in [&mut first, &mut second] {
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    many.end_all([first, second]);
}

#[test]
fn a_request_that_a_session_leaves_unanswered_goes_to_the_next_session() {
    let many = Many::new();
    let (mut oldest, mut middle, mut newest) = (open(&many, "a"), open(&many, "b"), open(&many, "c"));
    ask(&mut oldest, "srv-1", &json!({ "prompt": "for anybody" }));
    newest.notified("host.llm.complete");
    // Whether the session is killed, as here, or closes, as below.
    newest.process.kill().expect("kill");
    assert_eq!(middle.notified("host.llm.complete")["id"], "srv-1");
    many.end(middle);
    assert_eq!(oldest.notified("host.llm.complete")["id"], "srv-1");
    oldest.send(&json!({ "jsonrpc": "2.0", "id": "srv-1", "result": {} }));
    wait_until("the bridge has its answer", || answers(&many, &mut oldest) == json!(["srv-1"]));
    let told = many.stage.lives()[0].methods();
    assert_eq!(told.iter().filter(|line| *line == "answer \"srv-1\"").count(), 1, "{told:?}");

    // A newer session does not get a request that another session works on.
    ask(&mut oldest, "srv-2", &json!({ "prompt": "for anybody" }));
    oldest.notified("host.llm.complete");
    let mut newer = open(&many, "d");
    newer.who();
    assert_eq!(newer.unasked(), Vec::<Value>::new());
    oldest.send(&json!({ "jsonrpc": "2.0", "id": "srv-2", "result": {} }));
    wait_until("the bridge has its answer", || answers(&many, &mut newer) == json!(["srv-1", "srv-2"]));
    many.end_all([oldest, newer]);
    assert_eq!(many.stage.lives().len(), 1);
}

/// Without a session left, the bridge gets an error. It lingers, and serves a session that comes in time.
#[test]
fn a_request_without_a_session_left_to_answer_is_answered_with_an_error() {
    let many = Many::new();
    let options = [&OPTIONS[..], &["--linger", "30s"]].concat();
    let server = ["--plain", "--banner", "[bridge] listening"];
    let mut first = many.share(&options, &server);
    first.result("session.open", json!({ "sessionId": "a" }));
    ask(&mut first, "srv-1", &json!({ "prompt": "for anybody" }));
    first.notified("host.llm.complete");
    let pid = first.pid();
    many.end(first);
    let told = || many.stage.lives()[0].heard.iter().any(|line| line.contains("\"srv-1\",\"error\""));
    wait_until("the bridge has got the error", told);
    let mut second = many.share(&options, &server);
    second.result("session.open", json!({ "sessionId": "b" }));
    assert_eq!(second.pid(), pid, "the bridge must linger for the next session");
    assert!(many.nostray(&["stop", "--all"]).status.success());
    many.expect_no_process();
}

#[test]
fn after_a_crash_every_session_is_opened_again_before_anything_else() {
    let many = Many::new();
    let mut callers = [open(&many, "a"), open(&many, "b")];
    let before = callers[0].pid();
    // One host may have several sessions.
    callers[1].result("session.open", json!({ "sessionId": "b2" }));
    let hanging = callers[1].ask("hang", json!({ "sessionId": "b" }));
    // Otherwise the call would wait for the next bridge.
    wait_until("the call is in flight", || many.stage.lives()[0].methods().contains(&"hang".to_owned()));
    let error = callers[0].error("die", json!({ "sessionId": "a", "code": 3 }));
    assert_eq!(error["code"], -32000);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("exited with code 3")), "{error}");
    assert_eq!(callers[1].answer(hanging)["error"]["code"], -32000);
    for caller in &mut callers {
        assert_ne!(caller.pid(), before);
        assert_eq!(caller.unasked(), Vec::<Value>::new(), "the host must not get answers to the replay");
    }
    let lives = many.stage.lives();
    assert_eq!(lives.len(), 2);
    let opened = |life: &testkit::stage::Life, name: &str| {
        let line = format!("\"sessionId\":\"{name}\"");
        life.heard.iter().filter(|heard| heard.contains("session.open") && heard.contains(&line)).count()
    };
    for name in ["a", "b", "b2"] {
        assert_eq!(opened(&lives[1], name), 1, "{name}: {:#?}", lives[1].heard);
    }
    assert!(!lives[1].methods().iter().any(|method| method == "hang" || method == "die"), "a call was made twice");
    // The next bridge's notifications reach the session that they name.
    say(&mut callers[1], "events.notify", &json!({ "sessionId": "a", "event": "for a" }));
    assert_eq!(callers[0].notified("events.notify")["params"]["event"], "for a");
    callers[1].who();
    assert_eq!(callers[1].unasked(), Vec::<Value>::new());

    // A session that has ended is not opened again.
    let [first, mut second] = callers;
    many.end(first);
    many.wait_for_leases(1);
    second.error("die", json!({}));
    second.who();
    let lives = many.stage.lives();
    assert_eq!((opened(&lives[2], "a"), opened(&lives[2], "b"), opened(&lives[2], "b2")), (0, 1, 1));
    many.end_all([second]);
    let again = comes_true(Duration::from_millis(300), &mut || many.stage.lives().len() > 3);
    assert!(!again, "the bridge was started without a session");
}

/// The next bridge goes on with its predecessor's work, and sends a request with the text of a session that has not
/// reattached yet.
#[test]
fn after_a_crash_no_session_gets_a_request_that_may_be_for_another() {
    let many = Many::new();
    let share = |name: &str| {
        let mut caller = many.share(&CERTAIN, &["--plain"]);
        caller.result("session.open", json!({ "sessionId": name }));
        caller
    };
    let (mut first, mut second) = (share("a"), share("b"));
    let front = Found::by_pid(Pid::from_child(&second.process)).expect("the front of b");
    front.send(Signal::STOP);
    first.error("die", json!({}));
    ask_meanwhile(&mut first, "srv-1", &json!({ "text": "of b" }));
    let refused = || many.stage.lives()[1].heard.iter().any(|line| line.contains("\"srv-1\",\"error\""));
    wait_until("the bridge is refused", refused);
    assert_eq!(first.unasked(), Vec::<Value>::new());

    // When all sessions have reattached, the only session with a call in flight gets the request.
    front.send(Signal::CONT);
    second.who();
    let asking = second.ask("ask", json!({ "id": "srv-2", "method": "host.llm.complete", "params": {} }));
    assert_eq!(second.notified("host.llm.complete")["id"], "srv-2");
    second.send(&json!({ "jsonrpc": "2.0", "id": "srv-2", "result": {} }));
    second.answer(asking);
    assert_eq!((first.unasked(), second.unasked()), (Vec::new(), Vec::new()));
    many.end_all([first, second]);
}
#[test]
fn a_name_is_found_in_each_place_that_route_by_names() {
    let many = Many::new();
    let options = [&CERTAIN[..], &["--route-by", "params.sessionId,params.payload.sessionId"]].concat();
    let mut callers = ["a", "b"].map(|name| {
        let mut caller = many.share(&options, &["--plain"]);
        caller.result("session.open", json!({ "sessionId": name }));
        caller
    });
    say(&mut callers[1], "events.notify", &json!({ "payload": { "sessionId": "a" } }));
    ask(&mut callers[1], "srv-1", &json!({ "payload": { "sessionId": "a" } }));
    callers[0].notified("events.notify");
    callers[0].notified("host.llm.complete");
    callers[1].who();
    assert_eq!(callers[1].unasked(), Vec::<Value>::new());
    many.end_all(callers);
    assert!(!many.stage.journal().contains("--route-by"), "{}", many.stage.journal());
}

#[test]
fn route_by_takes_as_many_members_as_a_check_of_a_line_can_keep_and_refuses_more() {
    let many = Many::new();
    let paths = |count: usize| (1..count).map(|n| format!("params.n{n}")).collect::<Vec<_>>().join(",");
    let most = format!("params.a.b.c.d.e.f.g,{}", paths(32));
    let options = [&CERTAIN[..], &["--route-by", &most]].concat();
    let mut caller = many.share(&options, &["--plain"]);
    assert_eq!(caller.result("session.open", json!({ "sessionId": "a", "n31": "a" })), json!({ "open": true }));
    many.end_all([caller]);
    for (paths, why) in [(paths(34), "32 at most"), ("params.a.b.c.d.e.f.g.h".to_owned(), "8 deep at most")] {
        let refused = many.nostray(&["share", "--protocol", "jsonrpc", "--route-by", &paths, "--", "true"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(why), "{said}");
    }
}

#[test]
fn the_journal_says_that_route_by_never_matched() {
    let many = Many::new();
    let options = [&CERTAIN[..], &["--route-by", "params.sesionId"]].concat();
    let mut caller = many.share(&options, &["--plain"]);
    caller.result("session.open", json!({ "sessionId": "a" }));
    say(&mut caller, "events.notify", &json!({ "sessionId": "a" }));
    many.end_all([caller]);
    let journal = many.stage.journal();
    assert_eq!(journal.matches("--route-by params.sesionId never matched").count(), 1, "{journal}");
}

#[test]
fn after_a_crash_only_open_sessions_are_opened_again() {
    let many = Many::new();
    let replay = "session.open=session.close@params.sessionId";
    let options = ["--protocol", "jsonrpc", "--respawn", "--replay", replay, "--backoff", "1ms..5ms"];
    let mut callers = ["a", "b"].map(|name| {
        let mut caller = many.share(&options, &["--plain"]);
        for session in ["1", "2", "3"] {
            caller.result("session.open", json!({ "sessionId": format!("{name}{session}"), "n": 1 }));
        }
        caller.result("session.close", json!({ "sessionId": format!("{name}1") }));
        caller.result("session.open", json!({ "sessionId": format!("{name}2"), "n": 2 }));
        caller
    });
    callers[0].error("die", json!({}));
    callers.iter_mut().for_each(|caller| drop(caller.who()));
    let heard = many.stage.lives()[1].heard.clone();
    let opened = |name: &str, n: u64| {
        let is_it = |line: &&String| {
            line.contains("session.open") && line.contains(name) && line.contains(&format!("\"n\":{n}"))
        };
        heard.iter().filter(is_it).count()
    };
    for name in ["a", "b"] {
        let counts = ["1", "2", "3"].map(|session| [1, 2].map(|n| opened(&format!("{name}{session}"), n)));
        assert_eq!(counts, [[0, 0], [0, 1], [1, 0]], "{name}: {heard:#?}");
    }
    assert!(!heard.iter().any(|line| line.contains("session.close")), "{heard:#?}");
    many.end_all(callers);
}
