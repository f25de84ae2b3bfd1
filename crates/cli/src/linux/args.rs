//! The command line: one source for parsing, help texts, completions and the man page.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use nostray_terminal::ExitCode;

pub(crate) use crate::command_line::*;

/// Which sessions use the same child.
pub(crate) const SHARED: &str = "Who shares it, and for how long";

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
`nostray demo` shows what it does, `nostray help COMMAND` how to use it.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them")]
pub(crate) enum Command {
    Run(RunArgs),
    Share(crate::share::ShareArgs),
    Hold(crate::hold::HoldArgs),
    Ps(crate::ps::Args),
    Top(nostray_top::Args),
    Stop(crate::stop::Args),
    Restart(crate::restart::Args),
    Sweep(crate::sweep::Args),
    Log(crate::log::Args),
    Web(nostray_web::Args),
    Metrics(crate::metrics::Args),
    Slot(crate::slot::SlotCommand),
    Wait(crate::wait::WaitArgs),
    Broker(crate::broker::BrokerArgs),
    Wrap(crate::wrap::WrapArgs),
    Unwrap(crate::wrap::UnwrapArgs),
    Hosts(crate::wrap::hosts::HostsArgs),
    Demo(nostray_demo::Args),
    Doctor(nostray_doctor::Args),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(hide = true)]
    Complete(CompleteArgs),
}

/// Run a command so that nothing of it outlives its host
///
/// Behaves exactly like the command: same bytes, exit code, environment, directory and terminal. The command has the
/// host's own stdin, stdout and stderr; no byte passes through nostray. When the host ends in any way, closes the
/// command's stdin, or signals nostray, nostray ends the command's whole tree: first by the end of its input, then by
/// SIGTERM, then by SIGKILL. That includes processes that left the group or the session, and daemons.
///
/// With one of the options for a supervised child, nostray reads and writes the JSON-RPC lines between host and child instead,
/// so that it can start the child again, put it to sleep, or answer for it.
#[derive(Debug, Args)]
#[command(after_help = SHORT_EXAMPLES, after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Time from the end of its input to SIGTERM (0s: at once)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration, help_heading = ENDS, hide_short_help = true)]
    pub(crate) eof_grace: Duration,

    /// Time from SIGTERM to SIGKILL (0s: at once)
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

    /// Put the tree into a namespace of its own, so that the kernel itself ends it
    #[arg(long, value_name = "WHAT", hide_short_help = true, help_heading = ENDS)]
    pub(crate) isolate: Option<Isolate>,

    /// Its session, by which `ps` and `stop` find it
    #[arg(long, value_name = "SESSION", help_heading = FOUND)]
    pub(crate) session: Option<String>,

    /// Something to find the child by, as NAME=VALUE; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, hide_short_help = true, help_heading = FOUND)]
    pub(crate) labels: Vec<(String, String)>,

    /// Do not sweep the trees of pens whose front, spare and guard were all killed
    #[arg(long, hide_short_help = true, help_heading = ENDS)]
    pub(crate) no_sweep: bool,

    /// Say on stderr what happens, not only what goes wrong
    #[arg(short, long, hide_short_help = true, help_heading = SAYS)]
    pub(crate) verbose: bool,

    /// Append what happens to this file
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = SAYS)]
    pub(crate) log_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) status: crate::status::StatusArgs,

    /// The name by which the command is told that it was called (argv[0]) [default: CMD]
    #[arg(long, value_name = "NAME", hide_short_help = true, allow_hyphen_values = true, help_heading = None::<&str>)]
    pub(crate) argv0: Option<OsString>,

    #[command(flatten)]
    pub(crate) ready: crate::ready::ReadyArgs,

    #[command(flatten)]
    pub(crate) slot: crate::slotted::SlotArgs,

    #[command(flatten)]
    pub(crate) managed: crate::managed::ManagedArgs,

    /// The command, with its arguments
    ///
    /// Options of nostray stand before it. Everything after its first word is the command's.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments, help_heading = None::<&str>)]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// `nostray run CMD ...` and `nostray run -- CMD ...`, the forms in most configurations. They skip clap, which makes each start faster.
    fn without_options(words: &[OsString]) -> Option<Self> {
        let (head, rest) = words.split_at_checked(2)?;
        let command = match rest.first()?.as_encoded_bytes() {
            b"--" => &rest[1..],
            [] | [b'-', ..] => return None,
            _ => rest,
        };
        if head[1] != "run" || command.is_empty() {
            return None;
        }
        let graces = nostray_pen::Graces::default();
        Some(Self {
            eof_grace: graces.eof(),
            term_grace: graces.term(),
            idle_timeout: None,
            die_with: Vec::new(),
            isolate: None,
            session: None,
            labels: Vec::new(),
            no_sweep: false,
            verbose: false,
            log_file: None,
            status: crate::status::StatusArgs::none(),
            argv0: None,
            ready: crate::ready::ReadyArgs::none(),
            slot: crate::slotted::SlotArgs::none(),
            managed: crate::managed::ManagedArgs::none(),
            command: command.to_vec(),
        })
    }
}

