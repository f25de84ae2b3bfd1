//! The processes between front and child: the guard, which keeps the tree, and the spare around it, which takes
//! over when the guard is killed.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nostray_sys::cgroup::Cgroup;
use nostray_sys::descriptors::{self, Inherited, StdinKind};
use nostray_sys::identity::Identity;
use nostray_sys::poll::Until;
use nostray_sys::proc::StatFile;
use nostray_sys::process::{self, Ended, News, Pid, Reaped, Side, getpid, reap};
use nostray_sys::signal::{Signal, SignalFd, is_ignored, send_to_own_child};
use nostray_sys::{Pidfd, memory, namespace, poll};

use crate::child::Plan;
use crate::host::Host;
use crate::keep::{Keeper, Source};
use crate::log::Log;
use crate::mark::PenId;
use crate::ready::Detector;
use crate::reason::Reason;
use crate::relay::{Message, Relay};
use crate::tree::{Tier, Tree};
use crate::witness::{Event, Witness};
use crate::{Isolation, OWN_FAILURE, Spec, hint};

/// The name of a guard, as `ps` shows it, and as a pen inside its pen knows it.
pub(crate) const NAME: &str = "nostray-guard";
const SPARE_NAME: &str = "nostray-spare";
/// The name of a front that was forked by a pen opener.
pub const FRONT_NAME: &str = "nostray-front";

/// Whether this is the name of a process that keeps a pen.
pub(crate) fn is_keeper(name: &str) -> bool {
    [FRONT_NAME, SPARE_NAME, NAME].contains(&name)
}

/// What front, spare and guard have in common: made by the front before it forks, so that no process of the pen
/// ever has to look for another one.
#[derive(Debug)]
pub(crate) struct Pen<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) plan: Plan,
    pub(crate) titles: Titles,
    pub(crate) log: Log,
    pub(crate) signals: SignalFd,
    pub(crate) inherited: Inherited,
    pub(crate) stdin: StdinKind,
    pub(crate) host: Host,
    /// The pen opener, if it is a process of ours and not the host itself.
    pub(crate) opener: Option<Pid>,
    /// Processes whose end the opener must learn of, even if the opener is stopped.
    pub(crate) beyond: Vec<&'a Pidfd>,
    pub(crate) die_with: Vec<(u32, Pidfd)>,
    pub(crate) front: Pidfd,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) witness: RefCell<Box<dyn Witness>>,
    /// Detects that the child is ready. `None` if a started child is a ready one.
    pub(crate) ready: Option<Box<Detector>>,
}

/// What spare and guard show in place of the command line.
#[derive(Debug)]
pub(crate) struct Titles {
    spare: String,
    guard: String,
}

impl Titles {
    pub(crate) fn of(id: &PenId) -> Self {
        Self { spare: format!("{SPARE_NAME} {id}"), guard: format!("{NAME} {id}") }
    }
}

impl Pen<'_> {
    /// The tree as spare and front have it when they take over.
    pub(crate) fn tree(&self) -> Tree<'_> {
        Tree::new(self.cgroup.as_ref().map_or(Tier::Subreaper, Tier::Cgroup))
    }

    /// Tells the witness.
    pub(crate) fn tell(&self, event: &Event) {
        self.witness.borrow_mut().sees(event);
    }

    /// Continues a managed front that is stopped when its own host ends: it has to close the child's input, and a stopped front never
    /// would. The spare does this, since a guard in a pid namespace of its own may signal no process outside.
    fn wake_host(&self) {
        if let Some(handle) = self.host.handle() {
            handle.send(Signal::CONT).ok();
        }
    }

    /// The next process of the pen has been forked, and has its copies.
    pub(crate) fn has_forked(&self) {
        if let Some(ready) = &self.ready {
            ready.let_go();
        }
    }

    /// Closes what is the child's, now that the child has its own copies, and gives back memory.
    fn let_go(&self, stdin: bool) {
        self.inherited.close_all();
        // Without /dev/null the host's pipes stay open here until the pen ends, which is all.
        descriptors::replace_with_null(stdin, true).ok();
        process::leave_directory();
        memory::release_program_pages_at_next_wait();
    }
}

/// How soon after the start front, spare and guard tidy up. Not at once: on a small machine they would take the
/// processor from the child, which is what the host waits for.
const SETTLE_DELAY: Duration = Duration::from_millis(20);

/// Clean-up that is due once, a moment after the start.
#[derive(Debug)]
pub(crate) struct Settling<'a> {
    pen: &'a Pen<'a>,
    stdin: bool,
    due: Option<Instant>,
}

