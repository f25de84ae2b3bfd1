//! Keeping a tree: waiting for a reason to end it, and then ending it. The guard does this from the start; spare
//! and front do it when those inside of them have been killed.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_sys::Pidfd;
use nostray_sys::poll::{self, Until};
use nostray_sys::proc::{Stat, describe, user_of};
use nostray_sys::process::{Ended, News, Pid, Reaped, getpid, raise_priority, reap};
use nostray_sys::signal::{Arrived, Signal, is_ignored, send_to_own_child};

use crate::guard::{Pen, Settling};
use crate::host::Host;
use crate::idle::{IdleWatch, Sample};
use crate::killing::{Came, Killing, Reaper};
use crate::relay::{Message, Next, Relay, Stops};
use crate::tear_down::{Action, Order, Reason, TearDown};
use crate::tree::Tree;
use crate::witness::Event;

/// Numbers that make a SIGTERM to a guard a request to stop its pen, with its graces or without.
pub(crate) const STOP: i32 = 0x7374_6f70;
pub(crate) const STOP_NOW: i32 = 0x7374_6f71;
/// Numbers for orders follow from here.
pub(crate) const ORDERS: i32 = 0x7374_6f80;

fn order(value: i32) -> Option<Order> {
    usize::try_from(value.checked_sub(ORDERS)?).ok().and_then(|at| Order::ALL.get(at)).copied()
}

/// Numbers that make a queued signal one that the host has sent to the process which opened this pen, and whether the kernel did.
const HANDED_ON: i32 = 0x7374_7000;
const BY_THE_KERNEL: i32 = 0x100;

/// How a signal is handed on.
pub(crate) fn handed_on(arrived: Arrived) -> i32 {
    HANDED_ON | arrived.signal.as_raw() | if arrived.from_kernel { BY_THE_KERNEL } else { 0 }
}

/// The signal that is for the pen, in its front. One that was opened by another process of ours takes the host's signals from
/// there alone: what the host sends to a whole group reaches both, and would count twice. (Nor could it be told by its sender from
/// one that is handed on: of two equal signals that wait, the kernel keeps the first one.)
pub(crate) fn for_the_pen(arrived: Arrived, opener: Option<Pid>) -> Option<Arrived> {
    let Some(opener) = opener else { return Some(arrived).filter(|arrived| is_for_the_pen(*arrived)) };
    match arrived.value {
        Some(value) if value & !0x1ff == HANDED_ON && arrived.sender == Some(opener) => {
            let signal = Signal::from_raw(value & 0xff)?;
            Some(Arrived { signal, from_kernel: value & BY_THE_KERNEL != 0, value: None, ..arrived })
        }
        Some(value) => Some(arrived).filter(|_| matches!(value, STOP | STOP_NOW) || order(value).is_some()),
        None => Some(arrived).filter(|arrived| arrived.signal == Signal::CONT && is_for_the_pen(*arrived)),
    }
}

/// Something that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Signals,
    Stdin,
    Terminal,
    Host,
    /// Whoever our host depends on.
    Beyond,
    Front,
    Spare,
    DieWith(u32),
    Relay,
}

/// Where the child is.
#[derive(Debug)]
enum Child {
    /// Somewhere in a tree that was taken over.
    Unknown,
    Alive(Pid),
    Ended(Ended),
}

/// The one who keeps the tree.
pub(crate) struct Keeper<'a> {
    pen: &'a Pen<'a>,
    relay: Option<&'a Relay>,
    front: Option<&'a Pidfd>,
    watches: Vec<(Source, BorrowedFd<'a>, Until)>,
    tree: Tree<'a>,
    tear_down: TearDown,
    child: Child,
    idle: Option<IdleWatch>,
    settling: Option<Settling<'a>>,
    continue_front_at: Option<Instant>,
    stops: Stops,
    killing: Killing,
}

impl<'a> Keeper<'a> {
    pub(crate) fn new(pen: &'a Pen<'a>, tree: Tree<'a>) -> Self {
        Self {
            pen,
            relay: None,
            front: None,
            watches: vec![(Source::Signals, pen.signals.as_fd(), Until::Readable)],
            tree,
            tear_down: TearDown::new(pen.spec.graces),
            child: Child::Unknown,
            idle: None,
            settling: None,
            continue_front_at: None,
            stops: 0,
            killing: Killing::default(),
        }
    }

