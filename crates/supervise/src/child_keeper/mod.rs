//! Keeps one supervised child: its pens, one after the other, its record, and how it ended. The [lifecycle](crate::lifecycle) decides
//! when the child is started and ended; front or steward read what it says.

mod child;
mod gauge;
mod pen_events;
mod record;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_pen::{Ask, Order, PenId, PenOpener, Ready, ReapOutcome, Remains, Spec, Witness};
use nostray_registry::{RecordDetails, RecordKeeper, SeriesKeeper};
use nostray_slot::HeldSlot;
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::events::Events;
use nostray_sys::poll::Until;
use nostray_sys::process::Ended;
use nostray_sys::signal::{Arrived, Signal};
use nostray_sys::stream;

use crate::machine::{Cause, Generation, State, Why};
pub use child::Child;
use child::{Ending, Says, keepers_killed, order_for};
use pen_events::PenEventSender;

/// How long a child whose output has ended may take to end itself.
const AFTER_ITS_OUTPUT: Duration = Duration::from_secs(2);

/// What to run, and within which limits.
#[derive(Debug, Clone)]
pub struct ChildConfig {
    /// What to contain, and how.
    pub spec: Spec,
    /// What is said of it on record.
    pub details: RecordDetails,
    /// The memory that the child's tree may use.
    pub max_memory: Option<u64>,
    /// The longest line that is passed on.
    pub max_line: usize,
}

/// Starts, watches and ends the generations of one supervised child.
#[derive(Debug)]
pub struct ChildKeeper {
    config: ChildConfig,
    /// The host of this process, its signals, and the pens that it opens.
    pub opener: PenOpener,
    id: PenId,
    series: Option<SeriesKeeper>,
    /// A warning has been written already, and one is enough.
    warned: bool,
    /// The current child.
    pub child: Option<Child>,
    /// When to look at the memory of the tree.
    next_look: Option<Instant>,
    /// The state that is on record.
    told: Option<(State, Generation, Says)>,
    /// The slot that it holds, with or without a child.
    tenancy: Option<HeldSlot>,
    /// The exit code of the pen that ended last.
    pub code: u8,
}

/// What has become of the child.
#[derive(Debug)]
pub enum ChildLoss {
    /// It ended, or is about to. What it said before counts.
    Died(Generation, Cause),
    /// Its tree is empty. Read what it said, then call [`ChildKeeper::take_end`].
    TreeEmpty,
}

/// How a child ended whose tree is empty.
#[derive(Debug)]
pub struct ChildEnd {
    /// Which one.
    pub generation: Generation,
    /// How.
    pub cause: Cause,
    /// Starting it again is of no use.
    pub is_hopeless: bool,
    /// It was stopped from outside (by `nostray stop`, a hand-over, a key), and is not to come back.
    pub was_stopped: bool,
    /// The user meant to suspend it at the terminal.
    pub was_to_be_suspended: bool,
}

impl ChildKeeper {
    /// Nothing is started, and nothing is on record yet.
    #[must_use]
    pub fn new(config: ChildConfig, opener: PenOpener, id: PenId) -> Self {
        Self {
            config,
            opener,
            id,
            series: None,
            warned: false,
            child: None,
            next_look: None,
            told: None,
            tenancy: None,
            code: 0,
        }
    }

    /// To be called before the first start: opens the record, and becomes the subreaper of what the child leaves behind.
    pub fn keep(&mut self) -> std::io::Result<()> {
        self.opener.adopt_orphans()?;
        self.open_record();
        Ok(())
    }

    /// The same where the user has been warned already: without another warning.
    pub fn keep_in_need(&mut self) -> std::io::Result<()> {
        self.warned = true;
        self.keep()
    }

    /// What is run, and within which limits.
    #[must_use]
    pub fn config(&self) -> &ChildConfig {
        &self.config
    }

    /// The id of the record.
    #[must_use]
    pub fn id(&self) -> &PenId {
        &self.id
    }

