//! Who started us, and whether they are still there.

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
    /// Who it is, if it can be seen.
    pub(crate) fn identity(&self) -> Option<Identity> {
        match self {
            Self::Alive(pid, _) => Identity::of(*pid),
            Self::Elsewhere => None,
        }
    }
}

/// Finds the host. One that died before we could look has left us to a reaper, which must not be taken for it:
/// it would never die, and the tree would stay for ever.
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

/// The same for a host that has made the handle itself before it forked us: there is nobody to be confused with.
pub(crate) fn unless_ended(handle: Pidfd) -> Result<Pidfd, Error> {
    if handle.has_ended().during("watch the host")? { Err(Error::HostGone) } else { Ok(handle) }
}

const NO_SUCH_PROCESS: i32 = 3;

/// Whether `parent` got us from the kernel because the one who started us had died.
///
/// There is no call that tells, but traces do. A guard starts nobody but the child that it has marked. A process is in
/// its parent's session unless it has made its own, so in a session that is neither ours nor our parent's, somebody else
/// put us. In a session of our own, only a process that collects orphans is suspect, and only if we got a pipe for stdin
/// (which init does not give) that it does not hold the other end of: an agent that runs as the first process of a
/// container does.
fn was_handed_to(parent: Pid, stdin: StdinKind) -> bool {
    let is_named = |name: &str| Stat::of(parent).is_some_and(|stat| stat.name == name);
    let marked = mark::is_child_of_enclosing_pen();
    if marked.is_some() && is_named(guard::NAME) {
        return marked == Some(false);
    }
    let (Ok(ours), Ok(theirs)) = (session_of(None), session_of(Some(parent))) else { return false };
    if ours != Some(getpid()) {
        // A guard whose mark was taken out of the environment is still who started us, as far as anybody can tell.
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
