//! The front: what the host started. It sets the pen up, hands signals on to the guard, and ends when the guard
//! does, with the child's exit code. If spare and guard have both been killed, it ends the tree itself.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_sys::cgroup::Cgroup;
use nostray_sys::descriptors::{self, Inherited, StdinKind};
use nostray_sys::exec::Program;
use nostray_sys::poll::Until;
use nostray_sys::proc::Stat;
use nostray_sys::process::{self, Pid, Side, getpid};
use nostray_sys::signal::{self, Disposition, Signal, SignalFd, SignalSet};
use nostray_sys::{Pidfd, memory, poll};

use crate::child::{Place, Plan};
use crate::guard::{self, Pen, Settling, Titles, Waited, be_spare, wait_for};
use crate::host::Host;
use crate::keep::Keeper;
use crate::log::Log;
use crate::mark::{self, PenId};
use crate::ready::Detector;
use crate::reason::Reason;
use crate::relay::{Message, Next, Relay, Stops};
use crate::requests;
use crate::tree::{Strangers, Tier, Tree};
use crate::witness::{Event, Objection, Opening, Witness};
use crate::{During, Error, Isolation, Spec};

/// What the host gave to the process that it started, and what the child is to get of it.
#[derive(Debug, Clone)]
pub(crate) struct HostSetup {
    pub(crate) inherited: Inherited,
    pub(crate) stdin: StdinKind,
    mask: SignalSet,
    sigchld_ignored: bool,
    place: Place,
}

impl HostSetup {
    /// Takes stock, before anything else is opened, and sees that there is room for so many files more: where there is not, nothing has
    /// been made yet that could be left. From here on signals are blocked.
    pub(crate) fn take(needed: u64) -> Result<Self, Error> {
        // Numbers from a `/proc` of another pid namespace would name strangers here.
        if process::number_in_proc().is_some_and(|number| number != getpid()) {
            return Err(Error::ForeignProc);
        }
        let mut inherited = Inherited::take().during("list the open files")?;
        crate::has_room(inherited.room(), needed)?;
        let stdin = descriptors::stdin_kind();
        inherited.close_own_stdin_writers(stdin);
        // A host that ignores SIGCHLD has its children vanish unseen; ours must not.
        let sigchld_ignored = signal::is_ignored(Signal::CHLD);
        signal::set_disposition(Signal::CHLD, Disposition::Default).during("watch for the child's end")?;
        let mask = signals_to_watch().set_as_mask().during("block signals")?;
        Ok(Self { inherited, stdin, mask, sigchld_ignored, place: Place::mirrored() })
    }

    /// Finds the host, and sees that there is room for a handle on each launcher, beside so many files more.
    pub(crate) fn find_host(&self, needed: u64) -> Result<Host, Error> {
        let host = Host::find(self.stdin)?;
        crate::has_room(self.inherited.room(), needed + host.launchers())?;
        Ok(host)
    }
}

pub(crate) fn run(spec: &Spec, id: PenId, witness: Box<dyn Witness>) -> Result<u8, Error> {
    open(spec, id, HostSetup::take(MAX_OPEN_FILES)?, None, witness)
}

/// The most file descriptors that a front, a spare or a guard opens, without what some options need.
const MAX_OPEN_FILES: u64 = 14;

/// The process that has opened a pen, if it is a pen opener of ours and not the host itself.
pub(crate) struct OpenedBy<'a> {
    /// A handle on it, which it has made before it forked.
    pub(crate) handle: Pidfd,
    pub(crate) pid: Pid,
    /// Processes whose end the opener must learn of.
    pub(crate) ends: Vec<&'a Pidfd>,
}

