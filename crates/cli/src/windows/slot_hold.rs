//! `nostray slot hold`, which is not there yet on Windows.

use std::ffi::OsString;

use nostray_terminal::ExitCode;

use crate::args::not_here;

/// Hold a slot for the process that started this one (not there yet on Windows)
#[derive(Debug, clap::Args)]
#[command(hide = true, disable_help_flag = true)]
pub(crate) struct HoldArgs {
    /// What it would be called with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

pub(crate) fn run(_: &HoldArgs) -> Result<ExitCode, String> {
    Err(not_here("`nostray slot hold`"))
}
