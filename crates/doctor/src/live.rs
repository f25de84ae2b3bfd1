//! What living hosts run at this moment: copies of one server that could be one, and servers that no configuration names. These are no
//! strays: their host is alive and may talk to them, so nothing here is ever ended.

use std::collections::HashMap;
use std::time::Duration;

use nostray_sys::proc::{self, Stat};
use nostray_sys::process::Pid;
use nostray_wrap::hosts::{HOSTS, Host};
use nostray_wrap::package_of;

use super::configs::{Config, Server, State};
use super::packages::{RUN_ALONE, program_name};
use super::streams;

/// What no configuration names is a server only if it lives longer than the commands that a host runs for a moment.
const SETTLED: Duration = Duration::from_secs(60);

/// A server, as often as one host runs it without nostray.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) host: &'static str,
    pub(super) host_pid: Pid,
    /// The package, by which `nostray wrap` knows it.
    pub(super) package: String,
    pub(super) count: usize,
    /// Of all their trees.
    pub(super) memory: u64,
    /// Whether a configuration names it, so that it can be wrapped.
    pub(super) is_configured: bool,
}

/// What living hosts run without nostray.
pub(super) fn look(configs: &[Config]) -> Vec<Copies> {
    let Ok(all) = proc::scan() else { return Vec::new() };
    let all: HashMap<Pid, Stat> = all.into_iter().map(|stat| (stat.pid, stat)).collect();
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for stat in all.values() {
        children.entry(stat.parent.unwrap_or(stat.pid)).or_default().push(stat.pid);
    }
    let tree = |top: Pid| {
        let mut found = vec![top];
        let mut at = 0;
        while let Some(pid) = found.get(at).copied() {
            let below = children.get(&pid).into_iter().flatten().copied();
            let new: Vec<Pid> = below.filter(|pid| !found.contains(pid)).collect();
            found.extend(new);
            at += 1;
        }
        found
    };
    let servers: Vec<&Server> = configs.iter().flat_map(|config| config.servers.iter().flatten()).collect();
    let mut copies: Vec<Copies> = Vec::new();
    let mut hosts: Vec<(&Stat, &Host)> =
        all.values().filter(|stat| proc::is_own(stat.pid)).filter_map(|stat| Some((stat, host_of(stat)?))).collect();
    hosts.sort_by_key(|(stat, _)| stat.start);
    for (stat, host) in hosts {
        for child in children.get(&stat.pid).into_iter().flatten().filter(|pid| is_server(pid, &all)) {
            let tree = tree(*child);
            let commands: Vec<Vec<String>> = tree.iter().map(|pid| proc::command_of(*pid)).collect();
            if commands.iter().any(|words| words.first().is_some_and(|word| program_name(word) == "nostray")) {
                continue;
            }
            let server = servers.iter().find(|server| is_run_by(server, &commands));
            let package = server.map_or_else(|| package_of(&commands[0]), |server| package_of(&server.bare));
            let Some(package) = package.filter(|_| server.is_some() || is_settled(*child, &all)) else { continue };
            let memory = tree.iter().filter_map(|pid| proc::memory_of(*pid)).sum();
            match copies.iter_mut().find(|copies| copies.host_pid == stat.pid && copies.package == package) {
                Some(found) => (found.count, found.memory) = (found.count + 1, found.memory + memory),
                None => {
                    let (host, is_configured) = (host.name, server.is_some());
                    copies.push(Copies { host, host_pid: stat.pid, package, count: 1, memory, is_configured });
                }
            }
        }
    }
    copies
}

/// A program that runs in an interpreter is named by the interpreter's first argument.
fn host_of(stat: &Stat) -> Option<&'static Host> {
    let words = proc::command_of(stat.pid);
    let words = words.iter().take(2).map(String::as_str).chain([stat.name.as_str()]);
    let names: Vec<String> = words.map(program_name).collect();
    HOSTS.iter().find(|host| host.programs.iter().any(|program| names.iter().any(|name| name == program)))
}

fn is_server(pid: &Pid, all: &HashMap<Pid, Stat>) -> bool {
    let Some(stat) = all.get(pid) else { return false };
    !stat.is_zombie() && host_of(stat).is_none() && streams::are_held(*pid) != Some(false)
}

/// Where it is not known that a process talks over stdin and stdout, only what a configuration names is a server.
fn is_settled(pid: Pid, all: &HashMap<Pid, Stat>) -> bool {
    streams::are_held(pid).is_some()
        && all.get(&pid).and_then(|stat| proc::age_of(stat.start)).is_some_and(|age| age > SETTLED)
}

/// Whether one of the commands is this server's: `npx -y server-memory` is also `node .../server-memory/dist/index.js`.
pub(super) fn is_run_by(server: &Server, commands: &[Vec<String>]) -> bool {
    let Some(package) = package_of(&server.bare).filter(|_| server.state != State::Disabled) else { return false };
    let last = package.rsplit('/').next().unwrap_or(&package).to_owned();
    let names = |word: &String| {
        let is_it = |part: &str| part == last || part.strip_prefix("mcp-") == Some(last.as_str());
        word.split(['/', '\\', '@', '=']).any(|part| is_it(part) || part.strip_suffix(".exe").is_some_and(is_it))
    };
    commands.iter().any(|words| words == &server.bare || words.iter().any(names))
}

/// What a server uses now, under all its hosts.
pub(super) fn in_use(server: &Server, copies: &[Copies]) -> Option<String> {
    let package = package_of(&server.bare)?;
    let all = || copies.iter().filter(|copies| copies.is_configured && copies.package == package);
    let (count, memory) = all().fold((0, 0), |sum, copies| (sum.0 + copies.count, sum.1 + copies.memory));
    (count > 0).then(|| format!("it runs now, {count} times, with {} MB", memory / 1_000_000))
}

impl Copies {
    /// What a person reads.
    pub(super) fn in_words(&self) -> String {
        let copies = if self.count == 1 { "1 copy".to_owned() } else { format!("{} copies", self.count) };
        let megabytes = self.memory / 1_000_000;
        format!("{} {} runs {copies} of {}: {megabytes} MB", self.host, self.host_pid, self.package)
    }

    /// What to do about it.
    pub(super) fn advice(&self) -> String {
        match (self.is_configured, self.count) {
            (false, _) => "no configuration names it, so a plugin of the host starts it; nostray can be put in front of it in the plugin only".to_owned(),
            (true, 1) => "`nostray wrap` ties it to its host".to_owned(),
            (true, _) if RUN_ALONE => "`nostray wrap` ties them to their host".to_owned(),
            (true, _) => format!("`nostray wrap --share {}` makes them one", self.package.rsplit('/').next().unwrap_or(&self.package)),
        }
    }
}
