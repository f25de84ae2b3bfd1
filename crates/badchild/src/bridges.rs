//! A memory bridge, as one in the field behaves: JSON-RPC lines that are not MCP, a session in `params.sessionId`, requests of its own
//! to the host (`srv-N`), plain log lines on stdout, and open turns that it keeps in memory alone.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Args, Failure};

/// What the bridge answers for a turn that it has not opened, or not in this life.
pub(crate) const NOT_OPEN: i64 = 1001;

/// `bridge.cjs [--store FILE] [--start-delay MS] [--daemon]`
///
/// `session.open`, `session.close`, `turn.start {sessionId, text}` and `turn.end {sessionId, episodeId}`. At the end of a turn the
/// bridge asks the host for a summary (`host.llm.complete`), and appends `{session, text, summary}` to the store as one line of JSON.
/// `crash.at.end`: the next `turn.end` kills the bridge while the call is in flight.
/// Each process appends its number to FILE.lives, as a line.
/// `--daemon`: the viewer. It serves no session, holds the lock of FILE.viewer, and ends by a signal alone.
pub(crate) fn bridge(mut args: Args) -> Result<ExitCode, Failure> {
    let store = args.option("--store");
    if args.flag("--daemon") {
        return view(&store.ok_or("--daemon needs --store")?);
    }
    let delay = args.option("--start-delay").map_or(Ok(0), |text| text.parse())?;
    std::thread::sleep(Duration::from_millis(delay));
    let append = |path: &str| std::fs::File::options().create(true).append(true).open(path);
    if let Some(path) = &store {
        append(&format!("{path}.lives"))?.write_all(format!("{}\n", std::process::id()).as_bytes())?;
    }
    let store = store.as_deref().map(append).transpose()?;
    let mut bridge = Bridge { store, turns: HashMap::new(), asked: HashMap::new(), count: 0, crashes: false };
    println!("[bridge] listening, pid {}", std::process::id());
    for line in std::io::stdin().lock().lines() {
        if let Ok(message) = serde_json::from_str::<Value>(&line?) {
            bridge.on(&message)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `node --version`, which is how a host finds out whether there is a Node.
pub(crate) fn version() -> Result<ExitCode, Failure> {
    println!("v20.0.0");
    Ok(ExitCode::SUCCESS)
}

fn view(store: &str) -> Result<ExitCode, Failure> {
    let lock = std::fs::File::create(format!("{store}.viewer"))?;
    if lock.try_lock().is_err() {
        return Err("there is a viewer already".into());
    }
    crate::exits::pause_for_ever()
}

/// A turn of a session.
struct Turn {
    session: String,
    text: String,
}

struct Bridge {
    store: Option<std::fs::File>,
    /// The open turns, by their episode.
    turns: HashMap<String, Turn>,
    /// The turns whose summary the host was asked for, by the id of that request, with the call that ends the turn.
    asked: HashMap<String, (Turn, Value)>,
    count: u64,
    crashes: bool,
}

impl Bridge {
    fn on(&mut self, message: &Value) -> Result<(), Failure> {
        let (id, params) = (&message["id"], &message["params"]);
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        match message["method"].as_str() {
            None => self.summarised(message),
            Some("session.open" | "session.close") => say(&json!({ "id": id, "result": { "sessionId": session } })),
            Some("crash.at.end") => {
                self.crashes = true;
                say(&json!({ "id": id, "result": {} }))
            }
            Some("turn.start") => {
                self.count += 1;
                let episode = format!("{}-{}", std::process::id(), self.count);
                let text = params["text"].as_str().unwrap_or_default().to_owned();
                self.turns.insert(episode.clone(), Turn { session: session.clone(), text });
                say(&json!({ "method": "events.notify", "params": { "sessionId": session, "event": "opened" } }))?;
                say(&json!({ "id": id, "result": { "episodeId": episode } }))
            }
            Some("turn.end") if self.crashes => Err("crashed in mid-turn".into()),
            Some("turn.end") => {
                let Some(turn) = self.turns.remove(params["episodeId"].as_str().unwrap_or_default()) else {
                    let error = json!({ "code": NOT_OPEN, "message": "episode is not open" });
                    return say(&json!({ "id": id, "error": error }));
                };
                self.count += 1;
                let asked = format!("srv-{}", self.count);
                let params = json!({ "sessionId": turn.session, "prompt": turn.text });
                self.asked.insert(asked.clone(), (turn, id.clone()));
                say(&json!({ "id": asked, "method": "host.llm.complete", "params": params }))
            }
            Some(other) => {
                let error = json!({ "code": -32601, "message": format!("no method {other}") });
                say(&json!({ "id": id, "error": error }))
            }
        }
    }

    /// The host has answered: the turn is stored, and then its end is answered.
    fn summarised(&mut self, answer: &Value) -> Result<(), Failure> {
        let Some((turn, call)) = answer["id"].as_str().and_then(|id| self.asked.remove(id)) else { return Ok(()) };
        let stored = json!({ "session": turn.session, "text": turn.text, "summary": answer["result"]["text"] });
        if let Some(store) = &mut self.store {
            store.write_all(format!("{stored}\n").as_bytes())?;
        }
        println!("[bridge] stored a turn of {}", turn.session);
        say(&json!({ "id": call, "result": { "stored": true } }))
    }
}

fn say(message: &Value) -> Result<(), Failure> {
    let mut message = message.clone();
    message["jsonrpc"] = json!("2.0");
    let mut output = std::io::stdout().lock();
    Ok(output.write_all(format!("{message}\n").as_bytes()).and_then(|()| output.flush())?)
}