impl<'a> Settling<'a> {
    /// `stdin`: whether to let go of standard input, too.
    pub(crate) fn new(pen: &'a Pen<'a>, stdin: bool) -> Self {
        Self { pen, stdin, due: Some(Instant::now() + SETTLE_DELAY) }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn pen(&self) -> &'a Pen<'a> {
        self.pen
    }

    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Tidies up if it is time to.
    pub(crate) fn look(&mut self) {
        if self.is_due() {
            self.due = None;
            self.pen.let_go(self.stdin);
        }
    }
}

/// The spare, as a process of its own: forks the guard and waits. Returns its exit code.
pub(crate) fn be_spare(pen: &Pen<'_>, relay: &Relay) -> u8 {
    process::set_name(SPARE_NAME);
    // Until the child is started the guard shows this, too: what it writes there costs a copy of a page.
    process::set_title(&pen.titles.spare);
    let spare_pid = getpid();
    let guard = match fork_guard(pen) {
        Ok((spare, Side::Child)) => process::exit_now(be_guard(pen, relay, &spare, spare_pid)),
        Ok((_, Side::Parent(guard))) => guard,
        Err(error) => {
            pen.log.warn(format_args!("cannot start a guard: {error}{}; nothing was started", hint(&error)));
            pen.tree().dissolve();
            pen.tell(&Event::Empty);
            return OWN_FAILURE;
        }
    };
    pen.has_forked();
    leave_session();
    let mut settling = Settling::new(pen, true);
    let mut beyond = pen.beyond.as_slice();
    let waited = wait_for(guard, || {
        let signals = std::iter::once(pen.signals.as_fd());
        let all = signals.chain(beyond.iter().map(|handle| handle.as_fd())).map(|fd| (fd, Until::Readable));
        let fired = poll::wait(&all.collect::<Vec<_>>(), settling.timeout()).unwrap_or_default();
        settling.look();
        while matches!(pen.signals.next(), Ok(Some(_))) {}
        if fired.iter().skip(1).any(|fired| *fired) {
            pen.wake_host();
            beyond = &[]; // the end of a process is reported for ever
        }
    });
    match waited {
        Waited::Done(code) => code,
        Waited::Killed => {
            let mut keeper = Keeper::new(pen, pen.tree()).relay(relay);
            keeper.because(Reason::GuardKilled);
            keeper.keep()
        }
    }
}

fn fork_guard(pen: &Pen<'_>) -> io::Result<(Pidfd, Side)> {
    process::become_subreaper()?;
    let spare = Pidfd::of_self()?;
    if pen.spec.isolation == Isolation::Pid {
        namespace::enter_for_children().map_err(forbidden)?;
    }
    Ok((spare, process::fork()?))
}

fn forbidden(error: io::Error) -> io::Error {
    let why = namespace::why_forbidden(&error);
    io::Error::other(format!("no pid namespace for --isolate pid: {error}: {why}; leave --isolate out"))
}

/// Out of reach of signals that are meant for the group of the front or of the child. Fails only for the head of a
/// group, which a forked process is not.
fn leave_session() {
    process::setsid().ok();
}

/// How the wait for one of our own processes ended.
pub(crate) enum Waited {
    /// It has seen its tree empty and ended with this code.
    Done(u8),
    /// It was killed, or crashed: the kernel has handed its tree to the caller.
    Killed,
}

/// Waits until the guard, or the spare around it, has ended. `pause` returns when a child may have changed.
pub(crate) fn wait_for(inner: Pid, mut pause: impl FnMut()) -> Waited {
    loop {
        match reap() {
            Ok(Reaped::News(News::Ended(pid, Ended::Exited(code)))) if pid == inner => return Waited::Done(code),
            Ok(Reaped::News(News::Ended(pid, Ended::Killed(_)))) if pid == inner => return Waited::Killed,
            // A guard that is stopped cannot guard.
            Ok(Reaped::News(News::Stopped(pid, _))) if pid == inner => {
                send_to_own_child(pid, Signal::CONT).ok();
            }
            Ok(Reaped::News(_)) => {}
            Ok(Reaped::NoChildren) | Err(_) => return Waited::Killed,
            Ok(Reaped::Quiet) => pause(),
        }
    }
}

/// The guard, as a process of its own: forks the child and keeps its tree. Returns its exit code.
fn be_guard(pen: &Pen<'_>, relay: &Relay, spare: &Pidfd, spare_pid: Pid) -> u8 {
    process::set_name(NAME);
    announce_guard(pen, relay);
    let Started { child, gate, tree, outside, host_stat } = match fork_child(pen, spare_pid) {
        Ok(started) => started,
        Err(error) => {
            pen.log.warn(format_args!("cannot start the child: {error}{}", hint(&error)));
            pen.tree().dissolve();
            pen.tell(&Event::Empty);
            return OWN_FAILURE;
        }
    };
    pen.log.note(format_args!("guard {} keeps child {child} with {}", getpid(), tree.tier()));
    // Only now: the child was forked inside the host's session and stays in it.
    leave_session();
    // If the child is gone already, its end tells.
    (&gate).write_all(&[0]).ok();
    // Otherwise a look at it could block. The child has another open file.
    gate.set_nonblocking(true).ok();
    process::set_title(&pen.titles.guard);
    // Now: a child that ends at once is reaped before the witness is told.
    let child_identity = Identity::of(child);
    let started = move || {
        outside.unwrap_or_else(|| Event::Started {
            host: pen.host.identity(),
            spare: Identity::of(spare_pid),
            guard: Identity::of(getpid()),
            child: child_identity,
        })
    };
    let stdin = descriptors::standard_input();
    let mut keeper = Keeper::new(pen, tree)
        .child(child, started)
        .gate(&gate)
        .host_stat(host_stat)
        .settling(Settling::new(pen, false))
        .relay(relay)
        .watch(Source::Front, pen.front.as_fd())
        .watch(Source::Spare, spare.as_fd())
        .idle_after(pen.spec.idle_timeout)
        .await_ready();
    match pen.stdin {
        StdinKind::Pipe(_) | StdinKind::Socket(_) => keeper = keeper.watch(Source::Stdin, stdin),
        StdinKind::Terminal if !is_ignored(Signal::HUP) => {
            keeper = keeper.watch(Source::Terminal, stdin);
        }
        StdinKind::Terminal | StdinKind::Mute => {}
    }
    for (role, handle) in pen.host.handles() {
        keeper = keeper.watch(Source::Host(role), handle.as_fd());
    }
    for (pid, handle) in &pen.die_with {
        keeper = keeper.watch(Source::DieWith(*pid), handle.as_fd());
    }
    keeper.keep()
}

/// Sends the guard's pid to the front, which needs it if the spare is killed. This is the guard's first act: as long as the front has not
/// got the pid, and the guard's end of the relay is open, the front knows that a guard is on its way.
fn announce_guard(pen: &Pen<'_>, relay: &Relay) {
    let number = match pen.spec.isolation {
        Isolation::None => Some(getpid()),
        // In its own namespace every guard is the first.
        Isolation::Pid => process::number_in_proc(),
    };
    if let Some(number) = number {
        relay.send(Message::Guard(number));
    }
}

/// A child that waits at the gate.
struct Started<'a> {
    child: Pid,
    gate: UnixStream,
    tree: Tree<'a>,
    /// The pids that the rest of the machine sees, if this process sees others.
    outside: Option<Event>,
    /// What `/proc` tells of the host, if this process sees another `/proc` from now on.
    host_stat: Option<StatFile>,
}

