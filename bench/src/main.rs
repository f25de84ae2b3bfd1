//! What nostray costs, and whether it holds.
//!
//! `pen` measures `nostray run` against no wrapper at all and against what people use instead; `managed` measures the path on
//! which nostray reads the messages; `race` kills the pen's own processes at random moments and looks for survivors. All clean
//! up after themselves, however they end.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is for reading; `screen` does the printing"
)]

mod args;
mod around;
mod host;
mod machine;
mod managed;
mod memory;
mod messages;
mod pen;
mod programs;
mod quiet;
mod race;
mod registry;
mod report;
mod screen;
mod start;
mod stats;
mod targets;
mod teardown;
mod variants;

use std::process::ExitCode;

use args::Command;

/// Whatever went wrong, for a person to read.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
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
        Command::Echo(start_up) => managed::echo::run(start_up),
        Command::Relay(command) => managed::relay::run(&command),
        _ if !around::is_inside() => around::run(),
        Command::Pen(options) => pen::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Managed(options) => managed::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Registry(options) => registry::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Race(options) => race::run(&options),
    };
    done.unwrap_or_else(|error| {
        screen::complain(error);
        ExitCode::FAILURE
    })
}
