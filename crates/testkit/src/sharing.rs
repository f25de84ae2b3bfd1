//! Several hosts on one [`Stage`] that share a server through `nostray share`, and the processes that live there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub use badchild::random::Random;
use badchild::{Found, Host, badchild, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};

use crate::nostray;
use crate::stage::{Caller, Stage};

/// The name of the process of a broker.
pub const BROKER: &str = "nostray-broker";
/// The name of the process of a steward.
pub const STEWARD: &str = "nostray-steward";
/// The names of the processes around a child, outermost first.
pub const PEN: [&str; 3] = ["nostray-front", "nostray-spare", "nostray-guard"];

/// How long the child is kept after the last session, unless a test says otherwise.
const LINGER: [&str; 2] = ["--linger", "200ms"];

/// Ignores the environment when sessions are matched, so that hosts with different environments share a child.
pub const BY_COMMAND: [&str; 2] = ["--share-env", ""];

/// Whether there is time for the full-length tests.
pub fn is_long() -> bool {
    std::env::var_os("NOSTRAY_LONG").is_some_and(|value| value == "1")
}

impl Stage {
    /// Starts `nostray share OPTIONS -- badchild server SERVER_OPTIONS`, with short times if the options give none. The
    /// lives of the server must not overlap.
    pub fn share(&self, options: &[&str], server: &[&str]) -> Caller {
        let claim = self.file("claim");
        let command = self.server(&[&["--claim", &claim], server].concat());
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        self.share_command(options, &command)
    }

    /// The same with any command.
    pub fn share_command(&self, options: &[&str], command: &[&str]) -> Caller {
        self.launch("share", &with_linger(options), command, |_| {})
    }

    /// Starts a session, and makes its handshake.
    pub fn shared(&self, options: &[&str], server: &[&str]) -> Caller {
        let mut caller = self.share(options, server);
        caller.initialize();
        caller
    }

