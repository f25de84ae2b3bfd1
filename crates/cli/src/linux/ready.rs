//! The options of `nostray run` that say when the child is ready.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nostray_pen::{Pattern, Port, Ready};
use nostray_supervise::wire::DaemonSettings;

use crate::args::positive_duration;

/// At most one definition of ready. It matters to `ps`, to the journal, and to a caller that waits for the child's slot.
#[derive(Debug, Args)]
#[command(next_help_heading = "When it is ready")]
#[group(skip)]
pub(crate) struct ReadyArgs {
    /// Ready when a line on its stderr matches this regular expression
    ///
    /// Until then `ps` shows it as starting. Only the first 64 KiB of a line are looked at. For this, and for this only, the child's
    /// stderr is a pipe that nostray reads; nostray passes every byte on to the host's stderr. So the child does not see a terminal on its
    /// stderr.
    #[arg(long, value_name = "REGEX", group = "definition", hide_short_help = true)]
    pub(crate) ready_line: Option<Pattern>,

    /// Ready when a process of its tree listens on this TCP port, as [HOST:]PORT
    ///
    /// nostray does not connect to it. A process outside the tree that listens on the same port does not count. HOST is localhost or an address, like
    /// 127.0.0.1 or [::1].
    #[arg(long, value_name = "PORT", group = "definition", hide_short_help = true)]
    pub(crate) ready_port: Option<Port>,

    /// Ready when this file is there
    ///
    /// A file from before the start does not count until it is written again. A relative path is relative to the child's
    /// directory.
    #[arg(long, value_name = "PATH", group = "definition", hide_short_help = true)]
    pub(crate) ready_file: Option<PathBuf>,

    /// Ready when this command succeeds
    ///
    /// `sh -c` runs it in the child's directory, again and again until it exits with 0; one run at a time, and each for ten seconds at
    /// most. It is contained like the child.
    #[arg(long, value_name = "CMD", group = "definition", hide_short_help = true)]
    pub(crate) ready_cmd: Option<OsString>,

    /// Ready when it says so, as a service says so to systemd
    ///
    /// NOTIFY_SOCKET in its environment names a socket of nostray's, which understands READY=1, STOPPING=1, STATUS=... (for `ps`),
    /// and EXTEND_TIMEOUT_USEC=... (more time to be ready, or to end). Only messages from the same user count.
    #[arg(long, group = "definition", hide_short_help = true)]
    pub(crate) ready_notify: bool,

    /// End the child if it is not ready by then [default: never]
    ///
    /// The child gets its graces. For a supervised child this counts as a crash; without one of the definitions above, it is the same as
    /// --start-timeout there.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, hide_short_help = true)]
    pub(crate) ready_timeout: Option<Duration>,
}

impl ReadyArgs {
    /// All options at their defaults.
    pub(crate) fn none() -> Self {
        Self {
            ready_line: None,
            ready_port: None,
            ready_file: None,
            ready_cmd: None,
            ready_notify: false,
            ready_timeout: None,
        }
    }

    /// When the child is ready.
    pub(crate) fn definition(&self) -> Ready {
        let line = self.ready_line.clone().map(Ready::Line);
        let port = self.ready_port.map(Ready::Port);
        let file = self.ready_file.clone().map(Ready::File);
        let command = self.ready_cmd.clone().map(Ready::Command);
        let notify = self.ready_notify.then_some(Ready::Notify);
        line.or(port).or(file).or(command).or(notify).unwrap_or_default()
    }

    /// The same for a daemon, which a steward keeps.
    pub(crate) fn of_daemon(&self) -> DaemonSettings {
        DaemonSettings { ready: self.definition(), ready_timeout: self.ready_timeout }
    }

    /// The error message, if these options cannot be combined.
    pub(crate) fn complaint(&self, is_managed: bool) -> Option<&'static str> {
        (self.ready_timeout.is_some() && !is_managed && self.definition() == Ready::Started).then_some(
            "--ready-timeout needs a definition of ready: add --ready-line, --ready-port, --ready-file, --ready-cmd or \
             --ready-notify",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_given_is_ready_as_soon_as_started() {
        assert_eq!(ReadyArgs::none().definition(), Ready::Started);
        assert_eq!(ReadyArgs::none().complaint(false), None);
    }

    #[test]
    fn a_limit_needs_a_definition_unless_the_first_answer_is_one() {
        let args = ReadyArgs { ready_timeout: Some(Duration::from_secs(1)), ..ReadyArgs::none() };
        assert!(args.complaint(false).is_some() && args.complaint(true).is_none());
        assert!(ReadyArgs { ready_notify: true, ..args }.complaint(false).is_none());
    }
}
