//! The front: what the host started. It sets the pen up, hands signals on to the guard, and ends when the guard
//! does, with the child's exit code. If everybody inside has been killed, it ends the tree itself.

use std::cell::RefCell;
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
use crate::guard::{self, Pen, Settling, Waited, be_spare, wait_for};
use crate::host::{self, Host};
use crate::keep::Keeper;
use crate::mark::PenId;
use crate::ready::Means;
use crate::reason::Reason;
use crate::relay::{Message, Next, Relay, Stops};
use crate::requests;
use crate::tree::{Strangers, Tier, Tree};
use crate::voice::Voice;
use crate::witness::{Event, Objection, Opening, Witness};
use crate::{During, Error, Isolation, Spec};

/// What the host gave to the process that it started, and what the child is to get of it.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) inherited: Inherited,
    pub(crate) stdin: StdinKind,
    mask: SignalSet,
    sigchld_ignored: bool,
    place: Place,
}

impl Given {
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
}

pub(crate) fn run(spec: &Spec, id: PenId, witness: Box<dyn Witness>) -> Result<u8, Error> {
    open(spec, id, Given::take(FILES)?, None, witness)
}

/// So many files a front, a spare or a guard opens at most, without what some options need.
const FILES: u64 = 14;

/// Who has opened a pen, if it is a process of ours and not the host itself.
pub(crate) struct OpenedBy<'a> {
    /// A handle on it, which it has made before it forked.
    pub(crate) handle: Pidfd,
    pub(crate) pid: Pid,
    /// Those whose end it must hear of.
    pub(crate) ends: Vec<&'a Pidfd>,
}

pub(crate) fn open(
    spec: &Spec,
    id: PenId,
    given: Given,
    opener: Option<OpenedBy<'_>>,
    mut witness: Box<dyn Witness>,
) -> Result<u8, Error> {
    let Given { inherited, stdin, mask, sigchld_ignored, place } = given;
    let signals = SignalFd::new(&signals_to_watch()).during("watch for signals")?;
    let voice = Voice::open(spec, id.clone())?;
    let following = match &opener {
        None => Following::Always,
        Some(_) if process::has_terminal() => Following::Keys,
        Some(_) => Following::Never,
    };
    let opened_by = opener.as_ref().map(|opener| opener.pid);
    let (host, beyond) = match opener {
        Some(OpenedBy { handle, pid, ends }) => (Host::Alive(pid, host::unless_ended(handle)?), ends),
        None => (host::find(stdin)?, Vec::new()),
    };
    let program = Program::new(spec.command.iter().cloned()).map_err(Error::Command)?;
    let die_with = watch_all(&spec.die_with)?;
    let mut ready = Means::prepare(&spec.ready, &id)?.map(Box::new);
    // From the group on, whatever fails has something to clean up. So all that may fail comes before it, but for the forks.
    let front = Pidfd::of_self().during("make a handle on the front")?;
    let (relay, guards_end) = Relay::pair().during("connect front and guard")?;
    process::become_subreaper().during("become a subreaper")?;
    let strangers = Strangers::of_this_process(id.clone());
    let cgroup = group_for(spec, &id, &voice);
    let tier = match spec.isolation {
        Isolation::Pid => Tier::Namespace,
        Isolation::None => cgroup.as_ref().map_or(Tier::Subreaper, Tier::Cgroup),
    };
    let opening = Opening { id: &id, spec, tier: tier.word(), cgroup: cgroup.as_ref().map(Cgroup::path) };
    match witness.opens(&opening) {
        Ok(()) => {}
        Err(Objection::Warning(why)) => {
            voice.warn(format_args!("this child is contained, but not on record: {why}"));
        }
        Err(Objection::Refusal(why)) => {
            Tree::new(tier).dissolve();
            return Err(Error::Refused(why));
        }
    }
    if let Some(ready) = &mut ready {
        ready.take_stock();
    }
    let plan = Plan { program, place, mask, sigchld_ignored, id };
    let witness = RefCell::new(witness);
    let pen = Pen {
        spec,
        plan,
        voice,
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
    };

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

/// All that can be caught, but for those that tell of a fault in this very program.
pub(crate) fn signals_to_watch() -> SignalSet {
    let faults = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE, Signal::TRAP, Signal::ABRT, Signal::SYS];
    faults.into_iter().fold(SignalSet::full(), SignalSet::without)
}

/// Handles on the processes that a user has named.
pub(crate) fn watch_all(numbers: &[u32]) -> Result<Vec<(u32, Pidfd)>, Error> {
    numbers.iter().map(|&pid| Ok((pid, watch_by_number(pid)?))).collect()
}

