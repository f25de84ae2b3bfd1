//! ChildConfig one supervised child: its pens, one after the other, its record, and what is known of its end. When it is started and
//! ended is decided elsewhere; what it says is heard elsewhere.

mod child;
mod gauge;
mod pen_events;
mod record;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_pen::{Ask, Order, PenId, PenOpener, Ready, ReapOutcome, Remains, Spec, Witness};
use nostray_registry::{RecordDetails, RecordKeeper, SeriesKeeper};
use nostray_slot::Tenancy;
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::events::Events;
use nostray_sys::poll::Until;
use nostray_sys::process::Ended;
use nostray_sys::signal::{Arrived, Signal};
use nostray_sys::stream;

use crate::machine::{Cause, Generation, State, Why};
pub use child::Child;
use child::{Ending, KEEPERS_KILLED, Says, order_for};
use pen_events::PenEventSender;

/// How long a child whose output has ended may take to end itself.
const AFTER_ITS_OUTPUT: Duration = Duration::from_secs(2);

/// What is kept, and how.
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

/// Whoever keeps such a child.
#[derive(Debug)]
pub struct ChildKeeper {
    config: ChildConfig,
    /// Who started us, our signals, and the pens.
    pub opener: PenOpener,
    id: PenId,
    series: Option<SeriesKeeper>,
    /// Whoever reads our warnings has had one.
    warned: bool,
    /// The child that there is now.
    pub child: Option<Child>,
    /// When to look at the memory of the tree.
    next_look: Option<Instant>,
    /// The state that is on record.
    told: Option<(State, Generation, Says)>,
    /// The slot that it holds, with or without a child.
    tenancy: Option<Tenancy>,
    /// The exit code of whoever ended last.
    pub code: u8,
}

/// What has become of the child.
#[derive(Debug)]
pub enum ChildLoss {
    /// It ended, or will in a moment. What it has said before counts.
    Died(Generation, Cause),
    /// Nothing of it is left: all that it has said can be read, then [`ChildKeeper::take_end`] says how it ended.
    TreeEmpty,
}

/// How a child ended of which nothing is left.
#[derive(Debug)]
pub struct ChildEnd {
    /// Which one.
    pub generation: Generation,
    /// How.
    pub cause: Cause,
    /// There is no use in starting it again.
    pub is_hopeless: bool,
    /// Somebody else has ended it who wants it to stay so.
    pub was_stopped: bool,
    /// Somebody at the terminal wanted it to be stopped, not ended.
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

    /// From now on there may be a child: it is on record, and what it leaves is ours to end.
    pub fn keep(&mut self) -> std::io::Result<()> {
        self.opener.adopt_orphans()?;
        self.open_record();
        Ok(())
    }

    /// The same for one that is kept because something else went wrong, of which the user was told. One warning is enough.
    pub fn keep_in_need(&mut self) -> std::io::Result<()> {
        self.warned = true;
        self.keep()
    }

    /// How it is kept.
    #[must_use]
    pub fn config(&self) -> &ChildConfig {
        &self.config
    }

    /// Its name on record.
    #[must_use]
    pub fn id(&self) -> &PenId {
        &self.id
    }

    /// Tells the names of what can happen, counted from `first`, to whoever waits for it; there are [`ChildKeeper::EVENTS`] of them.
    /// `is_heard` if there is room for what the child says.
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

    /// How many names [`ChildKeeper::want`] uses.
    pub const EVENTS: usize = 5;

    /// When there is something to be done by itself.
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

    /// Carries on with the end of the child, if it is to end.
    pub fn end_on(&mut self) -> Option<ChildLoss> {
        let child = self.child.as_mut()?;
        child.end_on();
        if child.remains.as_ref().and_then(Remains::deadline).is_some_and(|at| at <= Instant::now()) {
            child.end_remains(&mut self.opener);
            return self.look_after();
        }
        None
    }

    /// Takes in what the pen's processes have told.
    pub fn hear(&mut self) -> Option<ChildLoss> {
        let child = self.child.as_mut()?;
        let (lost, generation) = (child.hear(), child.generation);
        lost.filter(|_| !child.may_not_have_been_executed()).map(|cause| ChildLoss::Died(generation, Cause(cause)))
    }

