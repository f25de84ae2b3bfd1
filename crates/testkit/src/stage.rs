//! A host that talks to `badchild server` through `nostray run`. A test gets each answer with a deadline, and sees all
//! lines that each process of the server got. One process of the server is a life.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use badchild::{Folder, Found, PATIENCE, Scene, User, badchild, comes_true, wait_until};
use serde_json::{Value, json};

use crate::nostray;

/// The version key of the newer era.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// The environment of a server, with records, a cache and files of its own.
pub struct Stage {
    /// All processes.
    pub scene: Scene,
    /// The files of the test and of the server.
    pub folder: Folder,
    cache: Folder,
}

/// One process of the server.
#[derive(Debug, Clone)]
pub struct Life {
    /// Its process number.
    pub pid: i32,
    /// When it started, in milliseconds.
    pub started: u64,
    /// The lines that it got.
    pub heard: Vec<String>,
    /// Whether it saw the end of its input.
    pub saw_the_end: bool,
    /// Whether another server lived when it started (`--claim`).
    pub was_not_alone: bool,
}

impl Life {
    /// The lines that it got, in short: the methods of messages, `answer ID` for answers.
    pub fn methods(&self) -> Vec<String> {
        let method = |line: &String| {
            let message: Value = serde_json::from_str(line).unwrap_or_default();
            match message["method"].as_str() {
                Some(method) => method.to_owned(),
                None => format!("answer {}", message["id"]),
            }
        };
        self.heard.iter().map(method).collect()
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    /// With the rights of the user who runs the tests.
    pub fn new() -> Self {
        Self::for_user(User::Current)
    }

    /// With the rights of this user.
    pub fn for_user(user: User) -> Self {
        Self { scene: Scene::apart(user), folder: Folder::new("stage"), cache: Folder::private("cache", user) }
    }

    /// The path of a file of the test.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Where `--lazy` keeps what it knows.
    pub fn cache(&self) -> PathBuf {
        self.cache.path().join("nostray")
    }

    /// Changes the facts that the next life of the server reads.
    pub fn facts(&self, facts: &Value) {
        // Atomically: a life that starts now may read the file.
        let new = self.file("facts.new");
        std::fs::write(&new, facts.to_string()).expect("write");
        std::fs::rename(new, self.file("facts")).expect("rename");
    }

    /// Starts `nostray run OPTIONS -- badchild server SERVER_OPTIONS`, with short graces if the options give none.
    pub fn start(&self, options: &[&str], server: &[&str]) -> Caller {
        self.start_in(options, server, |_| {})
    }

    /// The same in another environment.
    pub fn start_in(&self, options: &[&str], server: &[&str], change: impl FnOnce(&mut Command)) -> Caller {
        let command = self.server(server);
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        self.launch("run", options, &command, change)
    }

    /// The same with a server that ignores, from its first moment on, the end of its input and every signal that can be
    /// ignored.
    pub fn start_stubborn(&self, options: &[&str]) -> Caller {
        let server = self.server(&["--ignore-eof"]);
        let shell = ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh"];
        let command: Vec<_> = shell.into_iter().chain(server.iter().map(String::as_str)).collect();
        self.start_command(options, &command)
    }

    /// The same with any command.
    pub fn start_command(&self, options: &[&str], command: &[&str]) -> Caller {
        self.launch("run", options, command, |_| {})
    }

    /// The words of `badchild server SERVER_OPTIONS`, with its record and its facts.
    pub fn server(&self, options: &[&str]) -> Vec<String> {
        let (record, facts) = (self.file("record"), self.file("facts"));
        let mut command = vec![badchild().display().to_string(), "server".to_owned(), "--record".to_owned(), record];
        if std::path::Path::new(&facts).exists() {
            command.extend(["--facts".to_owned(), facts]);
        }
        command.extend(options.iter().map(|word| (*word).to_owned()));
        command
    }

    /// Starts any program that becomes nostray, or that speaks as nostray does.
    pub fn start_plain(&self, program: &str, words: &[&str]) -> Caller {
        let mut run = self.scene.command(program.as_ref());
        run.env("XDG_CACHE_HOME", self.cache.path()).args(words);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Caller::new(run.spawn().expect("start"))
    }

    /// Starts any command of nostray's that takes graces and another command.
    pub fn launch(&self, how: &str, options: &[&str], command: &[&str], change: impl FnOnce(&mut Command)) -> Caller {
        let mut options = options.to_vec();
        for (grace, time) in [("--eof-grace", "6s"), ("--term-grace", "500ms")] {
            if !options.contains(&grace) {
                options.extend([grace, time]);
            }
        }
        let mut run = self.scene.command(&nostray());
        run.env("XDG_CACHE_HOME", self.cache.path()).arg(how).args(options).arg("--").args(command);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut run);
        Caller::new(run.spawn().expect("start nostray"))
    }

