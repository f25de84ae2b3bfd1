//! What the tests of this folder share.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of it")]

pub mod stage;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use badchild::{Found, Host, Scene, badchild, publish};

/// The program under test.
pub fn nostray() -> PathBuf {
    publish(env!("CARGO_BIN_EXE_nostray").as_ref())
}

/// Graces that are long enough to be told apart, and short enough for thousands of rounds.
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
    pub front: Found,
    pub spare: Found,
    pub guard: Found,
}

/// Finds them by the names that they give themselves.
pub fn own_processes(scene: &Scene) -> Own {
    let everybody = scene.everybody();
    let named = |name: &str| {
        let mut found = everybody.iter().filter(|found| found.stat.name == name);
        let first = found.next().unwrap_or_else(|| panic!("no {name} among {everybody:#?}"));
        assert!(found.next().is_none(), "more than one {name}");
        first.clone()
    };
    Own { front: named("nostray"), spare: named("nostray-spare"), guard: named("nostray-guard") }
}

/// Does all the work, a few pieces at a time: most of it is waiting.
pub fn in_parallel<T: Send>(work: Vec<T>, one: impl Fn(T) + Sync) {
    let work = Mutex::new(work);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(piece) = { work.lock().expect("no panic under the lock").pop() } {
                    one(piece);
                }
            });
        }
    });
}
