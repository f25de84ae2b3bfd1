//! The front of a supervised child: one thread that waits for the next event of host, child and clock, lets the
//! [`Session`] decide, and does what it says. It never blocks on a peer, and keeps no more than what is on its way.

mod lines;
mod own;
mod shared;
mod shortcut;
mod status;
mod upstream;
mod wait;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_pen::{PenId, PenOpener};
use nostray_registry::{Process, StatusLines};
use nostray_rpc::Lines;
use nostray_slot::{Entered, enter};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::events::Events;
use nostray_sys::stream::Sink;

use crate::cache::Cache;
use crate::child_keeper::{ChildConfig, ChildKeeper};
use crate::error_text::ServerLabel;
use crate::link::Share;
use crate::machine::{Moment, State};
use crate::outbox::Outbox;
use crate::session::{Effect, Session, Settings};
use shared::Shared;
use status::Status;
use upstream::Upstream;
use wait::Source;

pub use nostray_pen::Error;

/// When to sweep what dead hosts have left: not while the child is starting.
const AFTER_START: Duration = Duration::from_secs(2);

/// What a user wants.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to run.
    pub child: ChildConfig,
    /// How the session is kept.
    pub settings: Settings,
    /// Whether handshake and lists are answered from an earlier run until the host makes a call.
    pub lazy: bool,
    /// Whether to write down what this run says about itself.
    pub remember: bool,
    /// Attach to a shared child, if the broker can be reached.
    pub share: Option<Share>,
    /// The slot that a child of our own needs.
    pub slot: Option<nostray_slot::SlotRequest>,
    /// Where the host reads what becomes of the child.
    pub status: Option<StatusLines>,
}

/// Runs a supervised child for the host that started this process, and returns the exit code to end with once nothing is left.
///
/// **For a program that is declared with `nostray_sys::program!`, with one thread, that does nothing else.**
pub fn run(options: Options) -> Result<u8, Error> {
    let Options { child: config, settings, lazy, remember, share, slot, status } = options;
    let mut opener = PenOpener::open(&config.spec.die_with)?;
    let id = PenId::new();
    let tenancy = match slot.map(|wish| enter(&mut opener, wish, &id, status.as_ref())).transpose() {
        Ok(None) => None,
        Ok(Some(Entered::Got(tenancy))) => Some(tenancy),
        Ok(Some(Entered::Over(code))) => return Ok(code),
        Err(why) => return Err(Error::Refused(why.to_string())),
    };
    let events = Events::new().map_err(|error| Error::System { action: "watch for events", error })?;
    let directory = std::env::current_dir().unwrap_or_default();
    let cache = (lazy || remember).then(|| Cache::open(&config.spec.command, &directory));
    let own_policy = settings.policy.clone();
    let settings = match share {
        Some(_) => Settings { policy: Shared::policy(own_policy.on_demand), ..settings },
        None => settings,
    };
    let mut session = Session::new(settings, cache, lazy, nostray_sys::process::random());
    let from_host = Some(Lines::new(config.max_line));
    let mut keeper = ChildKeeper::new(config, opener, id);
    let upstream = match share {
        Some(mut share) => {
            share.attach.host = keeper.opener.host().map(Process::from);
            Upstream::Shared(Box::new(Shared::new(share, own_policy)))
        }
        None => {
            keeper.keep().map_err(|error| Error::System { action: "become a subreaper", error })?;
            keeper.counters().into_iter().for_each(|traffic| session.count_traffic(traffic));
            Upstream::Own
        }
    };
    if let Some(tenancy) = tenancy {
        keeper.hold(tenancy).map_err(Error::Refused)?;
    }
    session.call_server(match &upstream {
        Upstream::Own => label_of_own(&mut keeper),
        // Its steward says more.
        Upstream::Shared(shared) => ServerLabel { name: shared.name(&keeper), details: None },
    });
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let host = HostEnds { stdin: stdin.as_fd(), stdout: stdout.as_fd(), stderr: stderr.as_fd() };
    Ok(Front {
        from_host,
        host_is_wide: false,
        to_host: Outbox::new(Sink::of(host.stdout)),
        errors: Outbox::new(Sink::of(host.stderr)),
        host,
        events,
        keeper,
        upstream,
        session,
        status: Status::to(status),
        began: Instant::now(),
        sweep_at: Some(Instant::now() + AFTER_START),
        tidy_at: Some(Instant::now() + AFTER_START / 4),
        host_gone: false,
        hung_up: None,
        farewell: None,
        host_deaf: false,
    }
    .run())
}

