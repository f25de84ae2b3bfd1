//! The commands of `nostray` on Linux: all of them.

pub(crate) mod args;
pub(crate) mod broker;
pub(crate) mod following;
pub(crate) mod hold;
pub(crate) mod leases;
pub(crate) mod managed;
pub(crate) mod ready;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod share;
pub(crate) mod slot_hold;
pub(crate) mod slotted;
pub(crate) mod status;
pub(crate) mod wait;
pub(crate) mod warm;
pub(crate) mod watch;

use std::ffi::OsString;

use nostray_sys::descriptors::Room;
use nostray_sys::signal::{self, Disposition, Signal};
use nostray_terminal::{self as terminal, ExitCode};

use crate::{completions, log, man, metrics, ps, slot, stop, sweep, wrap};
use args::{Cli, Command};

/// How many files a command that reads records and processes opens at most, beside handles on the processes that it waits for.
const FILES: u64 = 8;

#[cfg_attr(test, allow(dead_code, reason = "a test has a main of its own"))]
pub(crate) fn program(words: Vec<OsString>) -> u8 {
    // A host that embeds nostray has started us as the guard of its child, or nostray itself as a broker or a steward.
    if let Some(code) = nostray::guard::run_if_called(&words).or_else(|| broker::run_if_called(&words)) {
        return code;
    }
    let code = match args::parse(words) {
        Ok(Cli { command: Command::Run(args) }) => run::run(args),
        Ok(Cli { command: Command::Share(args) }) => share::run(args),
        Ok(Cli { command: Command::Hold(args) }) => hold::run(args),
        Ok(Cli { command }) => {
            // The commands that print handle a closed pipe themselves; `run` leaves the disposition as the host set it.
            signal::set_disposition(Signal::PIPE, Disposition::Ignored).ok();
            match nostray_pen::has_room(Room::now(), FILES) {
                Ok(()) => for_people(command),
                // With too few file descriptors, a process whose files cannot be opened would be taken for an ended
                // process.
                Err(error) => {
                    terminal::complain(&error);
                    ExitCode::from(nostray_pen::OWN_FAILURE)
                }
            }
        }
        Err(code) => code,
    };
    code.number()
}

/// Why this program may not be there tomorrow, and what to do instead.
pub(crate) fn program_may_vanish() -> Option<(String, &'static str)> {
    nostray_doctor::origin::Origin::of_this_program().may_vanish()
}

/// The commands that print something.
fn for_people(command: Command) -> ExitCode {
    match command {
        Command::Run(args) => run::run(args),
        Command::Share(args) => share::run(args),
        Command::Hold(args) => hold::run(args),
        Command::Broker(args) => broker::run(&args),
        Command::Restart(args) => restart::run(&args),
        Command::Ps(args) => ps::run(&args),
        Command::Top(args) => nostray_top::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Log(args) => log::run(&args),
        Command::Web(args) => nostray_web::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Slot(args) => slot::run(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Wrap(args) => wrap::wrap(&args),
        Command::Unwrap(args) => wrap::unwrap(&args),
        Command::Hosts(args) => wrap::hosts::run(&args),
        Command::Demo(args) => nostray_demo::run(&args),
        Command::Doctor(args) => nostray_doctor::run(&args, &wrap::grammar, &wrap::fix),
        Command::Completions(args) => completions::print(&args),
        Command::Man(args) => man::print(&args),
        Command::Complete(args) => completions::words(&args),
    }
}
