//! Finds the host process, and tells whether it still lives.

use nostray_sys::Pidfd;
use nostray_sys::descriptors::StdinKind;
use nostray_sys::identity::Identity;
use nostray_sys::proc::Stat;
use nostray_sys::process::{Pid, getpid, getppid, session_of};

use crate::{During, Error, guard, mark};

/// The process that started the front.
#[derive(Debug)]
pub(crate) enum Host {
    /// Alive, and watched by identity.
    Alive(Pid, Pidfd),
    /// In another pid namespace, where it cannot be watched; the end of stdin still tells.
    Elsewhere,
}

impl Host {
    /// Its number, if it can be seen.
    pub(crate) fn pid(&self) -> Option<Pid> {
        match self {
            Self::Alive(pid, _) => Some(*pid),
            Self::Elsewhere => None,
        }
    }

    /// Its identity, if it can be seen.
    pub(crate) fn identity(&self) -> Option<Identity> {
        match self {
            Self::Alive(pid, _) => Identity::of(*pid),
            Self::Elsewhere => None,
        }
    }
}

/// Finds the host. If the host died before this look, the kernel has handed the front to a reaper. The reaper must not be taken for the
/// host: it would never die, and the tree would stay for ever.
pub(crate) fn find(stdin: StdinKind) -> Result<Host, Error> {
    let Some(pid) = getppid() else { return Ok(Host::Elsewhere) };
    let handle = match Pidfd::open(pid) {
        Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) => return Err(Error::HostGone),
        opened => opened.during("watch the host")?,
    };
    // Opened by number, so it is the host only if the host still has that number now.
    if getppid() != Some(pid) || handle.has_ended().during("watch the host")? || was_handed_to(pid, stdin) {
        return Err(Error::HostGone);
    }
    Ok(Host::Alive(pid, handle))
}

/// The same for an opener that made the handle on itself before it forked the front: the handle cannot be on another process.
pub(crate) fn unless_ended(handle: Pidfd) -> Result<Pidfd, Error> {
    if handle.has_ended().during("watch the host")? { Err(Error::HostGone) } else { Ok(handle) }
}

/// Whether a process has ended or is on its way out. The kernel marks a process before it closes the process's files, so the mark is there
/// when the end of a pipe tells of it.
pub(crate) fn is_ending(pid: Pid, handle: &Pidfd) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.is_ending()) || handle.has_ended().unwrap_or(false)
}

const NO_SUCH_PROCESS: i32 = 3;

/// Whether the kernel has handed this process to `parent` because the host had died.
///
/// No system call tells, but traces do. A guard starts only the child that it has marked. A process is in its parent's session unless
/// it has made its own, so a session that belongs neither to this process nor to its parent came from another parent. In a session of
/// its own, only a parent that collects orphans is suspect, and only if stdin is a pipe (which init does not give) whose other end the
/// parent does not hold: an agent that runs as the first process of a container holds it.
fn was_handed_to(parent: Pid, stdin: StdinKind) -> bool {
    let is_named = |name: &str| Stat::of(parent).is_some_and(|stat| stat.name == name);
    let marked = mark::is_child_of_enclosing_pen();
    if marked.is_some() && is_named(guard::NAME) {
        return marked == Some(false);
    }
    let (Ok(ours), Ok(theirs)) = (session_of(None), session_of(Some(parent))) else { return false };
    if ours != Some(getpid()) {
        // A guard is the host even where its mark was taken out of the environment: no fact says otherwise.
        return ours != theirs && !is_named(guard::NAME);
    }
    let collects_orphans = parent == Pid::INIT || is_named("systemd");
    collects_orphans && !started_as_a_service() && !holds_our_stdin(parent, stdin)
}

/// systemd tells each process that it starts its own number.
fn started_as_a_service() -> bool {
    std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|number| number == getpid().to_string())
}

fn holds_our_stdin(parent: Pid, stdin: StdinKind) -> bool {
    match stdin {
        StdinKind::Pipe(pipe) => pipe.is_written_by(parent).unwrap_or(false),
        StdinKind::Socket(_) => nostray_sys::descriptors::maker_of_stdin_socket() == Some(parent),
        StdinKind::Terminal | StdinKind::Mute => true,
    }
}
