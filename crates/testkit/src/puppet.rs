//! A child that executes Python lines from its standard input, one at a time. So a test knows what the child has done,
//! and what it has not done yet.

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

/// A puppet child, run by nostray with some options.
pub struct Puppet {
    /// The records and files of the child.
    pub stage: Stage,
    /// The host.
    pub caller: Caller,
}

impl Puppet {
    /// Starts a puppet on a stage of its own.
    pub fn start(options: &[&str]) -> Self {
        Self::start_on(Stage::new(), options, |_| {})
    }

    /// Starts a puppet on this stage, with a change to the command of the host.
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

    /// Makes the child execute a line, and waits until it is done.
    pub fn does(&mut self, code: &str) {
        self.begins(code);
        self.has_done_it();
    }

    /// Makes the child execute a line that may take long, and does not wait.
    pub fn begins(&mut self, code: &str) {
        self.caller.write(format!("{code}\n").as_bytes());
    }

    /// Waits until the child has executed its line.
    pub fn has_done_it(&mut self) {
        let line = self.caller.next_line();
        assert_eq!(String::from_utf8_lossy(&line), "ok\n", "{}", self.caller.errors());
    }

    /// The entry of the child in `ps --json`.
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

    /// Waits for a state, and returns since when the child is in it.
    pub fn wait_for(&self, state: &str) -> u64 {
        wait_until(&format!("the child is {state}, not {}", self.state()), || self.state() == state);
        self.shown()["since"].as_u64().expect("a time")
    }

    /// The child's guard.
    pub fn guard(&self) -> Found {
        self.stage.own().into_iter().find(|found| found.stat.name == "nostray-guard").expect("a guard")
    }

    /// The number of times that the guard has gone to sleep so far.
    pub fn naps(&self) -> u64 {
        naps_of(&self.guard())
    }

    /// Waits until the guard has polled a few times more.
    pub fn wait_for_looks(&self) {
        let before = self.naps();
        wait_until("the guard looks a few times", || self.naps() > before + 3);
    }

    /// Waits until the guard has nothing to do.
    pub fn wait_until_quiet(&self) {
        wait_until_quiet(&self.guard());
    }

    /// The journal of the child as text, without the start.
    pub fn story(&self) -> Vec<String> {
        let told = self.stage.journal();
        let words = |line: &str| line.splitn(3, "  ").nth(2).map(str::to_owned);
        told.lines().filter_map(words).filter(|line| !line.starts_with("started")).collect()
    }

    /// How often the journal says that the child was ready.
    pub fn times_ready(&self) -> usize {
        self.story().iter().filter(|line| line.starts_with("ready")).count()
    }

    /// Checks that the journal tells once that the child is ready. The journal entry follows the record with a short
    /// delay.
    pub fn is_told_ready_once(&self) {
        wait_until("the journal tells that the child is ready", || self.times_ready() > 0);
        assert_eq!(self.times_ready(), 1, "{:?}", self.story());
    }

    /// Closes its input as hosts do, and checks that nothing is left.
    pub fn end(self) {
        let Self { stage, caller } = self;
        caller.end(&stage);
    }
}

/// Waits until a process is idle: it sleeps, and does not wake up.
pub fn wait_until_quiet(found: &Found) {
    wait_until("the process is idle", || {
        // A process that waits for a CPU does not nap either, so also check that this process sleeps.
        let before = (naps_of(found), sleeps(found));
        std::thread::sleep(Duration::from_millis(100)); // an idle process does not wake up during this time
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

/// Unix time in milliseconds, as in records.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_millis().try_into().expect("not so late")
}
