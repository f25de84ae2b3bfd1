//! The child that there is now: its pen, our ends of its streams, and what is known of its end.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nostray_pen::{Ask, Graces, OpenPen, Order, PenOpener, Remains, Streams, give_order};
use nostray_registry::Process;
use nostray_sys::Pidfd;
use nostray_sys::identity::Identity;
use nostray_sys::signal::Arrived;

use super::gauge::Gauge;
use super::pen_events::{PenEvent, PenEventReceiver};
use crate::line_channel::LineChannel;
use crate::machine::{Cause, Generation, Why};

/// The current child.
#[derive(Debug)]
pub struct Child {
    pub(super) generation: Generation,
    pub(super) open_pen: OpenPen,
    pub(super) pen_events: PenEventReceiver,
    /// Its stdin and stdout.
    pub channel: LineChannel,
    pub(super) stderr: Option<OwnedFd>,
    /// How far its tear-down has come.
    pub(super) ending: Ending,
    /// Its host or its sessions have let it go. The guard is told so before the input is closed.
    pub(super) is_released: bool,
    pub(super) guard: Option<(Identity, Pidfd)>,
    spare: Option<Pidfd>,
    group: Option<PathBuf>,
    pub(super) gauge: Option<Gauge>,
    /// How the child ended, once it has.
    pub(super) ended: Option<String>,
    pub(super) not_executed: Option<String>,
    /// Torn down neither by us nor by a crash: another process asked it to stop, or it was idle for too long.
    pub(super) ended_by_others: bool,
    pub(super) front_ended: bool,
    /// Whether it is ready as soon as it runs, since the user has not defined what ready means.
    ready_when_executed: bool,
    /// What it says of itself, and whether its guard has seen it become ready.
    pub(super) says: Says,
    /// Front, spare and guard of its pen were killed: this process ends what is left of the tree.
    pub(super) remains: Option<Remains>,
    /// Processes of its tree that may not be signalled.
    pub(super) refused: Vec<Identity>,
    /// How many signals were to end it.
    asked: u32,
    /// When the user pressed a key at the terminal that ends it.
    interrupted: Option<Instant>,
    /// When the user pressed the key that suspends it, if it has not stopped since.
    pub(super) suspended: Option<Instant>,
    pub(super) started: Instant,
}

/// The cause of an end that was not the child's fault.
pub(super) fn keepers_killed() -> Cause {
    Cause::because("was ended", "nostray's own processes around it were killed")
}

/// The cause of an end by `--ready-timeout`.
fn not_ready() -> Cause {
    Cause::because("was ended", "it was not ready within its --ready-timeout")
}

/// Whether a child is ready, as the user has defined it, and what it says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Says {
    pub(super) is_ready: bool,
    pub(super) is_stopping: bool,
    pub(super) status: Option<String>,
}

/// How far the tear-down of a child has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is not torn down.
    No,
    /// What is on its way to it is written, then its input is closed; at this moment at the latest.
    EndOfInput(Instant),
    /// Its guard has to be given this order.
    Order(Order),
    /// Its guard has got the order, and will confirm it.
    Ordered,
    /// Its input is closed, or it has been asked in another way.
    SentLines,
}

impl Child {
    pub(super) fn new(
        generation: Generation,
        (open_pen, streams): (OpenPen, Streams),
        pen_events: PenEventReceiver,
        max_line: usize,
        ready_when_executed: bool,
    ) -> Self {
        Self {
            generation,
            open_pen,
            pen_events,
            channel: LineChannel::with_child(streams.stdio, max_line),
            stderr: Some(streams.stderr),
            ending: Ending::No,
            is_released: false,
            guard: None,
            spare: None,
            group: None,
            gauge: None,
            ended: None,
            not_executed: None,
            ended_by_others: false,
            front_ended: false,
            says: Says::default(),
            ready_when_executed,
            remains: None,
            refused: Vec::new(),
            asked: 0,
            interrupted: None,
            suspended: None,
            started: Instant::now(),
        }
    }

    /// Takes in what the processes of its pen report. Returns the cause, if they report that the child is lost.
    pub(super) fn hear(&mut self) -> Option<Cause> {
        let mut lost = None;
        while let Some(event) = self.pen_events.next() {
            match event {
                PenEvent::Opened(group) => self.group = group.map(PathBuf::from),
                PenEvent::Started { spare, guard } => {
                    let open = |who: Option<Process>| who.and_then(Process::identity);
                    self.guard = open(guard).and_then(|who| who.open().map(|handle| (who, handle)));
                    self.spare = open(spare).and_then(Identity::open);
                    self.gauge = Some(Gauge::of(self.group.as_deref()));
                }
                PenEvent::Executed => self.says.is_ready |= self.ready_when_executed,
                PenEvent::Ready => self.says.is_ready = true,
                PenEvent::SaysStopping => self.says.is_stopping = true,
                PenEvent::Status(text) => self.says.status = Some(text).filter(|text| !text.is_empty()),
                PenEvent::Stopping(why) => {
                    self.ended_by_others |=
                        matches!(why.as_str(), "idle" | "signal" | "stop-request" | "hand-over" | "terminal-closed");
                    if matches!(why.as_str(), "front-killed" | "spare-killed" | "guard-killed") {
                        lost = Some(keepers_killed());
                    }
                    if why == "ready-timeout" {
                        lost = Some(not_ready());
                    }
                    if lost.is_some() || matches!(self.ending, Ending::Order(_) | Ending::Ordered) {
                        self.ending = Ending::EndOfInput(Instant::now());
                    }
                }
                PenEvent::Ended(how) => {
                    // The reason for a tear-down says more than the exit status.
                    lost.get_or_insert_with(|| Cause::new(&how));
                    self.ended = Some(how);
                }
                PenEvent::NotExecuted(why) => self.not_executed = Some(why),
                PenEvent::Refused(left) => self.refused.extend(left.into_iter().filter_map(Process::identity)),
            }
        }
        lost
    }