    pub(crate) fn child(mut self, pid: Pid) -> Self {
        self.child = Child::Alive(pid);
        self
    }

    pub(crate) fn watch(mut self, source: Source, fd: BorrowedFd<'a>) -> Self {
        let until = match source {
            Source::Stdin | Source::Terminal => Until::HungUp,
            _ => Until::Readable,
        };
        self.watches.push((source, fd, until));
        self
    }

    pub(crate) fn relay(mut self, relay: &'a Relay, front: &'a Pidfd) -> Self {
        self.relay = Some(relay);
        self.front = Some(front);
        self.watch(Source::Relay, relay.as_fd())
    }

    pub(crate) fn settling(mut self, settling: Settling<'a>) -> Self {
        self.settling = Some(settling);
        self
    }

    pub(crate) fn idle_after(mut self, timeout: Option<Duration>) -> Self {
        self.idle = timeout.map(|timeout| IdleWatch::new(timeout, Instant::now()));
        self
    }

    /// Keeps the tree until it is empty, and returns the exit code.
    pub(crate) fn keep(self) -> u8 {
        self.keep_and(|| ())
    }

    /// The same, with something to be said before the story ends.
    pub(crate) fn keep_and(mut self, last_words: impl FnOnce()) -> u8 {
        while self.look_after_children() {
            self.act_on_time();
            if self.tear_down.is_killing() && !self.kill() {
                break;
            }
            let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let events: Vec<_> = self.watches.iter().map(|&(_, fd, until)| (fd, until)).collect();
            let came = poll::wait(&events, timeout).unwrap_or_default();
            let sources: Vec<_> =
                self.watches.iter().zip(came).filter(|(_, came)| *came).map(|((source, ..), _)| *source).collect();
            for source in sources {
                // One event may have taken care of another.
                if self.watches.iter().any(|(watched, ..)| *watched == source) {
                    self.on_event(source);
                }
            }
        }
        self.tree.dissolve();
        last_words();
        self.pen.tell(&Event::Empty);
        if let Some(front) = self.front {
            // One that was stopped together with its child would never learn that it is all over.
            front.send(Signal::CONT).ok();
        }
        match self.child {
            Child::Ended(how) => how.shell_code(),
            Child::Alive(_) | Child::Unknown => crate::OWN_FAILURE,
        }
    }

    /// Reaps whoever has ended. False when nobody is left.
    fn look_after_children(&mut self) -> bool {
        loop {
            match reap() {
                Ok(Reaped::News(news)) => self.on_news(news),
                Ok(Reaped::Quiet) => break,
                Ok(Reaped::Nobody) => return false,
                Err(error) => {
                    self.pen.voice.warn(format_args!("cannot wait for the child: {error}"));
                    return false;
                }
            }
        }
        if self.tree.has_only_strangers() {
            return false;
        }
        if matches!(self.child, Child::Ended(_)) && !self.tear_down.has_begun() {
            self.because(Reason::ChildEnded);
        }
        true
    }

    fn on_news(&mut self, news: News) {
        let Child::Alive(child) = self.child else { return };
        match news {
            News::Ended(pid, how) if pid == child => {
                self.pen.voice.note(format_args!("child {pid} {how}"));
                self.child = Child::Ended(how);
                self.pen.tell(&Event::ChildEnded(how));
                if self.tear_down.has_begun() {
                    self.because(Reason::ChildEnded);
                }
            }
            News::Stopped(pid, by) if pid == child && !self.tear_down.has_begun() => {
                self.continue_front_at = None;
                self.stops = self.stops.wrapping_add(1);
                if let Some(relay) = self.relay {
                    relay.send(Message::Stopped(by, self.stops));
                }
            }
            News::Continued(pid) if pid == child => self.continue_front(true),
            _ => {}
        }
    }

    /// Lets a front go on that was stopped with the child. It may be just about to stop, and then misses it, so it is told
    /// once more.
    fn continue_front(&mut self, again: bool) {
        if let (Some(relay), Some(front)) = (self.relay, self.front) {
            relay.send(Message::Continued);
            front.send(Signal::CONT).ok();
            self.continue_front_at = again.then(|| Instant::now() + Duration::from_millis(100));
        }
    }