    /// Looks after the processes of the pen, and notices when none is left.
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
                    // All of its keepers were killed: what is left of the tree has been handed to us.
                    let generation = child.generation;
                    let is_ours = child.take_over(&self.opener, self.config.spec.graces.term());
                    return is_ours.then(|| ChildLoss::Died(generation, Cause(KEEPERS_KILLED.to_owned())));
                }
                ReapOutcome::Empty => {
                    child.hear();
                    return Some(ChildLoss::TreeEmpty);
                }
            }
        }
    }

    /// How the child ended of which nothing is left. `state` is what was to become of it.
    pub fn take_end(&mut self, state: &State) -> Option<ChildEnd> {
        let child = self.child.take()?;
        self.next_look = None;
        let cause = match (&child.not_executed, &child.ended) {
            (Some(why), _) => why.clone(),
            (None, Some(how)) => format!("the child {how}"),
            (None, None) if child.guard.is_none() => "it could not be started".to_owned(),
            (None, None) => KEEPERS_KILLED.to_owned(),
        };
        let cause = match child.refused.first() {
            Some(left) => format!("process {} of the last one may not be signalled, and is still there", left.pid),
            None => cause,
        };
        // The first time there is somebody to be told that the command is wrong. And as long as somebody of the last one is
        // left, there is no next one.
        let is_hopeless =
            child.not_executed.is_some() && child.generation == Generation(1) || !child.refused.is_empty();
        if let Some(remains) = &child.remains {
            remains.dissolve();
        }
        if let Some(series) = &self.series {
            series.bury(&child.open_pen.id);
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
            cause: Cause(cause),
            is_hopeless,
            was_stopped: ended_by_others || child.was_interrupted(self.config.spec.graces),
            was_to_be_suspended: child.was_to_be_suspended(),
        })
    }

    /// Starts a child. Nothing may be left of the last one. None of its keepers has what is `not_for_it`.
    pub fn start(&mut self, generation: Generation, not_for_it: &[BorrowedFd<'_>]) -> Result<(), Cause> {
        let spec = Spec { die_with: Vec::new(), ..self.config.spec.clone() };
        let details = RecordDetails { sweep: false, ..self.config.details.clone() };
        let keeper: Box<dyn Witness> = Box::new(RecordKeeper::new(details));
        let id = self.id.in_series(generation.0);
        let started = PenEventSender::new(keeper, self.series.is_none()).map_err(|error| error.to_string()).and_then(
            |(sender, pen_events)| {
                let open_pen =
                    self.opener.start(&spec, id, Box::new(sender), not_for_it).map_err(|error| error.to_string())?;
                let is_ready = spec.ready == Ready::Started;
                Ok(Child::new(generation, open_pen, pen_events, self.config.max_line, is_ready))
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
                Err(Cause(why))
            }
        }
    }

    /// Tears the child down. `patience` is how long what it was told may take to reach it.
    pub fn tear_down(&mut self, why: Why, patience: Duration) {
        let Some(child) = &mut self.child else { return };
        child.ending = match (order_for(why), why) {
            (Some(order), _) => Ending::Order(order),
            // Whoever stops it tells it himself; its input stays open until then.
            (None, Why::Stop) => child.ending,
            // It has no input whose end could ask it.
            (None, _) if self.config.spec.daemon => {
                child.ask(Ask::Stop);
                Ending::SentLines
            }
            (None, _) => Ending::EndOfInput(Instant::now() + patience),
        };
        child.end_on();
    }

    /// Whether there is a child that is ready, as the user has defined it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.child.as_ref().is_some_and(|child| child.says.is_ready)
    }

    /// Takes from the child the lines that it has not read, and never will.
    #[must_use]
    pub fn take_unread(&mut self) -> Vec<u8> {
        self.child.as_mut().map(|child| child.channel.take_unread()).unwrap_or_default()
    }

    /// Its input ends, now.
    pub fn end_of_input(&mut self) {
        if let Some(child) = &mut self.child {
            child.ending = Ending::EndOfInput(Instant::now());
        }
    }

    /// Its output has ended. It cannot answer any more, so it is asked to end, if it has not yet.
    pub fn is_mute(&mut self) {
        if let Some(child) = &mut self.child {
            child.channel.close_reader();
            if child.ending == Ending::No {
                child.ending = Ending::EndOfInput(Instant::now() + AFTER_ITS_OUTPUT);
            }
        }
    }

    /// Asks whoever keeps the child to end it.
    pub fn ask(&mut self, ask: Ask) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.ends_because(&ask);
            if ask == Ask::HandOver {
                tenancy.hands_over();
            }
        }
        let Some(child) = &mut self.child else { return };
        if ask == Ask::HandOver && child.ending == Ending::No {
            // What it is asked by first is the end of its input, which is ours to say: many servers know nothing else.
            child.ending = Ending::Order(Order::HandOver);
            child.end_on();
        } else if ask != Ask::HandOver {
            child.ask(ask);
        }
    }

    /// A signal has come for it. False if there is no child that could take it.
    pub fn pass(&mut self, arrived: Arrived, is_the_end: bool) -> bool {
        match &mut self.child {
            Some(child) => child.pass(arrived, is_the_end),
            None if is_the_end => self.code = Ended::Killed(arrived.signal).shell_code(),
            None => {}
        }
        self.child.is_some()
    }

    /// Somebody at the terminal pressed a key, which a child gets as well. False if that is somebody else's affair.
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

    /// What the child has written to its standard error; none if there is nothing now.
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

    /// Whether it is time to look at the memory of the tree, and whether that is too much, or far too much.
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

/// What can happen with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Its keepers have told something.
    PenEvent,
    /// Its front has ended. What that has told comes first.
    Front,
    /// It says something.
    Says,
    /// It writes to its standard error.
    Errors,
    /// It takes what is said to it.
    Listens,
}

impl Event {
    /// By the name that [`ChildKeeper::want`] has given it, without what that was counted from.
    #[must_use]
    pub fn of(name: usize) -> Option<Self> {
        [Self::PenEvent, Self::Front, Self::Says, Self::Errors, Self::Listens].get(name).copied()
    }
}
