//! The event loop of the process that keeps a tree: it waits for a reason to end the tree, and then ends it. The guard runs it from the
//! start; spare or front run it when the guard has been killed.

mod first_cause;
mod job_control;
mod readiness;
mod rest;
mod start;

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nostray_sys::cgroup::Cgroup;
use nostray_sys::identity::Identity;
use nostray_sys::poll::{self, Until};
use nostray_sys::proc::StatFile;
use nostray_sys::process::{Ended, News, Pid, Reaped, raise_priority, reap};
use nostray_sys::signal::{Arrived, Signal, is_ignored, send_to_own_child};

use crate::Isolation;
use crate::activity::activity;
use crate::guard::{Pen, Settling};
use crate::idle::{IdleWatch, Sample};
use crate::killing::{Killing, Reaper, RoundOutcome, could_not_signal, does_not_die};
use crate::ready::{Readiness, Stream};
use crate::reason::Reason;
use crate::reason::Role;
use crate::relay::{Message, Relay, Stops};
use crate::requests::{SPARE_GONE, asked, for_the_pen, ordered};
use crate::tear_down::{Action, TearDown};
use crate::tree::Tree;
use crate::witness::Event;
use job_control::FIRST_PAUSE;
use readiness::without_own;
use rest::RestSearch;

/// Something that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Signals,
    Stdin,
    Terminal,
    /// The host, or a launcher by which it started the front.
    Host(Role),
    Front,
    Spare,
    DieWith(u32),
    Relay,
    /// Where the child waits before it becomes its program.
    Gate,
    /// What tells that the child is ready.
    Ready(Stream),
}

/// A tree that takes longer than this to end is worth a record that says so. Replacing a record may wait for the disk, and a tree of a
/// thousand processes that end by themselves is gone by then.
const A_MOMENT: Duration = Duration::from_millis(100);

/// Where the child is.
#[derive(Debug)]
enum Child {
    /// Somewhere in a tree that was taken over.
    Unknown,
    Alive(Pid),
    Ended(Ended),
}

/// The process that keeps the tree.
pub(crate) struct Keeper<'a> {
    pen: &'a Pen<'a>,
    relay: Option<&'a Relay>,
    watches: Vec<(Source, BorrowedFd<'a>, Until)>,
    tree: Tree<'a>,
    tear_down: TearDown,
    child: Child,
    /// The start of the child, until the witness is told of it.
    untold: Option<Box<dyn FnOnce() -> Event + 'a>>,
    /// Until it is known whether the child has become its program.
    gate: Option<&'a UnixStream>,
    /// What `/proc` tells of the host, if the host is not in the `/proc` of this process.
    host_stat: Option<StatFile>,
    idle: Option<IdleWatch>,
    settling: Option<Settling<'a>>,
    continue_front_at: Option<(Instant, Duration)>,
    stops: Stops,
    killing: Killing,
    /// SIGTERM has gone to the keeper's own children, and not yet to the rest of the tree.
    rest: Option<RestSearch>,
    /// When the witness is told that the tree has not ended at once.
    lingers_at: Option<Instant>,
    ready: Option<Box<Readiness<'a>>>,
    /// There is a reason to end, other than the end of the child itself.
    end_requested: bool,
    /// The tree is empty.
    is_empty: bool,
}

impl<'a> Keeper<'a> {
    pub(crate) fn new(pen: &'a Pen<'a>, tree: Tree<'a>) -> Self {
        Self {
            pen,
            relay: None,
            watches: vec![(Source::Signals, pen.signals.as_fd(), Until::Readable)],
            tree,
            tear_down: TearDown::new(pen.spec.graces),
            child: Child::Unknown,
            untold: None,
            gate: None,
            host_stat: None,
            idle: None,
            settling: None,
            continue_front_at: None,
            stops: 0,
            killing: Killing::default(),
            rest: None,
            lingers_at: None,
            ready: pen.ready.as_deref().map(|detector| Box::new(Readiness::new(detector))),
            end_requested: false,
            is_empty: false,
        }
    }

