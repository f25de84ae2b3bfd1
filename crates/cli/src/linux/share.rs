//! `nostray share`: a command that all sessions with the same key share.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nostray_pen::{Graces, Isolation, MARK, OWN_FAILURE, PenId, Spec};
use nostray_registry::{RecordDetails, RecordKeeper, StatusLines};
use nostray_supervise::link::Share;
use nostray_supervise::wire::{Attach, ChildSettings, DaemonSettings, OsText, ReverseTo, SLOT_KEY, SlotSettings};
use nostray_sys::descriptors::{stdin_has_something_to_say, write_to_stderr_at_once};
use nostray_terminal::ExitCode;

use crate::args::{ENDS, FOUND, Isolate, SHARED, duration, label};
use crate::managed::{self, ManagedArgs};
use crate::status::{self, StatusArgs};

/// How long stdin may be open and silent before this counts as a session. A host that probes a command (`node --version`) closes
/// stdin at once; a host with a session writes at once. A host that does neither may wait for the child to speak first, so it gets a session
/// after this time.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_millis(500);

/// The heading of options about what the child asks.
const ASKED: &str = "Which session gets what the child asks";

const SHORT_EXAMPLES: &str = "\
Example:
  nostray share npx -y some-server
All options, each with its reasons: nostray share --help";

/// Share one child between all sessions with the same key
///
/// Each call is one session over its own stdin and stdout, and behaves as if it had the command to itself. All sessions with the
/// same key use one child: by default the same command, arguments, directory and environment, without the variables that only name a
/// session, a terminal, a window or a login. `nostray ps` and `nostray log` say why two sessions do not share. A background process
/// of yours (the broker) keeps the child. It starts with the first session and exits after the last one. An MCP server that crashes is
/// restarted. A bridge (--protocol jsonrpc) that crashes ends its sessions, so that each host reconnects and retries; see --respawn.
///
/// A session ends with its stdin, with this process, or with its host, whichever comes first. After its last session, the
/// child is kept for --linger and then ended with its whole tree, as `nostray run` does.
///
/// Host and child must speak JSON-RPC lines, as MCP servers do over stdio. If stdin is a terminal, or ends before a first message (`nostray
/// share -- node --version </dev/null`), there is no session, and the command runs as with `nostray run`.
#[derive(Debug, Args)]
#[command(after_help = SHORT_EXAMPLES, after_long_help = EXAMPLES)]
pub(crate) struct ShareArgs {
    /// Share by this name alone
    ///
    /// Without it: by command, arguments, directory and environment.
    ///
    /// The same name with another command is refused.
    #[arg(long, value_name = "NAME", help_heading = SHARED)]
    pub(crate) key: Option<String>,