pub(crate) fn open(
    spec: &Spec,
    id: PenId,
    setup: HostSetup,
    opener: Option<OpenedBy<'_>>,
    mut witness: Box<dyn Witness>,
) -> Result<u8, Error> {
    let following = match &opener {
        None => Following::Always,
        Some(_) if process::has_terminal() => Following::Keys,
        Some(_) => Following::Never,
    };
    let opened_by = opener.as_ref().map(|opener| opener.pid);
    let (host, beyond) = match opener {
        Some(OpenedBy { handle, pid, ends }) => (Host::opener(pid, handle)?, ends),
        None => (setup.find_host(MAX_OPEN_FILES)?, Vec::new()),
    };
    let HostSetup { inherited, stdin, mask, sigchld_ignored, place } = setup;
    let signals = SignalFd::new(&signals_to_watch()).during("watch for signals")?;
    let log = Log::open(spec, id.clone())?;
    let program = Program::new(spec.command.iter().cloned());
    let program = match &spec.argv0 {
        Some(name) => program.and_then(|program| program.called(name)),
        None => program,
    };
    let program = program.map_err(Error::Command)?;
    let die_with = watch_all(&spec.die_with)?;
    let mut ready = Detector::prepare(&spec.ready, &id)?.map(Box::new);
    // Once the control group exists, a failure has something to clean up. So all that may fail comes before it, but for the forks.
    let front = Pidfd::of_self().during("make a handle on the front")?;
    let (relay, guards_end) = Relay::pair().during("connect front and guard")?;
    process::become_subreaper().during("become a subreaper")?;
    let strangers = Strangers::of_this_process(id.clone());
    let cgroup = group_for(spec, &id, &log);
    let tier = match spec.isolation {
        Isolation::Pid => Tier::Namespace,
        Isolation::None => cgroup.as_ref().map_or(Tier::Subreaper, Tier::Cgroup),
    };
    let opening = Opening { id: &id, spec, tier: tier.word(), cgroup: cgroup.as_ref().map(Cgroup::path) };
    match witness.opens(&opening) {
        Ok(()) => {}
        Err(Objection::Warning(why)) => {
            log.warn(format_args!("this child is contained, but not on record: {why}"));
        }
        Err(Objection::Refusal(why)) => {
            Tree::new(tier).dissolve();
            return Err(Error::Refused(why));
        }
    }
    if let Some(ready) = &mut ready {
        ready.take_stock();
    }
    let told = ready.as_deref().and_then(Detector::variable);
    let titles = Titles::of(&id);
    let limit = mark::limit_of(&id);
    let plan = Plan { program: mark::marked(program, &id, told), place, mask, sigchld_ignored, limit, id };
    let witness = RefCell::new(witness);
    // Never dropped: the process ends with the pen, and the kernel closes its files faster.
    let pen = ManuallyDrop::new(Pen {
        spec,
        plan,
        titles,
        log,
        signals,
        inherited,
        stdin,
        host,
        opener: opened_by,
        beyond,
        die_with,
        front,
        cgroup,
        witness,
        ready,
    });

    let spare = match process::fork().during("start a guard") {
        Ok(Side::Child) => {
            drop(relay);
            process::exit_now(be_spare(&pen, &guards_end));
        }
        Ok(Side::Parent(spare)) => spare,
        Err(error) => {
            pen.tree().dissolve();
            pen.tell(&Event::Empty);
            return Err(error);
        }
    };
    drop(guards_end);
    pen.has_forked();
    let settling = Settling::new(&pen, true);
    let mut front = Front {
        signals: &pen.signals,
        relay,
        relay_open: true,
        guard: None,
        settling,
        stops: 0,
        to_follow: None,
        has_stopped: false,
        following,
    };
    if let Waited::Done(code) = front.wait(spare) {
        return Ok(code);
    }
    let mut keeper = Keeper::new(&pen, pen.tree().without(strangers));
    keeper.because(Reason::GuardKilled);
    Ok(keeper.keep())
}

/// All signals that can be caught, except those that report a fault in this program.
pub(crate) fn signals_to_watch() -> SignalSet {
    let faults = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE, Signal::TRAP, Signal::ABRT, Signal::SYS];
    faults.into_iter().fold(SignalSet::full(), SignalSet::without)
}

/// Opens a handle on each process that the user named with `--die-with`.
pub(crate) fn watch_all(numbers: &[u32]) -> Result<Vec<(u32, Pidfd)>, Error> {
    let watch = |&pid: &u32| Ok((pid, Pidfd::of_user(pid).map_err(|why| Error::DieWith { pid, why })?.1));
    numbers.iter().map(watch).collect()
}

fn group_for(spec: &Spec, id: &PenId, log: &Log) -> Option<Cgroup> {
    if spec.isolation == Isolation::Pid {
        return None; // the namespace is killed in one step, too
    }
    Cgroup::create(&id.group()).map_err(|why| log.note(format_args!("no control group: {why}"))).ok()
}

/// How long a guard may take to send its pid, which is its first act.
const GUARD_ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(5);

struct Front<'a> {
    signals: &'a SignalFd,
    relay: Relay,
    relay_open: bool,
    guard: Option<Pid>,
    settling: Settling<'a>,
    /// How many stops of the child the front has heard of.
    stops: Stops,
    /// The signal of the last stop, while it lasts and the front has not followed it yet.
    to_follow: Option<Signal>,
    /// The front has followed a stop, and has not heard of its end yet.
    has_stopped: bool,
    following: Following,
}

/// Whether the front stops with its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Following {
    /// A shell may wait for it.
    Always,
    /// A shell may wait for the opener of the pen, and stops the whole job. A SIGSTOP to the child alone is meant for the child alone.
    Keys,
    /// No shell waits for it.
    Never,
}

impl Following {
    fn includes(self, by: Signal) -> bool {
        match self {
            Self::Always => true,
            Self::Keys => by != Signal::STOP,
            Self::Never => false,
        }
    }
}

