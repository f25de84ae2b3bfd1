//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;
use crate::compare::Part;

pub(crate) const USAGE: &str = "\
usage: nostray-bench compare [--quick] [--only PART]...
       nostray-bench pen [--quick] [--markdown FILE]
       nostray-bench managed [--quick] [--short] [--markdown FILE]
       nostray-bench share [--quick] [--short] [--markdown FILE]
       nostray-bench spawn [--quick] [--markdown FILE]
       nostray-bench builds [--quick] NOSTRAY
       nostray-bench registry [--quick]
       nostray-bench race [--managed|--slots] [--rounds N] [--seed S] [--threads T]

compare
      measures nostray and what people use instead on the same work, and writes RESULTS.md and its charts
      into bench/; with `--quick` in five minutes, and into target/compare, as with `--only` one or more of
      containment, messages, sessions, growth, starts, knowing, recovery
pen   measures latency, throughput, start, memory, tear-down and wake-ups of `nostray run`,
      no wrapper, and tini, dumb-init and bwrap where they are installed
managed
      measures latency, throughput, memory and waking of `nostray run --respawn` and `--hibernate`,
      against no wrapper and against a bare relay, with a native server and with server-everything
share
      measures latency, throughput and memory of `nostray share`, against no wrapper, against two bare
      relays in a row, and against rmcp-mux; with a native server and with server-everything;
      with `--short`, both measure messages of 200 B with the native server, and nothing else
spawn
      measures what starting a child costs a host with 1 GiB of memory: the library's `Pen::spawn`
      against `posix_spawn` and against `fork` and `execve`
builds
      measures another build of nostray against the one that is built here: start, memory, and the
      processor time of messages; fails if a row is more than 1.1 of this one's
registry
      measures `nostray ps` and `nostray sweep` against `ps -e`
race  kills the pen's own processes at random moments and looks for survivors; with `--managed`
      those around a supervised child, which must not be started beside the last one either;
      with `--slots`, twenty callers want one slot, and callers and holders are struck: never two
      hold it, and one obtains it in the end;
      `--rounds 1 --seed S` plays one round again

With BENCH_NOSTRAY=PROGRAM in the environment, that nostray is measured, and not the one that is built here.";

/// What to do.
pub(crate) enum Command {
    Help,
    Pen(Shown),
    Managed(Shown),
    Share(Shown),
    Spawn(Shown),
    Builds(Builds),
    /// The server that `managed` and `share` talk to; it is busy for so long before it reads.
    Echo(Duration),
    /// The relay that they compare with, and the command behind it.
    Relay(Vec<String>),
    Registry(crate::registry::Options),
    Race(Race),
    Compare(Compare),
}

/// Options of `compare`.
#[derive(Default)]
pub(crate) struct Compare {
    pub(crate) quick: bool,
    /// These parts alone; all, if none is named.
    pub(crate) only: Vec<Part>,
}

/// Options of `pen`, `managed`, `share` and `spawn`.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) quick: bool,
    /// Short messages alone.
    pub(crate) short: bool,
    pub(crate) markdown: Option<PathBuf>,
}

/// Options of `builds`.
pub(crate) struct Builds {
    pub(crate) quick: bool,
    /// The other program.
    pub(crate) other: PathBuf,
}

/// Options of `race`.
pub(crate) struct Race {
    pub(crate) managed: bool,
    pub(crate) slots: bool,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
}

pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, Failure> {
    let command = words.next().ok_or("what is to be measured?")?;
    let value = |name: &str, words: &mut dyn Iterator<Item = String>| {
        words.next().ok_or_else(|| Failure::from(format!("{name} needs a value")))
    };
    match command.as_str() {
        "pen" | "managed" | "share" | "spawn" => {
            let mut options = Shown::default();
            while let Some(word) = words.next() {
                match word.as_str() {
                    "--quick" => options.quick = true,
                    "--short" if matches!(command.as_str(), "managed" | "share") => options.short = true,
                    "--markdown" => options.markdown = Some(value(&word, &mut words)?.into()),
                    _ => return Err(format!("{command} has no option '{word}'").into()),
                }
            }
            Ok(match command.as_str() {
                "pen" => Command::Pen(options),
                "managed" => Command::Managed(options),
                "spawn" => Command::Spawn(options),
                _ => Command::Share(options),
            })
        }
        "builds" => {
            let (mut quick, mut other) = (false, None);
            for word in words {
                match word.as_str() {
                    "--quick" => quick = true,
                    word if word.starts_with('-') || other.is_some() => {
                        return Err(format!("builds has no option '{word}'").into());
                    }
                    _ => other = Some(PathBuf::from(word)),
                }
            }
            Ok(Command::Builds(Builds { quick, other: other.ok_or("builds needs the path of another nostray")? }))
        }
        "compare" => {
            let mut options = Compare::default();
            while let Some(word) = words.next() {
                match word.as_str() {
                    "--quick" => options.quick = true,
                    "--only" => options.only.push(value(&word, &mut words)?.parse()?),
                    _ => return Err(format!("compare has no option '{word}'").into()),
                }
            }
            Ok(Command::Compare(options))
        }
        "echo" => Ok(Command::Echo(Duration::from_millis(words.next().unwrap_or_default().parse().unwrap_or(0)))),
        "relay" => Ok(Command::Relay(words.collect())),
        "registry" => match (words.next().as_deref(), words.next()) {
            (None, _) => Ok(Command::Registry(crate::registry::Options { quick: false })),
            (Some("--quick"), None) => Ok(Command::Registry(crate::registry::Options { quick: true })),
            _ => Err("registry has no option but --quick".into()),
        },
        "race" => {
            let mut options =
                Race { managed: false, slots: false, rounds: 2000, seed: nostray_sys::process::random(), threads: 4 };
            while let Some(word) = words.next() {
                match word.as_str() {
                    "--managed" => options.managed = true,
                    "--slots" => options.slots = true,
                    "--rounds" => options.rounds = value(&word, &mut words)?.parse()?,
                    "--seed" => options.seed = value(&word, &mut words)?.parse()?,
                    "--threads" => options.threads = value(&word, &mut words)?.parse()?,
                    _ => return Err(format!("race has no option '{word}'").into()),
                }
            }
            Ok(Command::Race(options))
        }
        "--help" | "-h" | "help" => Ok(Command::Help),
        other => Err(format!("no command '{other}'").into()),
    }
}
