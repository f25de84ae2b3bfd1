//! Shared by the tests of the command line: starts nostray, with the stages, hosts and contenders that the tests need.
//! Compiled once for all test programs in `crates/cli/tests`.

pub mod debugger;
pub mod many;
pub mod memory;
pub mod peers;
pub mod person;
pub mod puppet;
pub mod screen;
pub mod sharing;
pub mod slots;
pub mod stage;
pub mod tmux;

use std::path::PathBuf;
use std::process::{Command, Stdio};

pub use badchild::in_parallel;
use badchild::{Found, Host, PATIENCE, Scene, badchild, comes_true, publish, wait_until};

/// The program under test. Cargo builds it before the tests of its package.
pub fn nostray() -> PathBuf {
    publish(&badchild::beside_test("nostray"))
}

/// Graces that are long enough to be distinguished, and short enough for thousands of rounds.
pub const GRACES: [&str; 4] = ["--eof-grace", "150ms", "--term-grace", "200ms"];

/// The words of `nostray run OPTIONS -- badchild MANNER`.
pub fn run_words(options: &[&str], manner: &[&str]) -> Vec<String> {
    let mut words = vec![nostray().display().to_string(), "run".to_owned()];
    words.extend(options.iter().map(|word| (*word).to_owned()));
    words.extend(["--".to_owned(), badchild().display().to_string()]);
    words.extend(manner.iter().map(|word| (*word).to_owned()));
    words
}

/// A command `nostray run OPTIONS -- badchild MANNER`, with stdout piped and stdin piped.
pub fn run_command(scene: &Scene, options: &[&str], manner: &[&str]) -> Command {
    let words = run_words(options, manner);
    let mut command = scene.command(words[0].as_ref());
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A host that runs `nostray run OPTIONS -- badchild MANNER`.
pub fn start_host(scene: &Scene, host_options: &[&str], options: &[&str], manner: &[&str]) -> Host {
    let words = run_words(options, manner);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    Host::start(scene, host_options, &words)
}

/// nostray's own processes in a scene.
#[derive(Debug)]
pub struct Own {
    /// The process that the host started.
    pub front: Found,
    /// Takes over from a killed guard.
    pub spare: Found,
    /// The parent of the child.
    pub guard: Found,
}

/// Finds nostray's processes by the names that they set. A newly forked sweeper has its parent's name for a moment, so
/// look again.
pub fn own_processes(scene: &Scene) -> Own {
    let mut processes = Vec::new();
    let named = |all: &[Found], name: &str| {
        let mut found = all.iter().filter(|found| found.stat.name == name);
        found.next().filter(|_| found.next().is_none()).cloned()
    };
    let mut own = None;
    comes_true(PATIENCE, &mut || {
        processes = scene.processes();
        let all = ["nostray", "nostray-spare", "nostray-guard"].map(|name| named(&processes, name));
        own =
            if let [Some(front), Some(spare), Some(guard)] = all { Some(Own { front, spare, guard }) } else { None };
        own.is_some()
    });
    own.unwrap_or_else(|| panic!("not exactly one front, spare and guard among {processes:#?}"))
}

/// Waits until the guard is on record. A child may start before that; if a test then kills all of nostray's processes,
/// no sweeper can tell whose child it is.
pub fn wait_until_on_record(place: &Scene, guard: &Found) {
    let who = format!("\"guard\":{{\"pid\":{},", guard.stat.pid);
    wait_until("the guard is on record", || {
        let files = std::fs::read_dir(place.runtime().join("nostray")).into_iter().flatten().flatten();
        let mut records = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        records.any(|record| record.replace(' ', "").contains(&who))
    });
}