    /// The record of all lives of the server.
    pub fn lives(&self) -> Vec<Life> {
        let record = std::fs::read(self.file("record")).unwrap_or_default();
        let mut lives: Vec<Life> = Vec::new();
        // 0x0D is data here.
        for line in String::from_utf8_lossy(&record).split_terminator('\n') {
            let Some((pid, what)) = line.split_once(' ') else { continue };
            let Ok(pid) = pid.parse() else { continue };
            if let Some(at) = what.strip_prefix("start ") {
                let started = at.parse().expect("a number");
                lives.push(Life { pid, started, heard: Vec::new(), saw_the_end: false, was_not_alone: false });
                continue;
            }
            // A killed server may have left half a line.
            let Some(life) = lives.iter_mut().rev().find(|life| life.pid == pid) else { continue };
            match what.strip_prefix("< ") {
                Some(heard) => life.heard.push(heard.to_owned()),
                None => {
                    life.saw_the_end |= what == "end";
                    life.was_not_alone |= what == "two";
                }
            }
        }
        lives
    }

    /// The number of times that all lives together read each call with a number `n`.
    pub fn reads(&self) -> HashMap<u64, usize> {
        let mut reads = HashMap::new();
        for line in self.lives().iter().flat_map(|life| &life.heard) {
            let message: Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(n) = message["params"]["n"].as_u64() {
                *reads.entry(n).or_default() += 1;
            }
        }
        reads
    }