    /// Of the environment, only these variables decide which sessions share a child; none with an empty list
    ///
    /// By default all do, except variables that name a session, a terminal, a window or a login (CLAUDE_CODE_SESSION_ID, OPENCODE_PID,
    /// XDG_SESSION_ID, TMUX_PANE, SSH_TTY, WINDOWID, PWD and the like). The child has the environment of the session that came first.
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "key", help_heading = SHARED, hide_short_help = true)]
    pub(crate) share_env: Option<Vec<String>>,

    /// Share with sessions of other directories, too: the server does not care where it runs
    ///
    /// The child runs in the directory of the session that came first.
    #[arg(long, conflicts_with = "key", help_heading = SHARED, hide_short_help = true)]
    pub(crate) any_dir: bool,

    /// Keep it so long after its last session
    ///
    /// A child that is still starting is kept until its first answer, and for this long after it. So a host that times out and tries
    /// again finds the same start. That wait ends after --start-timeout, or two minutes.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, help_heading = SHARED)]
    pub(crate) linger: Duration,

    /// Fail if the child cannot be shared, instead of starting one for this session alone
    #[arg(long, hide_short_help = true, help_heading = SHARED)]
    pub(crate) require_share: bool,

    /// End the sessions when the child ends by itself, or with the process that keeps it [default with --protocol jsonrpc]
    #[arg(long, conflicts_with_all = ["respawn", "backoff", "max_failures"], hide_short_help = true, help_heading = crate::managed::KEPT)]
    pub(crate) no_respawn: bool,

    /// Which session gets a request of the child if it is not certain which one it belongs to
    ///
    /// Certain is the session that --route-by names, the only session, or the only session with a call in flight. After a restart of
    /// a child with --protocol jsonrpc, the last two count only when every session is back.
    #[arg(long, value_name = "WHOM", default_value = "certain", hide_short_help = true, help_heading = ASKED)]
    pub(crate) reverse: Reverse,

    /// With --protocol jsonrpc: the members of a message that name its session, like params.sessionId,params.payload.sessionId
    ///
    /// A request or notification of the child goes to the session that was the first to use the same value, under any of these paths. If
    /// a message has several, the first path that names a session decides. `nostray log` says if no path ever did.
    #[arg(long, value_name = "PATH,PATH", value_delimiter = ',', value_parser = path, hide_short_help = true, help_heading = ASKED)]
    pub(crate) route_by: Vec<Path>,

    /// Time from the end of its input to SIGTERM (0s: at once)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration, hide_short_help = true, help_heading = ENDS)]
    pub(crate) eof_grace: Duration,

    /// Time from SIGTERM to SIGKILL (0s: at once)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, hide_short_help = true, help_heading = ENDS)]
    pub(crate) term_grace: Duration,

    /// End the session when this process ends, too; may be given several times
    #[arg(long, value_name = "PID", hide_short_help = true, help_heading = ENDS)]
    pub(crate) die_with: Vec<u32>,

    /// Put the child's tree into a namespace of its own, so that the kernel itself ends it
    #[arg(long, value_name = "WHAT", hide_short_help = true, help_heading = ENDS)]
    pub(crate) isolate: Option<Isolate>,

    /// This session, by which `ps` and `stop` find it
    ///
    /// By default what the host says in its environment, like CLAUDE_CODE_SESSION_ID.
    #[arg(long, value_name = "SESSION", help_heading = FOUND)]
    pub(crate) session: Option<String>,

    /// Something to find this session by, as NAME=VALUE; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, hide_short_help = true, help_heading = FOUND)]
    pub(crate) labels: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) status: StatusArgs,

    #[command(flatten)]
    pub(crate) managed: ManagedArgs,

    /// The command, with its arguments
    ///
    /// Options of nostray stand before it. Everything after its first word is the command's.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments, help_heading = None::<&str>)]
    pub(crate) command: Vec<OsString>,

    /// The slot that the child holds, for `nostray run --slot NAME --if-taken share`
    #[arg(skip)]
    pub(crate) slot: Option<SlotSettings>,

    /// The child is a daemon, for `nostray hold`
    #[arg(skip)]
    pub(crate) daemon: Option<DaemonSettings>,
}

/// Which session gets a request of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reverse {
    /// None: the child gets an error. If several sessions have calls in flight, they take turns from then on; with nothing in flight, no
    /// session is certain
    Certain,
    /// The newest session, and the next one if that ends: for protocols in which any session may answer
    Newest,
}

/// The path of a member in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path(Vec<String>);

/// How deep a member of `--route-by` can be. A check of a line follows deciding members a little deeper than this.
const MAX_DEPTH: usize = 8;

fn path(text: &str) -> Result<Path, String> {
    let members: Vec<String> = text.split('.').map(str::to_owned).collect();
    if members.iter().any(String::is_empty) {
        return Err("write it like params.sessionId,params.payload.sessionId".to_owned());
    }
    if members.len() > MAX_DEPTH {
        return Err(format!("a member can be {MAX_DEPTH} deep at most, and this one is {}", members.len()));
    }
    Ok(Path(members))
}

const EXAMPLES: &str = "\
Examples:
  nostray share npx -y @modelcontextprotocol/server-everything
      In place of `run` in an agent's configuration: five sessions, one server.

  nostray share --key memory uvx memory-server
      One server for all directories and environments.

  nostray share --share-env API_KEY,REGION some-server
      Sessions with the same key and region share a server, whatever else is in
      their environment.

  nostray share --any-dir some-server
      Sessions of all directories share a server.

  nostray share --hibernate 10m --max-memory 500M uvx some-server
      It sleeps when there are no calls, and is restarted when it uses too much
      memory.

  nostray share --protocol jsonrpc --route-by params.sessionId memory-bridge
      A bridge that is no MCP server, with sessions of its own. If it crashes,
      the hosts reconnect.

  nostray share --protocol jsonrpc --respawn \\
      --replay session.open=session.close@params.sessionId memory-bridge
      The same for hosts that do not reconnect: the next bridge is told which
      sessions are open.

  nostray ps; nostray restart memory; nostray broker status
      Who holds what; restart a child; the state of the background process.

Exit codes:
  0 when the session's input has ended; 128+n if signal n ended it; the child's
  own if it ended for good (--no-respawn, --protocol jsonrpc without --respawn,
  or `nostray stop`); 127 or 126 if its program cannot be executed; 125 if
  nostray itself failed, --require-share could not be met, or the process that
  kept the child was killed and the session ends with its child.";

/// A check of a line keeps a bit for each deciding member of an object (`nostray_rpc::Agreement`), beside those that every message has.
const MAX_ROUTES: usize = 32;

