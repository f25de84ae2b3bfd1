//! The command line of `nostray demo`.

use std::ffi::OsString;

/// Show what survives a killed host, without and with nostray
///
/// Starts a small host with a badly behaved tree (a plain child, a child in a session of its own, a daemon, a child that
/// ignores SIGTERM), kills the host, and shows what is left; then does the same with nostray. Uses nothing but this program
/// and cleans up after itself. Exits with 0 only if nostray left nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  nostray demo\n  nostray demo --fast | cat")]
pub struct Args {
    /// Do not pause between the steps
    #[arg(long)]
    pub(crate) fast: bool,

    /// Play a part in the demonstration
    #[arg(long, hide = true)]
    pub(crate) actor: Option<crate::Actor>,

    /// What the host of the demonstration starts
    #[arg(last = true, hide = true, requires = "actor")]
    pub(crate) command: Vec<OsString>,
}
