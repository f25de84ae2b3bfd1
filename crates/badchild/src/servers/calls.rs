//! The calls that the server knows, as methods or as tools.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nostray_sys::signal::{Signal, send_to_self};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Answer, Server, lock};
use crate::Failure;

impl Server {
    /// `raw`: the params of a method, byte for byte.
    pub(super) fn call(self: &Arc<Self>, id: &RawValue, name: &str, raw: Option<&RawValue>, said: &Value) -> Answer {
        let arguments = &said["arguments"];
        let done = match name {
            // Describes this process and what the client has told it.
            "who" => Ok(self.who()),
            // Returns its params, byte for byte if it is called as a method.
            "echo" => return raw.map_or_else(|| Answer::of(arguments), |raw| Answer::Result(raw.to_owned())),
            // Never answers.
            "hang" => return Answer::NotNow,
            // `ms`: answers after this time, and answers other calls meanwhile.
            "slow" => return self.later(id, number(arguments, "ms")),
            // `signal` or `code`, after `ms`: ends this process. `text`: the last words on stderr.
            "die" => self.die(arguments),
            // `text`, `times`: to stderr.
            "stderr" => print_errors(arguments),
            // `text` or `hex`, `times`, `silent`: to stdout, as it is; `$id` is the id of this call.
            "print" => {
                self.print_raw(id, arguments);
                if arguments["silent"] == true {
                    return Answer::NotNow;
                }
                Ok(json!({}))
            }
            // `bytes`: an answer of this length. `depth`: an answer of this depth.
            "big" => Ok(json!("y".repeat(size(arguments, "bytes")))),
            "deep" => {
                let depth = size(arguments, "depth");
                let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
                self.print(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{text}}}\n").as_bytes());
                return Answer::NotNow;
            }
            // `count`, `bytes`: so many notifications of that length, each with its number `n`.
            "flood" => {
                let text = "x".repeat(size(arguments, "bytes"));
                for n in 0..number(arguments, "count") {
                    let params = format!("{{\"n\":{n},\"text\":\"{text}\"}}");
                    self.print(
                        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"flood\",\"params\":{params}}}\n").as_bytes(),
                    );
                }
                Ok(json!({}))
            }
            // `mb`: takes so much memory and keeps it.
            "grow" => {
                let mut piece = vec![1; size(arguments, "mb") << 20];
                // The kernel allocates a page only when it is written to.
                piece.iter_mut().step_by(4096).for_each(|byte| *byte = 2);
                lock(&self.hoard).push(piece);
                Ok(json!({}))
            }
            // `kind`: starts a process that stays.
            "fork" => start_another(arguments["kind"].as_str().unwrap_or("plain")),
            // `id`, `method`, `params`: asks the client; answered when the client has answered. `no_wait`: at once.
            // `afterwards`: asks when the call is answered.
            "ask" => return self.ask(id, arguments),
            // `method`, `params`: tells the client.
            "notify" => {
                self.say(&json!({
                    "jsonrpc": "2.0",
                    "method": arguments["method"],
                    "params": arguments["params"],
                }));
                Ok(json!({}))
            }
            // `file`: reads nothing more until it is there.
            "stop-reading" => {
                if let Some(answer) = self.written(id, Answer::of(&json!({}))) {
                    self.print(format!("{answer}\n").as_bytes());
                }
                let file = arguments["file"].as_str().unwrap_or_default();
                while !std::path::Path::new(file).exists() {
                    std::thread::sleep(Duration::from_millis(2));
                }
                return Answer::NotNow;
            }
            // Closes its output, and lives on.
            "close-output" => std::fs::File::options()
                .write(true)
                .open("/dev/null")
                .and_then(|null| Ok(rustix::stdio::dup2_stdout(null)?))
                .map(|()| json!({}))
                .map_err(Failure::from),
            // Asks back, in the way of the newer era, before it answers.
            "quiz" => {
                if said["whole"]["inputResponses"].is_null() {
                    return Answer::of(&json!({
                        "resultType": "input_required",
                        "inputRequests": { "k": { "method": "elicitation/create", "params": {} } },
                        "requestState": std::process::id().to_string(),
                    }))
                    .into_question(self, id);
                }
                Ok(json!({ "pid": std::process::id(), "state": said["whole"]["requestState"] }))
            }
            _ => return Answer::Error(-32601, format!("no method '{name}'")),
        };
        match done {
            Ok(value) => Answer::of(&value),
            Err(error) => Answer::Error(-32603, error.to_string()),
        }
    }

    fn who(&self) -> Value {
        let told = lock(&self.told);
        json!({
            "pid": std::process::id(),
            "initialize": told.initialize,
            "initialized": told.initialized,
            "level": told.level,
            "subscriptions": told.subscriptions,
            "listens": told.listens,
            "opened": told.opened,
            "heard": told.heard,
            "answers": told.answers,
        })
    }

    fn later(self: &Arc<Self>, id: &RawValue, ms: u64) -> Answer {
        let (server, id) = (self.clone(), id.to_owned());
        *lock(&self.open) += 1;
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(ms));
            if let Some(answer) = server.written(&id, Answer::of(&json!({ "pid": std::process::id() }))) {
                server.print(format!("{answer}\n").as_bytes());
            }
            *lock(&server.open) -= 1;
            server.all_answered.notify_all();
        });
        Answer::NotNow
    }

    fn die(&self, arguments: &Value) -> Result<Value, Failure> {
        if let Some(text) = arguments["text"].as_str() {
            writeln!(std::io::stderr(), "{text}")?;
        }
        std::thread::sleep(Duration::from_millis(number(arguments, "ms")));
        if let Some(code) = arguments["code"].as_i64() {
            std::process::exit(i32::try_from(code)?);
        }
        let signal = i32::try_from(arguments["signal"].as_i64().unwrap_or(9))?;
        send_to_self(Signal::from_raw(signal).ok_or("no such signal")?)?;
        Ok(json!({ "survived": signal }))
    }

    fn print_raw(&self, id: &RawValue, arguments: &Value) {
        let bytes = match arguments["hex"].as_str() {
            Some(hex) => hex
                .as_bytes()
                .chunks(2)
                .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect(),
            None => arguments["text"].as_str().unwrap_or_default().as_bytes().to_vec(),
        };
        let mut bytes = bytes;
        while let Some(at) = bytes.windows(3).position(|window| window == b"$id") {
            bytes.splice(at..at + 3, id.get().bytes());
        }
        let bytes = bytes.repeat(size(arguments, "times").max(1));
        self.print(&bytes);
    }

    fn ask(&self, call: &RawValue, arguments: &Value) -> Answer {
        let (id, no_wait) = (&arguments["id"], arguments["no_wait"] == true);
        if !no_wait && arguments["afterwards"] != true {
            lock(&self.told).asking.push((id.clone(), call.to_owned()));
        }
        let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": arguments["method"] });
        if let Some(params) = arguments.get("params") {
            request["params"] = params.clone();
        }
        if arguments["afterwards"] == true
            && let Some(answer) = self.written(call, Answer::of(&json!({})))
        {
            self.print(format!("{answer}\n").as_bytes());
            self.say(&request);
            return Answer::NotNow;
        }
        self.say(&request);
        if no_wait { Answer::of(&json!({})) } else { Answer::NotNow }
    }
}

