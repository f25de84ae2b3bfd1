//! `nostray`: no stray processes. Each command has a file of its own; this one tells them apart.

mod args;
mod completions;
mod demo;
mod doctor;
mod log;
mod man;
mod ps;
mod run;
mod selection;
mod stop;
mod sweep;
mod table;
mod terminal;

use std::process::ExitCode;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli {
        Cli { command: Command::Run(args) } => run::run(args),
        Cli { command: Command::Ps(args) } => ps::run(&args),
        Cli { command: Command::Stop(args) } => stop::run(&args),
        Cli { command: Command::Sweep(args) } => sweep::run(&args),
        Cli { command: Command::Log(args) } => log::run(&args),
        Cli { command: Command::Demo(args) } => demo::run(&args),
        Cli { command: Command::Doctor(args) } => doctor::run(&args),
        Cli { command: Command::Completions(args) } => completions::print(&args),
        Cli { command: Command::Man(args) } => man::print(&args),
    }
}