impl Front<'_> {
    /// Waits for the pen to end. When the spare alone is killed, the guard becomes our own child.
    fn wait(&mut self, spare: Pid) -> Waited {
        match wait_for(spare, || self.pause()) {
            Waited::Killed => match self.orphaned_guard() {
                Some(guard) => wait_for(guard, || self.pause()),
                None => Waited::Killed,
            },
            done @ Waited::Done(_) => done,
        }
    }

    /// The guard, if it has outlived its spare. **As long as the guard lives, no other process ends the tree**: a front that did would end
    /// the guard as well, and would be the last keeper of what is left.
    fn orphaned_guard(&mut self) -> Option<Pid> {
        let until = Instant::now() + GUARD_ANNOUNCEMENT_TIMEOUT;
        loop {
            self.read_messages();
            let left = until.saturating_duration_since(Instant::now());
            if self.guard.is_some() || !self.relay_open || left.is_zero() {
                break;
            }
            poll::wait(&[(self.relay.as_fd(), Until::Readable)], Some(left)).ok();
        }
        // With the end of its parent it became our child, and keeps its number until we reap it.
        let is_ours = |stat: Stat| stat.parent == Some(getpid()) && stat.name == guard::NAME;
        self.guard.filter(|guard| Stat::of(*guard).is_some_and(is_ours))
    }

    fn pause(&mut self) {
        let mut events = vec![(self.signals.as_fd(), Until::Readable)];
        // Not while the child is starting: the guard's first message would wake the front, which takes a processor from the child. The front
        // reads all messages when it has settled, a moment later.
        if self.relay_open && self.settling.deadline().is_none() {
            events.push((self.relay.as_fd(), Until::Readable));
        }
        if self.relay_open && self.settling.deadline().is_none() {
            // A wake-up since then (a helper that ended, a late message of the start) took pages. The front is hardly ever woken. When the
            // guard has ended, what the front does next is to end, for which it needs these pages.
            memory::release_program_pages_at_next_wait();
        }
        poll::wait(&events, self.settling.timeout()).ok();
        if self.settling.is_due() {
            // Before memory is given back: this needs it.
            self.settling.pen().witness.borrow_mut().settled();
        }
        self.settling.look();
        while let Ok(Some(arrived)) = self.signals.next() {
            let opener = self.settling.pen().opener;
            if let Some(arrived) = requests::for_the_pen(arrived, opener) {
                self.relay.send(Message::Signal(arrived, self.stops));
            }
        }
        self.read_messages();
        while let Some(by) = self.to_follow.take().filter(|by| self.following.includes(*by)) {
            self.has_stopped = true;
            stop_unless(by, || self.read_messages());
        }
    }

    /// Reads the guard's messages. Returns whether one was about stops.
    fn read_messages(&mut self) -> bool {
        let mut has_news = false;
        while self.relay_open {
            let stopped = match self.relay.next() {
                Next::Message(Message::Stopped(by, stops)) => {
                    self.stops = stops;
                    Some(by)
                }
                Next::Message(Message::Continued(stops)) => {
                    self.relay.send(Message::Runs(stops));
                    self.wake_opener();
                    None
                }
                Next::Message(Message::Guard(pid)) => {
                    self.guard = Some(pid);
                    continue;
                }
                Next::Message(Message::Signal(..) | Message::Runs(_)) => continue,
                Next::Nothing => break,
                Next::Closed => {
                    // No process is left that would continue this one.
                    self.relay_open = false;
                    self.wake_opener();
                    None
                }
            };
            self.to_follow = stopped;
            has_news = true;
        }
        has_news
    }

    /// The opener of this pen stops with its front. No shell continues the opener when the child continues by itself, so the front does.
    fn wake_opener(&mut self) {
        let pen = self.settling.pen();
        if std::mem::take(&mut self.has_stopped)
            && pen.opener.is_some()
            && let Some(opener) = pen.host.handle()
        {
            opener.send(Signal::CONT).ok();
        }
    }
}

/// Stops this process by the signal that stopped the child, so that the shell which waits for it sees a stopped job. `is_over` says
/// whether the reason is gone. The shell or the guard continues the process.
pub(crate) fn stop_unless(by: Signal, is_over: impl FnOnce() -> bool) {
    // Sent while it is still blocked: the key may have left a pending stop signal as well, and of two equal pending signals the kernel
    // keeps one. Sent later, it would stop the front again when the shell has just continued its job.
    signal::send_to_self(by).ok();
    // Checked now: a SIGCONT that comes later discards the pending stop, and the reason of an earlier SIGCONT was sent before it, so it
    // is seen here. (SIGSTOP cannot be blocked. There the guard repeats its message until the front has answered.)
    if is_over() {
        signal::send_to_self(Signal::CONT).ok();
    } else if let Ok(mask) = signals_to_watch().without(by).set_as_mask() {
        mask.set_as_mask().ok();
    }
}
