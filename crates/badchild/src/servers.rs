//! A small server that speaks JSON-RPC lines, in either era of MCP or without MCP, and misbehaves when a call asks for it. Each
//! process is one life of the server. It records the lines that it gets, so that a test can check them.

mod calls;
mod nothing;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::{Args, Failure};

pub(crate) use nothing::serve_nothing;

/// The length up to which a line is recorded.
const ON_RECORD: usize = 4096;
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tongue {
    /// MCP with a handshake.
    Handshake,
    /// MCP without one.
    Modern,
    /// JSON-RPC without MCP.
    Plain,
}

/// One message, as it came.
#[derive(Debug, Deserialize)]
struct Incoming {
    id: Option<Box<RawValue>>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
}

impl Incoming {
    fn params(&self) -> Value {
        self.params.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null)
    }
}

/// The answer to a request.
enum Answer {
    Result(Box<RawValue>),
    Error(i64, String),
    /// Another thread answers later, or the request is never answered.
    NotNow,
}

impl Answer {
    fn of(value: &Value) -> Self {
        to_raw_value(value).map_or_else(|error| Self::Error(-32603, error.to_string()), Self::Result)
    }
}

/// What the client has told this process so far.
#[derive(Debug, Default)]
struct Told {
    initialize: Option<Value>,
    initialized: bool,
    level: Option<Value>,
    subscriptions: Vec<String>,
    listens: Vec<Value>,
    opened: Option<Value>,
    /// Methods, in the order in which they came.
    heard: Vec<String>,
    /// What the client answered to our own requests.
    answers: Vec<Value>,
    /// Calls that are answered after the client has answered this request.
    asking: Vec<(Value, Box<RawValue>)>,
}

struct Server {
    tongue: Tongue,
    /// The content of the file of `--facts` when this process starts.
    facts: Value,
    ask_when_ready: bool,
    deaf_to_pings: bool,
    last_wins: bool,
    told: Mutex<Told>,
    output: Mutex<std::io::Stdout>,
    record: Mutex<Option<std::fs::File>>,
    /// The number of calls that other threads answer.
    open: Mutex<usize>,
    all_answered: Condvar,
    hoard: Mutex<Vec<Vec<u8>>>,
    /// The locked file of `--claim`, which no other server may hold at the same time.
    claim: Option<std::fs::File>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `server [--modern|--plain|--both] [--record FILE] [--facts FILE] [--start-delay MS] [--exit-at-once CODE] [--stderr TEXT]
/// [--banner TEXT] [--ask-when-ready] [--ignore-eof] [--exit CODE]
/// [--end-streams] [--deaf-to-pings] [--byte-by-byte] [--last-wins] [--claim FILE]`
///
/// `--both`: either era of MCP, by the first message, as the SDKs do.
/// `--facts`: a file with a JSON object, read at every start, so that a test can change it between two lives: `tools`, `prompts`,
/// `resources`, `resourceTemplates`, `capabilities`, `page` (items on a page), `refuse` (the handshake), `startDelay`, `exit`.
/// `--record`: a file to which each process appends `PID start MILLISECONDS`, `PID < LINE` for each line it gets, and `PID end` at the end
/// of its input. `--exit`: ends with this code after that. `--ignore-eof`: ends neither after that nor by SIGTERM. `--end-streams`:
/// answers every open stream at the end of its input, as one SDK does. `--ask-when-ready`: asks for `roots/list`, with id 0, as soon as
/// it is initialised. `--deaf-to-pings`: never answers a ping. `--byte-by-byte`: does not read beyond the end of the current line.
/// `--last-wins`: of two members with one name takes the last, as Python and JavaScript do, and does not refuse the message.
/// `--claim`: holds a lock on this file while it lives, and records `two` if another server holds the lock.
pub(crate) fn server(mut args: Args) -> Result<ExitCode, Failure> {
    let both = args.flag("--both");
    let mut input: Box<dyn BufRead> = match args.flag("--byte-by-byte") {
        true => {
            let stdin = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?;
            Box::new(std::io::BufReader::with_capacity(1, std::fs::File::from(stdin)))
        }
        false => Box::new(std::io::stdin().lock()),
    };
    let tongue = match (args.flag("--modern"), args.flag("--plain")) {
        (true, _) => Tongue::Modern,
        (_, true) => Tongue::Plain,
        _ if both && String::from_utf8_lossy(input.fill_buf()?).contains(VERSION_KEY) => Tongue::Modern,
        _ => Tongue::Handshake,
    };
    let record = args
        .option("--record")
        .map(|path| std::fs::File::options().create(true).append(true).open(path))
        .transpose()?;
    let facts: Value = match args.option("--facts") {
        Some(path) => serde_json::from_str(&std::fs::read_to_string(path)?)?,
        None => json!({}),
    };
    let number = |args: &mut Args, option: &str, fact: &str| -> Result<Option<u64>, Failure> {
        let given = args.option(option).map(|text| text.parse()).transpose()?;
        Ok(facts[fact].as_u64().or(given))
    };
    let delay = number(&mut args, "--start-delay", "startDelay")?;
    let exit = number(&mut args, "--exit-at-once", "exit")?;
    let code = args.option("--exit").map_or(Ok(0), |text| text.parse())?;
    let end_streams = args.flag("--end-streams");
    let ignore_eof = args.flag("--ignore-eof");
    let claim = args.option("--claim").map(std::fs::File::create).transpose()?;
    let server = Arc::new(Server {
        tongue,
        facts,
        ask_when_ready: args.flag("--ask-when-ready"),
        deaf_to_pings: args.flag("--deaf-to-pings"),
        last_wins: args.flag("--last-wins"),
        told: Mutex::default(),
        output: Mutex::new(std::io::stdout()),
        record: Mutex::new(record),
        open: Mutex::default(),
        all_answered: Condvar::new(),
        hoard: Mutex::default(),
        claim,
    });
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    server.note(&format!("start {}", now.as_millis()));
    if server.claim.as_ref().is_some_and(|claim| claim.try_lock().is_err()) {
        server.note("two");
    }
    if let Some(text) = args.option("--stderr") {
        writeln!(std::io::stderr(), "{text}")?;
    }
    if let Some(text) = args.option("--banner") {
        server.print(format!("{text}\n").as_bytes());
    }
    if let Some(code) = exit {
        return Ok(ExitCode::from(u8::try_from(code)?));
    }
    std::thread::sleep(Duration::from_millis(delay.unwrap_or(0)));
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line[..line.len().min(ON_RECORD)]);
        server.note(&format!("< {}", text.trim_end_matches('\n')));
        server.on_line(&line);
        line.clear();
    }
    server.note("end");
    if end_streams {
        for id in std::mem::take(&mut lock(&server.told).listens) {
            let error = json!({ "code": -32000, "message": "Connection closed" });
            server.say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    }
    if ignore_eof {
        crate::trees::ignore_everything()?;
        crate::exits::pause_for_ever();
    }
    let open = lock(&server.open);
    drop(server.all_answered.wait_while(open, |open| *open > 0));
    Ok(ExitCode::from(code))
}

