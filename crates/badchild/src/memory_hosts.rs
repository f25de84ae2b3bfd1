//! The host of a memory bridge, as one in the field behaves: it probes for Node, ends what it takes for leftovers by a pattern, starts a
//! viewer beside its sessions, holds several providers, and recovers by itself when the bridge is gone: it reconnects and tries again.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nostray_sys::Signal;
use serde_json::{Value, json};

use crate::bridges::NOT_OPEN;
use crate::{Args, Failure};

/// How often a host reconnects for one turn.
const TRIES: u32 = 5;
/// The pattern by which a host finds bridges in the list of processes.
const PATTERN: &str = "bridge.cjs";

/// `memory-host --name NAME [--providers N] [--turns N] [--pause-in TURN,TURN] [--crash-in TURN,TURN] [--probe] [--kill-leftovers]
/// [--viewer] -- NODE bridge.cjs ARGS`
///
/// `--probe`: does nothing unless NODE says its version. `--kill-leftovers`: kills every bridge that it finds before it starts its own.
/// `--viewer`: also starts `NODE bridge.cjs ARGS --daemon`. Prints `started` when every provider has a session. In a turn of
/// `--pause-in`, prints `in turn N` when the turn is open for every provider, and waits for a line on its stdin. In a turn of
/// `--crash-in`, the bridge crashes while the end of the turn is in flight. Prints `done {"stored":…,"lost":…,"reconnects":…}`, and then holds its sessions until its stdin ends.
pub(crate) fn memory_host(mut args: Args) -> Result<ExitCode, Failure> {
    let name = args.option("--name").ok_or("no --name")?;
    let number = |text: Option<String>| text.map_or(Ok(1), |text| text.parse::<u32>());
    let turns_of = |text: Option<String>| -> Result<Vec<u32>, Failure> {
        Ok(text.iter().flat_map(|text| text.split(',')).map(str::parse).collect::<Result<_, _>>()?)
    };
    let (providers, turns) = (number(args.option("--providers"))?, number(args.option("--turns"))?);
    let (pauses, crashes) = (turns_of(args.option("--pause-in"))?, turns_of(args.option("--crash-in"))?);
    let (probes, kills, views) = (args.flag("--probe"), args.flag("--kill-leftovers"), args.flag("--viewer"));
    let command = args.command();
    let node = command.first().ok_or("no command")?;

    if probes {
        let probed = Command::new(node).arg("--version").stdin(Stdio::null()).output()?;
        if !probed.status.success() || !probed.stdout.starts_with(b"v") {
            return Err(format!("there is no Node: {probed:?}").into());
        }
    }
    if kills {
        // Only processes of this test: the real host kills every matching process that it is allowed to.
        // The command line of a host names the bridge, too.
        let is_bridge =
            |found: &badchild::Found| found.command.contains(PATTERN) && !found.command.contains("memory-host");
        let leftovers = badchild::company().into_iter().filter(is_bridge);
        leftovers.for_each(|found| found.send(Signal::KILL));
    }
    if views {
        // A daemon for every host: with a group of its own, and without stdio.
        let mut viewer = Command::new(node);
        viewer.args(&command[1..]).arg("--daemon").process_group(0);
        viewer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    }

    let mut tally = Tally::default();
    let mut providers: Vec<Provider> = (0..providers)
        .map(|number| Provider::connect(format!("{name}{number}"), command.clone()))
        .collect::<Result<_, _>>()?;
    say("started");
    let mut orders = std::io::stdin().lock().lines();
    for turn in 0..turns {
        let open: Vec<_> = providers.iter_mut().map(|provider| provider.open(turn, &mut tally)).collect();
        if pauses.contains(&turn) {
            say(&format!("in turn {turn}"));
            orders.next().transpose()?;
        }
        if crashes.contains(&turn) {
            providers[0].call("crash.at.end", &json!({})).ok();
        }
        for (provider, episode) in providers.iter_mut().zip(open) {
            provider.end(turn, episode, &mut tally);
        }
    }
    let Tally { stored, lost, reconnects } = tally;
    say(&format!("done {}", json!({ "stored": stored, "lost": lost, "reconnects": reconnects })));
    orders.for_each(drop);
    providers.into_iter().for_each(|provider| provider.connection.close());
    Ok(ExitCode::SUCCESS)
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().ok();
}

#[derive(Default)]
struct Tally {
    stored: u32,
    lost: u32,
    reconnects: u32,
}

/// Why a call has no result.
enum Failed {
    /// The bridge's output has closed.
    Closed,
    /// The bridge has answered with an error. A host takes that for the answer.
    Refused(i64),
}