    fn on_event(&mut self, source: Source) {
        match source {
            Source::Signals => {
                while let Ok(Some(arrived)) = self.pen.signals.next() {
                    // Without a relay this is the front itself.
                    let is_front = self.relay.is_none();
                    let opener = self.pen.opener.filter(|_| is_front);
                    if let Some(arrived) = for_the_pen(arrived, opener) {
                        self.on_signal(arrived, is_front);
                    }
                }
                return;
            }
            Source::Relay => {
                if self.read_relay() {
                    return;
                }
            }
            Source::Stdin => self.because(Reason::StdinClosed),
            Source::Terminal => self.because(Reason::TerminalClosed),
            Source::Host => self.when_somebody_died(Reason::HostGone),
            Source::Beyond => self.wake_host(),
            Source::Front => self.when_somebody_died(Reason::FrontKilled),
            Source::Spare => self.when_somebody_died(Reason::SpareKilled),
            Source::DieWith(pid) => self.when_somebody_died(Reason::DieWithEnded(pid)),
        }
        // Each of these happens once and would be reported for ever.
        self.watches.retain(|(watched, ..)| *watched != source);
    }

    /// Our host is one of ours, and it is over for it: it ends the child's input, and all that follows is as with any host. But
    /// one that was stopped would do nothing for ever.
    fn wake_host(&self) {
        if let Host::Alive(_, handle) = &self.pen.host {
            handle.send(Signal::CONT).ok();
        }
    }

    /// False when no message will ever come again.
    fn read_relay(&mut self) -> bool {
        while let Some(relay) = self.relay {
            match relay.next() {
                // A shell continues the whole group, so the child goes on before we are told; if it has been stopped again
                // since, that word was not for this stop.
                Next::Message(Message::Signal(arrived, stops))
                    if arrived.signal == Signal::CONT && stops != self.stops => {}
                Next::Message(Message::Signal(arrived, _)) => self.on_signal(arrived, true),
                Next::Message(_) => {}
                Next::Nothing => return true,
                Next::Closed => break,
            }
        }
        false
    }

    /// A process closes its files before its end can be seen, so if it was the host, the end of the child's input
    /// has come by now; but perhaps after we looked.
    fn when_somebody_died(&mut self, reason: Reason) {
        let stdin: Vec<_> =
            self.watches.iter().filter(|w| w.0 == Source::Stdin).map(|&(_, fd, until)| (fd, until)).collect();
        if poll::wait(&stdin, Some(Duration::ZERO)).is_ok_and(|came| came.contains(&true)) {
            self.on_event(Source::Stdin);
        }
        self.because(reason);
    }

    fn on_signal(&mut self, arrived: Arrived, for_front: bool) {
        let Arrived { signal, sender, from_kernel, value } = arrived;
        match signal {
            Signal::TERM if value == Some(STOP) => self.because(Reason::StopRequest { sender, now: false }),
            Signal::TERM if value == Some(STOP_NOW) => self.because(Reason::StopRequest { sender, now: true }),
            Signal::TERM if value.and_then(order).is_some() => {
                self.because(Reason::Ordered(value.and_then(order).unwrap_or(Order::Hibernate)));
            }
            Signal::HUP if from_kernel && !is_ignored(signal) => self.because(Reason::TerminalClosed),
            Signal::TERM | Signal::INT | Signal::QUIT | Signal::HUP if !is_ignored(signal) => {
                self.because(Reason::Signal { signal, sender, for_front });
            }
            _ => self.deliver(signal),
        }
    }

    fn deliver(&self, signal: Signal) {
        if let Child::Alive(pid) = self.child {
            // It has not been reaped, so the number is still its own.
            send_to_own_child(pid, signal).ok();
        }
    }

    pub(crate) fn because(&mut self, reason: Reason) {
        match &reason {
            Reason::Idle(_) | Reason::GuardKilled => {
                self.pen.voice.warn(format_args!("{reason}; ending the tree"));
            }
            // The first reason is why it ends; that the child then did is not another one.
            Reason::ChildEnded if self.tear_down.has_begun() => {}
            _ => self.pen.voice.note(format_args!("{reason}")),
        }
        let begins = !self.tear_down.has_begun();
        let action = self.tear_down.because(&reason, Instant::now());
        self.perform(action);
        if begins {
            self.pen.tell(&Event::Stopping(reason));
        }
    }

