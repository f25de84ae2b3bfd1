//! All processes of an act: starts the host, waits until the whole tree runs, and ends every process afterwards.

use std::io::PipeReader;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nostray_sys::poll::{self, Until};
use nostray_sys::proc;
use nostray_sys::process::{Reaped, become_subreaper, reap};
use nostray_sys::signal::{Disposition, Signal, set_disposition};

use super::act::{Act, OWN};
use super::actors::this_program;
use super::cast::{Member, Token, VARIABLE};
use super::own_state::OwnState;
use super::stop::{Interrupts, Stop};

/// How long the whole tree may take to start, on a busy machine.
pub(super) const START_LIMIT: Duration = Duration::from_secs(10);
/// How long a tree in a pen may take to end: its graces, and a margin for a busy machine.
pub(super) const PEN_LIMIT: Duration = Duration::from_secs(6);
/// How long the clean-up may take before it is reported as failed.
const CLEAN_UP_LIMIT: Duration = Duration::from_secs(10);
/// How often to poll what has no event, the clock on the screen included.
pub(super) const TICK: Duration = Duration::from_millis(100);

pub(super) struct Troupe {
    pub(super) act: Act,
    token: Token,
    /// This process had children before the show: a shell that executed this program without a fork leaves it its own. So
    /// a remaining child proves nothing.
    has_strangers: bool,
}

impl Troupe {
    pub(super) fn new(act: Act) -> Result<Self, Stop> {
        // With SIGCHLD ignored, as a host may leave it, the kernel reaps children unseen. As a subreaper, this process
        // gets every orphan of the tree, so no zombie stays where init does not reap, and `waitpid` proves that none is left.
        let prepare = || {
            set_disposition(Signal::CHLD, Disposition::Default)?;
            become_subreaper()?;
            Token::new()
        };
        let token = prepare().map_err(|error| Stop::failed("prepare the demo", error))?;
        let has_strangers = proc::children_of_self().is_none_or(|children| !children.is_empty());
        Ok(Self { act, token, has_strangers })
    }

    /// Starts the host, and returns the output of the host and its descendants.
    pub(super) fn start_host(&self, own_state: &OwnState) -> Result<PipeReader, Stop> {
        let start = || {
            let program = this_program();
            let (reader, writer) = std::io::pipe()?;
            let mut host = Command::new(&program);
            host.args(["demo", "--actor", "host", "--"]).args(self.act.command(&program));
            host.env(VARIABLE, self.token.as_str()).stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
            own_state.give_to(&mut host);
            // Reaped together with the orphans.
            host.spawn().map(|_| reader)
        };
        start().map_err(|error| Stop::failed("start a host", error))
    }

    /// Waits until exactly the processes of the script run. The first processes of a daemon take a moment to end.
    pub(super) fn assemble(&self, interrupts: &Interrupts) -> Result<Vec<Member>, Stop> {
        let cast = self.act.cast();
        let deadline = Instant::now() + START_LIMIT;
        loop {
            self.is_empty();
            let mut members = self.members()?;
            members.sort_by_key(|member| cast.iter().position(|role| *role == member.role));
            if members.iter().map(|member| member.role).eq(cast.iter().copied()) {
                return Ok(members);
            }
            if Instant::now() > deadline {
                let why = format!("of its processes, only these can be seen in /proc: [{}]", list(&members));
                return Err(Stop::failed("go on with the demo", why));
            }
            interrupts.wait(&[], TICK / 10)?;
        }
    }

    /// The live processes that bear the token.
    pub(super) fn members(&self) -> Result<Vec<Member>, Stop> {
        self.token.bearers().map_err(|error| Stop::failed("read /proc", error))
    }

    /// Reaps every descendant that has ended. True when no descendant is left, token or not.
    pub(super) fn is_empty(&self) -> bool {
        loop {
            match reap() {
                Ok(Reaped::News(_)) => {}
                Ok(Reaped::NoChildren) => return true,
                Ok(Reaped::Quiet) | Err(_) => return self.has_strangers,
            }
        }
    }

    /// Ends every process that is left. A pen gets time to end its tree itself, since it also removes its record and control group.
    pub(super) fn dismiss(&self) -> Result<(), Stop> {
        let begun = Instant::now();
        loop {
            let empty = self.is_empty();
            let left = self.members()?;
            if left.is_empty() && empty {
                return Ok(());
            }
            if begun.elapsed() > CLEAN_UP_LIMIT {
                return Err(Stop::failed("end all that the demo has started", format!("left: [{}]", list(&left))));
            }
            let has_pen = left.iter().any(|member| OWN.contains(&member.role));
            let at_once = !has_pen || begun.elapsed() > PEN_LIMIT;
            left.iter().filter(|member| at_once || member.is_host()).for_each(Member::kill);
            let ends: Vec<_> = left.iter().map(|member| (member.handle.as_fd(), Until::Readable)).collect();
            poll::wait(&ends, Some(TICK / 10)).map_err(|error| Stop::failed("wait", error))?;
        }
    }
}

fn list(members: &[Member]) -> String {
    let all: Vec<_> = members.iter().map(|member| format!("{} {}", member.role, member.pid)).collect();
    all.join(", ")
}
