//! A hostile session beside an honest one, with real servers: no answer of the honest session is lost, changed, or
//! replaced by an answer of the hostile one.
//!
//! The hostile session sends every kind of line that once let one session speak for another. With `NOSTRAY_LONG=1`, the
//! honest session makes 10,000 calls with each server.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};
use testkit::many::Many;
use testkit::stage::Caller;

use crate::install::Kit;
use crate::servers::Server;

/// How many calls the honest session has in flight.
const IN_FLIGHT: u64 = 16;

fn calls() -> u64 {
    if std::env::var_os("NOSTRAY_LONG").is_some() { 10_000 } else { 1_000 }
}

/// The lines of the hostile session. Each targets a call of the honest session by an id that the call might have.
fn attacks(victim: u64) -> Vec<String> {
    let padding = "x".repeat(1500);
    let evil = format!(
        r#"{{"jsonrpc":"2.0","id":{victim},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"evil"}}}}}}"#
    );
    let cancel =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{victim}}}}}"#);
    let call = |rest: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{padding}"}}}}{rest}}}"#
        )
    };
    let mut lines = vec![
        call(&format!(r#","id":{victim}"#)),
        call(&format!(r#","\u0069d":{victim}"#)),
        call(&format!(r#","method":"notifications/cancelled","params":{{"requestId":{victim}}}"#)),
        format!(r#"{{"jsonrpc":"2.0","id":"mine","method":"ping","id":{victim}}}"#),
        cancel.clone(),
        cancel.replace("notifications/cancelled", "$/cancelRequest").replace("requestId", "id"),
        cancel.replace(r#""method""#, r#""id":"mine","method""#),
        format!(r#"{{"jsonrpc":"2.0","id":{victim},"result":{{"content":[{{"type":"text","text":"evil"}}]}}}}"#),
        "!{\"word\":\"heard\"}".to_owned(),
        "no message at all".to_owned(),
    ];
    for end in ["\r", "\u{2028}", "\u{85}", "\u{b}"] {
        let ping = r#"{"jsonrpc":"2.0","id":"mine","method":"ping"}"#;
        let several: Vec<_> =
            (victim..victim + 8).map(|id| evil.replace(&victim.to_string(), &id.to_string())).collect();
        lines.push(format!("{ping}{end}{}{end}{ping}", several.join(end)));
        lines.push(format!("{ping}{end}{cancel}{end}{ping}"));
        let hidden = [&evil, &cancel].map(|line| line.replace('"', "\\\""));
        for hidden in hidden {
            lines.push(format!(
                r#"{{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{end}{hidden}{end}"}}}}}}"#
            ));
        }
        lines.push(format!(r#"{{"jsonrpc":"2.0","id":"mine",{end}"method":"ping"}}"#));
    }
    lines
}

/// Sends some hostile lines after each answer to the honest session, until that session is done.
fn be_hostile(mut stdin: ChildStdin, answered: &Receiver<()>) -> ChildStdin {
    let mut said = 0;
    loop {
        for kind in 0..attacks(0).len() {
            if answered.recv().is_err() {
                return stdin;
            }
            said += 1;
            // If ids were counted up, those of open calls would be somewhat above the number of calls so far.
            let behind = said + said * 7919 % (4 * said + IN_FLIGHT);
            for victim in behind..behind + 4 {
                writeln!(stdin, "{}", attacks(victim)[kind]).expect("nostray reads the line");
            }
        }
    }
}

/// Makes the honest session's calls, many at once, and checks that each is answered once, with its own text.
fn be_honest(caller: &mut Caller, told: &Sender<()>) {
    let text = |id: u64| format!("honest {id} \u{2028} {}", "y".repeat((id % 50 * 40) as usize));
    let mut open: BTreeMap<u64, String> = BTreeMap::new();
    let (mut next, mut answered) = (0, 0);
    while answered < calls() {
        while next < calls() && (open.len() as u64) < IN_FLIGHT {
            next += 1;
            let arguments = json!({ "name": "echo", "arguments": { "text": text(next) } });
            caller.send(&json!({ "jsonrpc": "2.0", "id": next, "method": "tools/call", "params": arguments }));
            open.insert(next, text(next));
        }
        let line = caller.next_line();
        let answer: Value = serde_json::from_slice(&line).expect("JSON");
        let expected = answer["id"].as_u64().and_then(|id| open.remove(&id));
        let expected = expected.unwrap_or_else(|| panic!("answers no open call: {answer}"));
        assert_eq!(answer["result"]["content"][0]["text"], expected, "{answer}");
        answered += 1;
        told.send(()).ok();
    }
}

/// Makes the handshake of the older protocol, which all servers know.
fn begin(caller: &mut Caller) {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    caller.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
    let answer: Value = serde_json::from_slice(&caller.next_line()).expect("JSON");
    assert!(answer["result"]["capabilities"].is_object(), "{answer}");
    caller.tell("notifications/initialized", None);
}

#[track_caller]
fn an_honest_session_is_served_beside_a_hostile_one(server: Option<Vec<PathBuf>>) {
    let Some(server) = server else { return };
    let many = Many::new();
    let words: Vec<_> = server.iter().map(|word| word.to_str().expect("text")).collect();
    let mut sessions = [(); 2].map(|()| many.share_command(&["--require-share"], &words, |_| {}));
    sessions.iter_mut().for_each(begin);
    let [mut honest, mut hostile] = sessions;
    assert_eq!(many.pens().len(), 1, "the sessions must share one server");
    let (tell, answered) = channel();
    std::thread::scope(|scope| {
        let stdin = hostile.take_stdin();
        let attacking = scope.spawn(move || be_hostile(stdin, &answered));
        let serving = scope.spawn(|| be_honest(&mut honest, &{ tell }));
        let served = serving.join();
        hostile.give_stdin(attacking.join().expect("the hostile session could send all lines"));
        served.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    // Both sessions are still attached, and the child was never restarted.
    assert_eq!(many.wait_for_leases(2)["generation"], 1);
    drop((honest, hostile));
}

#[test]
fn of_fastmcp_1() {
    an_honest_session_is_served_beside_a_hostile_one(Kit::Python1.words("bin/python", &["fast.py"]));
}

#[test]
fn of_fastmcp_2() {
    an_honest_session_is_served_beside_a_hostile_one(Kit::Python2.words("bin/python", &["fast.py"]));
}

#[test]
fn of_the_typescript_sdk_1() {
    an_honest_session_is_served_beside_a_hostile_one(Server::TypeScript1.words());
}

#[test]
fn of_the_typescript_sdk_2() {
    an_honest_session_is_served_beside_a_hostile_one(Server::TypeScript2.words());
}