pub(crate) fn run(args: ShareArgs) -> ExitCode {
    if args.managed.warm {
        write_to_stderr_at_once(
            "nostray: `nostray share` has no --warm; use `nostray run --warm`, which also serves `share --lazy`\n",
        );
        return ExitCode::from(OWN_FAILURE);
    }
    if !args.route_by.is_empty() && args.managed.protocol != Some(managed::Protocol::Jsonrpc) {
        write_to_stderr_at_once("nostray: --route-by is for --protocol jsonrpc; MCP needs no such option\n");
        return ExitCode::from(OWN_FAILURE);
    }
    if args.route_by.len() > MAX_ROUTES {
        write_to_stderr_at_once(&format!(
            "nostray: --route-by names {} members, and can name {MAX_ROUTES} at most; name only those that tell sessions apart\n",
            args.route_by.len()
        ));
        return ExitCode::from(OWN_FAILURE);
    }
    if args.slot.is_none() && args.key.as_ref().is_some_and(|key| key.starts_with(SLOT_KEY)) {
        write_to_stderr_at_once(
            "nostray: a --key cannot begin with slot:, which is reserved for slots; choose another key, or use `nostray run --slot`\n",
        );
        return ExitCode::from(OWN_FAILURE);
    }
    let lines = match args.status.lines() {
        Ok(lines) => lines,
        Err(code) => return code,
    };
    let labels: nostray_registry::Labels = args.labels.into_iter().collect();
    let spec = Spec {
        graces: Graces::new(args.eof_grace, args.term_grace),
        isolation: args.isolate.map_or(Isolation::None, |_| Isolation::Pid),
        die_with: args.die_with,
        ..Spec::new(args.command.clone())
    };
    let session = args.session.or_else(|| nostray_broker::session_named_by_host(|name| std::env::var_os(name)));
    let details =
        RecordDetails { session: session.clone(), labels: labels.clone(), sweep: true, ..Default::default() };
    // A child with a slot must be alone, so no child is started beside the shared one. A daemon's holders never write. A host that reads
    // status lines does not probe.
    let is_session = args.slot.is_some() || args.daemon.is_some() || lines.is_some();
    if !is_session && !stdin_has_something_to_say(FIRST_BYTE_TIMEOUT) {
        return end_with(nostray_pen::run(&spec, PenId::new(), Box::new(RecordKeeper::new(details))), None);
    }
    let mut options = args.managed.options(spec, details);
    // A bridge keeps its sessions' work in memory. If nostray restarted it, no host would see the crash, and no host would repeat
    // the lost work.
    let host_recovers = options.settings.protocol == nostray_supervise::Protocol::JsonRpc;
    options.settings.policy.respawn = !args.no_respawn && (!host_recovers || options.settings.policy.respawn);
    let settings = ChildSettings {
        graces: options.child.spec.graces,
        isolation: options.child.spec.isolation,
        policy: options.settings.policy.clone(),
        max_memory: options.child.max_memory,
        max_line: options.child.max_line,
        protocol: options.settings.protocol,
        reverse: match args.reverse {
            Reverse::Certain => ReverseTo::Certain,
            Reverse::Newest => ReverseTo::Newest,
        },
        route_by: args.route_by.into_iter().map(|path| path.0).collect(),
        slot: args.slot,
        daemon: args.daemon,
    };
    let cwd = match std::env::current_dir() {
        Ok(cwd) => cwd,
        Err(error) => {
            write_to_stderr_at_once(&format!("nostray: the current directory cannot be used: {error}\n"));
            return ExitCode::from(OWN_FAILURE);
        }
    };
    let text = |text: &OsString| OsText(text.clone());
    let attach = Attach {
        command: args.command.iter().map(text).collect(),
        cwd: OsText(cwd.into_os_string()),
        any_dir: args.any_dir,
        environment: std::env::vars_os()
            .filter(|(name, _)| name != MARK)
            .map(|(name, value)| (OsText(name), OsText(value)))
            .collect(),
        key: args.key,
        counted: args.share_env.map(|names| names.into_iter().filter(|name| !name.is_empty()).collect()),
        variant: None,
        because: None,
        host: None,
        session,
        labels,
        linger: args.linger,
        settings,
    };
    options.share = Some(Share { attach, required: args.require_share });
    options.status = lines.clone();
    end_with(nostray_supervise::run(options), lines.as_ref())
}

fn end_with(ended: Result<u8, nostray_pen::Error>, lines: Option<&StatusLines>) -> ExitCode {
    ended.map_or_else(|error| status::complain(&error, lines), ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_with_dots() {
        assert_eq!(path("params.sessionId"), Ok(Path(vec!["params".to_owned(), "sessionId".to_owned()])));
        for wrong in ["", ".", "params.", ".a", "a..b"] {
            assert!(path(wrong).is_err_and(|why| why.contains("params.sessionId")), "{wrong}");
        }
    }
}
