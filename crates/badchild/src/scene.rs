//! All processes of a test, found by the token in their environment.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nostray_sys::Signal;
use nostray_sys::proc::Stat;
use nostray_sys::signal::is_ignored;

use crate::programs::unique;
use crate::{Folder, Found, NOBODY, PATIENCE, TOKEN, User, comes_true};

/// A command that starts with no signal ignored, even if this process inherited some: `nohup` ignores SIGHUP, and a
/// shell without job control ignores SIGINT and SIGQUIT in its background jobs. A program that is started like that
/// does not end by these signals.
fn as_from_a_shell(program: &Path) -> Command {
    if ![Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM].into_iter().any(is_ignored) {
        return Command::new(program);
    }
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal").arg(program);
    command
}

/// A runtime directory for all scenes of one source file, so that none of them touches the user's own. Each source file has another
/// one: every start of nostray sweeps the remains of dead owners in its runtime directory, and would act on remains of other tests.
fn runtime_folder(user: User, file: &'static str) -> PathBuf {
    static FOLDERS: Mutex<Vec<(User, &str, Folder)>> = Mutex::new(Vec::new());
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((.., folder)) = folders.iter().find(|(of, by, _)| (*of, *by) == (user, file)) {
        return folder.path().to_owned();
    }
    let folder = Folder::private("runtime", user);
    let path = folder.path().to_owned();
    folders.push((user, file, folder));
    path
}

/// Whether this process is the subreaper of its descendants.
#[must_use]
pub fn is_subreaper() -> bool {
    rustix::process::child_subreaper().is_ok_and(|reaper| reaper.is_some())
}

/// All other processes with the token of this process: for a test that runs in a process of its own.
///
/// # Panics
/// If it has none.
#[must_use]
pub fn company() -> Vec<Found> {
    let mark = format!("{TOKEN}={}", std::env::var(TOKEN).expect("a token"));
    let is_of_it = |stat: &Stat| {
        let environ = std::fs::read(format!("/proc/{}/environ", stat.pid)).unwrap_or_default();
        environ.split(|&b| b == 0).any(|variable| variable == mark.as_bytes())
    };
    let all = nostray_sys::proc::scan().unwrap_or_default().into_iter();
    let others = all.filter(|stat| !stat.is_zombie() && stat.pid != rustix::process::getpid());
    others.filter(is_of_it).filter_map(|stat| Found::by_pid(stat.pid)).collect()
}

/// All processes with one token. Dropping the value kills the processes that are left, so a failed test leaves nothing behind either.
#[derive(Debug)]
pub struct Scene {
    pub(crate) token: String,
    /// The user as whom its processes run.
    pub user: User,
    /// A runtime directory of its own, if it has one.
    runtime: Option<Folder>,
    /// The source file that made it.
    file: &'static str,
    /// Whether the caller knows that no process is left, so that dropping the value need not search.
    is_over: bool,
}

impl Scene {
    /// A scene without processes. Its runtime directory is that of the source file of the caller.
    #[must_use]
    #[track_caller]
    pub fn new(user: User) -> Self {
        let file = std::panic::Location::caller().file();
        Self { token: unique(), user, runtime: None, file, is_over: false }
    }

    /// A scene with a runtime directory of its own, without records of other scenes.
    #[must_use]
    pub fn apart(user: User) -> Self {
        let mut scene = Self::new(user);
        scene.runtime = Some(Folder::private("apart", user));
        scene
    }

    /// Tells that no process is left, if the caller has checked that. With many scenes, a last scan of `/proc` for each costs much.
    pub fn is_over(&mut self) {
        self.is_over = true;
    }

    /// Its runtime directory.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        self.runtime.as_ref().map_or_else(|| runtime_folder(self.user, self.file), |folder| folder.path().to_owned())
    }

    /// A command that belongs to it.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = as_from_a_shell(program);
        command.env(TOKEN, &self.token).current_dir("/");
        self.lend_its_place(&mut command);
        if self.user == User::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Makes a command of another scene keep its records in the directories of this scene.
    pub(crate) fn lend_its_place(&self, command: &mut Command) {
        command.env("XDG_RUNTIME_DIR", self.runtime());
        if let Some(folder) = &self.runtime {
            // Records go there when there is no runtime directory; the default has records of other programs of this machine.
            command.env("XDG_STATE_HOME", folder.path().join("state"));
        }
    }

    /// All processes with the token, except zombies. Also the brokers in the scene's own runtime directory: a broker does not inherit
    /// the environment of the process that starts it.
    #[must_use]
    pub fn processes(&self) -> Vec<Found> {
        let mark = format!("{TOKEN}={}", self.token);
        let place = self.runtime.as_ref().map(|folder| format!("XDG_RUNTIME_DIR={}", folder.path().display()));
        let has = |environ: &[u8], what: &str| environ.split(|&b| b == 0).any(|variable| variable == what.as_bytes());
        let of_this = |stat: Stat| {
            let environ = std::fs::read(format!("/proc/{}/environ", stat.pid)).unwrap_or_default();
            let is_marked = has(&environ, &mark);
            if !is_marked && !place.as_ref().is_some_and(|place| has(&environ, place)) {
                return None;
            }
            let found = Found::by_pid(stat.pid)?;
            (is_marked || found.command.contains(" broker serve ")).then_some(found)
        };
        let all = nostray_sys::proc::scan().unwrap_or_default();
        all.into_iter().filter(|stat| !stat.is_zombie()).filter_map(of_this).collect()
    }

    /// The processes whose command line contains `part`.
    #[must_use]
    pub fn those_with(&self, part: &str) -> Vec<Found> {
        self.processes().into_iter().filter(|found| found.command.contains(part)).collect()
    }

    /// Waits until no process is left.
    ///
    /// # Panics
    /// If a process is left after the given time. The message lists the processes.
    pub fn expect_empty_within(&self, time: Duration) {
        // An ending process loses its environment, by which it is found, before its files. A process in `exec` has no environment
        // for a moment. So a process that was found once counts until it is gone.
        let mut seen: Vec<Found> = Vec::new();
        let is_empty = comes_true(time, &mut || {
            seen.retain(Found::is_alive);
            for found in self.processes() {
                if !seen.iter().any(|known| (known.stat.pid, known.stat.start) == (found.stat.pid, found.stat.start))
                {
                    seen.push(found);
                }
            }
            seen.is_empty()
        });
        let left: Vec<_> = seen.iter().map(|found| format!("{} {}", found.stat.pid, found.command)).collect();
        assert!(is_empty, "still there after {time:?}: {left:#?}");
    }

    /// Waits until no process is left.
    ///
    /// # Panics
    /// If a process is left after [`PATIENCE`].
    pub fn expect_empty(&self) {
        self.expect_empty_within(PATIENCE);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        while !self.is_over
            && let left = self.processes()
            && !left.is_empty()
        {
            for found in left {
                found.send(Signal::KILL);
            }
        }
    }
}
