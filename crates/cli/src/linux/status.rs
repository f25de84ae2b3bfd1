//! `--status-fd`: how a host that starts nostray from a program learns what becomes of the child.

use std::os::fd::RawFd;

use clap::Args;
use nostray_pen::{OWN_FAILURE, Witness};
use nostray_registry::{StatusEvent, StatusLines, StatusWitness};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_terminal::ExitCode;

use crate::args::SAYS;

/// For a host that is a program.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = SAYS)]
pub(crate) struct StatusArgs {
    /// Write what becomes of the child to this file descriptor, one JSON object a line
    ///
    /// For hosts that are programs: an open pipe or socket, which the child does not inherit. The `event` of a line is one of: waiting,
    /// refused (its slot), started (with id and pid), executed, not-executed (with errno), ready, stopping (with the reason), exited
    /// (with code or signal), empty, failed; of a supervised or shared child: attached, up (with its generation), down, alone, over.
    /// nostray never waits for the reader. The descriptor is closed when nothing is left of the tree.
    #[arg(long, value_name = "FD", hide_short_help = true)]
    status_fd: Option<RawFd>,
}

impl StatusArgs {
    /// Without the option.
    pub(crate) fn none() -> Self {
        Self { status_fd: None }
    }

    /// Takes the descriptor over. To be called before anything is opened.
    pub(crate) fn lines(self) -> Result<Option<StatusLines>, ExitCode> {
        self.status_fd.map(StatusLines::take_over).transpose().map_err(|error| {
            let number = self.status_fd.unwrap_or_default();
            write_to_stderr_at_once(&format!(
                "nostray: --status-fd {number}: {error}; give the number of a pipe or socket that the host has opened for nostray\n"
            ));
            ExitCode::from(OWN_FAILURE)
        })
    }
}

/// The witness of a pen whose host wants status lines, or the one that it was.
pub(crate) fn beside(witness: Box<dyn Witness>, lines: Option<&StatusLines>) -> Box<dyn Witness> {
    match lines {
        Some(lines) => Box::new(StatusWitness::new(witness, lines.clone())),
        None => witness,
    }
}

/// Says why nostray itself failed: to a person, and to a host that wants to know.
pub(crate) fn complain(error: &nostray_pen::Error, lines: Option<&StatusLines>) -> ExitCode {
    if let Some(lines) = lines {
        lines.say(&StatusEvent::Failed { text: &error.to_string() });
    }
    // Signals are blocked by now, so this write must not block on a host that has stopped reading.
    write_to_stderr_at_once(&format!("nostray: {error}\n"));
    ExitCode::from(OWN_FAILURE)
}