    fn perform(&mut self, action: Option<Action>) {
        match action {
            None => {}
            Some(Action::Deliver(signal)) => {
                self.pen.voice.note(format_args!("{signal} to the child"));
                self.deliver(signal);
                self.deliver(Signal::CONT);
            }
            Some(Action::Terminate) => {
                self.pen.voice.note("SIGTERM to the whole tree");
                raise_priority();
                self.tree.terminate();
            }
            Some(Action::Kill) => {
                self.pen.voice.note("SIGKILL to the whole tree");
                self.pen.tell(&Event::Killing(self.tree.members().len()));
                raise_priority();
                self.killing.begin(&self.tree, Instant::now());
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let killing = self.tear_down.is_killing().then(|| self.killing.next()).flatten();
        let idle = self.idle.as_ref().filter(|_| !self.tear_down.has_begun()).map(IdleWatch::deadline);
        let settling = self.settling.as_ref().and_then(Settling::deadline);
        [self.tear_down.deadline(), killing, idle, settling, self.continue_front_at].into_iter().flatten().min()
    }

    fn act_on_time(&mut self) {
        // A grace of zero makes two steps due at once.
        while let Some(action) = self.tear_down.tick(Instant::now()) {
            self.perform(Some(action));
        }
        if let Some(settling) = &mut self.settling {
            settling.look();
        }
        if self.continue_front_at.is_some_and(|at| at <= Instant::now()) {
            self.continue_front(false);
        }
        let now = Instant::now();
        if let Some(idle) = &mut self.idle
            && !self.tear_down.has_begun()
            && idle.deadline() <= now
            && idle.is_idle(Sample::of(&self.tree.members()), now)
        {
            let timeout = idle.timeout();
            self.because(Reason::Idle(timeout));
        }
    }

    /// Kills whoever is left. False when there is nothing more that could be done.
    fn kill(&mut self) -> bool {
        let mut killing = std::mem::take(&mut self.killing);
        let round = killing.round(self);
        self.killing = killing;
        match round {
            Came::Nothing => {}
            Came::Slow => {
                for stat in self.tree.members() {
                    self.pen.voice.warn(does_not_die(&stat));
                }
            }
            Came::Refused(refused) => {
                for refused in &refused {
                    self.pen.voice.warn(could_not_signal(refused.pid));
                }
                self.pen.tell(&Event::Refused(refused));
                return false;
            }
        }
        true
    }
}

impl<'a> Reaper<'a> for Keeper<'a> {
    fn tree(&mut self) -> &mut Tree<'a> {
        &mut self.tree
    }

    fn reap(&mut self) -> bool {
        self.look_after_children()
    }
}

/// Whether a signal that came for one of our own processes is meant for the pen. A key on the terminal signals the whole
/// foreground group: the child has got it too, and decides by itself. The hang-up of the terminal is for us as well. And
/// what comes from this very process is its own: SIGPIPE, from a word that nobody wanted to hear, or SIGXFSZ, from one for
/// which there was no room.
pub(crate) fn is_for_the_pen(arrived: Arrived) -> bool {
    match arrived.signal {
        _ if arrived.sender == Some(getpid()) => false,
        Signal::CHLD | Signal::PIPE | Signal::TTIN | Signal::TTOU => false,
        Signal::HUP => true,
        _ => !arrived.from_kernel,
    }
}

pub(crate) fn could_not_signal(pid: Pid) -> String {
    let user = user_of(pid).map_or_else(String::new, |uid| format!(" of user {uid}"));
    format!(
        "process {pid}{user} ({}) may not be signalled by this user and was left running; \
         end it as its owner, or with sudo",
        describe(pid)
    )
}

pub(crate) fn does_not_die(stat: &Stat) -> String {
    let why = if stat.is_uninterruptible() { ", it waits for a device or a network file system" } else { "" };
    format!("process {} ({}) was killed and has not ended yet{why}; waiting", stat.pid, describe(stat.pid))
}