    /// Checks, for a server with `--byte-by-byte`, that each call was read once at most. At most one failed call per
    /// life may be missing in the record: the life was killed while it read the call, or before it recorded it.
    pub fn expect_made_once(&self, failed: &HashSet<u64>) {
        let (reads, lives) = (self.reads(), self.lives().len());
        let twice: Vec<_> = reads.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "made twice: {twice:?}");
        let lost = failed.iter().filter(|n| !reads.contains_key(n)).count();
        assert!(lost <= lives, "{lost} calls failed that were not read, in {lives} lives");
    }

    /// The current process of the server.
    pub fn child(&self) -> Found {
        let life = self.lives().pop().expect("the server was started");
        Found::by_pid(badchild::pid(life.pid)).expect("is there")
    }

    /// The processes of the server's trees.
    pub fn trees(&self) -> Vec<Found> {
        self.scene.processes().into_iter().filter(|found| !found.stat.name.starts_with("nostray")).collect()
    }

    /// Waits until no process of the server is left.
    pub fn expect_no_tree(&self) {
        wait_until("nothing is left of the tree", || self.trees().is_empty());
    }

    /// Waits until the child is asleep: only the front is left.
    pub fn wait_until_asleep(&self) {
        wait_until("the child is asleep", || self.scene.processes().len() == 1 && self.states() == ["asleep"]);
    }

    /// nostray's own processes.
    pub fn own(&self) -> Vec<Found> {
        self.scene.processes().into_iter().filter(|found| found.stat.name.starts_with("nostray")).collect()
    }

    /// Another command of nostray's, in the same place.
    pub fn nostray(&self, words: &[&str]) -> Output {
        let mut command = self.scene.command(&nostray());
        command.env("XDG_CACHE_HOME", self.cache.path());
        command.args(words).stdin(Stdio::null()).output().expect("run nostray")
    }

    /// What `nostray ps --json` says of the front.
    pub fn states(&self) -> Vec<String> {
        let output = self.nostray(&["ps", "--json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let pens = shown["pens"].as_array().cloned().unwrap_or_default();
        pens.iter().filter_map(|pen| pen["state"].as_str().map(str::to_owned)).collect()
    }

    /// The output of the server that was not for the host.
    pub fn printed(&self) -> String {
        let folder = self.scene.runtime().join("nostray");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let text = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        files.filter(|path| path.extension().is_some_and(|kind| kind == "out")).map(text).collect()
    }

    /// What `nostray log` prints.
    pub fn journal(&self) -> String {
        String::from_utf8_lossy(&self.nostray(&["log"]).stdout).into_owned()
    }
}

/// Whether the host reads its input.
#[derive(Default)]
struct Pause {
    paused: Mutex<bool>,
    changed: Condvar,
}

/// The host.
pub struct Caller {
    /// The process of nostray.
    pub process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    /// Messages that came and that the test has not asked for yet.
    pending: VecDeque<Vec<u8>>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// Reads stderr to its end.
    drained: JoinHandle<()>,
    ended: bool,
    pause: Arc<Pause>,
    asked: u64,
}

impl Caller {
    /// A host for this process, whose streams are piped.
    pub fn new(mut process: Child) -> Self {
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().expect("piped"));
        let stderr = process.stderr.take();
        let (to, lines) = channel();
        let pause = Arc::new(Pause::default());
        let reading = pause.clone();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                drop(reading.changed.wait_while(reading.paused.lock().expect("no panic"), |paused| *paused));
                let mut line = Vec::new();
                if stdout.read_until(b'\n', &mut line).unwrap_or(0) == 0 || to.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = Arc::new(Mutex::new(Vec::new()));
        let kept = errors.clone();
        let drained = std::thread::spawn(move || {
            let (mut buffer, Some(mut stderr)) = ([0; 4096], stderr) else { return };
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                kept.lock().expect("no panic").extend(&buffer[..count]);
            }
        });
        Self { process, stdin, lines, pending: VecDeque::new(), errors, drained, ended: false, pause, asked: 0 }
    }

    /// Stops reading, or continues.
    pub fn pause(&self, paused: bool) {
        *self.pause.paused.lock().expect("no panic") = paused;
        self.pause.changed.notify_all();
    }

    /// The output on stderr so far; the whole output, once nostray has ended.
    pub fn errors(&self) -> String {
        if self.ended {
            // Another process may hold stderr open.
            comes_true(Duration::from_secs(2), &mut || self.drained.is_finished());
        }
        String::from_utf8_lossy(&self.errors.lock().expect("no panic")).into_owned()
    }

    /// Writes these bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("open").write_all(bytes).expect("write to nostray");
    }

    /// Gives stdin to another thread.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("open")
    }

    /// Takes stdin back from that thread.
    pub fn give_stdin(&mut self, stdin: ChildStdin) {
        self.stdin = Some(stdin);
    }

    /// Writes a message. nostray may have ended already.
    pub fn try_send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().expect("open"), "{message}").ok();
    }

    /// Writes a message.
    pub fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request, with its members in the order of the SDKs, and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        let method = json!(method);
        self.write(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}\n").as_bytes(),
        );
        id
    }

    /// Writes a notification.
    pub fn tell(&mut self, method: &str, params: Option<Value>) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if let Some(params) = params {
            message["params"] = params;
        }
        self.send(&message);
    }

    /// The next line as it came, also if it is no message.
    pub fn next_line(&mut self) -> Vec<u8> {
        self.line_within(PATIENCE).expect("nostray said nothing more")
    }

    /// The next line as it came, if it comes in time.
    pub fn line_within(&mut self, time: Duration) -> Option<Vec<u8>> {
        self.pending.pop_front().or_else(|| self.lines.recv_timeout(time).ok())
    }

    /// Waits until no process can say anything more to this host.
    pub fn expect_end(&mut self) {
        let is_over = comes_true(PATIENCE, &mut || match self.lines.try_recv() {
            Err(error) => error == TryRecvError::Disconnected,
            Ok(line) => {
                self.pending.push_back(line);
                false
            }
        });
        assert!(is_over, "stdout stays open");
    }

    /// The next message that matches. Other messages are kept.
    pub fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let (deadline, mut passed) = (Instant::now() + PATIENCE, VecDeque::<Vec<u8>>::new());
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(line) = self.line_within(left) else {
                let shown: Vec<_> = passed.iter().map(|line| shorten(line)).collect();
                panic!("did not come: {what}\nbut: {shown:#?}\nand on stderr: {}", self.errors());
            };
            let message: Value = serde_json::from_slice(&line).unwrap_or_default();
            if is_it(&message) {
                passed.append(&mut self.pending);
                self.pending = passed;
                return message;
            }
            passed.push_back(line);
        }
    }

    /// The answer to this request.
    pub fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.wait_for(&format!("the answer to {id}"), |message| message["id"] == id && message["method"].is_null())
    }

    /// Sends a request, and waits for the answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// The result of a call that succeeds.
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        answer.get("result").unwrap_or_else(|| panic!("{method}: {answer}")).clone()
    }

    /// The error of a call that fails.
    pub fn error(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        answer.get("error").unwrap_or_else(|| panic!("{method}: {answer}")).clone()
    }

    /// The next message with this method.
    pub fn notified(&mut self, method: &str) -> Value {
        self.wait_for(method, |message| message["method"] == method)
    }

    /// All messages that have come so far and that the test has not asked for.
    pub fn unasked(&mut self) -> Vec<Value> {
        self.pending.extend(self.lines.try_iter());
        self.pending.drain(..).map(|line| serde_json::from_slice(&line).unwrap_or_default()).collect()
    }

    /// The handshake of the older era.
    pub fn initialize(&mut self) -> Value {
        self.initialize_as("2025-06-18")
    }

    /// The same with this version.
    pub fn initialize_as(&mut self, version: &str) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let result = self
            .result("initialize", json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client }));
        self.tell("notifications/initialized", None);
        result
    }

    /// The self-description of the server's current process.
    pub fn who(&mut self) -> Value {
        self.result("who", json!({}))
    }

    /// The number of the server's current process.
    pub fn pid(&mut self) -> i64 {
        self.who()["pid"].as_i64().expect("a number")
    }

    /// Closes the input of nostray.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits until nostray has ended, whether or not the test asked it to, and returns its exit code.
    pub fn code(&mut self) -> i32 {
        let mut status = None;
        comes_true(PATIENCE, &mut || {
            status = self.process.try_wait().expect("wait");
            status.is_some()
        });
        let status = status.unwrap_or_else(|| panic!("nostray does not end: {}", self.errors()));
        self.ended = true;
        status.code().expect("a code")
    }

    /// Ends the session as hosts do, and checks that nostray exits with 0 and that no process is left.
    pub fn end(mut self, stage: &Stage) {
        self.close();
        assert_eq!(self.code(), 0, "{}", self.errors());
        stage.scene.expect_empty();
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The start of a line, for a failure message.
pub fn shorten(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(400)]).into_owned()
}

/// What every request of the newer era carries.
pub fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({ VERSION_KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    params
}
