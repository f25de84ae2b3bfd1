//! The command line on Windows: what works there, in the same words. What does not is known by name, and refused with a sentence.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use nostray_terminal::ExitCode;

pub(crate) use crate::command_line::*;

/// No stray processes.
///
/// nostray ties a child's whole process tree to the host that started it. However the host ends, nothing of the
/// tree stays behind, and no other process is touched. Put it in front of the command in an agent's configuration:
///
///     "command": "nostray", "args": ["run", "--", "npx", "-y", "some-server"]
#[derive(Debug, Parser)]
#[command(name = "nostray", version, verbatim_doc_comment, max_term_width = WIDTH)]
#[command(help_template = "{about-with-newline}\n{usage-heading} {usage}\n\n{subcommands}{after-help}")]
#[command(after_help = "\
Example:
  nostray run npx -y some-server
`nostray help COMMAND` shows how to use a command.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them")]
pub(crate) enum Command {
    Run(RunArgs),
    Ps(crate::ps::Args),
    Stop(crate::stop::Args),
    Sweep(crate::sweep::Args),
    Log(crate::log::Args),
    Metrics(crate::metrics::Args),
    Slot(crate::slot::SlotCommand),
    Wrap(crate::wrap::WrapArgs),
    Unwrap(crate::wrap::UnwrapArgs),
    Hosts(crate::wrap::hosts::HostsArgs),
    Doctor(nostray_doctor::Args),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// A command that is there on Linux.
    #[command(skip)]
    Elsewhere(Vec<OsString>),
}

/// Commands that are there on Linux alone, so far.
const ELSEWHERE: [&str; 8] = ["share", "hold", "broker", "restart", "top", "web", "demo", "wait"];
/// Those that a host starts in place of a command: a code of theirs must not look like the command's.
pub(crate) const RUNS: [&str; 2] = ["share", "hold"];
/// Options of `run` that are there on Linux alone, so far.
const OPTIONS_ELSEWHERE: [&str; 22] = [
    "--isolate",
    "--status-fd",
    "--ready-line",
    "--ready-port",
    "--ready-file",
    "--ready-cmd",
    "--ready-notify",
    "--ready-timeout",
    "--respawn",
    "--backoff",
    "--max-failures",
    "--hibernate",
    "--lazy",
    "--warm",
    "--max-memory",
    "--max-age",
    "--start-timeout",
    "--max-line",
    "--protocol",
    "--replay",
    "--call-timeout",
    "--remember",
];

/// What to say to a user who asked for something that is not there.
pub(crate) fn not_here(what: &str) -> String {
    format!(
        "{what} is not there yet on Windows; nothing was started. There are `run` (without supervision), `ps`, `stop`, `log`, `sweep` \
         and more: see `nostray --help`"
    )
}

/// Run a command so that nothing of it outlives its host
///
/// Behaves exactly like the command: same bytes, exit code, environment, directory and terminal. The command has the
/// host's own stdin, stdout and stderr; no byte passes through nostray. When the host ends in any way, nostray ends the command's whole
/// tree: first by the end of its input, then by Ctrl-Break, then at once. When nostray itself is ended, the kernel ends the tree.