    /// Registers the child's file descriptors under the tokens `first..first + EVENTS`. `is_heard` if there is room for what the child
    /// says.
    pub fn want(&self, events: &mut Events, first: usize, is_heard: bool) {
        let Some(child) = &self.child else { return };
        let mut want = |name: Event, fd: BorrowedFd<'_>, until| {
            events.want(first + name as usize, fd, until, child.generation.0);
        };
        if let Some(pen_events) = child.pen_events.fd() {
            want(Event::PenEvent, pen_events, Until::Readable);
        }
        if let Some(front) = child.open_pen.front() {
            want(Event::Front, front, Until::Readable);
        }
        if let Some(stdout) = child.channel.reader().filter(|_| is_heard) {
            want(Event::Says, stdout.as_fd(), Until::Readable);
        }
        if let Some(stderr) = &child.stderr {
            want(Event::Errors, stderr.as_fd(), Until::Readable);
        }
        if let Some(stdin) = child.channel.pending_writer() {
            want(Event::Listens, stdin.as_fd(), Until::Writable);
        }
    }

    /// How many tokens [`ChildKeeper::want`] uses.
    pub const EVENTS: usize = 5;

    /// When [`ChildKeeper::end_on`] or [`ChildKeeper::over_memory`] have something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let child = self.child.as_ref();
        let ending = child.and_then(|child| match child.ending {
            Ending::EndOfInput(at) => Some(at),
            _ => None,
        });
        let remains = child.and_then(|child| child.remains.as_ref()?.deadline());
        [self.next_look, ending, remains].into_iter().flatten().min()
    }

    /// Goes on with the tear-down of the child, if it is torn down.
    pub fn end_on(&mut self) -> Option<ChildLoss> {
        self.end_child_on();
        let child = self.child.as_mut()?;
        if child.remains.as_ref().and_then(Remains::deadline).is_some_and(|at| at <= Instant::now()) {
            child.end_remains(&mut self.opener);
            return self.look_after();
        }
        None
    }

    /// Takes in what the processes of the pen report.
    pub fn hear(&mut self) -> Option<ChildLoss> {
        let child = self.child.as_mut()?;
        let (lost, generation) = (child.hear(), child.generation);
        lost.filter(|_| !child.may_not_have_been_executed()).map(|cause| ChildLoss::Died(generation, cause))
    }

    /// Reaps the processes of the pen, and notices when none is left.
    pub fn look_after(&mut self) -> Option<ChildLoss> {
        loop {
            let Some(child) = &mut self.child else {
                self.opener.reap_others();
                return None;
            };
            self.opener.abandon(&child.refused);
            match self.opener.reap(&mut child.open_pen) {
                ReapOutcome::Front(how) => {
                    child.front_ended = true;
                    self.code = match how {
                        Ended::Exited(code) => code,
                        // How the child ends is known to no process that could say so with its code.
                        Ended::Killed(_) => nostray_pen::OWN_FAILURE,
                    };
                }
                ReapOutcome::Stopped(by) => {
                    child.suspended = None;
                    child.open_pen.stop_with_it(by);
                    child.open_pen.go_on();
                }
                ReapOutcome::Nothing => {
                    // Front, spare and guard were killed: the kernel has handed what is left of the tree to this subreaper.
                    let generation = child.generation;
                    let is_ours = child.take_over(&self.opener, self.config.spec.graces.term());
                    return is_ours.then(|| ChildLoss::Died(generation, keepers_killed()));
                }
                ReapOutcome::Empty => {
                    child.hear();
                    return Some(ChildLoss::TreeEmpty);
                }
            }
        }
    }

    /// Says how the child ended, and forgets it. `state` says whether it was torn down.
    pub fn take_end(&mut self, state: &State) -> Option<ChildEnd> {
        let child = self.child.take()?;
        self.next_look = None;
        let cause = match (&child.not_executed, &child.ended) {
            (Some(why), _) => Cause::not_started(why),
            (None, Some(how)) => Cause::new(how),
            (None, None) if child.guard.is_none() => Cause::not_started("its guard could not be started"),
            (None, None) => keepers_killed(),
        };
        let cause = match child.refused.first() {
            Some(left) => Cause::because(
                "cannot be started again",
                format!("process {} of the last one may not be signalled, and is still there", left.pid),
            ),
            None => cause,
        };
        // A command that cannot be executed the first time is wrong, and the user is there to be told. And as long as a process of the
        // last generation is left, the next one is not started.
        let is_hopeless =
            child.not_executed.is_some() && child.generation == Generation(1) || !child.refused.is_empty();
        if let Some(remains) = &child.remains {
            remains.dissolve();
        }
        if let Some(series) = &mut self.series {
            series.bury(&child.open_pen.id);
            series.ended(&cause.to_string());
        }
        if let Some(tenancy) = &mut self.tenancy {
            match state {
                State::Stopping { why, .. } => tenancy.would_end_because(&why.cause()),
                _ => tenancy.would_end_because(&cause),
            }
        }
        let ended_by_others = child.ended_by_others && !matches!(state, State::Stopping { .. });
        if matches!(state, State::Stopping { why: Why::Hibernate | Why::Memory | Why::Age | Why::Restart, .. }) {
            self.code = 0; // how it ended says nothing about the session
        }
        Some(ChildEnd {
            generation: child.generation,
            cause,
            is_hopeless,
            was_stopped: ended_by_others || child.was_interrupted(self.config.spec.graces),
            was_to_be_suspended: child.was_to_be_suspended(),
        })
    }

    /// Starts a child. Nothing may be left of the last one. The processes of its pen close the file descriptors `not_for_it`.
    pub fn start(&mut self, generation: Generation, not_for_it: &[BorrowedFd<'_>]) -> Result<(), Cause> {
        let spec = Spec { die_with: Vec::new(), ..self.config.spec.clone() };
        let details = RecordDetails { sweep: false, shared: None, ..self.config.details.clone() };
        let keeper: Box<dyn Witness> = Box::new(RecordKeeper::new(details));
        let id = self.id.in_series(generation.0);
        let started = PenEventSender::new(keeper, self.series.is_none()).map_err(|error| error.to_string()).and_then(
            |(sender, pen_events)| {
                let open_pen =
                    self.opener.start(&spec, id, Box::new(sender), not_for_it).map_err(|error| error.to_string())?;
                let ready_when_executed = spec.ready == Ready::Started;
                Ok(Child::new(generation, open_pen, pen_events, self.config.max_line, ready_when_executed))
            },
        );
        match started {
            Ok(child) => {
                self.child = Some(child);
                self.next_look = self.config.max_memory.map(|_| Instant::now() + gauge::PERIOD);
                Ok(())
            }
            Err(why) => {
                write_to_stderr_at_once(&format!("nostray: {why}\n"));
                self.code = nostray_pen::OWN_FAILURE;
                Err(Cause::not_started(why))
            }
        }
    }

    /// Tears the child down. `patience` is how long its input stays open for what is on its way there.
    pub fn tear_down(&mut self, why: Why, patience: Duration) {
        let Some(child) = &mut self.child else { return };
        if why == Why::Hibernate
            && let (Some(series), Some((guard, _))) = (&mut self.series, &child.guard)
        {
            series.falls_asleep_with(gauge::memory_below(*guard));
        }
        child.ending = match (order_for(why), why) {
            (Some(order), _) => Ending::Order(order),
            // The signal or the request that stops it reaches it by another way; its input stays open.
            (None, Why::Stop) => child.ending,
            // A daemon has no input that could be closed.
            (None, _) if self.config.spec.daemon => {
                if !child.order(Order::NotHeld) {
                    child.ask(Ask::Stop);
                }
                Ending::SentLines
            }
            (None, _) => {
                child.is_released = true;
                Ending::EndOfInput(Instant::now() + patience)
            }
        };
        self.end_child_on();
    }

    fn end_child_on(&mut self) {
        let Self { child, series, opener, .. } = self;
        let is_shared = || series.as_ref().is_some_and(SeriesKeeper::is_shared);
        if let Some(child) = child {
            child.end_on(|| if is_shared() { Some(Order::NotHeld) } else { opener.ending() });
        }
    }

    /// Whether there is a child that is not known to have ended.
    #[must_use]
    pub fn has_live_child(&self) -> bool {
        self.child.as_ref().is_some_and(|child| child.ended.is_none() && child.not_executed.is_none())
    }

    /// Whether the child meets the user's ready condition.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.child.as_ref().is_some_and(|child| child.says.is_ready)
    }

    /// Takes back the lines that the child has not read. It never will.
    #[must_use]
    pub fn take_unread(&mut self) -> Vec<u8> {
        self.child.as_mut().map(|child| child.channel.take_unread()).unwrap_or_default()
    }

    /// Closes the child's input now.
    pub fn end_of_input(&mut self) {
        if let Some(child) = &mut self.child {
            child.is_released = true;
            child.ending = Ending::EndOfInput(Instant::now());
        }
    }

    /// The child has closed its output. It cannot answer any more, so it is torn down unless it has ended.
    pub fn is_mute(&mut self) {
        if let Some(child) = &mut self.child {
            child.channel.close_reader();
            if child.ending == Ending::No {
                child.ending = Ending::EndOfInput(Instant::now() + AFTER_ITS_OUTPUT);
            }
        }
    }

    /// Asks the guard to end the child.
    pub fn ask(&mut self, ask: Ask) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.ends_because(&ask);
            if ask == Ask::HandOver {
                tenancy.hands_over();
            }
        }
        let Some(child) = &mut self.child else { return };
        if ask == Ask::HandOver && child.ending == Ending::No {
            // A hand-over closes the input first: many servers understand nothing else.
            child.ending = Ending::Order(Order::HandOver);
            self.end_child_on();
        } else if ask != Ask::HandOver {
            child.ask(ask);
        }
    }

    /// Passes a signal on to the child. False if there is none.
    pub fn pass(&mut self, arrived: Arrived, is_the_end: bool) -> bool {
        match &mut self.child {
            Some(child) => child.pass(arrived, is_the_end),
            None if is_the_end => self.code = Ended::Killed(arrived.signal).shell_code(),
            None => {}
        }
        self.child.is_some()
    }

    /// Takes in a signal that the terminal has sent to the child as well. False if it is another kind of signal.
    pub fn saw_key(&mut self, arrived: Arrived) -> bool {
        match &mut self.child {
            _ if !PenOpener::is_key(arrived) => false,
            Some(child) => {
                child.saw_key(PenOpener::is_the_end(arrived));
                true
            }
            None if arrived.signal == Signal::TSTP => {
                PenOpener::stop_with_terminal(arrived.signal);
                true
            }
            None => false,
        }
    }

    /// Reads what the child has written to stderr; none if there is nothing now.
    pub fn read_errors<'a>(&mut self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let child = self.child.as_mut()?;
        match stream::read(child.stderr.as_ref()?, buffer) {
            Ok(Some(0)) | Err(_) => {
                child.stderr = None;
                None
            }
            Ok(None) => None,
            Ok(Some(count)) => Some(&buffer[..count]),
        }
    }

    /// Looks at the memory of the tree, if it is time. Returns the child that is over its limit; true if it uses twice as much.
    pub fn over_memory(&mut self) -> Option<(Generation, bool)> {
        if self.next_look.is_none_or(|at| at > Instant::now()) {
            return None;
        }
        self.next_look = Some(Instant::now() + gauge::PERIOD);
        let (child, limit) = (self.child.as_ref()?, self.config.max_memory?);
        let (gauge, (guard, _)) = (child.gauge.as_ref()?, child.guard.as_ref()?);
        let used = gauge.over(limit, *guard)?;
        Some((child.generation, used > limit.saturating_mul(2)))
    }
}

/// What a file descriptor of the child reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The processes of its pen report something.
    PenEvent,
    /// Its front has ended. What that front has reported comes first.
    Front,
    /// It has written to stdout.
    Says,
    /// It has written to stderr.
    Errors,
    /// Its stdin takes more.
    Listens,
}

impl Event {
    /// The event of a token of [`ChildKeeper::want`], less `first`.
    #[must_use]
    pub fn of(name: usize) -> Option<Self> {
        [Self::PenEvent, Self::Front, Self::Says, Self::Errors, Self::Listens].get(name).copied()
    }
}
