//! The front of a supervised child: one thread that waits for whatever comes next from the host, the child and the clock, lets
//! the [`Session`] decide, and does what it says. It never waits for anybody, and keeps no more than what is on its way.

mod child;
mod gauge;
mod lines;
mod news;
mod outbox;
mod pens;
mod record;
mod wait;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_pen::{PenId, Remains, Spec, Yard};
use nostray_registry::{Passport, SeriesKeeper};
use nostray_rpc::Lines;
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::events::Events;
use nostray_sys::stream::Sink;

use crate::cache::Cache;
use crate::machine::{Generation, Moment, State};
use crate::session::{Effect, Session, Settings};
use child::{Child, Ending};
use outbox::Outbox;
use wait::Source;

pub use nostray_pen::Error;

/// When to look for what others have left: not while the child is starting.
const SETTLED: Duration = Duration::from_secs(2);

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
        host_is_wide: false,
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
        tidy_at: Some(Instant::now() + SETTLED / 4),
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
    /// Its output has been given more room.
    host_is_wide: bool,
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
        }
    }
}