impl Server {
    /// Records an event, in one write. A killed server may leave half a line, so a new life begins with a line end.
    fn note(&self, what: &str) {
        if let Some(file) = &mut *lock(&self.record) {
            let before = if what.starts_with("start") { "\n" } else { "" };
            file.write_all(format!("{before}{} {what}\n", std::process::id()).as_bytes()).ok();
        }
    }

    /// Writes to its client. Ends this process if the client is gone, as most servers do.
    fn print(&self, bytes: &[u8]) {
        let mut output = lock(&self.output);
        if output.write_all(bytes).and_then(|()| output.flush()).is_err() {
            std::process::exit(98);
        }
    }

    fn say(&self, message: &Value) {
        self.print(format!("{message}\n").as_bytes());
    }

    fn on_line(self: &Arc<Self>, line: &[u8]) {
        if line.trim_ascii().first() == Some(&b'[') {
            let Ok(batch) = serde_json::from_slice::<Vec<Incoming>>(line) else { return self.misunderstood() };
            let answers: Vec<String> = batch.into_iter().filter_map(|one| self.on_message(one)).collect();
            if !answers.is_empty() {
                self.print(format!("[{}]\n", answers.join(",")).as_bytes());
            }
            return;
        }
        let as_last = |line: &[u8]| serde_json::from_slice::<Value>(line).map(|value| value.to_string());
        let line = match as_last(line) {
            Ok(text) if self.last_wins => text.into_bytes(),
            _ => line.to_vec(),
        };
        match serde_json::from_slice::<Incoming>(&line) {
            Ok(message) => {
                if let Some(answer) = self.on_message(message) {
                    self.print(format!("{answer}\n").as_bytes());
                }
            }
            Err(_) => self.misunderstood(),
        }
    }