fn watch_by_number(number: u32) -> Result<Pidfd, Error> {
    let wrong = |why: &str| Error::DieWith { pid: number, why: why.to_owned() };
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or_else(|| wrong("not a process number"))?;
    let handle = Pidfd::open(pid).map_err(|error| match error.raw_os_error() {
        Some(3) => wrong("there is no such process (it may have ended already)"),
        Some(2 | 22) => wrong("that is a thread, not a process"),
        _ => wrong(&error.to_string()),
    })?;
    match handle.has_ended() {
        Ok(false) => Ok(handle),
        Ok(true) => Err(wrong("it has ended already")),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

fn group_for(spec: &Spec, id: &PenId, voice: &Voice) -> Option<Cgroup> {
    if spec.isolation == Isolation::Pid {
        return None; // the namespace is killed in one step, too
    }
    Cgroup::create(&id.group()).map_err(|why| voice.note(format_args!("no control group: {why}"))).ok()
}

/// How long a guard may take to say who it is, which is the first thing that it does.
const INTRODUCTION: Duration = Duration::from_secs(5);

struct Front<'a> {
    signals: &'a SignalFd,
    relay: Relay,
    relay_open: bool,
    guard: Option<Pid>,
    settling: Settling<'a>,
    /// How many stops of the child we have heard of.
    stops: Stops,
    /// What the last one was by, if it lasts and we have not followed it yet.
    to_follow: Option<Signal>,
    /// We have followed one, and have not heard of its end yet.
    has_stopped: bool,
    following: Following,
}

/// Whether the front stops with its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Following {
    /// A shell may wait for it.
    Always,
    /// A shell may wait for the one who has opened the pen, and stops the whole job. Whoever stops the child alone wants the
    /// child to be stopped and nobody else.
    Keys,
    /// Nobody waits for it.
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

    /// The guard, if it has outlived its spare. **As long as there is one, nobody but it ends the tree**: whoever else did would end
    /// the guard as well, and be the last one who keeps what is left.
    fn orphaned_guard(&mut self) -> Option<Pid> {
        let until = Instant::now() + INTRODUCTION;
        loop {
            self.hear();
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
        if self.relay_open {
            events.push((self.relay.as_fd(), Until::Readable));
        }
        if self.settling.deadline().is_none() {
            // Whatever woke it since (a helper that ended, a late word of the start) took pages, and it is hardly ever woken.
            memory::release_program_pages_at_next_wait();
        }
        poll::wait(&events, self.settling.timeout()).ok();
        if self.settling.is_due() {
            // Before the memory is given back that this needs.
            self.settling.pen().witness.borrow_mut().settled();
        }
        self.settling.look();
        while let Ok(Some(arrived)) = self.signals.next() {
            let opener = self.settling.pen().opener;
            if let Some(arrived) = requests::for_the_pen(arrived, opener) {
                self.relay.send(Message::Signal(arrived, self.stops));
            }
        }
        self.hear();
        while let Some(by) = self.to_follow.take().filter(|by| self.following.includes(*by)) {
            self.has_stopped = true;
            stop_unless(by, || self.hear());
        }
    }

    /// Hears what the guard has said. Returns whether it was about stops.
    fn hear(&mut self) -> bool {
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
                    // No process is left that would let us go on.
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

    /// A process of ours that opened this pen stops when we do. No shell tells it to go on when the child does so by itself.
    fn wake_opener(&mut self) {
        let pen = self.settling.pen();
        if std::mem::take(&mut self.has_stopped)
            && pen.opener.is_some()
            && let Host::Alive(_, opener) = &pen.host
        {
            opener.send(Signal::CONT).ok();
        }
    }
}

/// Stops this process by the signal that stopped the child, so that a shell which waits for us sees a stopped job. `is_over` says whether
/// the reason to is gone. Continues when the shell or the guard says so.
pub(crate) fn stop_unless(by: Signal, is_over: impl FnOnce() -> bool) {
    // Before it is let through: the key may have left one for us, too, and of two that wait there is only one stop. After it, the
    // second one would stop us once more when the shell has just continued its job.
    signal::send_to_self(by).ok();
    // Looked at now: a SIGCONT that comes after this look takes back the stop that waits, and before an earlier SIGCONT its reason
    // was sent, so it is seen here. (SIGSTOP does not wait. There the guard says it again until we have answered.)
    if is_over() {
        signal::send_to_self(Signal::CONT).ok();
    } else if let Ok(mask) = signals_to_watch().without(by).set_as_mask() {
        mask.set_as_mask().ok();
    }
}
