//! `nostray doctor`: which nostray this is, what this machine offers, which strays other programs have left, and which servers are not
//! wrapped yet.

mod args;
mod command_line;
mod configs;
mod json;
mod kill;
mod live;
mod machine;
pub mod origin;
mod places;
mod program;
mod report;
mod strays;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

// What is per platform has the same names on each, so the rest of this crate does not ask where it is.
#[cfg(target_os = "linux")]
use linux::{checks, evidence, folders, packages, streams};
#[cfg(windows)]
use windows::{checks, evidence, folders, packages, streams};

use std::io;

use nostray_sys::Pid;
use nostray_sys::proc::Stat;
use nostray_sys::secrets::masked;
use nostray_terminal::{self as terminal, ExitCode};
use nostray_wrap::Grammar;

pub use args::Args;
use configs::Config;
use kill::Outcome;
use live::Copies;
use machine::Machine;
use places::Places;
use program::Programs;
use strays::{Confidence, Stray};

/// The whole result of an examination.
#[derive(Debug)]
struct Findings {
    programs: Programs,
    machine: Machine,
    places: Places,
    /// The outcome is there only with --kill.
    strays: Vec<(Stray, Option<Outcome>)>,
    configs: Vec<Config>,
    /// What living hosts run without nostray. With --pid they are not looked at.
    copies: Vec<Copies>,
}

impl Findings {
    fn is_fine(&self) -> bool {
        let Fine { configs, rest } = self.fine();
        configs && rest
    }

    fn fine(&self) -> Fine {
        let is_over = |(stray, outcome): &(Stray, Option<Outcome>)| {
            stray.confidence == Confidence::Maybe || outcome.as_ref().is_some_and(Outcome::is_over)
        };
        Fine {
            configs: self.configs.iter().all(Config::is_fine),
            rest: self.machine.is_fine() && self.places.is_fine() && self.strays.iter().all(is_over),
        }
    }
}

impl Stray {
    /// How to start it so that it cannot stray.
    fn remedy(&self) -> String {
        format!("nostray run -- {}", command_line::quoted(&self.command))
    }
}

/// Looks at the machine, reports, and ends strays where the arguments ask for it. `grammar` says what this version of nostray understands;
/// `wrap` wraps what is not wrapped, and asks unless it is told not to.
pub fn run(args: &Args, grammar: Grammar<'_>, wrap: &dyn Fn(bool) -> ExitCode) -> ExitCode {
    if (args.kill || args.fix) && !args.yes && !kill::can_ask() {
        terminal::complain(
            &"--kill and --fix ask for each stray, but stdin is not a terminal; add --yes to end them all",
        );
        return ExitCode::from(2);
    }
    if let Some(limits) = evidence::LIMITS.filter(|_| args.kill) {
        terminal::complain(&format_args!("--kill is not there on this system: {limits}"));
        return ExitCode::from(2);
    }
    match examine(args, grammar) {
        // The configurations are not fine before they are wrapped; the command that wraps them says how they are then.
        Ok(Fine { configs, rest: true }) if configs || args.fix => {
            if args.fix {
                wrap(args.yes)
            } else {
                ExitCode::SUCCESS
            }
        }
        Ok(_) => {
            if args.fix {
                wrap(args.yes);
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            terminal::complain(&error);
            ExitCode::from(2)
        }
    }
}

/// What is fine.
struct Fine {
    configs: bool,
    rest: bool,
}

fn examine(args: &Args, grammar: Grammar<'_>) -> Result<Fine, String> {
    let unseen = |error: io::Error| format!("cannot look for strays: {error}");
    let is_meant =
        |stray: &Stray| args.pid.is_empty() || args.pid.contains(&stray.identity.pid.as_raw_nonzero().get());
    let programs = Programs::examine();
    let configs = configs::examine(grammar, &programs);
    let found = strays::find(&configs, is_meant).map_err(unseen)?;
    let exists = |pid: &i32| Pid::from_raw(*pid).is_some_and(|pid| Stat::of(pid).is_some());
    if !args.pid.is_empty() && !args.pid.iter().any(exists) {
        let pids: Vec<_> = args.pid.iter().map(ToString::to_string).collect();
        let existing = existing(&strays::find(&configs, |_| true).map_err(unseen)?);
        return Err(format!("there is no process {}; {existing}", pids.join(", ")));
    }
    let mut findings = Findings {
        machine: Machine::examine(),
        places: Places::examine(),
        strays: found.into_iter().map(|stray| (stray, None)).collect(),
        configs,
        programs,
        copies: Vec::new(),
    };
    if args.pid.is_empty() {
        findings.copies = live::look(&findings.configs);
    }
    if args.kill || args.fix {
        // A user reads the report before the first question. A program gets one object, which includes the outcomes.
        if !args.json && !args.yes {
            show(&report::text(&findings))?;
        }
        let strays: Vec<_> = findings.strays.iter().map(|(stray, _)| stray.clone()).collect();
        let outcomes = kill::end(&strays, !args.yes).map_err(|error| format!("cannot end strays: {error}"))?;
        findings.strays = strays.into_iter().zip(outcomes.into_iter().map(Some)).collect();
        if !args.json && !args.yes {
            show(&report::outcomes(&findings))?;
            return Ok(findings.fine());
        }
    }
    show(&if args.json { json::text(&findings) } else { report::text(&findings) })?;
    Ok(findings.fine())
}

/// The strays that there are, for an error.
fn existing(strays: &[Stray]) -> String {
    let shown: Vec<String> = strays
        .iter()
        .map(|stray| format!("{} ({})", stray.identity.pid.as_raw_nonzero(), masked(&stray.command).join(" ")))
        .collect();
    if shown.is_empty() {
        "there are no strays".to_owned()
    } else {
        format!("there are the strays {}", shown.join(", "))
    }
}

fn show(text: &str) -> Result<(), String> {
    match terminal::write(text.as_bytes()) {
        // A reader such as `head` closes the pipe when it has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}
