//! Contenders for one slot on one [`Stage`], whose trees cannot overlap without leaving a trace: every process of a
//! tree, daemons included, holds a lock of the test's own, and a server that finds the lock held reports it.

use std::path::PathBuf;
use std::process::Command;

use badchild::{Found, User, badchild, wait_until};
use nostray_sys::Signal;
use nostray_sys::proc::Stat;
use serde_json::Value;

use crate::nostray;
use crate::stage::{Caller, Stage};

/// The slot that the contenders want.
pub const SLOT: &str = "db";
/// Through the managed path.
pub const MANAGED: [&str; 3] = ["--respawn", "--backoff", "1ms..5ms"];

/// Exit code of a front that did not get the slot.
pub const NOT_NOW: i32 = 75;

/// A stage with contenders for one slot.
pub struct Ring {
    /// The records and files of all contenders.
    pub stage: Stage,
}

impl Default for Ring {
    fn default() -> Self {
        Self::new()
    }
}

impl Ring {
    /// With the rights of the user who runs the tests.
    pub fn new() -> Self {
        Self::for_user(User::Current)
    }

    /// With the rights of this user.
    pub fn for_user(user: User) -> Self {
        Self { stage: Stage::for_user(user) }
    }

    /// The command line of a server whose tree cannot overlap with another one unnoticed.
    pub fn words(&self, server: &[&str]) -> Vec<String> {
        let script = "exec 9>>\"$0\"; flock -n 9 || echo two >>\"$1\"; shift; exec \"$@\"";
        let mut words: Vec<String> =
            ["sh", "-c", script].into_iter().map(str::to_owned).chain([self.lock(), self.overlap()]).collect();
        words.extend(self.stage.server(server));
        words
    }

    fn lock(&self) -> String {
        self.stage.file("lock")
    }

    fn overlap(&self) -> String {
        self.stage.file("overlap")
    }

    /// Starts `nostray run --slot db OPTIONS -- badchild server SERVER`.
    pub fn run(&self, options: &[&str], server: &[&str]) -> Caller {
        self.run_in(options, server, |_| {})
    }

    /// Like [`Self::run`], with another environment.
    pub fn run_in(&self, options: &[&str], server: &[&str], change: impl FnOnce(&mut Command)) -> Caller {
        let words = self.words(server);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut options = [&["--slot", SLOT], options].concat();
        if !options.contains(&"--eof-grace") {
            // On a busy machine, a server may see the end of its input late.
            options.extend(["--eof-grace", "6s"]);
        }
        self.stage.launch("run", &options, &words, change)
    }

    /// A host that restarts `nostray run --slot db --if-taken replace OPTIONS` whenever that ends. With `fresh`, each
    /// start has a host of its own, as with a wrapper script.
    pub fn restarting_host(&self, options: &[&str], fresh: bool) -> Caller {
        let script = match fresh {
            false => "while :; do \"$@\"; done",
            true => "while :; do sh -c '\"$@\"; exit $?' sh \"$@\"; done",
        };
        let (nostray, server) = (nostray().display().to_string(), self.words(&[]));
        let mut words = vec!["-c", script, "host", &nostray, "run", "--slot", SLOT, "--if-taken", "replace"];
        words.extend(options);
        words.push("--");
        words.extend(server.iter().map(String::as_str));
        self.stage.start_plain("sh", &words)
    }