/// What errors call a child of the front's own. Its stderr is the host's, so what is kept of it is in the journal.
fn label_of_own(keeper: &mut ChildKeeper) -> ServerLabel {
    let name = keeper.name();
    ServerLabel { name, details: keeper.record().map(|record| format!("nostray log {}", record.id())) }
}

/// The host's streams. They are shared with it, so nothing about them is changed.
#[derive(Debug, Clone, Copy)]
struct HostEnds<'a> {
    stdin: BorrowedFd<'a>,
    stdout: BorrowedFd<'a>,
    stderr: BorrowedFd<'a>,
}

struct Front<'a> {
    events: Events,
    /// Keeps a child of the front's own, if there is one, and the front's record.
    keeper: ChildKeeper,
    upstream: Upstream,
    session: Session,
    status: Status,
    host: HostEnds<'a>,
    /// Until the host ends its output.
    from_host: Option<Lines>,
    /// Its output has been given more room.
    host_is_wide: bool,
    to_host: Outbox,
    errors: Outbox,
    began: Instant,
    sweep_at: Option<Instant>,
    /// When to give back what long lines have needed.
    tidy_at: Option<Instant>,
    host_gone: bool,
    /// The host has closed its end while no child could take what it had said: how long one still may.
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
        self.keeper.close_record();
        self.keeper.code
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    /// Nothing lives, nothing will, and the host has got all that it wants to read. One that reads nothing for as long as its
    /// child would have been given to end waits for us, as we would for it.
    fn is_over(&mut self) -> bool {
        if self.keeper.child.is_some() || !self.session.is_over() {
            return false;
        }
        let (now, patience) = (Instant::now(), self.keeper.config().spec.graces.eof());
        self.to_host.is_empty()
            || self.host_gone
            || self.host_deaf
            || *self.farewell.get_or_insert_with(|| now + patience) <= now
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        let session = self.session.deadline().map(|at| self.began + at);
        let shared = self.upstream.shared();
        let link = shared
            .and_then(|shared| [shared.link.deadline(), shared.shortcut.deadline()].into_iter().flatten().min());
        let own = [self.sweep_at, self.tidy_at, self.hung_up, self.farewell];
        own.into_iter().chain([session, self.keeper.deadline(), link]).flatten().min()
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
                    Effect::Connect(generation) => self.connect(generation),
                    Effect::Disconnect(_, why) => self.disconnect(why),
                    // A front that starts the child itself knows both without being told.
                    Effect::Demand => self.upstream.shared_mut().into_iter().for_each(Shared::demand),
                    Effect::Told => self.upstream.shared_mut().into_iter().for_each(Shared::say_told),
                }
            }
        }
        self.put_on_record();
    }

    fn put_on_record(&mut self) {
        let Self { session, keeper, began, .. } = self;
        let pause = || session.pause(began.elapsed());
        let limit = session.policy().max_failures;
        let is_new = keeper.put_on_record(session.state(), session.generation(), pause, limit);
        if is_new && matches!(session.state(), State::Asleep | State::Tripped { .. }) {
            self.save();
        }
    }

    /// Writes down what the server has said about itself.
    fn save(&mut self) {
        if let Some(cache) = self.session.cache()
            && let Err(error) = cache.save()
        {
            write_to_stderr_at_once(&format!("nostray: what --lazy needs could not be written down: {error}\n"));
        }
    }

    fn do_what_is_due(&mut self) {
        let now = self.now();
        if self.session.deadline().is_some_and(|at| at <= now) {
            self.session.tick(now);
            // A timer without a message leaves the front idle, with pages that only the timer needed.
            nostray_sys::memory::release_program_pages_at_next_wait();
        }
        self.perform();
        // What is called back is awaited, which the link looks after.
        self.look_at_shortcut();
        self.go_on_with_link();
        if let Some(loss) = self.keeper.end_on() {
            self.on_child_lost(loss);
        }
        if let Some((generation, far)) = self.keeper.over_memory() {
            self.session.over_memory(generation, far, now);
            self.perform();
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
            self.keeper.sweep();
            self.save();
            // The sweep has touched much of the program once more.
            self.tidy_at = Some(Instant::now());
        }
    }
}
