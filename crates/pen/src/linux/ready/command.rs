//! Runs the command of `--ready-cmd`. It belongs to the tree like everything else, below a process that is its subreaper: all that the
//! command starts ends with it, so that repeated runs leave nothing behind.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nostray_sys::cgroup::Cgroup;
use nostray_sys::exec::Program;
use nostray_sys::poll::{self, Until};
use nostray_sys::process::{self, Ended, News, Pid, Reaped, Side, getpid, getppid, reap};
use nostray_sys::signal::{Signal, SignalFd, send_to_own_child};

use crate::child::Plan;
use crate::front::signals_to_watch;
use crate::killing::{Killing, Reaper, RoundOutcome};
use crate::mark;
use crate::tree::{Tier, Tree};

/// How long one run of the command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a run that was told to end may take, before it counts as a process that the child has left behind.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The name of the process around a command.
const NAME: &str = "nostray-ready";

/// The command that a shell is to run.
pub(super) fn program(command: &OsString) -> io::Result<Program> {
    Program::new(["sh".into(), "-c".into(), command.clone()])
}

/// A run of the command.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) pid: Pid,
    ending: Option<Instant>,
}

impl Probe {
    /// Starts the command, inside the tree.
    pub(super) fn start(
        plan: &Plan,
        program: &Program,
        directory: BorrowedFd<'_>,
        tree: &Tree<'_>,
    ) -> io::Result<Self> {
        let guard = getpid();
        let group = match tree.tier() {
            Tier::Cgroup(group) => Some(group.path()),
            Tier::Namespace | Tier::Subreaper => None,
        };
        let pid = process::fork_alone(NAME, directory, || look(plan, program, guard, group))?;
        Ok(Self { pid, ending: None })
    }

    /// Its answer is of no interest any more.
    pub(super) fn end(&mut self, now: Instant) {
        if self.ending.is_none() {
            // It has not been reaped, so the number is still its own.
            send_to_own_child(self.pid, Signal::TERM).ok();
            self.ending = Some(now + END_TIMEOUT);
        }
    }

    /// Until when it may take to end, if it has been told to.
    pub(super) fn ends_by(&self) -> Option<Instant> {
        self.ending
    }
}

/// In the process around the command: returns 0 if that has succeeded, once nothing of it is left.
fn look(plan: &Plan, program: &Program, guard: Pid, group: Option<&Path>) -> u8 {
    const NO: u8 = 1;
    // A guard that is killed takes it along: the kernel hands what is below to the spare, which takes over.
    let armed = process::ask_for_term_when_parent_ends().and_then(|()| process::become_subreaper());
    let (Ok(()), Ok(signals)) = (armed, SignalFd::new(&signals_to_watch())) else { return NO };
    if getppid() != Some(guard) {
        return NO;
    }
    let around = getpid();
    let group = group.and_then(|path| Cgroup::open(path).ok());
    let side = match group.as_ref().map(process::fork_into) {
        Some(Ok(side)) => Ok(side),
        _ => process::fork(),
    };
    let shell = match side {
        Ok(Side::Child) => become_command(plan, program, around),
        Ok(Side::Parent(shell)) => shell,
        Err(_) => return NO,
    };
    let mut around = ProbeRunner { shell, ended: None, tree: Tree::new(Tier::Subreaper) };
    let (until, mut killing) = (Instant::now() + COMMAND_TIMEOUT, None);
    let mut is_wanted = true;
    while around.reap() {
        let now = Instant::now();
        is_wanted &= until > now || around.ended.is_some();
        if !is_wanted || around.ended.is_some() {
            let killing = killing.get_or_insert_with(|| {
                let mut killing = Killing::default();
                killing.begin(&around.tree, now);
                killing
            });
            if let RoundOutcome::Refused(_) = killing.round(&mut around) {
                break; // they are handed to the guard, which reports them at the end
            }
        }
        let next = killing.as_ref().map_or(Some(until), Killing::next);
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()));
        poll::wait(&[(signals.as_fd(), Until::Readable)], timeout).ok();
        while let Ok(Some(arrived)) = signals.next() {
            is_wanted &= arrived.signal != Signal::TERM;
        }
    }
    if is_wanted && around.ended == Some(Ended::Exited(0)) { 0 } else { NO }
}

fn become_command(plan: &Plan, program: &Program, around: Pid) -> ! {
    const CANNOT: u8 = 126;
    process::setsid().ok();
    let ready = plan
        .limit
        .map_or(Ok(()), process::lower_real_time_limit)
        .and_then(|()| process::ask_for_term_when_parent_ends())
        .and_then(|()| plan.mask.set_as_mask());
    if ready.is_ok() && getppid() == Some(around) {
        drop(mark::marked(program.clone(), &plan.id, None).exec());
    }
    process::exit_now(CANNOT)
}

/// The process around the command.
struct ProbeRunner {
    shell: Pid,
    ended: Option<Ended>,
    tree: Tree<'static>,
}

impl Reaper<'static> for ProbeRunner {
    fn tree(&mut self) -> &mut Tree<'static> {
        &mut self.tree
    }

    fn reap(&mut self) -> bool {
        loop {
            match reap() {
                Ok(Reaped::News(News::Ended(pid, how))) if pid == self.shell && self.ended.is_none() => {
                    self.ended = Some(how);
                }
                Ok(Reaped::News(_)) => {}
                Ok(Reaped::Quiet) => return true,
                Ok(Reaped::NoChildren) | Err(_) => return false,
            }
        }
    }
}
