//! The front of a supervised child: one thread that waits for whatever comes next from the host, the child and the clock, lets
//! the [`Session`] decide, and does what it says. It never waits for anybody, and keeps no more than what is on its way.

mod child;
mod gauge;
mod news;
mod outbox;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_pen::{PenId, Remains, Spec, Witness, Yard, Yielded};
use nostray_registry::{Passport, RecordKeeper, SeriesKeeper, Story};
use nostray_rpc::{Found, Lines};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::events::Events;
use nostray_sys::poll::{self, Until};
use nostray_sys::process::Ended;
use nostray_sys::signal::Signal;
use nostray_sys::stream::{self, Sink};

use crate::cache::Cache;
use crate::machine::{Cause, Generation, Moment, State, Why};
use crate::session::{Effect, Session, Settings, Verdict};
use child::{Child, Ending, KEEPERS_KILLED, order_for};
use news::Telling;
use outbox::Outbox;

pub use nostray_pen::Error;

/// More than this on its way to somebody, and nothing more is read that would go there too. Not less, or the next long line
/// could not be read while the last one is written.
const ENOUGH: usize = 1 << 20;
/// The same for what we answer ourselves.
const TOO_MUCH: usize = 4 << 20;
/// How much of the child's stderr is kept for a host that does not read it. What is beyond is lost, or the child would wait.
const STDERR_KEPT: usize = 64 << 10;
/// When to look for what others have left: not while the child is starting.
const SETTLED: Duration = Duration::from_secs(2);
/// What a child that has ended can have left in its pipe. Somebody who outlives it may write for ever.
const MOST_IN_A_PIPE: usize = 1 << 20;
/// So long without a long line, and the memory that they need is given back.
const A_WHILE: Duration = Duration::from_millis(500);
/// How long a child whose output has ended may take to end itself.
const AFTER_ITS_OUTPUT: Duration = Duration::from_secs(2);

/// What a user wants.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to contain, and how.
    pub spec: Spec,
    /// What is said of it on record.
    pub passport: Passport,
    /// How the session is kept.
    pub settings: Settings,
    /// The memory that the child's tree may use.
    pub max_memory: Option<u64>,
    /// The longest line that is passed on.
    pub max_line: usize,
    /// Whether what an earlier run has said about itself is good enough until somebody calls.
    pub lazy: bool,
    /// Whether to write down what this run says about itself.
    pub remember: bool,
}

/// Runs a supervised child for the host that started this process, and returns the exit code to end with once nothing is left.
///
/// **For a program that is declared with `nostray_sys::program!`, with one thread, that does nothing else.**
pub fn run(options: Options) -> Result<u8, Error> {
    let yard = Yard::open(&options.spec.die_with)?;
    let events = Events::new().map_err(|error| Error::System { action: "watch for events", error })?;
    let directory = std::env::current_dir().unwrap_or_default();
    let cache = (options.lazy || options.remember).then(|| Cache::open(&options.spec.command, &directory));
    let seed = nostray_sys::process::random();
    let session = Session::new(options.settings.clone(), cache, options.lazy, seed);
    let id = PenId::new();
    let series = match SeriesKeeper::open(&id, &options.spec, &options.passport, yard.host()) {
        Ok(series) => Some(series),
        Err(why) => {
            write_to_stderr_at_once(&format!("nostray: this child is contained, but not on record: {why}\n"));
            None
        }
    };
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let host = HostEnds { stdin: stdin.as_fd(), stdout: stdout.as_fd(), stderr: stderr.as_fd() };
    Ok(Front {
        from_host: Some(Lines::new(options.max_line)),
        to_host: Outbox::new(Sink::of(host.stdout)),
        errors: Outbox::new(Sink::of(host.stderr)),
        host,
        options,
        events,
        yard,
        id,
        series,
        session,
        child: None,
        began: Instant::now(),
        told: None,
        next_look: None,
        sweep_at: Some(Instant::now() + SETTLED),
        tidy_at: None,
        code: 0,
        host_gone: false,
        hung_up: None,
        farewell: None,
        host_deaf: false,
    }
    .run())
}

/// The host's streams. They are shared with it, so nothing about them is changed.
#[derive(Debug, Clone, Copy)]
struct HostEnds<'a> {
    stdin: BorrowedFd<'a>,
    stdout: BorrowedFd<'a>,
    stderr: BorrowedFd<'a>,
}