#[derive(Debug, Args)]
#[command(after_help = SHORT_EXAMPLES, after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Time from the end of its input to Ctrl-Break (0s: at once)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration, help_heading = ENDS, hide_short_help = true)]
    pub(crate) eof_grace: Duration,

    /// Time from Ctrl-Break to the end of every process (0s: at once)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, help_heading = ENDS, hide_short_help = true)]
    pub(crate) term_grace: Duration,

    /// End the tree after so long without a byte read or written and no processor time used, by any of its processes
    /// [default: never]
    ///
    /// A host that pings its server moves bytes, so its pings keep the tree alive; --hibernate does not count pings.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, hide_short_help = true, help_heading = ENDS)]
    pub(crate) idle_timeout: Option<Duration>,

    /// End the tree when this process ends, too; may be given several times
    #[arg(long, value_name = "PID", hide_short_help = true, help_heading = ENDS)]
    pub(crate) die_with: Vec<u32>,

    /// Its session, by which `ps` and `stop` find it
    #[arg(long, value_name = "SESSION", help_heading = FOUND)]
    pub(crate) session: Option<String>,

    /// Something to find the child by, as NAME=VALUE; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, hide_short_help = true, help_heading = FOUND)]
    pub(crate) labels: Vec<(String, String)>,

    /// Do not remove the records of fronts that have ended
    #[arg(long, hide_short_help = true, help_heading = ENDS)]
    pub(crate) no_sweep: bool,

    /// Say on stderr what happens, not only what goes wrong
    #[arg(short, long, hide_short_help = true, help_heading = SAYS)]
    pub(crate) verbose: bool,

    /// Append what happens to this file
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = SAYS)]
    pub(crate) log_file: Option<PathBuf>,

    /// The name by which the command is told that it was called (argv[0]) [default: CMD]
    #[arg(long, value_name = "NAME", hide_short_help = true, allow_hyphen_values = true, help_heading = None::<&str>)]
    pub(crate) argv0: Option<OsString>,

    /// Hold this name, which at most one live tree holds
    ///
    /// For a child that must be alone: with its database, its port, its browser profile. Ownership is a lock of the kernel's, so files that
    /// a crash leaves behind have no effect.
    #[arg(long, value_name = "NAME", help_heading = "One live owner for a name")]
    pub(crate) slot: Option<nostray_slot::Name>,

    /// What to do if the slot is taken [default: wait]
    #[arg(
        long,
        value_name = "WHAT",
        requires = "slot",
        hide_short_help = true,
        help_heading = "One live owner for a name"
    )]
    pub(crate) if_taken: Option<IfTaken>,

    /// Wait no longer than this for the slot, then exit with 75 [default: for ever]
    #[arg(long, value_name = "TIME", requires = "slot", value_parser = positive_duration, hide_short_help = true,
        help_heading = "One live owner for a name")]
    pub(crate) wait_timeout: Option<Duration>,

    /// With --if-taken replace: only wait if the slot changed hands more often than this, whether or not its holders were ready
    /// [default: 3/1m]
    #[arg(
        long,
        value_name = "N/TIME",
        requires = "slot",
        hide_short_help = true,
        help_heading = "One live owner for a name"
    )]
    pub(crate) max_handovers: Option<nostray_pen::Rate>,

    /// The command, with its arguments
    ///
    /// Options of nostray stand before it. Everything after its first word is the command's.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments, help_heading = None::<&str>)]
    pub(crate) command: Vec<OsString>,
}

/// What to do if a slot is taken. (Sharing its holder is not there yet on Windows.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfTaken {
    /// Wait until it is free: first come, first served
    Wait,
    /// Exit with 75, and say who holds it
    Fail,
    /// Ask the holder to end, and start when nothing is left of its tree. A holder that is still starting is not asked. Of several
    /// callers with replace, the last one gets the slot, and the others exit with 75
    Replace,
}

const SHORT_EXAMPLES: &str = "\
Example:
  nostray run npx -y some-server
All options, each with its reasons: nostray run --help";

const RUN_EXAMPLES: &str = "\
Examples:
  nostray run npx -y @modelcontextprotocol/server-everything
      In an agent's configuration: \"command\": \"nostray\", \"args\":
      [\"run\", \"--\", \"npx\", \"-y\",
      \"@modelcontextprotocol/server-everything\"]

  nostray run --die-with 4242 worker
      End with process 4242 as well as with the host.

  nostray run --session chat-17 --label task=42 some-server
      `nostray ps --session chat-17` shows it, `nostray stop --session chat-17`
      ends it.

Exit codes:
  The command's own, all 32 bits; 1 if it had to be ended; 127 if it was not
  found; 126 if it could not be executed; 125 if nostray itself failed; 75 if
  the slot was taken, and nothing was started.";

/// Parses the command line, or says what is wrong with it and returns the code to exit with.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, ExitCode> {
    let is_called = |name: &str| words.get(1).is_some_and(|word| word == name);
    if ELSEWHERE.into_iter().any(is_called) {
        return Ok(Cli { command: Command::Elsewhere(words[1..].to_vec()) });
    }
    let is_run = is_called("run");
    let parsed = command().try_get_matches_from(&words).and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let is_value =
            |word| matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value == word);
        let error =
            match (error.kind(), error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::InvalidArg)) {
                (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word)), _) if is_called(word) => {
                    misspelt(&words, &error)
                }
                (ErrorKind::UnknownArgument, _, Some(ContextValue::String(option)))
                    if is_run && OPTIONS_ELSEWHERE.iter().any(|other| option.split('=').next() == Some(other)) =>
                {
                    clap::Error::raw(ErrorKind::UnknownArgument, format!("{}\n", not_here(option)))
                }
                (ErrorKind::InvalidValue, _, Some(ContextValue::String(option)))
                    if option.starts_with("--if-taken") && is_value("share") =>
                {
                    clap::Error::raw(ErrorKind::InvalidValue, format!("{}\n", not_here("--if-taken share")))
                }
                _ => error,
            };
        explained(&error, is_run)
    })
}

/// The whole command line, for completions and man pages.
pub(crate) fn command() -> clap::Command {
    with_short_examples(Cli::command())
}