    /// Waits until a child of this host holds the slot and is ready. Returns its pen's name.
    pub fn wait_for_child_of(&self, host: &mut Caller) -> String {
        let number = host.process.id();
        let is_started_by_it = |front: &Value| {
            let front = front["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).map(badchild::pid);
            let parent = front.and_then(Stat::of).and_then(|stat| stat.parent);
            parent.is_some_and(|parent| parent.as_raw_nonzero().get().unsigned_abs() == number)
        };
        wait_until("a child of this host holds the slot", || is_started_by_it(&self.show()["holder"]["front"]));
        host.initialize();
        wait_until("the child is ready", || self.state() == "ready");
        self.show()["holder"]["id"].as_str().expect("an id").to_owned()
    }

    /// Starts a contender, and waits until it holds the slot and answers.
    pub fn holder(&self, options: &[&str]) -> Caller {
        let mut caller = self.run(options, &[]);
        caller.initialize();
        // The answer may arrive before nostray writes the record, and the record is written before the slot's history.
        let front = caller.process.id();
        wait_until("the holder is on record", || {
            let shown = self.show();
            let last = shown["history"].as_array().and_then(|history| history.last());
            shown["holder"]["front"]["pid"] == front
                && shown["state"] == "ready"
                && last.is_some_and(|last| !last["ready"].is_null())
        });
        caller
    }

    /// Waits until the guard of a contender has finished the start and only waits for events. From then on it sees
    /// events in order: the end of its input before the end of its child.
    pub fn wait_until_settled(&self, of: &Caller) {
        wait_until("the guard waits", || {
            let guard = self.keepers(of).into_iter().find(|found| found.stat.name == "nostray-guard");
            let output = guard.and_then(|guard| std::fs::read_link(format!("/proc/{}/fd/1", guard.stat.pid)).ok());
            output.is_some_and(|output| output.as_os_str() == "/dev/null")
        });
    }

    /// Starts a contender, and waits until it is queued behind `before` others.
    pub fn waiter(&self, options: &[&str], before: usize) -> Caller {
        let caller = self.run(options, &[]);
        wait_until("the waiter is in the queue", || self.waiting().len() == before + 1);
        caller
    }

    /// The JSON output of `nostray slot show`.
    pub fn show(&self) -> Value {
        serde_json::from_slice(&self.stage.nostray(&["slot", "show", SLOT, "--json"]).stdout).unwrap_or_default()
    }

    /// The state of the slot.
    pub fn state(&self) -> String {
        self.show()["state"].as_str().unwrap_or_default().to_owned()
    }

    /// The waiters of the slot, in queue order.
    pub fn waiting(&self) -> Vec<Value> {
        self.show()["waiting"].as_array().cloned().unwrap_or_default()
    }

    /// The past holders of the slot.
    pub fn history(&self) -> Vec<Value> {
        self.show()["history"].as_array().cloned().unwrap_or_default()
    }

    /// The directory of the slot.
    pub fn place(&self) -> PathBuf {
        self.stage.scene.runtime().join("state/nostray/slots").join(SLOT)
    }

    /// The records of pens.
    pub fn records(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.stage.scene.runtime().join("nostray")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect()
    }

    /// nostray's processes around the tree of this contender.
    pub fn keepers(&self, of: &Caller) -> Vec<Found> {
        let own = self.stage.own();
        let mut keepers: Vec<Found> = own.iter().filter(|found| raw(found) == of.process.id()).cloned().collect();
        let mut next = 0;
        while let Some(parent) = keepers.get(next).map(|found| found.stat.pid) {
            keepers.extend(own.iter().filter(|found| found.stat.parent == Some(parent)).cloned());
            next += 1;
        }
        keepers
    }

    /// Kills nostray's processes around this tree all at once, so that none of them acts on the death of another.
    pub fn kill_keepers(&self, of: &Caller) {
        let keepers = self.keepers(of);
        assert!(keepers.len() >= 3, "{keepers:?}");
        kill_at_once(&keepers);
    }

    /// Checks that no two trees lived at the same time.
    pub fn expect_one_at_a_time(&self) {
        let seen = std::fs::read_to_string(self.overlap()).unwrap_or_default();
        assert_eq!(seen, "", "two trees at once\n{}", self.stage.journal());
    }

    /// Checks that the slot is free, that no process is left, and that no two trees ever lived at the same time.
    pub fn expect_over(&self) {
        self.stage.scene.expect_empty();
        self.expect_one_at_a_time();
        let shown = self.show();
        assert_eq!(shown["state"], "free", "{shown:#}");
        assert_eq!(shown["waiting"], serde_json::json!([]), "{shown:#}");
    }

    /// Checks that this contender holds the slot and answers, and that its server is the only one.
    pub fn expect_holder(&self, caller: &mut Caller) {
        caller.initialize();
        let pid = caller.pid();
        assert_eq!(self.stage.servers_here(), [pid], "not the only server\n{}", self.stage.journal());
        self.expect_one_at_a_time();
    }
}

impl Stage {
    /// The live processes of the server, by number.
    pub fn servers_here(&self) -> Vec<i64> {
        let program = format!("{} server", badchild().display());
        let all = self.scene.processes().into_iter().filter(|found| found.command.starts_with(&program));
        let mut servers: Vec<Found> = all.collect();
        // During the scan of /proc, one server may have ended and the next one started.
        if servers.len() > 1 {
            servers.retain(Found::is_alive);
        }
        servers.iter().map(|found| i64::from(raw(found))).collect()
    }
}

/// The number of a process.
pub fn raw(found: &Found) -> u32 {
    found.stat.pid.as_raw_nonzero().get().unsigned_abs()
}

/// Kills these processes. It stops them first, so that none of them acts on the death of another.
pub fn kill_at_once(victims: &[Found]) {
    victims.iter().for_each(|found| found.send(Signal::STOP));
    // The outermost process first: the end of spare and guard continues a stopped front.
    victims.iter().for_each(|found| found.send(Signal::KILL));
    wait_until("the victims are gone", || victims.iter().all(|found| !found.is_alive()));
}

/// Ends a contender as hosts do, and returns its exit code.
pub fn end(mut caller: Caller) -> i32 {
    caller.close();
    caller.code()
}

/// Waits until the front has ended, with any status.
pub fn ended(caller: &mut Caller) {
    wait_until("the front has ended", || caller.process.try_wait().expect("look").is_some());
}

/// The process that a host has started.
pub fn front_of(caller: &Caller) -> Found {
    Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small"))).expect("is there")
}