struct Front<'a> {
    options: Options,
    events: Events,
    yard: Yard,
    id: PenId,
    series: Option<SeriesKeeper>,
    session: Session,
    host: HostEnds<'a>,
    /// Until the host ends its output.
    from_host: Option<Lines>,
    to_host: Outbox,
    errors: Outbox,
    child: Option<Child>,
    began: Instant,
    /// The state that is on record.
    told: Option<(State, Generation)>,
    /// When to look at the memory of the tree.
    next_look: Option<Instant>,
    sweep_at: Option<Instant>,
    /// When to give back what long lines have needed.
    tidy_at: Option<Instant>,
    code: u8,
    host_gone: bool,
    /// The host has closed its end while nobody could take what it had said: how long somebody still may.
    hung_up: Option<Instant>,
    /// The session is over, and how long the host may take to read the rest.
    farewell: Option<Instant>,
    /// The host does not read any more.
    host_deaf: bool,
}

/// Something that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Signals,
    FromHost,
    HostHungUp,
    ToHost,
    Errors,
    FromChild,
    ToChild,
    ChildErrors,
    Inbox,
    Pen,
    /// The host, and from here on those that the user has named.
    HostEnded,
}

impl Source {
    fn of(name: usize) -> Self {
        const ALL: [Source; 10] = [
            Source::Signals,
            Source::FromHost,
            Source::HostHungUp,
            Source::ToHost,
            Source::Errors,
            Source::FromChild,
            Source::ToChild,
            Source::ChildErrors,
            Source::Inbox,
            Source::Pen,
        ];
        ALL.get(name).copied().unwrap_or(Self::HostEnded)
    }
}