    fn misunderstood(&self) {
        self.say(&json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "what?" } }));
    }

    /// The answer, if there is one now.
    fn on_message(self: &Arc<Self>, message: Incoming) -> Option<String> {
        let Some(method) = &message.method else {
            self.on_answer(&message);
            return None;
        };
        lock(&self.told).heard.push(method.clone());
        let Some(id) = message.id.clone() else {
            self.on_notification(method, &message.params());
            return None;
        };
        let answer = self.on_request(&id, method, &message);
        self.written(&id, answer)
    }

    /// An answer as it is written.
    fn written(&self, id: &RawValue, answer: Answer) -> Option<String> {
        match answer {
            Answer::Result(result) => Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)),
            Answer::Error(code, message) => {
                let error = json!({ "code": code, "message": message });
                Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
            }
            Answer::NotNow => None,
        }
    }

    fn on_notification(&self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => {
                lock(&self.told).initialized = true;
                if self.ask_when_ready {
                    self.say(&json!({ "jsonrpc": "2.0", "id": 0, "method": "roots/list" }));
                }
            }
            "notifications/cancelled" => lock(&self.told).listens.retain(|id| *id != params["requestId"]),
            _ => {}
        }
    }

    /// The client answers a request of this server.
    fn on_answer(&self, message: &Incoming) {
        let id: Value =
            message.id.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null);
        let mut told = lock(&self.told);
        told.answers.push(id.clone());
        while let Some(at) = told.asking.iter().position(|(asked, _)| *asked == id) {
            let (_, call) = told.asking.remove(at);
            if let Some(answer) = self.written(&call, Answer::of(&json!({ "answered": id }))) {
                self.print(format!("{answer}\n").as_bytes());
            }
        }
    }

    fn on_request(self: &Arc<Self>, id: &RawValue, method: &str, message: &Incoming) -> Answer {
        let params = message.params();
        match self.tongue {
            Tongue::Handshake
                if lock(&self.told).initialize.is_none() && !["initialize", "ping"].contains(&method) =>
            {
                return Answer::Error(-32602, "not initialised".to_owned());
            }
            Tongue::Modern if params["_meta"].get(VERSION_KEY).is_none() => {
                return Answer::Error(-32022, "this server knows no handshake".to_owned());
            }
            _ => {}
        }
        if let Some(answer) = self.on_protocol(id, method, &params) {
            return answer;
        }
        if method == "tools/call" {
            let name = params["name"].as_str().unwrap_or_default();
            let arguments = params["arguments"].clone();
            return match self.call(id, name, None, &json!({ "arguments": arguments, "whole": params })) {
                Answer::Result(result) => Answer::of(&self.stamped(json!({
                    "content": [{ "type": "text", "text": result.get() }],
                    "structuredContent": result,
                }))),
                other => other,
            };
        }
        self.call(id, method, message.params.as_deref(), &json!({ "arguments": params }))
    }

    /// Adds the members that every result of the newer era has.
    fn stamped(&self, mut result: Value) -> Value {
        if self.tongue == Tongue::Modern {
            result["resultType"] = "complete".into();
        }
        result
    }

    /// The methods of MCP, and their counterparts in a protocol that is not MCP.
    fn on_protocol(&self, id: &RawValue, method: &str, params: &Value) -> Option<Answer> {
        let mut told = lock(&self.told);
        let modern = self.tongue == Tongue::Modern;
        let result = match method {
            "session.open" if self.tongue == Tongue::Plain => {
                told.opened = Some(params.clone());
                json!({ "open": true })
            }
            "session.close" if self.tongue == Tongue::Plain => json!({ "open": false }),
            _ if self.tongue == Tongue::Plain => return None,
            "initialize" if !modern => {
                if self.facts["refuse"] == true {
                    return Some(Answer::Error(-32602, "this one does not want to".to_owned()));
                }
                told.initialize = Some(params.clone());
                json!({
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": self.capabilities(),
                    "serverInfo": { "name": "badchild", "version": "1" },
                })
            }
            "server/discover" if modern => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": self.capabilities(),
                "ttlMs": 0,
                "cacheScope": "private",
            }),
            "ping" if self.deaf_to_pings => return Some(Answer::NotNow),
            "ping" if !modern => json!({}),
            "logging/setLevel" if !modern => {
                told.level = Some(params["level"].clone());
                json!({})
            }
            "resources/subscribe" | "resources/unsubscribe" if !modern => {
                let uri = params["uri"].as_str().unwrap_or_default().to_owned();
                told.subscriptions.retain(|known| *known != uri);
                if method.ends_with("/subscribe") {
                    told.subscriptions.push(uri);
                }
                json!({})
            }
            "subscriptions/listen" if modern => {
                let id: Value = serde_json::from_str(id.get()).unwrap_or(Value::Null);
                told.listens.push(id.clone());
                self.say(&json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/subscriptions/acknowledged",
                    "params": { "notifications": params["notifications"], "_meta": { SUBSCRIPTION_KEY: id } },
                }));
                return Some(Answer::NotNow);
            }
            "tools/list" => self.page("tools", params),
            "prompts/list" => self.page("prompts", params),
            "resources/list" => self.page("resources", params),
            "resources/templates/list" => self.page("resourceTemplates", params),
            _ => return None,
        };
        Some(Answer::of(&self.stamped(result)))
    }

    fn capabilities(&self) -> Value {
        let all = json!({
            "tools": { "listChanged": true },
            "prompts": {},
            "resources": { "subscribe": true },
            "logging": {},
        });
        self.facts.get("capabilities").cloned().unwrap_or(all)
    }

    /// A page of a list: its cursor is the number of items before it.
    fn page(&self, list: &str, params: &Value) -> Value {
        let one = json!([{ "name": "who", "inputSchema": { "type": "object" } }]);
        let none = json!([]);
        let items = self.facts.get(list).unwrap_or(if list == "tools" { &one } else { &none });
        let items = items.as_array().cloned().unwrap_or_default();
        let from = params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let size = self.facts["page"].as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        let to = items.len().min(size.saturating_add(from));
        let mut page = json!({ list: items.get(from..to).unwrap_or_default() });
        if to < items.len() {
            page["nextCursor"] = to.to_string().into();
        }
        page
    }
}
