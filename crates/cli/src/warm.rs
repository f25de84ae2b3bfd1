//! `nostray run --warm`: finds out what `--lazy` needs to know, by being the host of a supervised child that is asked.

use crate::args::RunArgs;
use crate::exit::ExitCode;

pub(crate) fn run(_args: &RunArgs) -> ExitCode {
    ExitCode::FAILURE
}
