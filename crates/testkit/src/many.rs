//! Many hosts that share a child, and the broker and stewards that keep it for them.

use std::process::{Command, Output};

use badchild::{Found, User, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};

use crate::stage::{Caller, Stage};

/// A stage for sessions that share children.
pub struct Many {
    /// The records, files and cache of all sessions.
    pub stage: Stage,
}

impl Default for Many {
    fn default() -> Self {
        Self::new()
    }
}

impl Many {
    /// With the rights of the user who runs the tests.
    pub fn new() -> Self {
        Self { stage: Stage::new() }
    }

    /// With the rights of this user.
    pub fn for_user(user: User) -> Self {
        Self { stage: Stage::for_user(user) }
    }

    /// Starts `nostray share OPTIONS -- badchild server SERVER_OPTIONS`. Unless the options say otherwise, the child
    /// ends with the last session, with short graces.
    pub fn share(&self, options: &[&str], server: &[&str]) -> Caller {
        self.share_in(options, server, |_| {})
    }

    /// The same in another environment.
    pub fn share_in(&self, options: &[&str], server: &[&str], change: impl FnOnce(&mut Command)) -> Caller {
        let command = self.stage.server(server);
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        self.share_command(options, &command, change)
    }

    /// The same with any command.
    pub fn share_command(&self, options: &[&str], words: &[&str], change: impl FnOnce(&mut Command)) -> Caller {
        let linger: &[&str] = if options.contains(&"--linger") { &[] } else { &["--linger", "0s"] };
        self.stage.launch("share", &[options, linger].concat(), words, change)
    }

    /// Starts a session, and makes its handshake.
    pub fn begun(&self, options: &[&str]) -> Caller {
        let mut caller = self.share(options, &[]);
        caller.initialize();
        caller
    }

    /// Starts several sessions, called `s0`, `s1` and so on.
    pub fn several(&self, count: usize, options: &[&str]) -> Vec<Caller> {
        let start = |number: usize| {
            let name = format!("s{number}");
            self.begun(&[&["--session", &name], options].concat())
        };
        (0..count).map(start).collect()
    }

    /// Another command of nostray's, in the same place.
    pub fn nostray(&self, words: &[&str]) -> Output {
        self.stage.nostray(words)
    }

    /// The output of such a command.
    pub fn says(&self, words: &[&str]) -> String {
        let output = self.nostray(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        text(&output)
    }

    /// The entry of each child in `ps --json`.
    pub fn pens(&self) -> Vec<Value> {
        let shown: Value = serde_json::from_slice(&self.nostray(&["ps", "--json"]).stdout).expect("JSON");
        shown["pens"].as_array().cloned().expect("an array")
    }

    /// The entry of the only child.
    pub fn pen(&self) -> Value {
        let mut pens = self.pens();
        assert_eq!(pens.len(), 1, "{pens:#?}");
        pens.remove(0)
    }

    /// The id of the only child.
    pub fn id(&self) -> String {
        self.pen()["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until so many sessions are on record for the only child, and returns its entry.
    pub fn wait_for_leases(&self, count: usize) -> Value {
        wait_until(&format!("{count} leases are on record"), || {
            let pens = self.pens();
            pens.len() == 1 && pens[0]["shared"]["leases"].as_array().map(Vec::len) == Some(count)
        });
        self.pen()
    }

    /// Waits until so many sessions are on record, of any child.
    pub fn wait_for_leases_of_any(&self, count: usize) {
        let leases = |pen: &Value| pen["shared"]["leases"].as_array().map_or(0, Vec::len);
        wait_until(&format!("{count} leases are on record"), || {
            self.pens().iter().map(leases).sum::<usize>() >= count
        });
    }

    fn keepers(&self, name: &str) -> Vec<Found> {
        self.stage.own().into_iter().filter(|found| found.stat.name == name).collect()
    }

    /// Every live broker.
    pub fn brokers(&self) -> Vec<Found> {
        self.keepers("nostray-broker")
    }

    /// The only broker.
    pub fn broker(&self) -> Found {
        self.stage.the("nostray-broker")
    }

    /// Every live steward.
    pub fn stewards(&self) -> Vec<Found> {
        self.keepers("nostray-steward")
    }

    /// The only steward.
    pub fn steward(&self) -> Found {
        self.stage.the("nostray-steward")
    }

    /// Ends a session as hosts do.
    pub fn end(&self, mut caller: Caller) {
        caller.close();
        assert_eq!(caller.code(), 0, "{}", caller.errors());
    }

    /// Ends all sessions, and checks that no process is left.
    pub fn end_all(&self, callers: impl IntoIterator<Item = Caller>) {
        let mut callers: Vec<Caller> = callers.into_iter().collect();
        callers.iter_mut().for_each(Caller::close);
        for mut caller in callers {
            assert_eq!(caller.code(), 0, "{}", caller.errors());
        }
        self.expect_no_process();
    }

    /// Waits until no process is left: no session, no child, and no broker after a request to leave.
    pub fn expect_no_process(&self) {
        wait_until("only the broker is left", || {
            self.stage.scene.processes().iter().all(|found| found.stat.name == "nostray-broker")
        });
        self.brokers().iter().for_each(|broker| broker.send(Signal::TERM));
        self.stage.scene.expect_empty();
    }
}

/// What a command wrote to stdout.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command wrote to stderr.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A handshake with these capabilities.
pub fn initialize_with(caller: &mut Caller, version: &str, capabilities: &Value) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
    let result = caller.result("initialize", params);
    caller.tell("notifications/initialized", None);
    result
}
