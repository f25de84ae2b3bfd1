//! Servers that are leased, and what they themselves have put on record of their lives: none of it is what nostray believes.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use badchild::{Found, PATIENCE, wait_until};
use nostray::{CallError, Handshake, Lease, LeaseSpec, LeaseSpecBuilder, Supervisor};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::apart::{file, leased};

/// A runtime as most hosts have one.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Plays it in a runtime. All that is waited for in it has a limit of its own.
pub(crate) fn play<T>(what: impl Future<Output = T>) -> T {
    runtime().block_on(async { tokio::time::timeout(PATIENCE * 3, what).await.expect("it never ended") })
}

/// It happens, or the test fails.
pub(crate) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it never happened")
}

/// `badchild server` without MCP, which keeps its record in this file.
pub(crate) fn server(record: &str, options: &[&str]) -> LeaseSpecBuilder {
    let path = file(record).display().to_string();
    leased(&["server", "--plain", "--record", &path]).args(options).backoff("5ms..20ms".parse().expect("right"))
}

/// The same with the handshake of MCP.
pub(crate) fn mcp(record: &str, options: &[&str]) -> LeaseSpecBuilder {
    let path = file(record).display().to_string();
    let spec = leased(&["server", "--record", &path]).args(options).backoff("5ms..20ms".parse().expect("right"));
    spec.handshake(Handshake::mcp("2025-06-18", "test", "1"))
}

pub(crate) fn build(spec: LeaseSpecBuilder) -> LeaseSpec {
    spec.build().expect("right")
}

/// The number of the process that answers.
pub(crate) async fn pid_of(lease: &Lease) -> i64 {
    let who: Value = in_time(lease.call("who", &json!({}))).await.expect("an answer");
    who["pid"].as_i64().expect("a number")
}

/// A call that has been made when this returns, and is not waited for: a task alone may begin after all that follows.
pub(crate) async fn called(
    lease: &Lease,
    method: &'static str,
    params: Value,
) -> JoinHandle<Result<Value, CallError>> {
    let (lease, (tell, told)) = (lease.clone(), tokio::sync::oneshot::channel());
    let call = tokio::spawn(async move {
        let mut call = pin!(lease.call::<Value>(method, &params));
        let first = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        tell.send(()).expect("the test waits for it");
        match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => call.await,
        }
    });
    in_time(told).await.expect("it is made");
    call
}

/// One process of a server's, as it has seen itself.
#[derive(Debug, Default, Clone)]
pub(crate) struct Life {
    pub(crate) pid: i32,
    /// What it was told, a line each.
    pub(crate) heard: Vec<Value>,
    /// Its input has ended.
    pub(crate) has_ended: bool,
}

impl Life {
    /// What it was told with this method.
    pub(crate) fn told(&self, method: &str) -> Vec<&Value> {
        self.heard.iter().filter(|message| message["method"] == method).collect()
    }
}

/// Every process that a server has had.
pub(crate) fn lives(record: &str) -> Vec<Life> {
    let text = std::fs::read(file(record)).unwrap_or_default();
    let mut lives: Vec<Life> = Vec::new();
    // A server that is killed may leave half a line.
    for line in String::from_utf8_lossy(&text).lines() {
        let Some((Ok(pid), what)) = line.split_once(' ').map(|(pid, what)| (pid.parse(), what)) else { continue };
        if what.starts_with("start ") {
            lives.push(Life { pid, ..Life::default() });
        }
        let Some(life) = lives.iter_mut().rev().find(|life| life.pid == pid) else { continue };
        match what.strip_prefix("< ") {
            Some(message) => life.heard.push(serde_json::from_str(message).unwrap_or_default()),
            None => life.has_ended |= what == "end",
        }
    }
    lives
}

/// Waits until the server has been told something with this method, in any of its lives, so many times.
pub(crate) fn expect_told(record: &str, method: &str, times: usize) {
    let count = || lives(record).iter().map(|life| life.told(method).len()).sum::<usize>();
    wait_until(&format!("{method} is heard {times} times"), || count() >= times);
    assert_eq!(count(), times, "{method}");
}

/// The processes of this server that are there now, keepers not counted.
pub(crate) fn alive(record: &str) -> Vec<Found> {
    let path = file(record).display().to_string();
    let has_it = |found: &Found| found.command.contains(&path) && !found.command.contains("--nostray-guard");
    badchild::company().into_iter().filter(has_it).collect()
}

/// Waits until nothing is left of this server.
pub(crate) fn expect_gone(record: &str) {
    wait_until("the server is gone", || alive(record).is_empty());
}

/// Ends all, and sees that nothing is left.
pub(crate) async fn expect_all_gone(supervisor: &Supervisor) {
    in_time(supervisor.shutdown()).await;
    let left = badchild::company();
    assert!(left.is_empty(), "still there after the shutdown: {left:#?}");
}

/// A folder with a claim of its own: see `badchild claim`.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    folder: PathBuf,
}

impl Claim {
    pub(crate) fn new(name: &str) -> Self {
        let folder = file(name);
        std::fs::create_dir_all(&folder).expect("make a folder");
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A server whose whole tree, with a descendant of this kind, holds a lock. A second server that finds the lock
    /// taken says so in the folder, independently of nostray.
    pub(crate) fn server(&self, kind: Option<&str>) -> LeaseSpecBuilder {
        let folder = self.folder.display().to_string();
        let badchild = crate::apart::programs().join("badchild").display().to_string();
        let mut words = vec!["claim"];
        words.extend(kind.into_iter().flat_map(|kind| ["--with", kind]));
        words.extend([folder.as_str(), "one", "--", badchild.as_str(), "server", "--plain"]);
        leased(&words).backoff("1ms..4ms".parse().expect("right"))
    }

    /// How many have held it.
    pub(crate) fn holders(&self) -> usize {
        std::fs::read_to_string(self.folder.join("holders")).unwrap_or_default().lines().count()
    }

    /// No server ever has found the lock taken.
    pub(crate) fn expect_never_two(&self) {
        let two = std::fs::read_to_string(self.folder.join("two")).unwrap_or_default();
        assert!(two.is_empty(), "two at a time: {two}");
    }

    /// Whether no process of any tree is left, by the kernel's lock. Do not call it while a server may be started: that
    /// server would find the lock taken.
    pub(crate) fn is_free(&self) -> bool {
        match std::fs::File::open(self.folder.join("claim")) {
            Ok(file) => file.try_lock().is_ok(),
            Err(_) => true, // no server has opened it yet
        }
    }

    /// The processes that have the claim in their command line.
    pub(crate) fn those(&self) -> Vec<Found> {
        let is_of_it = |found: &Found| found.command.contains(&self.folder.display().to_string());
        badchild::company().into_iter().filter(is_of_it).collect()
    }
}

/// How often a race is run: a short variant for every day, a long one if `NOSTRAY_LONG` is set.
pub(crate) fn rounds(short: usize, long: usize) -> usize {
    if std::env::var_os("NOSTRAY_LONG").is_some() { long } else { short }
}

/// A short time.
pub(crate) const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}