    /// The child was started. `started` makes the event for the witness, once there is time for it.
    pub(crate) fn child(mut self, pid: Pid, started: impl FnOnce() -> Event + 'a) -> Self {
        self.child = Child::Alive(pid);
        self.untold = Some(Box::new(started));
        if self.start_is_awaited() {
            self.tell_started();
        }
        self
    }

    pub(crate) fn host_stat(mut self, host_stat: Option<StatFile>) -> Self {
        self.host_stat = host_stat;
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

    pub(crate) fn relay(mut self, relay: &'a Relay) -> Self {
        self.relay = Some(relay);
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
    pub(crate) fn keep(mut self) -> u8 {
        while self.reap_children() {
            self.act_on_time();
            if self.tear_down.is_killing() && !self.kill() {
                break;
            }
            self.wait_until(self.next_deadline());
        }
        self.is_empty = true;
        self.pass_on_the_rest();
        self.tree.dissolve();
        self.tell(&Event::Empty);
        self.leave_no_front_stopped();
        match self.child {
            Child::Ended(how) => how.shell_code(),
            Child::Alive(_) | Child::Unknown => crate::OWN_FAILURE,
        }
    }

    /// Waits for something to happen, and acts on it.
    fn wait_until(&mut self, deadline: Option<Instant>) {
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let ready = self.ready.iter().flat_map(|ready| ready.watches());
        let ready = ready.map(|(stream, fd, until)| (Source::Ready(stream), fd, until));
        let watched: Vec<_> = self.watches.iter().copied().chain(ready).collect();
        let events: Vec<_> = watched.iter().map(|&(_, fd, until)| (fd, until)).collect();
        let fired = poll::wait(&events, timeout).unwrap_or_default();
        let sources: Vec<_> =
            watched.iter().zip(fired).filter(|(_, fired)| *fired).map(|((source, ..), _)| *source).collect();
        for source in sources {
            // One event may have taken care of another.
            let is_watched = self.watches.iter().any(|(watched, ..)| *watched == source);
            if is_watched || matches!(source, Source::Ready(_)) {
                self.on_event(source);
            }
        }
    }

    /// Reaps every child that has ended. False when the tree is empty.
    fn reap_children(&mut self) -> bool {
        self.look_at_gate_before_reaping();
        loop {
            match reap() {
                Ok(Reaped::News(news)) => self.on_child_change(news),
                Ok(Reaped::Quiet) => break,
                Ok(Reaped::NoChildren) => return false,
                Err(error) => {
                    self.pen.log.warn(format_args!("cannot wait for the child: {error}"));
                    return false;
                }
            }
        }
        if self.tree.has_only_strangers() {
            return false;
        }
        let is_ending = self.ready.as_ref().is_some_and(|ready| ready.is_ending(Instant::now()));
        let is_due = self.tear_down.is_asked() || !self.tear_down.has_begun() && !is_ending;
        if matches!(self.child, Child::Ended(_)) && is_due {
            self.because(Reason::ChildEnded);
        }
        true
    }

    fn on_child_change(&mut self, news: News) {
        if let News::Ended(pid, _) = news {
            self.tree.has_reaped(pid);
            let now = Instant::now();
            self.rest.iter_mut().for_each(|rest| rest.put_off(now));
            self.killing.put_off(now);
        }
        if let (News::Ended(pid, how), Some(ready)) = (news, &mut self.ready) {
            ready.reaped(pid, how, Instant::now());
            self.on_noticed();
        }
        let Child::Alive(child) = self.child else { return };
        match news {
            News::Ended(pid, how) if pid == child => {
                self.look_at_gate(Some(how));
                self.look_at_input_before(how);
                self.pen.log.note(format_args!("child {pid} {how}"));
                if let Some(next) = self.left_in_background(how) {
                    return self.adopt(next);
                }
                self.child = Child::Ended(how);
                self.before_child_is_told_ended();
                self.tell(&Event::ChildEnded(how));
            }
            News::Stopped(pid, by) if pid == child && !self.tear_down.has_begun() => {
                self.continue_front_at = None;
                self.stops = self.stops.wrapping_add(1);
                if let Some(relay) = self.relay {
                    relay.send(Message::Stopped(by, self.stops));
                }
            }
            News::Continued(pid) if pid == child => self.continue_front(FIRST_PAUSE),
            _ => {}
        }
    }

    /// The process that a daemon which forked into the background has left in its place. The kernel hands over the children of a process
    /// before its end can be seen. Any exit code but 0 is a crash, and what a crash leaves is no daemon.
    fn left_in_background(&self, how: Ended) -> Option<Pid> {
        if !self.pen.spec.daemon || how != Ended::Exited(0) || self.tear_down.has_begun() {
            return None;
        }
        let children = without_own(self.tree.children(), self.ready.as_deref());
        children.into_iter().min_by_key(|stat| stat.start).map(|eldest| eldest.pid)
    }

    fn adopt(&mut self, child: Pid) {
        self.pen.log.note(format_args!("it forked into the background; {child} is the child from now on"));
        self.child = Child::Alive(child);
        let is_known = self.pen.spec.isolation == Isolation::None;
        self.tell(&Event::Forked { child: Identity::of(child).filter(|_| is_known) });
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
            Source::Ready(stream) => {
                if let Some(ready) = &mut self.ready {
                    ready.on(stream, Instant::now());
                }
                return self.on_noticed();
            }
            Source::Gate => return self.look_at_gate(None),
            Source::Stdin => self.on_input_closed(),
            Source::Terminal => self.because(Reason::TerminalClosed),
            Source::Host(role) => self.on_process_ended(role.into()),
            Source::Front => self.on_process_ended(Reason::FrontKilled),
            Source::Spare => self.on_process_ended(Reason::SpareKilled),
            Source::DieWith(pid) => self.on_process_ended(Reason::DieWithEnded(pid)),
        }
        // Each of these happens once and would be reported for ever.
        self.watches.retain(|(watched, ..)| *watched != source);
    }

    /// A process closes its files before its end can be seen, so if it was the host, the end of the child's input
    /// has come by now; but perhaps after we looked.
    fn on_process_ended(&mut self, reason: Reason) {
        let stdin: Vec<_> =
            self.watches.iter().filter(|w| w.0 == Source::Stdin).map(|&(_, fd, until)| (fd, until)).collect();
        if poll::wait(&stdin, Some(Duration::ZERO)).is_ok_and(|fired| fired.contains(&true)) {
            match reason {
                // It held the pipe: its end is the reason.
                Reason::HostGone | Reason::LauncherGone { .. } | Reason::DieWithEnded(_) => {
                    self.watches.retain(|(watched, ..)| *watched != Source::Stdin);
                    self.tear_down.input_closed();
                }
                _ => self.on_event(Source::Stdin),
            }
        }
        self.because(reason);
    }

    fn on_signal(&mut self, arrived: Arrived, for_front: bool) {
        let Arrived { signal, sender, from_kernel, value } = arrived;
        if let Some(ask) = asked(arrived) {
            return self.because(Reason::Asked { sender, ask });
        }
        if let Some(order) = ordered(arrived) {
            return self.because(Reason::Ordered(order));
        }
        match signal {
            Signal::TERM if value == Some(SPARE_GONE) => self.because(Reason::SpareKilled),
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
        self.end_requested |= reason != Reason::ChildEnded;
        if self.is_empty {
            return;
        }
        if !self.tear_down.has_begun() {
            self.look_at_gate(None);
        }
        // Reaping tells how the child ended, and whether anything is left.
        if self.child_ended_before(&reason) && !self.reap_children() {
            return;
        }
        let reason = self.first_of(reason);
        match &reason {
            Reason::Idle(_) | Reason::GuardKilled | Reason::ReadyTimeout { .. } => {
                self.pen.log.warn(format_args!("{reason}; ending the tree"));
            }
            // The first reason is why it ends; that the child then did is not another one.
            Reason::ChildEnded if self.tear_down.has_begun() => {}
            _ => self.pen.log.note(format_args!("{reason}")),
        }
        let begins = !self.tear_down.has_begun();
        if begins {
            self.look_once_more();
        }
        let action = self.tear_down.because(&reason, Instant::now());
        self.perform(action);
        if begins {
            self.await_ready_no_more();
            self.tell(&Event::Stopping(reason));
            self.lingers_at = Some(Instant::now() + A_MOMENT);
        }
    }

    fn perform(&mut self, action: Option<Action>) {
        match action {
            None => {}
            Some(Action::Deliver(signal)) => {
                self.pen.log.note(format_args!("{signal} to the child"));
                self.deliver(signal);
                self.deliver(Signal::CONT);
            }
            Some(Action::Terminate) => {
                self.pen.log.note("SIGTERM to the whole tree");
                raise_priority();
                self.rest = self.tree.terminate_children().then(|| RestSearch::new(Instant::now()));
            }
            Some(Action::Kill) => {
                self.pen.log.note("SIGKILL to the whole tree");
                self.tell(&Event::Killing(self.tree.size()));
                self.rest = None;
                raise_priority();
                self.killing.begin(&self.tree, Instant::now());
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let killing = self.tear_down.is_killing().then(|| self.killing.next()).flatten();
        let idle = self.idle.as_ref().filter(|_| !self.tear_down.has_begun()).map(IdleWatch::deadline);
        let settling = self.settling.as_ref().and_then(Settling::deadline);
        let ready = self.ready.as_ref().and_then(|ready| ready.deadline(Instant::now()));
        let continuing = self.continue_front_at.map(|(at, _)| at);
        let rest = self.rest.as_ref().map(RestSearch::at);
        let all = [self.tear_down.deadline(), killing, idle, settling, continuing, ready, rest, self.lingers_at];
        all.into_iter().flatten().min()
    }

    fn act_on_time(&mut self) {
        // A grace of zero makes two steps due at once.
        while let Some(action) = self.tear_down.tick(Instant::now()) {
            self.perform(Some(action));
        }
        if self.rest.take_if(|rest| rest.at() <= Instant::now()).is_some() {
            self.tree.terminate();
        }
        if self.lingers_at.take_if(|at| *at <= Instant::now()).is_some() {
            self.tell(&Event::Lingering);
        }
        if self.settling.as_ref().is_some_and(Settling::is_due) {
            self.tell_started();
            self.look_at_gate_from_now_on();
            self.pen.cgroup.iter().for_each(Cgroup::account_no_pressure);
        }
        if let Some(settling) = &mut self.settling {
            settling.look();
        }
        self.continue_front_again();
        let now = Instant::now();
        if let Some(idle) = &mut self.idle
            && !self.tear_down.has_begun()
            && idle.deadline() <= now
            && idle.is_idle(Sample::of(activity(&without_own(self.tree.members(), self.ready.as_deref()))), now)
        {
            let timeout = idle.timeout();
            self.because(Reason::Idle(timeout));
        }
        self.look_whether_ready();
    }

    /// Kills what is left of the tree. False when only processes are left that may not be signalled.
    fn kill(&mut self) -> bool {
        let mut killing = std::mem::take(&mut self.killing);
        let round = killing.round(self);
        self.killing = killing;
        match round {
            RoundOutcome::Nothing => {}
            RoundOutcome::Slow => {
                for stat in self.tree.members() {
                    self.pen.log.warn(does_not_die(&stat));
                }
            }
            RoundOutcome::Refused(refused) => {
                for refused in &refused {
                    self.pen.log.warn(could_not_signal(refused.pid));
                }
                self.tell(&Event::Refused(refused));
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
        self.reap_children()
    }
}
