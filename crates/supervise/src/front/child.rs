//! The child that there is now: its pen, our ends of its streams, and what is known of its end.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use nostray_pen::{Order, Penned, Streams, give_order};
use nostray_registry::Process;
use nostray_rpc::Lines;
use nostray_sys::Pidfd;
use nostray_sys::identity::Identity;
use nostray_sys::stream::Sink;

use super::gauge::Gauge;
use super::news::{Inbox, News};
use super::outbox::Outbox;
use crate::machine::{Generation, Why};

#[derive(Debug)]
pub(super) struct Child {
    pub(super) generation: Generation,
    pub(super) penned: Penned,
    pub(super) inbox: Inbox,
    /// Closed when it is to end.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) to: Outbox,
    /// Until it ends.
    pub(super) stdout: Option<OwnedFd>,
    /// Taken out while it is read.
    pub(super) from: Option<Lines>,
    pub(super) stderr: Option<OwnedFd>,
    /// To be torn down, and how far that has come.
    pub(super) ending: Ending,
    pub(super) guard: Option<(Identity, Pidfd)>,
    spare: Option<Pidfd>,
    group: Option<PathBuf>,
    pub(super) gauge: Option<Gauge>,
    /// How the child ended, once it has.
    pub(super) ended: Option<String>,
    pub(super) not_executed: Option<String>,
    /// Torn down for a reason that was not ours, and that is no crash: it was asked to stop, or did nothing for long.
    pub(super) ended_by_others: bool,
    pub(super) front_ended: bool,
    /// All who kept it were killed: when its orphans are killed, too.
    pub(super) orphaned: Option<Instant>,
    pub(super) started: Instant,
}

/// How the end of a child goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It goes on.
    No,
    /// What it was told is written first, then its input ends; not later than at this moment.
    EndOfInput(Instant),
    /// Its guard is to be told why.
    Order(Order),
    /// Its guard has been told, and will say that it has heard.
    Ordered,
    /// Everything has been said.
    Said,
}

impl Child {
    pub(super) fn new(
        generation: Generation,
        (penned, streams): (Penned, Streams),
        inbox: Inbox,
        max_line: usize,
    ) -> Self {
        Self {
            generation,
            penned,
            inbox,
            stdin: Some(streams.stdin),
            to: Outbox::new(Sink::Pipe),
            stdout: Some(streams.stdout),
            from: Some(Lines::new(max_line)),
            stderr: Some(streams.stderr),
            ending: Ending::No,
            guard: None,
            spare: None,
            group: None,
            gauge: None,
            ended: None,
            not_executed: None,
            ended_by_others: false,
            front_ended: false,
            orphaned: None,
            started: Instant::now(),
        }
    }

    /// Takes in what its processes have told. True if the child has ended since the last time.
    pub(super) fn hear(&mut self) -> bool {
        let before = self.ended.is_some();
        while let Some(news) = self.inbox.next() {
            match news {
                News::Opened(group) => self.group = group.map(PathBuf::from),
                News::Started { spare, guard } => {
                    let open = |who: Option<Process>| who.and_then(Process::identity);
                    self.guard = open(guard).and_then(|who| who.open().map(|handle| (who, handle)));
                    self.spare = open(spare).and_then(Identity::open);
                    self.gauge = Some(Gauge::of(self.group.as_deref()));
                }
                News::Stopping(why) => {
                    self.ended_by_others |=
                        matches!(why.as_str(), "idle" | "signal" | "stop-request" | "terminal-closed");
                    if matches!(self.ending, Ending::Order(_) | Ending::Ordered) {
                        self.ending = Ending::EndOfInput(Instant::now());
                    }
                }
                News::Ended(how) => self.ended = Some(how),
                News::NotExecuted(why) => self.not_executed = Some(why),
            }
        }
        !before && self.ended.is_some()
    }

    /// Its code may say that its program could not be executed. Why is told once nothing is left of it, so that whoever waits is
    /// told then, too.
    pub(super) fn may_not_have_been_executed(&self) -> bool {
        matches!(self.ended.as_deref(), Some("exited with 126" | "exited with 127"))
    }

    /// Whether somebody of ours still keeps it.
    pub(super) fn is_kept(&self) -> bool {
        let lives = |handle: &Pidfd| handle.has_ended().is_ok_and(|ended| !ended);
        !self.front_ended
            || self.guard.as_ref().is_some_and(|(_, handle)| lives(handle))
            || self.spare.as_ref().is_some_and(lives)
    }

    /// Carries on with its end, as far as that is possible now.
    pub(super) fn end_on(&mut self) {
        match self.ending {
            Ending::Order(order) => {
                // Its guard is known a moment after the start.
                if let Some((_, guard)) = &self.guard {
                    let told = give_order(guard, order).is_ok();
                    self.ending = if told { Ending::Ordered } else { Ending::EndOfInput(Instant::now()) };
                } else if self.front_ended {
                    self.ending = Ending::EndOfInput(Instant::now());
                }
            }
            Ending::EndOfInput(at) if self.to.is_empty() || at <= Instant::now() => {
                self.stdin = None;
                self.to.discard();
                self.ending = Ending::Said;
            }
            Ending::Ordered if self.front_ended => self.ending = Ending::EndOfInput(Instant::now()),
            Ending::EndOfInput(_) | Ending::Ordered | Ending::No | Ending::Said => {}
        }
    }
}

/// What a pen is told.
pub(super) fn order_for(why: Why) -> Option<Order> {
    match why {
        Why::Stop | Why::Released => None,
        Why::Hibernate => Some(Order::Hibernate),
        Why::Memory => Some(Order::Memory),
        Why::Age => Some(Order::Age),
        Why::StartTimeout => Some(Order::StartTimeout),
        Why::BadStart => Some(Order::BadStart),
    }
}
