//! Finds the host and the launchers between host and front, and tells whether they still live.

use nostray_sys::Pidfd;
use nostray_sys::descriptors::StdinKind;
use nostray_sys::identity::Identity;
use nostray_sys::proc::Stat;
use nostray_sys::process::{Pid, getpid, getppid, session_of};

use crate::reason::Role;
use crate::{During, Error, guard, launcher, mark};

/// The process that wants the child, and the launchers by which it started the front.
///
/// `npx nostray run …` puts npm and a shell between the two. When the host is killed, npm waits on for nostray, so npm is not the host. A
/// host may also kill the npm that it started, and nothing else. So **the end of any of them is the end of the host**.
#[derive(Debug)]
pub(crate) struct Host {
    /// `None` in another pid namespace, where it cannot be watched; the end of stdin still tells.
    process: Option<Watched>,
    /// The innermost first.
    launchers: Vec<(&'static str, Watched)>,
}

/// A process that is alive, and watched by identity.
#[derive(Debug)]
pub(crate) struct Watched {
    pid: Pid,
    pub(crate) handle: Pidfd,
}

/// So many launchers are looked past. Each takes a file descriptor.
const MAX_LAUNCHERS: usize = 8;

impl Host {
    /// The opener of a pen, which made the handle on itself before it forked the front: the handle cannot be on another process.
    pub(crate) fn opener(pid: Pid, handle: Pidfd) -> Result<Self, Error> {
        if handle.has_ended().during("watch the host")? {
            return Err(Error::HostGone);
        }
        Ok(Self { process: Some(Watched { pid, handle }), launchers: Vec::new() })
    }

    /// Finds the host. If the host died before this look, the kernel has handed the front, or the outermost launcher, to a reaper. The
    /// reaper must not be taken for the host: it would never die, and the tree would stay for ever.
    pub(crate) fn find(stdin: StdinKind) -> Result<Self, Error> {
        let Some(parent) = getppid() else { return Ok(Self { process: None, launchers: Vec::new() }) };
        let (mut child, mut launchers) = (getpid(), Vec::new());
        let mut process = Watched::parent_of(child, parent, stdin)?;
        while launchers.len() < MAX_LAUNCHERS
            && let Some(name) = launcher::name_of(process.pid)
            // One that was started from outside of this pid namespace stands for the host.
            && let Some(parent) = parent_of(process.pid)
        {
            child = process.pid;
            launchers.push((name, std::mem::replace(&mut process, Watched::parent_of(child, parent, stdin)?)));
        }
        Ok(Self { process: Some(process), launchers })
    }

    /// The host's number, if the host can be seen.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// The host's identity, if the host can be seen.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.pid().and_then(Identity::of)
    }

    /// A handle on the host, if the host can be seen.
    pub(crate) fn handle(&self) -> Option<&Pidfd> {
        self.process.as_ref().map(|process| &process.handle)
    }

    /// How many launchers there are.
    pub(crate) fn launchers(&self) -> u64 {
        self.launchers.len() as u64
    }

    /// Handles on the host and on all launchers.
    pub(crate) fn handles(&self) -> impl Iterator<Item = (Role, &Pidfd)> {
        self.all().map(|(role, process)| (role, &process.handle))
    }

    /// Which of them has ended or is on its way out, if any.
    pub(crate) fn ending(&self) -> Option<Role> {
        self.all().find(|(_, process)| is_ending(process.pid, &process.handle)).map(|(role, _)| role)
    }

    fn all(&self) -> impl Iterator<Item = (Role, &Watched)> {
        let launchers = self.launchers.iter().map(|(name, process)| (Role::Launcher(name, process.pid), process));
        self.process.iter().map(|process| (Role::Host, process)).chain(launchers)
    }
}

impl Watched {
    /// The parent of `child`, which has this number.
    fn parent_of(child: Pid, parent: Pid, stdin: StdinKind) -> Result<Self, Error> {
        let handle = match Pidfd::open(parent) {
            Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) => return Err(Error::HostGone),
            opened => opened.during("watch the host")?,
        };
        // Opened by number, so it is the parent only if the parent still has that number now.
        if parent_of(child) != Some(parent)
            || handle.has_ended().during("watch the host")?
            || was_handed_to(child, parent, stdin)
        {
            return Err(Error::HostGone);
        }
        Ok(Self { pid: parent, handle })
    }
}

fn parent_of(child: Pid) -> Option<Pid> {
    if child == getpid() { getppid() } else { Stat::of(child)?.parent }
}

/// Whether a process has ended or is on its way out. The kernel marks a process before it closes the process's files, so the mark is there
/// when the end of a pipe tells of it.
pub(crate) fn is_ending(pid: Pid, handle: &Pidfd) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.is_ending()) || handle.has_ended().unwrap_or(false)
}

const NO_SUCH_PROCESS: i32 = 3;

/// Whether the kernel has handed `child` (this process, or a launcher above it) to `parent` because its own parent had died.
///
/// No system call tells, but traces do. A guard starts only the child that it has marked. A process is in its parent's session unless
/// it has made its own, so a session that belongs neither to the process nor to its parent came from another parent. In a session of
/// its own, only a parent that collects orphans is suspect, and only if stdin is a pipe (which init does not give) whose other end the
/// parent does not hold: an agent that runs as the first process of a container holds it. A launcher hands on the stdin that it got.
fn was_handed_to(child: Pid, parent: Pid, stdin: StdinKind) -> bool {
    let is_named = |name: &str| Stat::of(parent).is_some_and(|stat| stat.name == name);
    let marked = mark::is_child_of_enclosing_pen(child);
    if marked.is_some() && is_named(guard::NAME) {
        return marked == Some(false);
    }
    let (Ok(ours), Ok(theirs)) = (session_of(Some(child)), session_of(Some(parent))) else { return false };
    if ours != Some(child) {
        // A guard is the host even where its mark was taken out of the environment: no fact says otherwise.
        return ours != theirs && !is_named(guard::NAME);
    }
    let collects_orphans = parent == Pid::INIT || is_named("systemd");
    collects_orphans && !started_as_a_service(child) && !holds_our_stdin(parent, stdin)
}

/// systemd tells each process that it starts its own number. A launcher hands its environment on.
fn started_as_a_service(child: Pid) -> bool {
    std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|number| number == child.to_string())
}

fn holds_our_stdin(parent: Pid, stdin: StdinKind) -> bool {
    match stdin {
        StdinKind::Pipe(pipe) => pipe.is_written_by(parent).unwrap_or(false),
        StdinKind::Socket(_) => nostray_sys::descriptors::maker_of_stdin_socket() == Some(parent),
        StdinKind::Terminal | StdinKind::Mute => true,
    }
}
