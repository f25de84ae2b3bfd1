//! The command lines of `wrap`, `unwrap` and `hosts`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nostray_wrap::Format;
use nostray_wrap::hosts::{Folders, HOSTS, host_of};
use nostray_wrap::survey::Scope;

/// The heading of options about files.
const WHERE: &str = "Which files";
/// The heading of options about how a server runs.
const HOW: &str = "How a server runs";

/// Which files and servers are meant, and what is asked.
#[derive(Debug, Default, Args)]
pub(crate) struct Chosen {
    /// Hosts, like claude-code or cursor; all if there is none
    #[arg(value_name = "HOST")]
    pub(crate) host: Vec<String>,

    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,

    /// This server only, by name or package (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Vec<String>,

    /// The files of this project, too (repeat for more)
    ///
    /// The current directory, and every project that a host's own state file names, are looked at anyway.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, help_heading = WHERE, hide_short_help = true)]
    pub(crate) project: Vec<PathBuf>,

    /// This file only, of a host that nostray does not know
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "project"], value_hint = clap::ValueHint::FilePath, help_heading = WHERE)]
    pub(crate) file: Option<PathBuf>,

    /// How the file is written [default: as its name ends]
    #[arg(long, value_name = "FORMAT", requires = "file", help_heading = WHERE, hide_short_help = true)]
    pub(crate) format: Option<Spelling>,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spelling {
    /// JSON, with or without comments
    Json,
    /// JSON5
    Json5,
    /// TOML
    Toml,
    /// YAML
    Yaml,
}

impl Chosen {
    pub(crate) fn scope(&self) -> Result<(Folders, Scope), String> {
        let hosts = self.host.iter().map(|word| {
            let all = || HOSTS.iter().map(|host| host.id).collect::<Vec<_>>().join(", ");
            host_of(word).ok_or_else(|| format!("there is no host '{word}'; there are {}", all()))
        });
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let given = |spelling| match spelling {
            Spelling::Json => Format::Json,
            Spelling::Json5 => Format::Json5,
            Spelling::Toml => Format::Toml,
            Spelling::Yaml => Format::Yaml,
        };
        let files = self.file.iter().map(|path| {
            let by_name = || Format::of_name(&path.to_string_lossy());
            let format = self.format.map(given).or_else(by_name);
            format
                .map(|format| (path.clone(), format))
                .ok_or_else(|| "the name of the file does not tell its format; add --format".to_owned())
        });
        let files = files.collect::<Result<Vec<_>, _>>()?;
        if let Some(project) = self.project.iter().find(|project| !project.is_dir()) {
            return Err(format!("there is no directory {}", project.display()));
        }
        let projects = std::env::current_dir()
            .into_iter()
            .chain(self.project.iter().filter_map(|path| path.canonicalize().ok()))
            .collect();
        Ok((Folders::of_this_process(), Scope { hosts, projects, files }))
    }
}

/// Put nostray in front of the servers of your hosts
///
/// Shows for every host found here which servers it would wrap, with what, and why; asks; and writes. Only the words of the command change:
/// comments, order, spaces, line ends, permissions and links stay. A file that cannot be read, and an entry that cannot be edited exactly, are named
/// and left alone. A backup stands beside each file until `nostray unwrap`.
///
/// A server that is known to be safe for it is shared; a browser, a shell and what is not known keep one process for each session. --share
/// and --run say otherwise, also for servers that are wrapped already.
#[derive(Debug, Default, Args)]
#[command(after_help = WRAP_SHORT, after_long_help = WRAP_EXAMPLES)]
pub(crate) struct WrapArgs {
    #[command(flatten)]
    pub(crate) chosen: Chosen,

    /// Not this server (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub(crate) exclude: Vec<String>,

    /// All sessions share one of this server
    ///
    /// The names of the variables that its entry sets go into --share-env, so that sessions with other values do not share.
    #[arg(long, value_name = "NAME", help_heading = HOW)]
    pub(crate) share: Vec<String>,

    /// Each session has its own of this server
    #[arg(long, value_name = "NAME", help_heading = HOW)]
    pub(crate) run: Vec<String>,

    /// Start with the first call: servers that are known to keep nothing, and those of --server
    #[arg(long, help_heading = HOW, hide_short_help = true)]
    pub(crate) lazy: bool,

    /// Sleep after so long without a call: servers that are known to keep nothing, and those of --server
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = HOW, hide_short_help = true)]
    pub(crate) hibernate: Option<String>,
}

/// A time, as it is written in a configuration.
fn time(text: &str) -> Result<String, String> {
    let text: String = text.split_whitespace().collect();
    crate::args::positive_duration(&text).map(|_| text)
}

/// Take nostray out of the configurations of your hosts
///
/// The opposite of `nostray wrap`: each file is byte for byte what it was, and its backup is removed. A wrapped entry says by itself what it
/// was, so this needs no memory, and works on entries that a person has written.
#[derive(Debug, Default, Args)]
#[command(after_help = UNWRAP_SHORT, after_long_help = UNWRAP_EXAMPLES)]
pub(crate) struct UnwrapArgs {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
}

/// List hosts, their files and servers, wrapped or not
///
/// Reads the configurations of all hosts that nostray knows, of the user, of the current directory, and of every project that a host's own
/// state file names.
#[derive(Debug, Args)]
#[command(after_long_help = HOSTS_EXAMPLES)]
pub(crate) struct HostsArgs {
    /// Hosts, like claude-code or cursor; all if there is none
    #[arg(value_name = "HOST")]
    pub(crate) host: Vec<String>,

    /// The files of this project, too; may be given several times
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Vec<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const WRAP_SHORT: &str = "\
Example:
  nostray wrap --dry-run
All options, each with its reasons: nostray wrap --help";

const WRAP_EXAMPLES: &str = "\
Examples:
  nostray wrap --dry-run
      What would change.

  nostray wrap
      The same, then a question, then it is written.

  nostray wrap --yes cursor claude-code
      Two hosts, without a question.

  nostray wrap --share server-memory
      All sessions use one server-memory.

  nostray wrap --lazy --hibernate 10m
      Servers that keep nothing start with the first call, and sleep.

  nostray wrap --file ~/.some-host/mcp.json
      A host that nostray does not know.

Exit codes:
  0 if everything is wrapped; 1 if something is left as it was (a file that
  cannot be read or written, an entry that cannot be edited, a question that
  was not answered with yes, --dry-run with something to do); 2 if the command
  line is wrong.";

const UNWRAP_SHORT: &str = "\
Example:
  nostray unwrap --dry-run
All options, each with its reasons: nostray unwrap --help";

const UNWRAP_EXAMPLES: &str = "\
Examples:
  nostray unwrap --dry-run
      What would change.

  nostray unwrap --yes
      All hosts are as they were.

  nostray unwrap --server memory
      One server.

Exit codes:
  As those of `nostray wrap`.";

const HOSTS_EXAMPLES: &str = "\
Examples:
  nostray hosts
      Every host that is found here.

  nostray hosts --json | jq '.files[].servers[] | {name, state}'
      For scripts.

The object that --json prints:
  version  1
  files    a list of host, id, path, project (true for a file of a project),
           error (of a file that cannot be used), servers: a list of name,
           project, line, state (\"wrapped\", \"unwrapped\", \"broken\",
           \"disabled\", \"remote\" or \"stuck\"), way (\"run\", \"share\" or
           \"hold\"), command (a list), variables (names), detail
  What is not known is null. Arguments that look like secrets are shown as ***.";
