//! The processes of an act. Each has a token in its environment, which forks, sessions and daemons inherit, and by which
//! it is found in `/proc`. So the demo does not rely on what nostray reports.

use std::fmt;
use std::io;
use std::time::Duration;

use clap::ValueEnum;
use nostray_sys::proc::{self, StartTime, Stat};
use nostray_sys::process::{self, Pid, getpid};
use nostray_sys::{Pidfd, Signal};

use super::Actor;

/// The variable that holds the token.
pub(super) const VARIABLE: &str = "NOSTRAY_DEMO";

/// Marks the processes of one act, and tells them who directs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// A new one, with this process as the director.
    pub(super) fn new() -> io::Result<Self> {
        // The kernel hides the environment of a program whose file may be executed but not read.
        std::fs::File::open("/proc/self/exe").map_err(|error| {
            io::Error::other(format!(
                "the file of this program cannot be read ({error}); make it readable with chmod +r"
            ))
        })?;
        let me = getpid();
        let stat = Stat::of(me).ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        Ok(Self(format!("{:016x}-{me}-{}", process::random(), stat.start.0)))
    }

    /// The token in this process's environment.
    pub(super) fn from_environment() -> Option<Self> {
        Some(Self(std::env::var(VARIABLE).ok()?))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// A handle on the director; none if it has ended.
    pub(super) fn director(&self) -> Option<Pidfd> {
        let mut parts = self.0.split('-').skip(1);
        let pid = Pid::from_raw(parts.next()?.parse().ok()?)?;
        handle_on(pid, StartTime(parts.next()?.parse().ok()?))
    }

    /// The live processes that bear it.
    pub(super) fn bearers(&self) -> io::Result<Vec<Member>> {
        let all = proc::scan()?;
        let ours = all.into_iter().filter(|stat| !stat.is_zombie() && self.is_borne_by(stat.pid));
        Ok(ours
            .filter_map(|stat| {
                let handle = handle_on(stat.pid, stat.start)?;
                Some(Member { role: Role::of(&stat), pid: stat.pid, handle, gone: None })
            })
            .collect())
    }

    fn is_borne_by(&self, pid: Pid) -> bool {
        let mark = format!("{VARIABLE}={}", self.0);
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes()))
    }
}

/// A handle on the process with this pid and start time. The handle is opened first and the start time compared
/// afterwards, so that it cannot refer to a process that got the pid in between.
fn handle_on(pid: Pid, start: StartTime) -> Option<Pidfd> {
    let handle = Pidfd::open(pid).ok()?;
    Stat::of(pid).is_some_and(|now| now.start == start && !now.is_zombie()).then_some(handle)
}

/// What a process does in an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Actor(Actor),
    Front,
    Spare,
    Guard,
    /// A process that is not in the script.
    Unknown,
}

impl Role {
    fn of(stat: &Stat) -> Self {
        let line = std::fs::read(format!("/proc/{}/cmdline", stat.pid)).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0).skip(1);
        match (words.next(), stat.name.as_str()) {
            // Spare and guard set a title as their command line, but show the front's for a moment after the fork.
            (_, "nostray-spare") => Self::Spare,
            (_, "nostray-guard") => Self::Guard,
            (Some(b"run"), _) => Self::Front,
            (Some(b"demo"), _) => {
                let name =
                    words.skip_while(|word| *word != b"--actor").nth(1).and_then(|name| str::from_utf8(name).ok());
                name.and_then(|name| Actor::from_str(name, false).ok()).map_or(Self::Unknown, Self::Actor)
            }
            _ => Self::Unknown,
        }
    }

    /// For people.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Actor(Actor::Host) => "started the child, as an agent does",
            Self::Actor(Actor::Child) => "ends when its input ends, as it should",
            Self::Actor(Actor::Helper) => "a plain process that waits for work",
            Self::Actor(Actor::Setsid) => "in a session of its own",
            Self::Actor(Actor::Daemon) => "forked twice, closed its files",
            Self::Actor(Actor::Stubborn) => "ignores SIGTERM and the end of its input",
            Self::Front => "nostray: what the host has started",
            Self::Spare => "nostray: steps in if the guard is killed",
            Self::Guard => "nostray: keeps the tree, and ends it",
            Self::Unknown => "not in the script",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Actor(actor) => actor.name(),
            Self::Front => "front",
            Self::Spare => "spare",
            Self::Guard => "guard",
            Self::Unknown => "unknown",
        })
    }
}

/// One process of an act.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) pid: Pid,
    pub(super) handle: Pidfd,
    /// When it was seen to have ended, counted from the end of the host.
    pub(super) gone: Option<Duration>,
}

impl Member {
    pub(super) fn is_host(&self) -> bool {
        self.role == Role::Actor(Actor::Host)
    }

    pub(super) fn kill(&self) {
        // This fails only if the process has already ended.
        self.handle.send(Signal::KILL).ok();
    }
}
