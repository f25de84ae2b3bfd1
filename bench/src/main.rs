//! What nostray costs, and whether it holds.
//!
//! `pen` measures `nostray run` against no wrapper at all and against what people use instead; `managed` measures the path on
//! which nostray reads the messages, `share` the one on which many sessions have one server; `spawn` measures the library's start of a child from a large host; `race` kills the pen's own processes at random moments and looks for survivors.
//! `compare` is everything that a user decides by, side by side with what people use instead, in one run. All clean up after themselves, however they end.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is for reading; `screen` does the printing"
)]

mod args;
mod around;
mod builds;
mod chart;
mod compare;
mod crowd;
mod gateways;
mod host;
mod looks;
mod machine;
mod managed;
mod memory;
mod messages;
mod mux;
mod peers;
mod pen;
mod pens;
mod programs;
mod quiet;
mod race;
mod registry;
mod report;
mod screen;
mod share;
mod spawn;
mod start;
mod stats;
mod supervisors;
mod targets;
mod teardown;
mod traffic;
mod variants;
mod wakeups;

use std::process::ExitCode;

use args::Command;

/// What went wrong, for a person to read.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    nostray::guard::init(); // `spawn` measures hosts that are their own guard
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            screen::complain(format_args!("{error}\n\n{}", args::USAGE));
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::Help => {
            screen::print(args::USAGE);
            Ok(ExitCode::SUCCESS)
        }
        Command::Echo(start_up) => traffic::echo::run(start_up),
        Command::Relay(command) => traffic::relay::run(&command),
        _ if !around::is_inside() => around::run(),
        Command::Pen(options) => pen::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Managed(options) => managed::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Share(options) => share::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Spawn(options) => spawn::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Builds(options) => builds::run(&options),
        Command::Registry(options) => registry::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Race(options) => race::run(&options),
        Command::Compare(options) => compare::run(&options),
    };
    done.unwrap_or_else(|error| {
        screen::complain(error);
        ExitCode::FAILURE
    })
}
