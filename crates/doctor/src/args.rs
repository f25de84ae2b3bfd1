//! The command line of `nostray doctor`.

/// Find strays, unwrapped servers, and what this machine offers
///
/// Says which nostray this is, where it came from, and which others PATH has; how well this machine can contain a tree and what it
/// lacks; whether nostray's directories are sound; which stdio children other programs have left behind; which servers in the
/// configurations of agent hosts are not wrapped by nostray, with the lines that wrap them, or name another nostray; and what living hosts
/// run without nostray. Changes nothing, unless you give --kill or --fix.
///
/// A process is a stray for certain only if its parent is gone and the kernel knows of no process at the other end of
/// its stdin, nor of its stdout. A process that only looks abandoned is listed as "maybe" and never ended. Processes of other
/// users and of services, leaders of terminals, and processes in a pen of nostray are not listed. Windows does not tell what is at the other
/// ends: there, servers of a configuration whose parent has ended and that are in no job are listed as "maybe", and --kill is refused.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, group(clap::ArgGroup::new("acts").args(["kill", "fix"]).multiple(true)))]
pub struct Args {
    /// Print one JSON object instead of a report
    #[arg(long)]
    pub(super) json: bool,

    /// Ask for each certain stray whether to end it: SIGTERM, and SIGKILL after three seconds
    #[arg(long)]
    pub(super) kill: bool,

    /// End certain strays, and wrap what is not wrapped (`nostray wrap`); asks for each
    #[arg(long, conflicts_with = "json")]
    pub(super) fix: bool,

    /// With --kill or --fix: do not ask
    #[arg(long, requires = "acts")]
    pub(super) yes: bool,

    /// Of all strays, consider this process only; may be given several times
    #[arg(long, value_name = "PID")]
    pub(super) pid: Vec<i32>,
}

const EXAMPLES: &str = "\
Examples:
  nostray doctor
      The whole report.

  nostray doctor --kill
      The same, then a question for each stray.

  nostray doctor --fix
      Strays ended and servers wrapped, after a question for each.

  nostray doctor --kill --yes --pid 4242
      End process 4242, if it is a stray for certain, and no other process.

  nostray doctor --json | jq '.strays[].pid'
      For scripts.

Exit codes:
  0 if all is fine; 1 if there are certain strays, servers that are not
  wrapped, or problems; 2 if doctor itself failed, or there is no such process.
  With --kill, strays that were ended do not count.

The object that --json prints:
  version      1
  fine         true if the exit code is 0
  program      the nostray that runs: name, path (after links), version, origin
               (\"deb\", \"npm\", \"uv-tool\", \"pipx\", \"venv\", \"pip\", \"cache\" of
               npx or uvx, \"cargo\", \"archive\", \"build\" or \"unknown\")
  in_path      each nostray in PATH, in its order: a list of the same
  machine      kernel; tier (\"cgroup\", \"subreaper\", \"job\" or \"none\"); checks: a
               list of name, ok, detail, advice
  directories  a list of path, purpose (\"runtime\" or \"state\"), state (\"ok\",
               \"absent\" or \"bad\"), detail, advice
  strays       a list of pid, start (ticks since boot; on Windows 100 ns since
               1601), parent, parent_name, command (a list), age_seconds,
               memory_bytes, confidence (\"certain\" or \"maybe\"), evidence,
               remedy, and with --kill outcome (\"ended\", \"killed\",
               \"declined\", \"gone\", \"spared\" or \"failed\")
  configs      a list of host, path, error (of a file that cannot be used),
               servers: a list of name, project, state (\"wrapped\",
               \"unwrapped\", \"broken\", \"stuck\" or \"disabled\"), detail, doubt (it
               names another nostray, or one that may vanish), advice, command
               (a list), replacement (command, args, text)
  copies       what living hosts run without nostray: a list of host, host_pid,
               package, count, memory_bytes, configured, advice
  What is not known is null. Environments are never shown, and arguments that
  look like secrets are shown as ***.";
