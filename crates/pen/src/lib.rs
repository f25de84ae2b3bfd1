//! A pen: one process tree that cannot outlive its host.
//!
//! ```text
//! host ── front ── spare ── guard ── child ── ...
//! ```
//!
//! The *front* is what the host started and talks to; it hands signals on and waits. The *guard* is the tree's
//! parent and reaper, watches for every reason to end it, and tears it down. The *spare* does nothing until the
//! guard is killed; then it takes the guard's place. All three are subreapers with one thread each, so that
//! whichever of them dies, the nearest one outwards is handed every process of the tree, and ends it.
//!
//! The child has the host's own stdin, stdout and stderr: no byte passes through any of these processes.
#![doc = include_str!("../DESIGN.md")]

mod condition;
mod graces;
mod idle;
mod launcher;
mod log;
mod pen_id;
mod reason;
mod tear_down;
mod witness;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(target_os = "linux")]
use nostray_sys::descriptors::Room;
use nostray_sys::process::Code;

// What is per platform has the same names on each, so the rest of this crate does not ask where it is.
#[cfg(target_os = "linux")]
use linux::{activity, child, front, guard, host, keep, killing, mark, ready, relay, requests, tree};

pub use condition::{Pattern, Port, Ready};
pub use graces::Graces;
#[cfg(target_os = "linux")]
pub use linux::{
    FRONT_NAME, OpenPen, PenOpener, ReapOutcome, Remains, Request, Streams, Takes, ask, bears_limit, give_order,
    is_certainly_of_no_such_pen, is_marked, send,
};
#[cfg(windows)]
pub use windows::{Starter, Takes, ask, bears_limit};
#[cfg(windows)]
use windows::{front, host};

pub use nostray_sys::rate::Rate;
pub use pen_id::{MARK, PenId};
pub use reason::{Ask, Order, Reason};
pub use witness::{Event, Objection, Opening, Witness};

/// Exit code for nostray's own failures.
pub const OWN_FAILURE: Code = 125;

/// What to contain, and how.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// By which name the program is told that it was called, if not by the first word of the command.
    pub argv0: Option<OsString>,
    /// How long a tree that is torn down is given.
    pub graces: Graces,
    /// Which further guarantee is wanted.
    pub isolation: Isolation,
    /// The child is a daemon: it has neither input nor a protocol, and may fork into the background. If its first process exits with 0
    /// and leaves others, the eldest of those is the child from then on.
    pub daemon: bool,
    /// Further processes whose end ends the pen.
    pub die_with: Vec<u32>,
    /// Tear down after so long without a byte moved or processor time used.
    pub idle_timeout: Option<Duration>,
    /// When the child is ready.
    pub ready: Ready,
    /// Tear down a child that is not ready by then.
    pub ready_timeout: Option<Duration>,
    /// The host waits to be told of the start by the witness: at once, and of a command that cannot be executed not on standard error.
    pub host_is_told: bool,
    /// Say more than warnings and errors.
    pub verbose: bool,
    /// Write everything that there is to say here too.
    pub log_file: Option<PathBuf>,
}

impl Spec {
    /// For this command, with nothing else said.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            argv0: None,
            graces: Graces::default(),
            isolation: Isolation::None,
            daemon: false,
            die_with: Vec::new(),
            idle_timeout: None,
            ready: Ready::Started,
            ready_timeout: None,
            host_is_told: false,
            verbose: false,
            log_file: None,
        }
    }
}

/// What, beside the guard, keeps the tree together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Nothing: the child sees the machine as it would without nostray.
    #[default]
    None,
    /// A pid namespace: the kernel itself ends the tree when the guard ends.
    Pid,
}

/// Why a pen could not be set up. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host had ended before.
    #[error(
        "the host that started this command had already ended, so nothing was started; \
         start it from a process that stays (a shell's `&` behind a closed shell does not)"
    )]
    HostGone,
    /// Process numbers cannot be relied on.
    #[error(
        "/proc belongs to another pid namespace, so processes could not be told apart; nothing was started; \
         mount one (for unshare: --mount-proc)"
    )]
    ForeignProc,
    /// A process named by `--die-with` cannot be watched.
    #[error("--die-with {pid}: {why}; nothing was started")]
    DieWith {
        /// The number that was given.
        pid: u32,
        /// What is wrong with it.
        why: String,
    },
    /// The log file cannot be written.
    #[error("cannot open the log file {path}: {error}; name another one or leave --log-file out", path = path.display())]
    LogFile {
        /// As the user gave it.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Too few files may be open.
    #[cfg(target_os = "linux")]
    #[error(
        "too few open files are allowed: {needed} more are needed, and the limit of {limit} leaves {free}; raise it with `ulimit -n`",
        free = room.free, limit = room.limit
    )]
    Files {
        /// What there is.
        room: Room,
        /// What there must be.
        needed: u64,
    },
    /// It was asked for something that this platform does not have.
    #[cfg(windows)]
    #[error("{0} is not there yet on Windows; nothing was started")]
    NotHere(&'static str),
    /// The witness refused it.
    #[error("{0}; nothing was started")]
    Refused(String),
    /// The command cannot be passed on.
    #[error("cannot run this command: {0}")]
    Command(std::io::Error),
    /// A system call failed that never should.
    #[error("cannot {action}: {error}{}", hint(error))]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}

/// Whether so many files more can be open.
#[cfg(target_os = "linux")]
pub fn has_room(room: Room, needed: u64) -> Result<(), Error> {
    if room.free < needed { Err(Error::Files { room, needed }) } else { Ok(()) }
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            " (the limit of processes is reached: see `ulimit -u`, or the pids limit of the container)"
        }
        std::io::ErrorKind::OutOfMemory => " (the machine is out of memory)",
        _ if error.raw_os_error() == Some(24) => " (too many open files: see `ulimit -n`)",
        _ => "",
    }
}

/// Names what was tried when a system call failed.
trait During<T> {
    fn during(self, action: &'static str) -> Result<T, Error>;
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, action: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::System { action, error })
    }
}

/// Runs the command in a pen, and returns the exit code to end with once nothing of its tree is left.
///
/// `witness` is told what happens, in the process in which it happens.
///
/// **For a program that is declared with `nostray_sys::program!`, with one thread, that does nothing else**: it becomes the front, and its descriptors, signal
/// mask and children are the pen's from here on.
pub fn run(spec: &Spec, id: PenId, witness: Box<dyn Witness>) -> Result<Code, Error> {
    front::run(spec, id, witness)
}
