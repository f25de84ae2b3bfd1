//! placeholder
use crate::args::DemoArgs;
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Actor {
    Host,
}
pub(crate) fn run(_: &DemoArgs) -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