/// What can be isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolate {
    /// Process numbers: the command is in a pid namespace (and, for unprivileged users, a user namespace)
    Pid,
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

  nostray run --term-grace 30s my-database-bridge
      Give it half a minute to flush after SIGTERM, also if the host kills
      nostray earlier.

  nostray run --idle-timeout 30m uvx some-server
      End a server that a host has forgotten.

  nostray run --die-with 4242 worker
      End with process 4242 as well as with the host.

  nostray run --session chat-17 --label task=42 some-server
      `nostray ps --session chat-17` shows it, `nostray stop --session chat-17`
      ends it.

  nostray run --isolate pid untrusted-server
      The kernel alone guarantees that nothing stays.

  nostray run --ready-line 'listening on' --ready-timeout 2m some-server
      `nostray ps` shows it as starting until its stderr has such a line.
      Without one after two minutes, it is ended.

  nostray run --ready-port 8080 some-server
      Ready when it listens there, itself or by a process that it has started.

  nostray run --ready-cmd 'curl -fs localhost:8080/health' some-server
      Ready when the command succeeds.

  nostray run --respawn npx -y some-server
      A server that crashes comes back, and the host's session goes on.

  nostray run --respawn --hibernate 10m --max-memory 500M uvx some-server
      It sleeps when there are no calls, and is restarted when it uses too much
      memory.

  nostray run --slot memory --if-taken replace uvx memory-server
      One at a time: the holder is asked to end, and this child starts when
      nothing is left of the holder's tree.

  nostray run --warm npx -y some-server && nostray run --lazy npx -y some-server
      Started for the first call, not with the host.

  nostray run --protocol jsonrpc --respawn \\
      --replay session.open=session.close@params.sessionId memory-bridge
      Any JSON-RPC 2.0 over lines; every new child is told again which sessions
      are open.

Exit codes:
  The command's own; 128+n if signal n ended it; 127 if it was not found; 126
  if it could not be executed; 125 if nostray itself failed; 75 if the slot was
  taken, and nothing was started.";

/// Parses the command line, or says what is wrong with it and returns the code to exit with.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, ExitCode> {
    if let Some(args) = RunArgs::without_options(&words) {
        return Ok(Cli { command: Command::Run(args) });
    }
    let is_called = |name: &str| words.get(1).is_some_and(|word| word == name);
    let is_run = ["run", "share", "hold"].into_iter().any(is_called);
    let command = match () {
        () if is_called("run") => only("run", RunArgs::augment_args),
        () if is_called("share") => only("share", crate::share::ShareArgs::augment_args),
        () if is_called("hold") => only("hold", crate::hold::HoldArgs::augment_args),
        () => command(),
    };
    let parsed = command.try_get_matches_from(&words).and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.and_then(checked).map_err(|error| {
        let error = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
            // Of `nostray slot shwo`, clap itself says what is similar.
            (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) if is_called(word) => {
                misspelt(&words, &error)
            }
            _ => error,
        };
        explained(&error, is_run)
    })
}