impl Front<'_> {
    fn run(mut self) -> u8 {
        self.session.begin(self.now());
        let mut names = Vec::new();
        loop {
            self.do_what_is_due();
            if self.is_over() {
                break;
            }
            names.clear();
            self.wait(&mut names);
            for &name in &names {
                self.on(Source::of(name));
            }
        }
        self.save();
        if let Some(series) = self.series.take() {
            series.close();
        }
        self.code
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    /// Nothing lives, nothing will, and the host has got all that it wants to read. One that reads nothing for as long as its
    /// child would have been given to end waits for us, as we would for it.
    fn is_over(&mut self) -> bool {
        if self.child.is_some() || !self.session.is_over() {
            return false;
        }
        let (now, patience) = (Instant::now(), self.options.spec.graces.eof());
        self.to_host.is_empty()
            || self.host_gone
            || self.host_deaf
            || *self.farewell.get_or_insert_with(|| now + patience) <= now
    }

    /// Waits for something to happen, and says what. Only what there is room for is looked at.
    fn wait(&mut self, names: &mut Vec<usize>) {
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let stamp = self.session.generation().0;
        let events = &mut self.events;
        let mut want = |source: Source, fd: BorrowedFd<'_>, until| events.want(source as usize, fd, until, 0);
        want(Source::Signals, self.yard.signals(), Until::Readable);
        if !self.to_host.is_empty() && !self.host_deaf {
            want(Source::ToHost, self.host.stdout, Until::Writable);
        }
        if !self.errors.is_empty() {
            want(Source::Errors, self.host.stderr, Until::Writable);
        }
        if self.from_host.is_some() && !self.host_gone {
            if self.session.has_room()
                && self.to_host.len() < TOO_MUCH
                && self.child.as_ref().is_none_or(|child| child.to.len() < ENOUGH)
            {
                want(Source::FromHost, self.host.stdin, Until::Readable);
            } else if self.yard.stdin_tells() && self.hung_up.is_none() {
                // Nobody can take what it says now; that it has closed its end must be seen all the same.
                want(Source::HostHungUp, self.host.stdin, Until::HungUp);
            }
        }
        if !self.host_gone {
            for (number, fd) in self.yard.ends().enumerate() {
                events.want(Source::HostEnded as usize + number, fd, Until::Readable, 0);
            }
        }
        if let Some(child) = &self.child {
            let mut want = |source: Source, fd: BorrowedFd<'_>, until| events.want(source as usize, fd, until, stamp);
            if let Some(inbox) = child.inbox.fd() {
                want(Source::Inbox, inbox, Until::Readable);
            }
            if let Some(front) = child.penned.front() {
                want(Source::Pen, front, Until::Readable);
            }
            if let Some(stdout) = child.stdout.as_ref().filter(|_| self.to_host.len() < ENOUGH) {
                want(Source::FromChild, stdout.as_fd(), Until::Readable);
            }
            if let Some(stderr) = &child.stderr {
                want(Source::ChildErrors, stderr.as_fd(), Until::Readable);
            }
            if let Some(stdin) = child.stdin.as_ref().filter(|_| !child.to.is_empty()) {
                want(Source::ToChild, stdin.as_fd(), Until::Writable);
            }
        }
        if let Err(error) = events.wait(timeout, names) {
            // Without a way to wait there is no way to go on; the tree ends with us.
            write_to_stderr_at_once(&format!("nostray: cannot wait for events: {error}\n"));
            self.host_gone = true;
            self.session.release(self.began.elapsed());
        }
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        let session = self.session.deadline().map(|at| self.began + at);
        let child = self.child.as_ref().and_then(|child| match child.ending {
            Ending::EndOfInput(at) => Some(at),
            _ => None,
        });
        let remains = self.child.as_ref().and_then(|child| child.remains.as_ref()?.deadline());
        let own = [self.next_look, self.sweep_at, self.tidy_at, self.hung_up, self.farewell];
        own.into_iter().chain([session, child, remains]).flatten().min()
    }

    fn on(&mut self, source: Source) {
        let result = match source {
            Source::Signals => {
                self.on_signals();
                Ok(())
            }
            Source::HostEnded => {
                self.on_host_ended();
                Ok(())
            }
            Source::FromHost => self.read_host(),
            Source::HostHungUp => {
                self.hung_up = Some(Instant::now() + self.options.spec.graces.eof());
                Ok(())
            }
            Source::ToHost => {
                self.farewell = None; // it reads
                self.to_host.flush(self.host.stdout)
            }
            Source::Errors => {
                if self.errors.flush(self.host.stderr).is_err() {
                    self.errors.discard();
                }
                Ok(())
            }
            Source::FromChild => self.read_child(false),
            Source::ToChild => {
                self.flush_to_child();
                Ok(())
            }
            Source::ChildErrors => {
                self.read_errors();
                Ok(())
            }
            Source::Inbox => {
                self.hear();
                Ok(())
            }
            // What it has told comes first.
            Source::Pen => {
                self.hear();
                Ok(())
            }
        };
        if result.is_err() {
            self.host_is_deaf();
        }
    }

    /// The host cannot be written to: it has closed its end, so nobody waits for an answer.
    fn host_is_deaf(&mut self) {
        self.host_deaf = true;
        self.to_host.discard();
        self.session.release(self.now());
    }

    fn on_signals(&mut self) {
        while let Some(arrived) = self.yard.next_signal() {
            if let Some(at_once) = Yard::asks_to_stop(arrived) {
                self.session.stop(self.now());
                if let Some(child) = &mut self.child {
                    child.ask_to_stop(at_once);
                }
                continue;
            }
            let is_the_end = Yard::is_the_end(arrived);
            match &mut self.child {
                Some(child) if Yard::is_key(arrived) => {
                    child.interrupted = Some(Instant::now()).filter(|_| is_the_end).or(child.interrupted);
                    continue;
                }
                None if arrived.signal == Signal::TSTP && Yard::is_key(arrived) => {
                    Yard::stop_with_terminal(arrived.signal);
                    continue;
                }
                _ => {}
            }
            // As without us: the child gets what the host sent, and what follows is the pen's affair.
            if is_the_end && self.child.is_none() && self.session.is_over() {
                self.farewell = Some(Instant::now()); // only the host is waited for, which has no patience left
                continue;
            }
            if is_the_end {
                self.session.stop(self.now());
            }
            match &mut self.child {
                Some(child) => child.pass(arrived.signal, is_the_end),
                None if is_the_end => self.code = Ended::Killed(arrived.signal).shell_code(),
                None => {}
            }
        }
        self.look_after_pen();
    }

    fn on_host_ended(&mut self) {
        let events: Vec<_> = self.yard.ends().map(|fd| (fd, Until::Readable)).collect();
        let came = poll::wait(&events, Some(Duration::ZERO)).unwrap_or_default();
        if came.contains(&true) {
            self.host_gone = true;
            self.from_host = None;
            self.session.release(self.now());
            if let Some(child) = &mut self.child {
                child.ending = Ending::EndOfInput(Instant::now());
            }
        }
    }

    fn read_host(&mut self) -> io::Result<()> {
        let now = self.now();
        let Some(mut lines) = self.from_host.take() else { return Ok(()) };
        let count = stream::read(self.host.stdin, lines.space()).unwrap_or(Some(0));
        let ended = count == Some(0);
        lines.filled(count.unwrap_or(0));
        // Lines that go on as they are and follow each other are written in one piece.
        let mut run: Option<Range<usize>> = None;
        loop {
            let found = if ended { lines.next_found().or_else(|| lines.rest_found()) } else { lines.next_found() };
            let Some(found) = found else { break };
            match found {
                Found::Whole(span) => {
                    let (text, raw) = (lines.bytes(span.text), lines.bytes(span.raw.clone()));
                    let verdict = self.session.host_says(text, raw, now);
                    // What we say to the child ourselves comes before or after, never between.
                    if self.session.has_effects() || verdict != Verdict::Forward {
                        self.pass_to_child(&mut lines, run.take(), false);
                        self.perform();
                    }
                    match verdict {
                        Verdict::Forward if lines.bytes(span.raw.clone()).last() != Some(&b'\n') => {
                            self.pass_to_child(&mut lines, run.take(), false);
                            self.tell_child(&[lines.bytes(span.raw), b"\n"].concat());
                        }
                        Verdict::Forward => {
                            run = Some(run.map_or(span.raw.start, |run| run.start)..span.raw.end);
                        }
                        Verdict::Replace(line) => self.tell_child(&line),
                        Verdict::Swallow | Verdict::Log(_) => {}
                    }
                }
                Found::TooLong { length, skimmed } => {
                    self.session.host_said_too_much(length, self.options.max_line, &skimmed);
                    self.perform();
                }
            }
        }
        self.pass_to_child(&mut lines, run, true);
        self.tidy_after(&lines);
        if ended {
            self.session.host_closed(self.options.spec.graces.eof(), now);
        } else {
            self.from_host = Some(lines);
        }
        self.perform();
        Ok(())
    }

    /// Passes on what was found. `is_last` if nothing else is to be done with what was found there.
    fn pass_to_child(&mut self, lines: &mut Lines, found: Option<Range<usize>>, is_last: bool) {
        let (Some(found), Some(child)) = (found, &mut self.child) else { return };
        let Some(stdin) = &child.stdin else { return };
        if child.to.pass_found(stdin.as_fd(), lines, found, is_last).is_err() {
            child.to.discard(); // it has closed its input; its end will be told
        }
    }

    fn tell_child(&mut self, bytes: &[u8]) {
        let Some(child) = &mut self.child else { return };
        let Some(stdin) = &child.stdin else { return };
        if child.to.pass(stdin.as_fd(), bytes).is_err() {
            child.to.discard(); // it has closed its input; its end will be told
        }
    }

    fn flush_to_child(&mut self) {
        let Some(child) = &mut self.child else { return };
        let Some(stdin) = &child.stdin else { return };
        if child.to.flush(stdin.as_fd()).is_err() {
            child.to.discard();
        }
    }

    /// Reads what the child says. At its end all that is there, however slow the host is: no more than a pipe holds.
    fn read_child(&mut self, to_the_end: bool) -> io::Result<()> {
        let mut left = MOST_IN_A_PIPE;
        loop {
            let now = self.now();
            let Some(child) = &mut self.child else { return Ok(()) };
            let Some(stdout) = &child.stdout else { return Ok(()) };
            let Some(mut lines) = child.from.take() else { return Ok(()) };
            let count = stream::read(stdout, lines.space()).unwrap_or(Some(0));
            lines.filled(count.unwrap_or(0));
            let passed = self.pass_on(&mut lines, now);
            self.tidy_after(&lines);
            if count == Some(0) {
                if let Some(Found::Whole(span)) = lines.rest_found() {
                    self.log("cut off", lines.bytes(span.text));
                }
                self.child_is_mute();
            } else if let Some(child) = &mut self.child {
                child.from = Some(lines);
            }
            passed?;
            left = left.saturating_sub(count.unwrap_or(0));
            if !to_the_end || left == 0 || !matches!(count, Some(1..)) {
                return Ok(());
            }
        }
    }

    fn pass_on(&mut self, lines: &mut Lines, now: Moment) -> io::Result<()> {
        let mut run: Option<Range<usize>> = None;
        while let Some(found) = lines.next_found() {
            match found {
                Found::Whole(span) => {
                    let verdict = self.session.child_says(lines.bytes(span.text.clone()), now);
                    // What was said before goes first.
                    if self.session.has_effects() || verdict != Verdict::Forward {
                        self.pass_to_host(lines, run.take(), false)?;
                        self.perform();
                    }
                    match verdict {
                        Verdict::Forward => {
                            run = Some(run.map_or(span.raw.start, |run| run.start)..span.raw.end);
                        }
                        Verdict::Replace(line) => self.tell_host(&line)?,
                        Verdict::Swallow => {}
                        Verdict::Log(why) => self.log(&why, lines.bytes(span.text)),
                    }
                }
                Found::TooLong { length, skimmed } => {
                    self.session.child_said_too_much(length, self.options.max_line, &skimmed, now);
                    self.log(&format!("longer than --max-line ({length} bytes)"), b"");
                    self.perform();
                }
            }
        }
        self.pass_to_host(lines, run, true)
    }

    fn pass_to_host(&mut self, lines: &mut Lines, found: Option<Range<usize>>, is_last: bool) -> io::Result<()> {
        match found {
            Some(found) if !self.host_deaf => self.to_host.pass_found(self.host.stdout, lines, found, is_last),
            _ => Ok(()),
        }
    }

    fn tell_host(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.host_deaf { Ok(()) } else { self.to_host.pass(self.host.stdout, bytes) }
    }

    /// Its output has ended. It cannot answer any more, so it is asked to end, if it has not yet.
    fn child_is_mute(&mut self) {
        if let Some(child) = &mut self.child {
            child.stdout = None;
            if child.ending == Ending::No {
                child.ending = Ending::EndOfInput(Instant::now() + AFTER_ITS_OUTPUT);
            }
        }
    }

    /// True if there may be more.
    fn read_errors(&mut self) -> bool {
        let Some(child) = &mut self.child else { return false };
        let Some(stderr) = &child.stderr else { return false };
        let mut buffer = [0; 16 << 10];
        match stream::read(stderr, &mut buffer) {
            Ok(Some(0)) | Err(_) => {
                child.stderr = None;
                false
            }
            Ok(None) => false,
            Ok(Some(count)) => {
                self.session.stderr(&buffer[..count]);
                let room = STDERR_KEPT.saturating_sub(self.errors.len());
                if self.errors.pass(self.host.stderr, &buffer[..count.min(room)]).is_err() {
                    self.errors.discard();
                }
                true
            }
        }
    }

    /// Takes in what the pen's processes have told.
    fn hear(&mut self) {
        let Some(child) = &mut self.child else { return };
        let (lost, generation) = (child.hear(), child.generation);
        if let Some(cause) = lost.filter(|_| !child.may_not_have_been_executed()) {
            self.child_is_lost(generation, &cause);
        }
        self.look_after_pen();
    }

    fn child_is_lost(&mut self, generation: Generation, cause: &str) {
        // What it has said before counts.
        self.read_all();
        self.session.child_died(generation, Cause(cause.to_owned()), self.now());
        self.perform();
    }

    fn read_all(&mut self) {
        if self.read_child(true).is_err() {
            self.host_is_deaf();
        }
        // Bounded, too: each time is no more than the buffer.
        for _ in 0..64 {
            if !self.read_errors() {
                break;
            }
        }
    }

    /// Looks after the processes of the pen, and notices when none is left.
    fn look_after_pen(&mut self) {
        loop {
            let Some(child) = &mut self.child else { return };
            self.yard.abandon(&child.refused);
            match self.yard.reap(&mut child.penned) {
                Yielded::Front(how) => {
                    child.front_ended = true;
                    if let Ended::Exited(code) = how {
                        self.code = code;
                    }
                }
                Yielded::Stopped(by) => {
                    Yard::stop_with_terminal(by);
                    child.penned.send(Signal::CONT);
                }
                Yielded::Nothing => {
                    // All of its keepers were killed: what is left of the tree has been handed to us.
                    let generation = child.generation;
                    if child.take_over(&self.yard, self.options.spec.graces.term()) {
                        self.child_is_lost(generation, KEEPERS_KILLED);
                    }
                    return;
                }
                Yielded::Empty => return self.child_is_gone(),
            }
        }
    }

    fn child_is_gone(&mut self) {
        if let Some(child) = &mut self.child {
            child.hear();
        }
        self.read_all();
        let now = self.now();
        let Some(child) = self.child.take() else { return };
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
        let hopeless = child.not_executed.is_some() && child.generation == Generation(1) || !child.refused.is_empty();
        if let Some(remains) = &child.remains {
            remains.dissolve();
        }
        if child.ended_by_others && child.ending == Ending::No || child.was_interrupted(self.options.spec.graces) {
            self.session.stop(now);
        }
        let was_put_to_rest =
            matches!(self.session.state(), State::Stopping { why: Why::Hibernate | Why::Memory | Why::Age, .. });
        if hopeless {
            self.session.child_hopeless(child.generation, Cause(cause), now);
        } else {
            self.session.child_emptied(child.generation, Cause(cause), now);
        }
        if was_put_to_rest {
            self.code = 0; // how it ended says nothing about the session
        }
        if let Some(series) = &self.series {
            series.bury(&child.penned.id);
        }
        // The next one must not inherit what is ours of this one.
        drop(child);
        self.perform();
    }

    /// Does what the session says.
    fn perform(&mut self) {
        while self.session.has_effects() {
            for effect in self.session.effects() {
                match effect {
                    Effect::ToHost(line) if !self.host_deaf => {
                        if self.to_host.pass(self.host.stdout, &line).is_err() {
                            self.host_is_deaf();
                        }
                    }
                    Effect::ToHost(_) => {}
                    Effect::ToChild(line) => self.tell_child(&line),
                    Effect::Start(generation) => self.start(generation),
                    Effect::TearDown(_, why) => self.tear_down(why),
                }
            }
        }
        self.put_on_record();
    }

    fn start(&mut self, generation: Generation) {
        let now = self.now();
        // Its end may not have been seen yet, and nothing is started for nobody.
        self.on_host_ended();
        if self.host_gone {
            self.session.child_emptied(generation, Why::Released.cause(), now);
            return;
        }
        let spec = Spec { die_with: Vec::new(), ..self.options.spec.clone() };
        let passport = Passport { sweep: false, ..self.options.passport.clone() };
        let keeper: Box<dyn Witness> = Box::new(RecordKeeper::new(passport));
        let id = self.id.in_series(generation.0);
        let started = Telling::new(keeper).map_err(|error| error.to_string()).and_then(|(telling, inbox)| {
            let penned = self.yard.start(&spec, id, Box::new(telling)).map_err(|error| error.to_string())?;
            Ok(Child::new(generation, penned, inbox, self.options.max_line))
        });
        match started {
            Ok(child) => {
                self.child = Some(child);
                self.next_look = self.options.max_memory.map(|_| Instant::now() + gauge::PERIOD);
                self.session.child_started(generation, now);
            }
            Err(why) => {
                write_to_stderr_at_once(&format!("nostray: {why}\n"));
                self.code = nostray_pen::OWN_FAILURE;
                self.session.child_emptied(generation, Cause(why), now);
            }
        }
    }

    fn tear_down(&mut self, why: Why) {
        let patience = self.options.spec.graces.eof();
        let Some(child) = &mut self.child else { return };
        child.ending = match (order_for(why), why) {
            (Some(order), _) => Ending::Order(order),
            // Whoever stops it tells it himself; its input stays open until then.
            (None, Why::Stop) => child.ending,
            (None, _) => Ending::EndOfInput(Instant::now() + if self.host_gone { Duration::ZERO } else { patience }),
        };
        child.end_on();
    }

    fn do_what_is_due(&mut self) {
        let now = self.now();
        if self.session.deadline().is_some_and(|at| at <= now) {
            self.session.tick(now);
        }
        self.perform();
        if let Some(child) = &mut self.child {
            child.end_on();
            if child.remains.as_ref().and_then(Remains::deadline).is_some_and(|at| at <= Instant::now()) {
                child.end_remains(&mut self.yard);
                self.look_after_pen();
            }
        }
        if self.next_look.is_some_and(|at| at <= Instant::now()) {
            self.look_at_memory();
        }
        if self.hung_up.is_some_and(|at| at <= Instant::now()) {
            self.hung_up = None;
            self.from_host = None;
            self.session.release(now);
            self.perform();
        }
        if self.tidy_at.is_some_and(|at| at <= Instant::now()) {
            self.tidy();
        }
        if self.sweep_at.is_some_and(|at| at <= Instant::now()) {
            self.sweep_at = None;
            if let Some(sweeper) = self.series.as_ref().and_then(SeriesKeeper::sweep) {
                self.yard.is_sweeper(sweeper);
            }
            self.save();
            nostray_sys::memory::release_program_pages();
        }
    }

    /// Long lines tend to come in numbers, so what they need is kept until none has come for a while.
    fn tidy_after(&mut self, lines: &Lines) {
        if lines.is_large() {
            self.tidy_at = Some(Instant::now() + A_WHILE);
        }
    }

    fn tidy(&mut self) {
        self.tidy_at = None;
        self.to_host.tidy();
        if let Some(lines) = &mut self.from_host {
            lines.tidy();
        }
        if let Some(child) = &mut self.child {
            child.to.tidy();
            if let Some(lines) = &mut child.from {
                lines.tidy();
            }
        }
        nostray_sys::memory::release_free();
    }

    fn look_at_memory(&mut self) {
        self.next_look = Some(Instant::now() + gauge::PERIOD);
        let now = self.now();
        let (Some(child), Some(limit)) = (&self.child, self.options.max_memory) else { return };
        let (Some(gauge), Some((guard, _))) = (&child.gauge, &child.guard) else { return };
        let generation = child.generation;
        if let Some(used) = gauge.over(limit, *guard) {
            self.session.over_memory(generation, used > limit.saturating_mul(2), now);
            self.perform();
        }
    }

    fn log(&mut self, why: &str, line: &[u8]) {
        if let Some(series) = &mut self.series {
            series.printed(why, line);
        }
    }

    fn save(&mut self) {
        if let Some(cache) = self.session.cache()
            && let Err(error) = cache.save()
        {
            write_to_stderr_at_once(&format!("nostray: what --lazy needs could not be written down: {error}\n"));
        }
    }

    /// Writes down what has become of the child, if it is something else than before.
    fn put_on_record(&mut self) {
        let (state, generation) = (self.session.state(), self.session.generation());
        if self.told.as_ref().is_some_and(|(told, of)| told == state && *of == generation) {
            return;
        }
        let state = state.clone();
        let before = self.told.replace((state.clone(), generation)).map(|(state, _)| state);
        if matches!(state, State::Asleep | State::Tripped { .. }) {
            self.save();
        }
        let Some(series) = &mut self.series else { return };
        use nostray_registry::State as Recorded;
        let recorded = match &state {
            State::Asleep | State::Ended => Recorded::Asleep,
            State::Starting(_) => Recorded::Starting,
            State::Ready { .. } => Recorded::Ready,
            State::Stopping { why, .. } => Recorded::Stopping { reason: why.cause().0 },
            State::Falling { cause, .. } => Recorded::Stopping { reason: cause.0.clone() },
            State::BackingOff { cause } => Recorded::BackingOff { cause: cause.0.clone() },
            State::Tripped { cause } => Recorded::Tripped { cause: cause.0.clone() },
        };
        series.enter(recorded, generation.0);
        match (&state, before) {
            (State::Ready { .. }, Some(State::Starting(_))) => {
                let after = self.child.as_ref().map_or(0, |child| child.started.elapsed().as_millis());
                series.tell(Story::Answering { generation: generation.0, after: u64::try_from(after).unwrap_or(0) });
            }
            (State::BackingOff { cause }, _) => {
                let pause =
                    self.session.deadline().map_or(0, |at| at.saturating_sub(self.began.elapsed()).as_millis());
                series.tell(Story::Respawning {
                    generation: generation.0 + 1,
                    pause: u64::try_from(pause).unwrap_or(0),
                    cause: cause.0.clone(),
                });
            }
            (State::Tripped { cause }, _) => {
                write_to_stderr_at_once(&format!(
                    "nostray: {cause}; it failed too often ({}), and calls are answered with an error for a while\n",
                    self.options.settings.policy.max_failures
                ));
                series.tell(Story::Tripped { cause: cause.0.clone() });
            }
            (State::Asleep, Some(State::Stopping { .. })) => series.tell(Story::Asleep),
            _ => {}
        }
    }
}
