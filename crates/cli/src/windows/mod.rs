//! The commands of `nostray` on Windows. What is not there yet says so.

pub(crate) mod args;
pub(crate) mod following;
pub(crate) mod leases;
mod run;
pub(crate) mod slot_hold;
pub(crate) mod watch;

use std::ffi::OsString;

use nostray_sys::process::Code;
use nostray_terminal::{self as terminal, ExitCode};

use crate::{completions, log, man, metrics, ps, slot, stop, sweep, wrap};
use args::{Cli, Command};

#[cfg_attr(test, allow(dead_code, reason = "a test has a main of its own"))]
pub(crate) fn program(words: Vec<OsString>) -> Code {
    let code = match args::parse(words) {
        Ok(Cli { command }) => carry_out(command),
        Err(code) => code,
    };
    code.number()
}

/// Why this program may not be there tomorrow, and what to do instead.
pub(crate) fn program_may_vanish() -> Option<(String, &'static str)> {
    nostray_doctor::origin::Origin::of_this_program().may_vanish()
}

fn carry_out(command: Command) -> ExitCode {
    match command {
        Command::Run(args) => run::run(args),
        Command::Ps(args) => ps::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Log(args) => log::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Slot(args) => slot::run(&args),
        Command::Wrap(args) => match wrap::asks_for_more_than_run(&args) {
            Some(option) => {
                terminal::complain(&args::not_here(option));
                ExitCode::from(2)
            }
            None => wrap::wrap(&args),
        },
        Command::Unwrap(args) => wrap::unwrap(&args),
        Command::Hosts(args) => wrap::hosts::run(&args),
        Command::Doctor(args) => nostray_doctor::run(&args, &wrap::grammar, &wrap::fix),
        Command::Completions(args) => completions::print(&args),
        Command::Man(args) => man::print(&args),
        Command::Complete(args) => completions::words(&args),
        Command::Elsewhere(words) => {
            let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
            terminal::complain(&args::not_here(&format!("`nostray {name}`")));
            ExitCode::from(if args::RUNS.contains(&name.as_str()) { nostray_pen::OWN_FAILURE } else { 2 })
        }
    }
}
