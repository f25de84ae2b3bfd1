//! Why a tree is torn down, and how that is told to programs and to people.

use std::fmt;
use std::time::Duration;

use nostray_sys::process::Pid;
use nostray_sys::signal::Signal;

/// Why a tree is torn down.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The last writer of standard input closed it.
    StdinClosed,
    /// The host process ended.
    HostGone,
    /// A launcher between host and front ended: npm, when the host runs `npx nostray run ...`.
    LauncherGone {
        /// What it is called.
        name: &'static str,
        /// Which process it was.
        pid: Pid,
    },
    /// The terminal was closed.
    TerminalClosed,
    /// A signal came.
    Signal {
        /// Which.
        signal: Signal,
        /// The sender, where that can be seen.
        sender: Option<Pid>,
        /// It came to the front, where the host sends it; not to the guard, which gets one when a service manager signals every process.
        for_front: bool,
    },
    /// `nostray stop`, a newcomer to its slot, or a program that embeds nostray asked for it.
    Asked {
        /// The asking process, where that can be seen.
        sender: Option<Pid>,
        /// For what.
        ask: Ask,
    },
    /// The front was killed.
    FrontKilled,
    /// The spare was killed.
    SpareKilled,
    /// The guard was killed.
    GuardKilled,
    /// A process named by `--die-with` ended.
    DieWithEnded(u32),
    /// Nothing happened in the tree for this long.
    Idle(Duration),
    /// The child was not ready in time.
    ReadyTimeout {
        /// How long it had.
        after: Duration,
        /// What was waited for.
        missing: String,
    },
    /// The child ended by itself and left others behind.
    ChildEnded,
    /// The supervisor of the child has a reason of its own.
    Ordered(Order),
}

impl Reason {
    /// One word for it, for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::StdinClosed => "stdin-closed",
            Self::HostGone => "host-gone",
            Self::LauncherGone { .. } => "launcher-gone",
            Self::TerminalClosed => "terminal-closed",
            Self::Signal { .. } => "signal",
            Self::Asked { ask: Ask::Stop | Ask::StopNow, .. } => "stop-request",
            Self::Asked { ask: Ask::HandOver, .. } => "hand-over",
            Self::FrontKilled => "front-killed",
            Self::SpareKilled => "spare-killed",
            Self::GuardKilled => "guard-killed",
            Self::DieWithEnded(_) => "die-with-ended",
            Self::Idle(_) => "idle",
            Self::ReadyTimeout { .. } => "ready-timeout",
            Self::ChildEnded => "child-ended",
            Self::Ordered(order) => order.word(),
        }
    }

    /// The process that asked for it, where there is one and it can be seen.
    #[must_use]
    pub fn sender(&self) -> Option<Pid> {
        match self {
            Self::Signal { sender, .. } | Self::Asked { sender, .. } => *sender,
            _ => None,
        }
    }
}

/// Which of the processes that want the child has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Host,
    /// With its name, and its number.
    Launcher(&'static str, Pid),
}

impl From<Role> for Reason {
    fn from(ended: Role) -> Self {
        match ended {
            Role::Host => Self::HostGone,
            Role::Launcher(name, pid) => Self::LauncherGone { name, pid },
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StdinClosed => write!(f, "stdin was closed"),
            Self::HostGone => write!(f, "the host has ended"),
            Self::LauncherGone { name, pid } => {
                write!(f, "{name} (process {pid}), the launcher by which the host started this command, has ended")
            }
            Self::TerminalClosed => write!(f, "the terminal was closed"),
            Self::Signal { signal, sender: Some(pid), .. } => write!(f, "{signal} came from process {pid}"),
            Self::Signal { signal, sender: None, .. } => write!(f, "{signal} came"),
            Self::Asked { sender, ask } => {
                ask.fmt(f)?;
                sender.map_or(Ok(()), |pid| write!(f, " by process {pid}"))
            }
            Self::FrontKilled => write!(f, "the front was killed"),
            Self::SpareKilled => write!(f, "the spare was killed"),
            Self::GuardKilled => write!(f, "the guard was killed"),
            Self::DieWithEnded(pid) => write!(f, "process {pid} (--die-with) has ended"),
            Self::Idle(time) => write!(f, "idle for {}", humantime::format_duration(*time)),
            Self::ReadyTimeout { after, missing } => {
                write!(f, "it was not ready within {}: {missing}", humantime::format_duration(*after))
            }
            Self::ChildEnded => write!(f, "the child has ended and left others behind"),
            Self::Ordered(order) => f.write_str(order.sentence()),
        }
    }
}

/// What the keeper of a pen can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask {
    /// To end it, with its graces.
    Stop,
    /// To end it without any grace.
    StopNow,
    /// To end it, with its graces, so that a newcomer gets its slot.
    HandOver,
}

impl Ask {
    pub(crate) const ALL: [Self; 3] = [Self::Stop, Self::StopNow, Self::HandOver];
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "it was asked to stop",
            Self::StopNow => "it was asked to stop at once",
            Self::HandOver => "it was asked to hand over its slot",
        })
    }
}

/// Why a supervisor ends a child before it starts the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Nothing was asked of it for long enough.
    Hibernate,
    /// Its tree uses too much memory.
    Memory,
    /// It is too old.
    Age,
    /// Its start took too long.
    StartTimeout,
    /// It refused what its predecessor had taken.
    BadStart,
    /// `nostray restart` asked for a new one.
    Restart,
    /// A newcomer wants its slot.
    HandOver,
    /// The host of the supervisor has ended.
    HostGone,
    /// A process that the user named by `--die-with` has ended.
    DieWithEnded,
    /// No session holds a shared child any more.
    NotHeld,
    /// A launcher between the host and the supervisor has ended.
    LauncherGone,
}

impl Order {
    #[cfg(target_os = "linux")]
    pub(crate) const ALL: [Self; 11] = [
        Self::Hibernate,
        Self::Memory,
        Self::Age,
        Self::StartTimeout,
        Self::BadStart,
        Self::Restart,
        Self::HandOver,
        Self::HostGone,
        Self::DieWithEnded,
        Self::NotHeld,
        Self::LauncherGone,
    ];

    /// One word for it, for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Hibernate => "hibernate",
            Self::Memory => "memory",
            Self::Age => "age",
            Self::StartTimeout => "start-timeout",
            Self::BadStart => "bad-start",
            Self::Restart => "restart",
            Self::HandOver => "hand-over",
            Self::HostGone => "host-gone",
            Self::DieWithEnded => "die-with-ended",
            Self::NotHeld => "not-held",
            Self::LauncherGone => "launcher-gone",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Hibernate => "put to sleep, since nothing was asked of it",
            Self::Memory => "its tree used more memory than it may",
            Self::Age => "it was older than it may become",
            Self::StartTimeout => "its start took longer than it may",
            Self::BadStart => "it refused the handshake that the one before it had taken",
            Self::Restart => "it was asked to start anew",
            Self::HandOver => "it was asked to hand over its slot",
            Self::HostGone => "the host has ended",
            Self::DieWithEnded => "a process of --die-with has ended",
            Self::NotHeld => "no session holds it any more",
            Self::LauncherGone => "the launcher by which the host started this command (npx, uvx, a shell) has ended",
        }
    }
}