/// One session of the host with the bridge.
struct Provider {
    name: String,
    command: Vec<String>,
    connection: Connection,
}

impl Provider {
    fn connect(name: String, command: Vec<String>) -> Result<Self, Failure> {
        let connection = Connection::new(&name, &command)?;
        let mut provider = Self { name, command, connection };
        for _ in 0..TRIES {
            match provider.call("session.open", &json!({})) {
                Ok(_) => return Ok(provider),
                Err(_) => provider.connection = Connection::new(&provider.name, &provider.command)?,
            }
        }
        Err(format!("{} cannot open its session", provider.name).into())
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Failed> {
        let mut params = params.clone();
        params["sessionId"] = json!(self.name);
        self.connection.call(method, &params)
    }

    fn reconnect(&mut self, tally: &mut Tally) {
        tally.reconnects += 1;
        if let Ok(connection) = Connection::new(&self.name, &self.command) {
            std::mem::replace(&mut self.connection, connection).close();
            self.call("session.open", &json!({})).ok();
        }
    }

    /// Opens a turn, and returns its episode; none if the bridge has refused it.
    fn open(&mut self, turn: u32, tally: &mut Tally) -> Option<Value> {
        for _ in 0..TRIES {
            match self.call("turn.start", &json!({ "text": format!("turn {turn} of {}", self.name) })) {
                Ok(opened) => return Some(opened["episodeId"].clone()),
                Err(Failed::Closed) => self.reconnect(tally),
                Err(Failed::Refused(_)) => return None,
            }
        }
        None
    }

    /// Ends a turn. If the bridge is gone, the turn is made once more with the next one.
    fn end(&mut self, turn: u32, mut episode: Option<Value>, tally: &mut Tally) {
        for _ in 0..TRIES {
            let Some(of) = &episode else { break };
            match self.call("turn.end", &json!({ "episodeId": of })) {
                Ok(_) => {
                    tally.stored += 1;
                    return;
                }
                Err(Failed::Closed) => {
                    self.reconnect(tally);
                    episode = self.open(turn, tally);
                }
                Err(Failed::Refused(code)) => {
                    say(&format!("refused {code}{}", if code == NOT_OPEN { " not open" } else { "" }));
                    break;
                }
            }
        }
        tally.lost += 1;
    }
}

/// A process of the bridge, or of its replacement.
struct Connection {
    process: Child,
    input: Arc<Mutex<Option<ChildStdin>>>,
    answers: Receiver<Value>,
    reader: JoinHandle<()>,
    calls: u64,
    /// Answers that came before a caller waited for them.
    early: VecDeque<Value>,
}

impl Connection {
    fn new(name: &str, command: &[String]) -> Result<Self, Failure> {
        let mut process = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = Arc::new(Mutex::new(process.stdin.take()));
        let output = process.stdout.take().ok_or("no pipe")?;
        let (send, answers) = channel();
        let (name, back) = (name.to_owned(), Arc::clone(&input));
        let reader = std::thread::spawn(move || read(&name, BufReader::new(output), &back, &send));
        Ok(Self { process, input, answers, reader, calls: 0, early: VecDeque::new() })
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Failed> {
        self.calls += 1;
        let id = self.calls;
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        write(&self.input, &call).map_err(|_| Failed::Closed)?;
        loop {
            let early = self.early.iter().position(|answer| answer["id"] == id);
            let answer = match early.and_then(|at| self.early.remove(at)) {
                Some(answer) => answer,
                None => self.answers.recv().map_err(|_| Failed::Closed)?,
            };
            match answer {
                answer if answer["id"] != id => self.early.push_back(answer),
                answer if answer["error"].is_null() => return Ok(answer["result"].clone()),
                answer => return Err(Failed::Refused(answer["error"]["code"].as_i64().unwrap_or(0))),
            }
        }
    }

    /// Ends it as hosts do: its input first.
    fn close(mut self) {
        drop(self.input.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.process.wait().ok();
        self.reader.join().ok();
    }
}

fn write(input: &Mutex<Option<ChildStdin>>, message: &Value) -> std::io::Result<()> {
    let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
    let input = input.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
    input.write_all(format!("{message}\n").as_bytes())
}

/// Passes answers to the caller, and answers the requests of the bridge.
fn read(name: &str, output: impl BufRead, input: &Mutex<Option<ChildStdin>>, answers: &Sender<Value>) {
    for line in output.lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message["method"] == "host.llm.complete" {
            let text = format!("{name} read: {}", message["params"]["prompt"].as_str().unwrap_or_default());
            write(input, &json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "text": text } })).ok();
        } else if message["method"].is_null() && answers.send(message).is_err() {
            return;
        }
    }
}