    /// A session of another host's, which has begun and called, with the same server as [`Stage::share`] would have.
    pub fn shared_by_host(&self, host: &[&str], options: &[&str], server: &[&str]) -> (Host, Found) {
        let claim = self.file("claim");
        let mut words = vec![nostray().display().to_string(), "share".to_owned()];
        words.extend(with_linger(options).into_iter().map(str::to_owned));
        words.push("--".to_owned());
        words.extend(self.server(&[&["--claim", &claim], server].concat()));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut host = Host::start(&self.scene, host, &words);
        let line = host.line();
        let front = line.strip_prefix("front ").and_then(|number| number.parse().ok()).expect("its number");
        let front = Found::by_pid(badchild::pid(front)).expect("is there");
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        for message in [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "who", "params": {} }),
        ] {
            host.say(&message.to_string());
        }
        for id in [1, 2] {
            let answer: Value = serde_json::from_str(&host.line()).expect("JSON");
            assert!(answer["id"] == id && answer.get("result").is_some(), "{answer}");
        }
        (host, front)
    }

    /// The live processes of the server.
    pub fn servers(&self) -> Vec<Found> {
        let program = format!("{} server", badchild().display());
        self.scene.processes().into_iter().filter(|found| found.command.starts_with(&program)).collect()
    }

    /// nostray's processes of this name.
    pub fn named(&self, name: &str) -> Vec<Found> {
        self.scene.processes().into_iter().filter(|found| found.stat.name == name).collect()
    }

    /// The only process of this name. A process that lost the race for this role may live a moment longer; wait until
    /// it has ended.
    pub fn the(&self, name: &str) -> Found {
        let mut found = Vec::new();
        let is_one = comes_true(badchild::PATIENCE, &mut || {
            found = self.named(name);
            found.len() == 1
        });
        assert!(is_one, "{name}: {found:?}");
        found.remove(0)
    }

    /// All of nostray's processes that no host has started.
    pub fn background(&self) -> Vec<Found> {
        let is_background = |found: &Found| found.stat.name.starts_with("nostray-");
        self.scene.processes().into_iter().filter(is_background).collect()
    }

    /// The number of sessions that hold each child, as the broker reports it.
    pub fn leases(&self) -> Vec<usize> {
        let output = self.nostray(&["broker", "status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let children = status["children"].as_array().cloned().unwrap_or_default();
        children.iter().map(|child| child["shared"]["leases"].as_array().map_or(0, Vec::len)).collect()
    }

    /// Waits until so many sessions hold the children of the broker.
    pub fn wait_for_leases(&self, leases: &[usize]) {
        let what = format!("leases {leases:?}");
        let came = comes_true(badchild::PATIENCE, &mut || self.leases() == leases);
        assert!(came, "{what}, but {:?}\n{}", self.leases(), self.journal());
    }

    /// Waits until this life of the server has started. Lives count from 1.
    pub fn wait_for_life(&self, number: usize) {
        wait_until(&format!("life {number}"), || self.lives().len() >= number);
        assert_eq!(self.lives().len(), number, "{:#?}", self.lives());
    }

    /// Checks that no two lives overlapped, that no process stays, and that none comes back.
    pub fn expect_over(&self, lives: usize, watch: Duration) {
        self.scene.expect_empty();
        assert_eq!(self.lives().len(), lives, "{:#?}\n{}", self.lives(), self.journal());
        let again = comes_true(watch, &mut || self.lives().len() > lives || !self.scene.processes().is_empty());
        assert!(!again, "a process came back: {:#?}\n{}", self.scene.processes(), self.journal());
        self.expect_never_two();
    }

    /// Checks that no two lives of the server overlapped.
    pub fn expect_never_two(&self) {
        let met: Vec<_> = self.lives().into_iter().filter(|life| life.was_not_alone).collect();
        assert!(met.is_empty(), "two lives at once: {met:#?}\n{}", self.journal());
    }
}

fn with_linger<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let linger = if options.contains(&LINGER[0]) { &[] } else { &LINGER[..] };
    [options, linger].concat()
}

/// Ends a session as hosts do.
pub fn release(mut caller: Caller) {
    caller.close();
    assert_eq!(caller.code(), 0, "{}", caller.errors());
}

/// Kills these processes, and waits until they are gone.
pub fn kill(victims: &[Found]) {
    victims.iter().for_each(|found| found.send(Signal::KILL));
    wait_until("the victims are gone", || victims.iter().all(|found| !found.is_alive()));
}

/// Samples the number of processes of the server.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Vec<Found>)>,
}

/// The time between two samples.
const PACE: Duration = Duration::from_millis(50);

impl Watch {
    /// Starts to sample.
    pub fn over(stage: &Arc<Stage>) -> Self {
        let (stage, is_over) = (stage.clone(), Arc::new(AtomicBool::new(false)));
        let stop = is_over.clone();
        let thread = std::thread::spawn(move || {
            let (mut looks, mut most) = (0, Vec::new());
            while looks < 2 || !stop.load(Ordering::Relaxed) {
                let mut servers = stage.servers();
                // During the scan of /proc, one server may have ended and the next one started.
                if servers.len() > 1 {
                    servers.retain(Found::is_alive);
                }
                if servers.len() > most.len() {
                    most = servers;
                }
                looks += 1;
                // Polls: a process that is not the parent gets no event when a server starts or ends.
                std::thread::sleep(PACE);
            }
            (looks, most)
        });
        Self { is_over, thread }
    }

    /// Checks that no sample found two servers. On a busy machine a sample may take seconds and miss a short life. The
    /// servers themselves report whether they overlapped ([`Stage::expect_never_two`]).
    pub fn expect_one(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let (looks, most) = self.thread.join().expect("no panic");
        assert!(looks > 1 && most.len() <= 1, "{looks} looks, at most {most:#?}");
    }
}
