//! The process around the benchmark: it starts this program a second time, which does the work, and afterwards ends
//! every process that the work left behind, whether it finished, failed, panicked (which aborts) or was interrupted.
//!
//! What belongs to the run is told by a variable in its environment, which everything below it inherits; or, since a broker has an
//! environment of its own, by where its program is.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use badchild::{Found, Pid};
use nostray_sys::poll::{Until, wait};
use nostray_sys::process::getpid;
use nostray_sys::{Pidfd, Signal, signal};

use crate::{Failure, screen};

const MARK: &str = "NOSTRAY_BENCH_INSIDE";

/// Whether this is the process that does the work.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs this program inside, and returns its exit code.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let run = Run::prepare()?;
    let mut inside = Command::new(&run.program)
        .args(std::env::args_os().skip(1))
        .env(MARK, &run.mark)
        .env("TMPDIR", &run.folder)
        .env("CARGO_TARGET_DIR", &run.target)
        // No broker that the user has is taken for one of this run, wherever it is.
        .env("NOSTRAY_BROKER_VERSION", &run.mark)
        .env("XDG_RUNTIME_DIR", &run.folder)
        .env("XDG_STATE_HOME", run.folder.join("state"))
        .env("XDG_CACHE_HOME", run.folder.join("cache"))
        .spawn()?;
    // From here on, so that the one inside does not inherit it.
    let asked_to_end = wanted_signals();
    asked_to_end.set_as_mask()?;
    let signals = signal::SignalFd::new(&asked_to_end)?;
    let ended = Pidfd::open(badchild::pid(i32::try_from(inside.id())?))?;
    loop {
        let came = wait(&[(ended.as_fd(), Until::Readable), (signals.as_fd(), Until::Readable)], None)?;
        if came.first() == Some(&true) {
            break;
        }
        if signals.next()?.is_some() {
            inside.kill()?;
        }
    }
    let status = inside.wait()?;
    let left = run.sweep();
    if status.code().is_none() {
        return Err(format!("the run did not finish ({status}); {} processes of it were killed", left.len()).into());
    }
    if status.success() && !left.is_empty() {
        return Err(format!("left behind, and killed now: {left:#?}").into());
    }
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Where a run has its records: in memory, as a user's runtime directory is; or where the user says. To remove a file from a disk that is told
/// of each removal takes longer than the end of a tree.
fn temporary_folder() -> PathBuf {
    const IN_MEMORY: &str = "/dev/shm";
    let is_free = std::env::var_os("TMPDIR").is_none() && Path::new(IN_MEMORY).is_dir();
    if is_free { IN_MEMORY.into() } else { std::env::temp_dir() }
}

/// What a run has outside of itself; removed with the value.
struct Run {
    mark: String,
    program: PathBuf,
    folder: PathBuf,
    target: PathBuf,
}

impl Run {
    fn prepare() -> Result<Self, Failure> {
        let me = std::env::current_exe()?;
        let profile = me.parent().ok_or("no folder")?;
        let target = profile.parent().ok_or("no target folder")?.to_path_buf();
        let mark = getpid().to_string();
        // The test kit looks for its programs from where tests are: one folder further down.
        let program = profile.join("deps").join(format!("nostray-bench-inside-{mark}"));
        std::fs::create_dir_all(profile.join("deps"))?;
        std::fs::hard_link(&me, &program).or_else(|_| std::fs::copy(&me, &program).map(drop))?;
        let folder = temporary_folder().join(format!("nostray-bench-{mark}"));
        let run = Self { mark, program, folder, target };
        std::fs::create_dir_all(&run.folder)?;
        Ok(run)
    }

    /// Kills every process that is left of the run, and returns their pids and commands.
    fn sweep(&self) -> Vec<String> {
        let mut killed = Vec::new();
        while let left = self.processes()
            && !left.is_empty()
        {
            for found in left {
                found.send(Signal::KILL);
                killed.push(format!("{} {}", found.stat.pid, found.command));
            }
        }
        killed.sort();
        killed.dedup();
        killed
    }

    fn processes(&self) -> Vec<Found> {
        processes(&self.mark, &self.folder)
    }
}

/// All processes of this run but this one, for the process that does the work.
pub(crate) fn company() -> Vec<Found> {
    let mark = std::env::var(MARK).unwrap_or_default();
    let mut others = processes(&mark, &std::env::temp_dir());
    others.retain(|found| found.stat.pid != getpid());
    others
}

/// All processes that bear the mark, or whose program is in this folder.
fn processes(mark: &str, folder: &Path) -> Vec<Found> {
    let mark = format!("{MARK}={mark}");
    let bears = |pid: Pid| {
        let process = Path::new("/proc").join(pid.to_string());
        std::fs::read_link(process.join("exe")).is_ok_and(|program| program.starts_with(folder))
            || std::fs::read(process.join("environ"))
                .is_ok_and(|environ| environ.split(|&b| b == 0).any(|variable| variable == mark.as_bytes()))
    };
    let all = nostray_sys::proc::scan().unwrap_or_default();
    let those = all.into_iter().filter(|stat| !stat.is_zombie() && bears(stat.pid));
    those.filter_map(|stat| Found::by_pid(stat.pid)).collect()
}

impl Drop for Run {
    fn drop(&mut self) {
        for gone in [std::fs::remove_dir_all(&self.folder), std::fs::remove_file(&self.program)] {
            if let Err(error) = gone {
                screen::complain(format_args!("could not tidy up: {error}"));
            }
        }
    }
}

fn wanted_signals() -> signal::SignalSet {
    let wanted = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
    let others = (1..=64).filter_map(Signal::from_raw).filter(|signal| !wanted.contains(signal));
    others.fold(signal::SignalSet::full(), signal::SignalSet::without)
}
