//! `nostray hold`: a daemon that many hosts hold, and that ends after the last of them.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use nostray_supervise::{Backoff, Rate};
use nostray_terminal::ExitCode;

use crate::args::{ENDS, FOUND, Isolate, SHARED, duration, label, positive_duration};
use crate::managed::{ManagedArgs, size};
use crate::ready::ReadyArgs;
use crate::share::{Reverse, ShareArgs};

/// The heading of options about restarts.
const KEPT: &str = "How it is kept: restarts, limits";

const SHORT_EXAMPLES: &str = "\
Example:
  nostray hold --key viewer node viewer.js
All options, each with its reasons: nostray hold --help";

/// Keep one daemon for as long as at least one host holds it
///
/// For a child that no host talks to over stdin and stdout: a viewer, a dashboard, a local model server. Each call is one holder. The
/// first holder starts the daemon. Later holders with the same key hold the same daemon. After the last holder, the daemon is kept for
/// --linger and then ended with its whole tree, first by SIGTERM. At most one daemon of a key runs at a time.
///
/// A holder ends with its stdin (if that is a pipe or a socket), with this process, or with its host, whichever comes first. It reads
/// nothing from its stdin and writes nothing to its stdout. The daemon has /dev/null for its stdin; `nostray log ID --output` shows what
/// it writes to stdout and stderr.
///
/// The daemon may stay in the foreground or fork into the background: if the command exits with 0 and leaves processes behind, the
/// oldest of them is the daemon from then on. Any other exit code is a crash, and what a crash leaves is ended. In the foreground, a
/// crash is always noticed.
///
/// Without --respawn, the holders end with the daemon and its exit code. The first holder's options decide how the daemon is kept; the
/// last holder's --linger counts. If no broker can be started, there is no way to keep one daemon for all holders: nothing is started, and
/// the exit code is 125.
#[derive(Debug, Args)]
#[command(after_help = SHORT_EXAMPLES, after_long_help = EXAMPLES)]
pub(crate) struct HoldArgs {
    /// Hold the daemon of this name
    ///
    /// Without it: the one with the same command, arguments, directory and environment.
    ///
    /// The same name with another command, or for `nostray share`, is refused.
    #[arg(long, value_name = "NAME", help_heading = SHARED)]
    key: Option<String>,

    /// Of the environment, only these variables decide which holders hold the same daemon; none with an empty list
    ///
    /// By default all do, except variables that name a session, a terminal, a window or a login. The daemon has the environment of its
    /// first holder.
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "key", hide_short_help = true, help_heading = SHARED)]
    share_env: Option<Vec<String>>,

    /// Hold the same daemon as holders in other directories; it runs in the directory of its first holder
    #[arg(long, conflicts_with = "key", hide_short_help = true, help_heading = SHARED)]
    any_dir: bool,

    /// How long the daemon is kept after its last holder (0s: not at all)
    ///
    /// With a definition of ready, the time counts from ready on; a daemon that is not ready is kept for two minutes at most.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, help_heading = SHARED, hide_short_help = true)]
    linger: Duration,

    /// Restart it when it ends
    ///
    /// Whatever its exit code; also after the background process that keeps it was killed.
    #[arg(long, help_heading = KEPT)]
    respawn: bool,

    /// The first pause before a start after an end, and the longest one [default: 250ms..30s]; implies --respawn
    ///
    /// Pauses grow until the daemon has been ready, or, without a definition of ready, has run for 30 seconds.
    #[arg(long, value_name = "TIME..TIME", hide_short_help = true, help_heading = KEPT)]
    backoff: Option<Backoff>,

    /// After so many ends in so long, the daemon is not started for as long again [default: 5/1m]; implies --respawn
    ///
    /// After that time it is started once more. Ends are forgotten when it has been ready for 30 seconds.
    #[arg(long, value_name = "N/TIME", hide_short_help = true, help_heading = KEPT)]
    max_failures: Option<Rate>,

    /// Restart the daemon when its tree uses more memory than this
    #[arg(long, value_name = "SIZE", value_parser = size, hide_short_help = true, help_heading = KEPT)]
    max_memory: Option<u64>,

    /// Restart the daemon when it is older than this
    #[arg(long, value_name = "TIME", value_parser = positive_duration, hide_short_help = true, help_heading = KEPT)]
    max_age: Option<Duration>,

    /// Time from SIGTERM to SIGKILL (0s: at once)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, hide_short_help = true, help_heading = ENDS)]
    term_grace: Duration,

    /// End this holder when this process ends, too; may be given several times
    #[arg(long, value_name = "PID", hide_short_help = true, help_heading = ENDS)]
    die_with: Vec<u32>,

    /// Put the daemon's tree into a namespace of its own, so that the kernel itself ends it
    #[arg(long, value_name = "WHAT", hide_short_help = true, help_heading = ENDS)]
    isolate: Option<Isolate>,

    /// This holder, by which `ps` and `stop` find it
    ///
    /// By default what the host says in its environment, like CLAUDE_CODE_SESSION_ID.
    #[arg(long, value_name = "SESSION", help_heading = FOUND)]
    session: Option<String>,

    /// Something to find this holder by, as NAME=VALUE; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, hide_short_help = true, help_heading = FOUND)]
    labels: Vec<(String, String)>,

    #[command(flatten)]
    status: crate::status::StatusArgs,

    #[command(flatten)]
    pub(crate) ready: ReadyArgs,

    /// The command, with its arguments
    ///
    /// Options of nostray stand before it. Everything after its first word is the command's.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments, help_heading = None::<&str>)]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  nostray hold --key viewer node bridge.cjs --daemon
      Each host starts this beside its session: one viewer for all of them,
      gone 10 seconds after the last host.

  nostray hold --key llm --respawn --ready-port 8080 llama-server --port 8080
      A crashed server comes back. `nostray ps` shows it as starting until it
      listens.

  nostray hold --key board --linger 0s --die-with 4711 ./dashboard </dev/null
      From a script: held until process 4711 ends, or the script does.

  nostray ps --tree; nostray restart viewer; nostray stop --session chat-17
      Who holds what; restart it; end one holder.

Exit codes:
  0 when the holder's input or host has ended; 128+n if signal n ended the
  holder; the daemon's own if it ended for good (without --respawn, or `nostray
  stop`); 127 or 126 if its program cannot be executed; 125 if nostray itself
  failed, no broker could be started, the broker was stopped, or the process
  that kept the daemon was killed (without --respawn).";

/// Runs the daemon as a shared child that no session talks to.
pub(crate) fn run(args: HoldArgs) -> ExitCode {
    let respawn = args.respawn || args.backoff.is_some() || args.max_failures.is_some();
    let HoldArgs { backoff, max_failures, max_memory, max_age, .. } = args;
    crate::share::run(ShareArgs {
        daemon: Some(args.ready.of_daemon()),
        key: args.key,
        share_env: args.share_env,
        any_dir: args.any_dir,
        linger: args.linger,
        // If each holder started its own, several daemons would run at a time.
        require_share: true,
        no_respawn: !respawn,
        reverse: Reverse::Certain,
        route_by: Vec::new(),
        // A daemon has no input that could end.
        eof_grace: Duration::ZERO,
        term_grace: args.term_grace,
        die_with: args.die_with,
        isolate: args.isolate,
        session: args.session,
        labels: args.labels,
        status: args.status,
        managed: ManagedArgs { backoff, max_failures, max_memory, max_age, ..ManagedArgs::none() },
        command: args.command,
        slot: None,
    })
}