/// Refuses combinations of options that clap cannot describe.
fn checked(cli: Cli) -> Result<Cli, clap::Error> {
    let complaint = match &cli.command {
        Command::Run(args) => args.ready.complaint(args.managed.is_wanted()),
        Command::Hold(args) => args.ready.complaint(false),
        _ => None,
    };
    complaint.map_or(Ok(cli), |why| Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, format!("{why}\n"))))
}

/// The command line with this command only, so that a start does not pay for building the others.
fn only(name: &'static str, describe: fn(clap::Command) -> clap::Command) -> clap::Command {
    let command = describe(clap::Command::new(name));
    clap::Command::new("nostray").max_term_width(WIDTH).subcommand_required(true).subcommand(command)
}

/// The whole command line, for completions and man pages.
pub(crate) fn command() -> clap::Command {
    with_short_examples(Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    /// clap wraps what is wider than the terminal, also a text that has line ends of its own.
    #[test]
    fn no_text_is_wrapped_twice() {
        fn too_wide(command: &clap::Command) -> Vec<String> {
            let after = command.get_after_help().into_iter().chain(command.get_after_long_help());
            let lines = after.map(ToString::to_string).collect::<Vec<_>>().join("\n");
            let wide = lines
                .lines()
                .filter(|line| line.chars().count() > 80)
                .map(|line| format!("{}: {line}", command.get_name()));
            wide.chain(command.get_subcommands().flat_map(too_wide)).collect()
        }
        assert_eq!(too_wide(&command()), Vec::<String>::new());
    }

    /// A command's help text does not depend on the short cut.
    #[test]
    fn the_short_cut_is_the_same_command() {
        let help = |name, mut whole: clap::Command| {
            whole.build();
            whole.find_subcommand_mut(name).expect("there").render_long_help().to_string()
        };
        assert_eq!(help("run", only("run", RunArgs::augment_args)), help("run", command()));
        let share = only("share", crate::share::ShareArgs::augment_args);
        assert_eq!(help("share", share), help("share", command()));
        assert_eq!(help("hold", only("hold", crate::hold::HoldArgs::augment_args)), help("hold", command()));
    }

    #[test]
    fn what_is_not_parsed_is_what_parsing_would_give() {
        let words = ["nostray", "run", "--", "npx", "--", "-v"].map(OsString::from);
        let matches = command().try_get_matches_from(&words).expect("is right");
        let Cli { command: Command::Run(parsed) } = Cli::from_arg_matches(&matches).expect("is right") else {
            panic!("not run");
        };
        let short_cut = RunArgs::without_options(&words).expect("has no options");
        assert_eq!(format!("{short_cut:?}"), format!("{parsed:?}"));
        let without_dashes = ["nostray", "run", "npx", "--", "-v"].map(OsString::from);
        let matches = command().try_get_matches_from(&without_dashes).expect("is right");
        assert_eq!(
            format!("{:?}", Cli::from_arg_matches(&matches).expect("is right").command),
            format!("Run({parsed:?})")
        );
        assert_eq!(
            format!("{:?}", RunArgs::without_options(&without_dashes).expect("has no options")),
            format!("{parsed:?}")
        );
        for other in [&words[..3], &words[..2], &["nostray", "run", "-v", "--", "x"].map(OsString::from)] {
            assert!(RunArgs::without_options(other).is_none());
        }
    }

    #[test]
    fn times_are_written_as_people_write_them() {
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(duration("2").is_err_and(|e| e.contains("2s")));
        assert!(positive_duration("0s").is_err());
    }
}
