//! A child that does what a test tells it: Python, a line at a time, over its standard input. So a test knows what has happened, and
//! what has not yet.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use badchild::{Found, wait_until};
use serde_json::Value;

use crate::stage::{Caller, Stage};

const PUPPET: &str = "
import os, signal, socket, sys, threading, time
kept = []
def notify(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.connect('\\0' + os.environ['NOTIFY_SOCKET'][1:])
        s.send(text if isinstance(text, bytes) else text.encode())
def say(text):
    os.write(2, text.encode())
print('ok', flush=True)
for line in sys.stdin:
    exec(line)
    print('ok', flush=True)
";

/// Such a child, contained with some options.
pub struct Puppet {
    /// Records and files of the child.
    pub stage: Stage,
    /// The host.
    pub caller: Caller,
}

impl Puppet {
    /// On a stage of its own.
    pub fn start(options: &[&str]) -> Self {
        Self::start_on(Stage::new(), options, |_| {})
    }

    /// On this stage, with a change to the command of the host.
    pub fn start_on(stage: Stage, options: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let folder = stage.folder.path().to_owned();
        let caller = stage.launch("run", options, &["python3", "-c", PUPPET], |command| {
            command.current_dir(folder);
            change(command);
        });
        let mut puppet = Self { stage, caller };
        puppet.has_done_it();
        puppet
    }

    /// Lets it do something, and waits until it has.
    pub fn does(&mut self, code: &str) {
        self.begins(code);
        self.has_done_it();
    }

    /// Lets it do something that may take long.
    pub fn begins(&mut self, code: &str) {
        self.caller.write(format!("{code}\n").as_bytes());
    }

    /// Waits until it has done what it was told.
    pub fn has_done_it(&mut self) {
        let line = self.caller.next_line();
        assert_eq!(String::from_utf8_lossy(&line), "ok\n", "{}", self.caller.errors());
    }

    /// What `ps --json` says of it.
    pub fn shown(&self) -> Value {
        let output = self.stage.nostray(&["ps", "--json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(shown["pens"].as_array().map(Vec::len), Some(1), "{shown:#}\n{}", self.caller.errors());
        shown["pens"][0].clone()
    }

    /// The state that `ps --json` shows.
    pub fn state(&self) -> String {
        self.shown()["state"].as_str().expect("a state").to_owned()
    }

    /// Waits for a state, and returns since when it is in it.
    pub fn wait_for(&self, state: &str) -> u64 {
        wait_until(&format!("it is {state}, not {}", self.state()), || self.state() == state);
        self.shown()["since"].as_u64().expect("a time")
    }

    /// Its guard.
    pub fn guard(&self) -> Found {
        self.stage.own().into_iter().find(|found| found.stat.name == "nostray-guard").expect("a guard")
    }

    /// How often the guard has gone to sleep so far.
    pub fn naps(&self) -> u64 {
        naps_of(&self.guard())
    }

    /// Waits until the guard has looked for something a few times more.
    pub fn wait_for_looks(&self) {
        let before = self.naps();
        wait_until("the guard looks a few times", || self.naps() > before + 3);
    }

    /// Waits until the guard has nothing to do.
    pub fn wait_until_quiet(&self) {
        wait_until_quiet(&self.guard());
    }

    /// What happened to it, in words, without the start.
    pub fn story(&self) -> Vec<String> {
        let told = self.stage.journal();
        let words = |line: &str| line.splitn(3, "  ").nth(2).map(str::to_owned);
        told.lines().filter_map(words).filter(|line| !line.starts_with("started")).collect()
    }

    /// How often it was ready.
    pub fn times_ready(&self) -> usize {
        self.story().iter().filter(|line| line.starts_with("ready")).count()
    }

    /// It is in the journal once that it is ready: a moment after it is on record.
    pub fn is_told_ready_once(&self) {
        wait_until("it is told", || self.times_ready() > 0);
        assert_eq!(self.times_ready(), 1, "{:?}", self.story());
    }

    /// Ends it as hosts do, and sees that nothing is left.
    pub fn end(self) {
        let Self { stage, caller } = self;
        caller.end(&stage);
    }
}

/// Waits until a process has nothing to do: it sleeps, and does not turn in circles.
pub fn wait_until_quiet(found: &Found) {
    wait_until("it is quiet", || {
        // One that waits for the processor does not move either.
        let before = (naps_of(found), sleeps(found));
        std::thread::sleep(Duration::from_millis(100)); // for as long as this it has not moved
        before == (naps_of(found), true) && sleeps(found)
    });
}

fn sleeps(found: &Found) -> bool {
    status_of(found, "State:").starts_with('S')
}

fn naps_of(found: &Found) -> u64 {
    status_of(found, "voluntary_ctxt_switches:").parse().expect("a number")
}

fn status_of(found: &Found, key: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).expect("is there");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("Linux");
    line.trim().to_owned()
}

/// Milliseconds of Unix time, as records have them.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_millis().try_into().expect("not so late")
}