/// Forks the child, which waits at the gate. In the child this does not return.
fn fork_child<'a>(pen: &'a Pen<'_>, spare: Pid) -> io::Result<Started<'a>> {
    process::become_subreaper()?;
    let mut tree = pen.tree();
    let (mut outside, mut host_stat) = (None, None);
    if pen.spec.isolation == Isolation::Pid {
        // As long as `/proc` is the machine's, it tells the numbers that the machine knows us by.
        let guard = process::number_in_proc().and_then(Identity::of);
        outside = Some(Event::Started { host: pen.host.identity(), spare: Identity::of(spare), guard, child: None });
        host_stat = pen.host.pid().and_then(StatFile::open);
        namespace::mount_own_proc().map_err(forbidden)?;
        tree = Tree::new(Tier::Namespace);
    }
    let guard = getpid();
    let (gate, child_gate) = UnixStream::pair()?;
    // A container's filter may forbid the call that starts a process inside a group; then there is no group.
    let into_group = pen.cgroup.as_ref().filter(|_| pen.spec.isolation == Isolation::None);
    let side = match into_group.map(process::fork_into) {
        Some(Ok(side)) => side,
        Some(Err(error)) => {
            pen.log.note(format_args!("no control group: {error}"));
            tree.dissolve();
            tree = Tree::new(Tier::Subreaper);
            process::fork()?
        }
        None => process::fork()?,
    };
    match side {
        Side::Child => {
            drop(gate);
            pen.plan.become_child(guard, child_gate, pen.ready.as_deref())
        }
        Side::Parent(child) => {
            pen.has_forked();
            Ok(Started { child, gate, tree, outside, host_stat })
        }
    }
}
