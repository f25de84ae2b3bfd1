//! `nostray completions`: a script for the shell.

use nostray_terminal::{self as terminal, ExitCode};

use crate::args::{self, CompletionsArgs};

pub(crate) fn print(args: &CompletionsArgs) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "nostray", &mut script);
    terminal::print(&script)
}
