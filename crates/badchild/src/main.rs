//! One program with many bad manners, for tests and benchmarks. Each manner is a word on its command line.

#![allow(clippy::print_stdout, reason = "printing is what these programs are for")]

mod bridges;
mod claims;
mod exits;
mod hosts;
mod memory_hosts;
mod servers;
mod status;
mod storms;
mod streams;
mod trees;

use std::process::ExitCode;

/// What a manner takes from the command line.
struct Args {
    words: std::collections::VecDeque<String>,
}

impl Args {
    fn next(&mut self, what: &str) -> Result<String, Failure> {
        self.words.pop_front().ok_or_else(|| format!("{what} is missing").into())
    }

    fn number(&mut self, what: &str) -> Result<u64, Failure> {
        Ok(self.next(what)?.parse()?)
    }

    /// The option `--name VALUE`, wherever it stands before `--`.
    fn option(&mut self, name: &str) -> Option<String> {
        let at = self.words.iter().take_while(|word| *word != "--").position(|word| word == name)?;
        self.words.remove(at)?;
        self.words.remove(at)
    }

    fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().take_while(|word| *word != "--").position(|word| word == name);
        at.and_then(|at| self.words.remove(at)).is_some()
    }

    /// The command behind `--`.
    fn command(self) -> Vec<String> {
        self.words.into_iter().skip_while(|word| word != "--").skip(1).collect()
    }
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let mut args = Args { words: std::env::args().skip(1).collect() };
    match args.next("a manner").and_then(|manner| play(&manner, args)) {
        Ok(code) => code,
        Err(error) => {
            println!("badchild: {error}");
            ExitCode::from(99)
        }
    }
}

fn play(manner: &str, args: Args) -> Result<ExitCode, Failure> {
    match manner {
        "claim" => claims::claim(args),
        "tree" => trees::tree(args),
        "member" => trees::member(args),
        "many" => trees::many(args),
        "wrap" => trees::wrap(args),
        "host" => hosts::host(args),
        "on-terminal" => hosts::on_terminal(args),
        "after-parent" => hosts::after_parent(args),
        "leader" => hosts::leader(args),
        "pause" => exits::pause(),
        "exit" => exits::exit(args),
        "sign" => exits::sign(args),
        "die" => exits::die(args),
        "leave" => exits::leave(args),
        "slow" => exits::slow(args),
        "count-signals" => exits::count_signals(args),
        "become-root" => exits::become_root(),
        "spin" => storms::spin(),
        "storm" => storms::storm(args),
        "chain" => storms::chain(args),
        "echo" => streams::echo(),
        "flood" => streams::flood(args),
        "call" => streams::call(args),
        "called" => streams::called(args),
        "long-line" => streams::long_line(args),
        "server" => servers::server(args),
        // As `node bridge.cjs`, when this program is called `node`.
        "bridge.cjs" => bridges::bridge(args),
        "--version" => bridges::version(),
        "memory-host" => memory_hosts::memory_host(args),
        "status" => status::print(),
        other => Err(format!("no manner '{other}'").into()),
    }
}
