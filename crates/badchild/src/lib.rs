//! Finds the processes of a test. The test marks each process that it starts with a token in the environment. Forks, sessions and
//! daemons inherit the token, and the test later searches `/proc` for it. So the check does not depend on nostray's own records.

mod bystanders;
pub mod contest;
mod host;
mod programs;
pub mod random;
mod scene;
mod terminal;
mod together;

use std::io;
use std::time::{Duration, Instant};

pub use bystanders::Bystanders;
pub use host::Host;
use nostray_sys::proc::Stat;
pub use nostray_sys::process::Pid;
use nostray_sys::{Pidfd, Signal};
pub use programs::{Folder, badchild, beside_test, built, publish};
pub use scene::{Scene, company, is_subreaper};
pub use terminal::{foreground_group, open_terminal, resize_terminal};
pub use together::{Over, in_parallel, so_many_at_once};

/// The variable that marks the processes of a test.
pub const TOKEN: &str = "BADCHILD_TOKEN";
/// The variable with the token for the process that a host starts beside its command.
pub const FRIEND: &str = "BADCHILD_FRIEND";
/// The variable with the line that a tree prints when it is complete, if that is not `ready`.
pub const READY: &str = "BADCHILD_READY";
/// The deadline for events that should happen at once, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The user as whom unprivileged tests run when root runs the tests.
const NOBODY: u32 = 65_534;

/// The user as whom a scene runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The user who runs the tests.
    Current,
    /// An unprivileged user. Only root can start processes as another user.
    Nobody,
}

impl User {
    /// The users that this machine can test with.
    #[must_use]
    pub fn all() -> Vec<Self> {
        if rustix::process::geteuid().is_root() { vec![Self::Current, Self::Nobody] } else { vec![Self::Current] }
    }
}

/// Waits until a condition is true.
///
/// # Panics
/// If it does not within [`PATIENCE`].
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    assert!(comes_true(PATIENCE, &mut is_so), "did not happen within {PATIENCE:?}: {what}");
}

/// Whether a condition becomes true in time. Polls every few milliseconds: a test is not the parent of the processes that it watches,
/// and gets no events from them.
pub fn comes_true(within: Duration, is_so: &mut dyn FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that a test has found. A new process with the same number is not taken for it.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its `stat` in `/proc`.
    pub stat: Stat,
    /// Its command line.
    pub command: String,
}

impl Found {
    /// The process with this number.
    #[must_use]
    pub fn by_pid(pid: Pid) -> Option<Self> {
        let stat = Stat::of(pid)?;
        // The whole command line: a test looks for paths in it, whose length depends on TMPDIR.
        let words = nostray_sys::proc::command_of(pid);
        Some(Self { command: if words.is_empty() { stat.name.clone() } else { words.join(" ") }, stat })
    }

    /// Whether it lives, and is not a zombie.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Stat::of(self.stat.pid).is_some_and(|now| now.start == self.stat.start && !now.is_zombie())
    }

    /// Whether it is stopped, by a signal or a debugger.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        Stat::of(self.stat.pid).is_some_and(|now| now.start == self.stat.start && now.is_stopped())
    }

    /// How many bytes wait in its standard input, which is a pipe.
    #[must_use]
    pub fn unread_input(&self) -> u64 {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let input = rustix::fs::open(format!("/proc/{}/fd/0", self.stat.pid), flags, rustix::fs::Mode::empty());
        input.and_then(rustix::io::ioctl_fionread).unwrap_or(0)
    }

    /// Sends it a signal, if it still lives.
    pub fn send(&self, signal: Signal) {
        if let Ok(handle) = Pidfd::open(self.stat.pid)
            && Stat::of(self.stat.pid).is_some_and(|now| now.start == self.stat.start)
        {
            handle.send(signal).ok();
        }
    }
}

/// A number as a [`Pid`].
///
/// # Panics
/// If it is not one.
#[must_use]
pub fn pid(number: i32) -> Pid {
    Pid::from_raw(number).expect("a process number")
}

/// The open files of this process, as number and target.
pub fn open_files() -> io::Result<Vec<(i32, String)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        if let (Ok(fd), Ok(target)) = (entry.file_name().to_string_lossy().parse(), std::fs::read_link(entry.path()))
        {
            files.push((fd, target.display().to_string()));
        }
    }
    // The file descriptor of this listing.
    files.retain(|(_, target)| !target.contains("/fd"));
    files.sort();
    Ok(files)
}
