//! `nostray run --warm`: finds out what `--lazy` needs to know. It acts as the host of a supervised child and asks it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nostray_sys::signal::{self, Disposition, Signal};
use nostray_terminal::{self as terminal, ExitCode};
use serde_json::{Value, json};

use crate::args::RunArgs;

/// The protocol versions that hosts ask for, the newest first. A server agrees on one version per start, so each version needs a start.
const HANDSHAKES: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const MODERN: &str = "2026-07-28";
/// Long enough for a package that has to be downloaded first.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// After so many pages, a list counts as endless.
const MAX_PAGES: usize = 1000;

const LISTS: [(&str, &str, &str); 4] = [
    ("tools", "tools/list", "tools"),
    ("prompts", "prompts/list", "prompts"),
    ("resources", "resources/list", "resources"),
    ("resources", "resources/templates/list", "resourceTemplates"),
];

pub(crate) fn run(args: &RunArgs) -> ExitCode {
    signal::set_disposition(Signal::PIPE, Disposition::Ignored).ok();
    let timeout = args.managed.start_timeout.unwrap_or(DEFAULT_TIMEOUT);
    let (mut known, mut failed) = (0, None);
    for version in HANDSHAKES.into_iter().chain([MODERN]) {
        if terminal::is_live() {
            terminal::write(format!("\r{version}: starting the server\x1b[K").as_bytes()).ok();
        }
        let asked = Asked::start(args, timeout).and_then(|mut asked| {
            let said = asked.about_itself(version);
            asked.end();
            said
        });
        if terminal::is_live() {
            terminal::write(b"\r\x1b[K").ok();
        }
        match asked {
            Ok(said) => {
                known += 1;
                terminal::print(terminal::line(&format_args!("{version}: {said}")).as_bytes());
            }
            // If the first version fails, the server does not start at all.
            Err(why) if known == 0 && version != MODERN => {
                failed = Some(why);
                break;
            }
            Err(why) => {
                terminal::print(terminal::line(&format_args!("{version}: not known ({why})")).as_bytes());
            }
        }
    }
    match failed {
        Some(why) => {
            terminal::complain(&format_args!("the server could not be asked: {why}; try its command by itself"));
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// A running server, and the host's end of its session.
struct Asked {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    deadline: Instant,
    asked: u64,
}

impl Asked {
    fn start(args: &RunArgs, timeout: Duration) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let time = |time| humantime::format_duration(time).to_string();
        let mut command = Command::new(program);
        command.args([
            "run",
            "--remember",
            "--eof-grace",
            &time(args.eof_grace),
            "--term-grace",
            &time(args.term_grace),
        ]);
        if args.isolate.is_some() {
            command.args(["--isolate", "pid"]);
        }
        command.arg("--").args(&args.command).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().ok_or("no output")?);
        let (to, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| to.send(line)).ok();
        });
        Ok(Self { child, stdin, lines, deadline: Instant::now() + timeout, asked: 0 })
    }

    /// Makes the handshake and asks for every list. Returns what the server has.
    fn about_itself(&mut self, version: &str) -> Result<String, String> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "nostray", "version": env!("CARGO_PKG_VERSION") },
        });
        let meta = (version == MODERN).then_some(meta);
        let hello = if version == MODERN {
            self.ask("server/discover", json!({ "_meta": meta }))?
        } else {
            let client = json!({ "name": "nostray", "version": env!("CARGO_PKG_VERSION") });
            let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
            let hello = self.ask("initialize", params)?;
            self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
            hello
        };
        let mut said = Vec::new();
        for (capability, method, items) in LISTS {
            if hello["capabilities"].get(capability).is_none() {
                continue;
            }
            let count = self.count(method, items, meta.as_ref())?;
            said.push(format!("{count} {}", if items == "resourceTemplates" { "resource templates" } else { items }));
        }
        Ok(if said.is_empty() { "no lists".to_owned() } else { said.join(", ") })
    }

    fn count(&mut self, method: &str, items: &str, meta: Option<&Value>) -> Result<usize, String> {
        let (mut count, mut cursor) = (0, None::<String>);
        for _ in 0..MAX_PAGES {
            let mut params = json!({});
            if let Some(meta) = meta {
                params["_meta"] = meta.clone();
            }
            if let Some(cursor) = &cursor {
                params["cursor"] = json!(cursor);
            }
            // Not every server that has resources has templates.
            let Ok(page) = self.ask(method, params) else { break };
            count += page[items].as_array().map_or(0, Vec::len);
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        Ok(count)
    }

    fn write(&mut self, message: &Value) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("its input is closed")?;
        writeln!(stdin, "{message}").map_err(|error| error.to_string())
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.asked += 1;
        let id = self.asked;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    format!("no answer to {method} in time; give it more with --start-timeout")
                }
                RecvTimeoutError::Disconnected => "it has ended".to_owned(),
            })?;
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if message["method"].is_string() && !message["id"].is_null() {
                let error = json!({ "code": -32601, "message": "only a question" });
                self.write(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }))?;
            } else if message["id"] == json!(id) {
                return match message.get("result") {
                    Some(result) => Ok(result.clone()),
                    None => Err(message["error"]["message"].as_str().unwrap_or("an error").to_owned()),
                };
            }
        }
    }

    /// Closes its stdin, as every host does; its pen ends the tree.
    fn end(mut self) {
        self.stdin = None;
        self.child.wait().ok();
    }
}
