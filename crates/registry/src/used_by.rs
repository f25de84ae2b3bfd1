//! Who uses a child: the programs that hold it, under the names that people know them by. For people: nothing is decided by it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nostray_sys::identity::{Identity, World};
use nostray_sys::proc::{Stat, command_of, program_of};
use nostray_sys::secrets::masked;

use crate::census::Pen;
use crate::name::{runs_other_programs, short_name};
use crate::record::{Lease, Process, Record};

/// The names that nostray's own processes set. They hold children on behalf of hosts.
const OWN_NAMES: [&str; 7] = [
    "nostray",
    "nostray-front",
    "nostray-spare",
    "nostray-guard",
    "nostray-steward",
    "nostray-broker",
    "nostray-sweep",
];
/// The kernel keeps this many bytes of a process's name.
const KERNEL_NAME: usize = 15;
/// The name of the first thread of newer versions of Node, which the kernel shows as that of the process.
const FIRST_THREAD: &str = "MainThread";
/// A front may be below the keepers of another pen, and that below others.
const MAX_CLIMB: usize = 64;

/// A program that uses a child.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsedBy {
    /// What people call it.
    pub program: String,
    /// Its process.
    pub process: Process,
    /// The session for which it uses the child, if that has a name.
    pub session: Option<String>,
    /// Since when, in milliseconds of Unix time.
    pub since: u64,
    /// The front through which it holds a shared child, if it does not do so itself.
    pub front: Option<Process>,
}

/// Finds the programs that use children. Asks `/proc` once for each of them: many children have the same host.
#[derive(Debug)]
pub struct Hosts {
    world: Option<World>,
    known: HashMap<Process, KnownHost>,
}

#[derive(Debug, Clone)]
struct KnownHost {
    found: Option<(String, Process)>,
    /// When to look again: a shell may have become another program.
    until: Instant,
}

/// A host that was found is looked at again after this time, and up to as much again, so that not all of many are due at once.
const KNOWN_FOR: Duration = Duration::from_secs(10);

impl Default for Hosts {
    fn default() -> Self {
        Self { world: World::current(), known: HashMap::new() }
    }
}

impl Hosts {
    /// Which live programs use this child: of a shared child, those that hold it; of another one, its host.
    #[must_use]
    pub fn of(&mut self, pen: &Pen) -> Vec<UsedBy> {
        match &pen.record {
            // Numbers of another world name other processes in this one.
            Ok(record) if self.world == Some(record.world()) => self.of_record(record),
            _ => Vec::new(),
        }
    }

    fn of_record(&mut self, record: &Record) -> Vec<UsedBy> {
        if let Some(shared) = &record.shared {
            return shared.leases.iter().filter_map(|lease| self.holder(lease)).collect();
        }
        // A program that holds a slot itself is on record as its own front, without a host.
        let found = self.host_at(record.host.unwrap_or(record.front));
        let used_by = |(program, process)| UsedBy {
            program,
            process,
            session: record.session.clone(),
            since: record.started,
            front: None,
        };
        found.map(used_by).into_iter().collect()
    }

    fn holder(&mut self, lease: &Lease) -> Option<UsedBy> {
        let (program, process) = self.host_at(lease.front)?;
        let front = Some(lease.front).filter(|front| *front != process);
        Some(UsedBy { program, process, session: lease.session.clone(), since: lease.since, front })
    }

    /// This process, or the nearest one above it that is not nostray's own.
    fn host_at(&mut self, process: Process) -> Option<(String, Process)> {
        let now = Instant::now();
        if let Some(known) = self.known.get(&process).filter(|known| known.until > now) {
            return known.found.clone();
        }
        let found = find_host(process);
        let spread = KNOWN_FOR.mul_f64(f64::from(process.pid % 100) / 100.0);
        self.known.insert(process, KnownHost { found: found.clone(), until: now + KNOWN_FOR + spread });
        found
    }

    /// Forgets what is long out of date: its processes have ended.
    pub fn tidy(&mut self) {
        let now = Instant::now();
        self.known.retain(|_, known| known.until + KNOWN_FOR > now);
    }
}

fn find_host(process: Process) -> Option<(String, Process)> {
    let start: Identity = process.identity()?;
    let mut stat = Stat::of(start.pid).filter(|stat| stat.start == start.start && !stat.is_zombie())?;
    for _ in 0..MAX_CLIMB {
        if !OWN_NAMES.contains(&stat.name.as_str()) {
            let command = masked(&command_of(stat.pid));
            let program = program_of(stat.pid).unwrap_or_default();
            return Some((readable(&stat.name, &program, &command), Identity::from(&stat).into()));
        }
        stat = Stat::of(stat.parent?)?;
    }
    None
}

/// What people call a process: the name that the kernel has of it, or, where that is an interpreter's or cut off, the name of what its
/// command line runs. `program` is the name of its executable file.
fn readable(name: &str, program: &str, command: &[String]) -> String {
    let is_interpreter = runs_other_programs(name) || name == FIRST_THREAD && runs_other_programs(program);
    if is_interpreter {
        let told = short_name(command);
        return if told.is_empty() { name.to_owned() } else { told };
    }
    if name.len() >= KERNEL_NAME {
        let file = command.first().map(|path| path.rsplit('/').next().unwrap_or(path));
        let whole = [Some(program), file].into_iter().flatten().find(|whole| whole.starts_with(name));
        return whole.unwrap_or(name).to_owned();
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn a_host_is_called_as_people_know_it() {
        for (name, program, command, expected) in [
            ("claude", "claude", "claude --resume", "claude"),
            ("claude", "node", "claude", "claude"),
            ("node", "node", "node /usr/lib/node_modules/@openai/codex/bin/codex.js", "codex"),
            ("MainThread", "node", "node /opt/claude/cli.js --resume", "claude"),
            ("MainThread", "some-host", "some-host", "MainThread"),
            ("python3", "python3.12", "/usr/bin/python3 -m hermes gateway", "hermes"),
            ("hermes", "python3.12", "/usr/bin/python3 /home/joe/.local/bin/hermes gateway", "hermes"),
            ("bun", "bun", "bun run /srv/opencode/index.ts", "opencode"),
            ("uv", "uv", "uv run hermes", "hermes"),
            ("node", "node", "", "node"),
            ("python3", "python3.12", "python3 -c pass", "python3"),
            ("bash", "bash", "bash", "bash"),
            ("some-very-long-", "some-very-long-name", "some-very-long-name", "some-very-long-name"),
            ("some-very-long-", "", "/usr/bin/some-very-long-name -x", "some-very-long-name"),
            ("renamed-process", "node", "whatever", "renamed-process"),
            ("electron", "electron", "/usr/lib/electron/electron /usr/lib/claude-desktop/app.asar", "claude-desktop"),
        ] {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            assert_eq!(readable(name, program, &words), expected, "{name} {program} {command}");
        }
    }
}