impl Answer {
    /// A result that is not wrapped as others of a tool are.
    fn into_question(self, server: &Server, id: &RawValue) -> Self {
        if let Some(answer) = server.written(id, self) {
            server.print(format!("{answer}\n").as_bytes());
        }
        Self::NotNow
    }
}

fn number(arguments: &Value, name: &str) -> u64 {
    arguments[name].as_u64().unwrap_or(0)
}

fn size(arguments: &Value, name: &str) -> usize {
    usize::try_from(number(arguments, name)).unwrap_or(0)
}

fn print_errors(arguments: &Value) -> Result<Value, Failure> {
    let text = format!("{}\n", arguments["text"].as_str().unwrap_or_default());
    let mut errors = std::io::stderr().lock();
    for _ in 0..number(arguments, "times").max(1) {
        errors.write_all(text.as_bytes())?;
    }
    Ok(json!({}))
}

/// `holding-stdout`, or a kind of `badchild member`.
fn start_another(kind: &str) -> Result<Value, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.stdin(Stdio::null());
    if kind == "holding-stdout" {
        let holder = Command::new("sleep").arg("1000").stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        return Ok(json!({ "pid": holder.id() }));
    }
    let mut member = command.args(["member", kind]).stdout(Stdio::piped()).spawn()?;
    member.stdout.take().ok_or("no pipe")?.read_exact(&mut [0])?;
    if kind == "daemon" {
        member.wait()?;
    }
    Ok(json!({ "pid": member.id() }))
}