    /// Whether its exit code may mean that its program could not be executed. The reason comes with the end of the tree, so callers are
    /// answered then, too.
    pub(super) fn may_not_have_been_executed(&self) -> bool {
        matches!(self.ended.as_deref(), Some("exited with code 126" | "exited with code 127"))
    }

    /// Asks its guard to end it, or its spare, or its front: the innermost that lives.
    pub(super) fn ask(&mut self, ask: Ask) {
        if let Some(remains) = self.remains.as_mut().filter(|_| ask == Ask::StopNow) {
            remains.hurry();
        }
        let inner = [self.guard.as_ref().map(|(_, guard)| guard), self.spare.as_ref()];
        if !inner.into_iter().flatten().any(|keeper| lives(keeper) && nostray_pen::ask(keeper, ask).is_ok()) {
            self.open_pen.ask(ask);
        }
    }

    /// Passes a signal of the host on. A second signal that asks for the end ends all graces, as in the pen's front.
    pub(super) fn pass(&mut self, arrived: Arrived, is_the_end: bool) {
        if self.open_pen.wakes_us(arrived) {
            return;
        }
        self.asked += u32::from(is_the_end);
        if self.front_ended && is_the_end && self.asked > 1 {
            self.ask(Ask::StopNow);
        }
        if !self.open_pen.hand_on(arrived) && is_the_end && self.ending == Ending::No {
            // The guard learns of it by the end of the child's input.
            self.ending = Ending::EndOfInput(Instant::now());
        }
    }

    /// Takes over what is left if front, spare and guard are gone. True if that has just become so.
    pub(super) fn take_over(&mut self, opener: &PenOpener, grace: Duration) -> bool {
        let is_new = self.remains.is_none() && !self.is_kept();
        if is_new {
            self.remains = Some(opener.end_remains(&self.open_pen, grace, self.group.as_deref()));
            self.ending = Ending::EndOfInput(Instant::now());
        }
        is_new
    }

    /// Goes on ending what was taken over.
    pub(super) fn end_remains(&mut self, opener: &mut PenOpener) {
        if self.is_kept() {
            self.remains = None; // its guard has only now reported itself
        }
        if let Some(remains) = &mut self.remains {
            self.refused.extend(remains.go_on(opener));
        }
    }

    /// The user pressed a key at the terminal. The child has got the signal, too.
    pub(super) fn saw_key(&mut self, is_the_end: bool) {
        let which = if is_the_end { &mut self.interrupted } else { &mut self.suspended };
        *which = Some(Instant::now());
    }

    /// Whether it has ended although the user meant to suspend it. Then the front stops, as a job without a child does.
    pub(super) fn was_to_be_suspended(&self) -> bool {
        const A_MOMENT: Duration = Duration::from_secs(1);
        self.suspended.is_some_and(|at| at.elapsed() < A_MOMENT)
    }

    /// Whether the user has ended it at the terminal. Then it is not started again.
    pub(super) fn was_interrupted(&self, graces: Graces) -> bool {
        self.interrupted.is_some_and(|at| at.elapsed() <= graces.eof() + graces.term())
    }

    /// Whether front, spare or guard still live.
    pub(super) fn is_kept(&self) -> bool {
        !self.front_ended
            || self.guard.as_ref().is_some_and(|(_, handle)| lives(handle))
            || self.spare.as_ref().is_some_and(lives)
    }

    /// Gives its guard an order, so that the journal has the reason. False if there is no guard to take it.
    pub(super) fn order(&self, order: Order) -> bool {
        self.guard.as_ref().is_some_and(|(_, guard)| lives(guard) && give_order(guard, order).is_ok())
    }

    /// Goes on with its tear-down, as far as that is possible now. `why_released` says why it was let go, if the end of its input is not
    /// the whole reason.
    pub(super) fn end_on(&mut self, why_released: impl FnOnce() -> Option<Order>) {
        match self.ending {
            Ending::Order(order) => {
                // The guard reports itself a moment after the start.
                if let Some((_, guard)) = &self.guard {
                    let told = give_order(guard, order).is_ok();
                    self.ending = if told { Ending::Ordered } else { Ending::EndOfInput(Instant::now()) };
                } else if self.front_ended || self.gauge.is_some() {
                    self.ending = Ending::EndOfInput(Instant::now());
                }
            }
            Ending::EndOfInput(at) if self.channel.is_flushed() || at <= Instant::now() => {
                // The guard reads its signals before it takes the end of the input for a reason, so the order need not be confirmed.
                if self.is_released
                    && let Some(order) = why_released()
                {
                    self.order(order);
                }
                self.channel.close_writer();
                self.ending = Ending::SentLines;
            }
            Ending::Ordered if self.front_ended => self.ending = Ending::EndOfInput(Instant::now()),
            Ending::EndOfInput(_) | Ending::Ordered | Ending::No | Ending::SentLines => {}
        }
    }
}

fn lives(handle: &Pidfd) -> bool {
    handle.has_ended().is_ok_and(|ended| !ended)
}

/// The order that a guard gets; none if the end of the input is enough.
pub(super) fn order_for(why: Why) -> Option<Order> {
    match why {
        Why::Stop | Why::Released => None,
        Why::Hibernate => Some(Order::Hibernate),
        Why::Memory => Some(Order::Memory),
        Why::Age => Some(Order::Age),
        Why::StartTimeout => Some(Order::StartTimeout),
        Why::BadStart => Some(Order::BadStart),
        Why::Restart => Some(Order::Restart),
    }
}
