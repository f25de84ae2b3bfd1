//! The steward: keeps one child for all the sessions that hold it. One thread waits for the next event of sessions,
//! child, broker and clock; the [lifecycle](Lifecycle) decides when there is a child, and the [router](Router) which
//! message belongs to which session. It never blocks on a peer.

mod attachments;
mod child;
mod leases;
mod lines;
mod wait;

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nostray_pen::{Error, PenId, PenOpener, Ready, Spec};
use nostray_registry::{Predecessors, RecordDetails, Shared, Story};
use nostray_slot::Claim;
use nostray_supervise::error_text::ServerLabel;
use nostray_supervise::lifecycle::{Activity, Effect};
use nostray_supervise::wire::{ChildSettings, SlotSettings, StewardSetup, ToBroker, send};
use nostray_supervise::{Cause, ChildConfig, ChildKeeper, Generation, Lifecycle, MachineEvent, Moment, State};
use nostray_sys::descriptors::own_stdin;
use nostray_sys::events::Events;
use nostray_sys::process::{random_numbers, set_name, set_title};

use crate::router::{Router, Routing, WireIds};
use attachments::Attachments;

const NAME: &str = "nostray-steward";
/// How many calls a session may have in flight while it is alone.
const MAX_IN_FLIGHT: usize = 1024;
/// When to sweep what dead hosts have left, and to give back the memory that only the start needed.
const AFTER_START: Duration = Duration::from_secs(2);

/// Keeps a child for the sessions that the broker sends, and returns the exit code once no session holds it and nothing is left of
/// it.
///
/// **For a program that is declared with `nostray_sys::program!`, with one thread, that does nothing else.**
pub fn run() -> Result<u8, Error> {
    set_name(NAME);
    let system = |action| move |error| Error::System { action, error };
    // First of all: what is open now is taken for what the child is to have.
    let mut opener = PenOpener::open(&[])?;
    opener.take_more_files();
    let control = own_stdin().map_err(system("take over the broker's socket"))?;
    let setup = StewardSetup::receive(&control).map_err(system("hear the broker"))?;
    let id = PenId::new();
    set_title(&format!("{NAME} {id}"));
    let command = setup.command.iter().map(|word| word.0.clone()).collect();
    let StewardSetup { key, any_dir, because, beside, settings, .. } = setup;
    let shared = Shared { key, any_dir, because, leases: Vec::new() };
    let config = ChildConfig {
        spec: spec(command, &settings),
        details: RecordDetails { shared: Some(shared.clone()), sweep: true, ..RecordDetails::default() },
        max_memory: settings.max_memory,
        max_line: settings.max_line,
    };
    let ChildSettings { policy, protocol, reverse, route_by, slot, .. } = settings;
    let routing = Routing { protocol, reverse, route_by, window: MAX_IN_FLIGHT };
    let mut keeper = ChildKeeper::new(config, opener, id);
    keeper.keep().map_err(system("become a subreaper"))?;
    let mut router = Router::new(routing, wire_ids());
    router.call_server(ServerLabel {
        name: keeper.name(),
        details: Some(format!("nostray log {} --output", keeper.id())),
    });
    if !keeper.config().spec.daemon {
        keeper.counters().into_iter().for_each(|traffic| router.count_traffic(traffic));
    }
    let mut steward = Steward {
        lifecycle: Lifecycle::new(policy, nostray_sys::process::random()),
        router,
        attachments: Attachments::default(),
        keeper,
        control: Some(control),
        events: Events::new().map_err(system("watch for events"))?,
        to_child: Vec::new(),
        room: Vec::new(),
        last_cause: None,
        looks: 0,
        shared,
        shared_at: None,
        slot,
        claim: None,
        slot_news: None,
        beside,
        predecessors: None,
        waits_to_start: None,
        leases: 0,
        last_linger: Duration::ZERO,
        told_idle: None,
        is_up: false,
        is_leaving: false,
        is_over: false,
        began: Instant::now(),
        sweep_at: Some(Instant::now() + AFTER_START),
        tidy_at: Some(Instant::now() + AFTER_START / 4),
    };
    steward.introduce();
    // The session for which the broker has started this steward is there already.
    steward.hear_broker();
    Ok(steward.serve())
}

fn spec(command: Vec<OsString>, settings: &ChildSettings) -> Spec {
    let daemon = settings.daemon.as_ref();
    Spec {
        daemon: daemon.is_some(),
        ready: daemon.map(|daemon| daemon.ready.clone()).unwrap_or_default(),
        ready_timeout: daemon.and_then(|daemon| daemon.ready_timeout),
        graces: settings.graces,
        isolation: settings.isolation,
        ..Spec::new(command)
    }
}

struct Steward {
    keeper: ChildKeeper,
    lifecycle: Lifecycle,
    router: Router,
    attachments: Attachments,
    /// The broker's socket, until it has gone.
    control: Option<OwnedFd>,
    events: Events,
    /// What is to be written with the rest of what is being read.
    to_child: Vec<u8>,
    /// What the sessions are read into.
    room: Vec<u8>,
    /// How the last child ended.
    last_cause: Option<Cause>,
    /// How often predecessors were looked at.
    looks: u32,
    /// What is on record of the sessions, and when it is brought up to date.
    shared: Shared,
    shared_at: Option<Instant>,
    /// The slot that a child needs.
    slot: Option<SlotSettings>,
    /// What we do to get it, and what is known of that.
    claim: Option<Claim>,
    slot_news: Option<String>,
    /// Records in which the first start need not look for predecessors.
    beside: HashSet<String>,
    /// What has to be gone before a child is started, and when to look again.
    predecessors: Option<(Predecessors, Instant)>,
    /// The child that is started then.
    waits_to_start: Option<Generation>,
    /// How many leases have come.
    leases: u64,
    /// How long the child is kept after the session that was detached last.
    last_linger: Duration,
    /// The broker knows that nothing is left to do, as of so many leases.
    told_idle: Option<u64>,
    /// There is a child that can be talked to.
    is_up: bool,
    /// Everything ends.
    is_leaving: bool,
    is_over: bool,
    began: Instant,
    sweep_at: Option<Instant>,
    tidy_at: Option<Instant>,
}

/// Ids that no session can guess, as large as every reader of JSON can keep them.
fn wire_ids() -> WireIds {
    const BITS: u32 = 53;
    let mut random = random_numbers();
    Box::new(move || (random() >> (u64::BITS - BITS)).cast_signed().max(1))
}

impl Steward {
    fn serve(mut self) -> u8 {
        let mut names = Vec::new();
        while !self.is_over {
            self.do_what_is_due();
            names.clear();
            self.wait(&mut names);
            for &name in &names {
                self.on(name);
            }
        }
        self.keeper.close_record();
        0
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    /// Says why this child is not the one that other sessions share, and tells the broker how it is called on record.
    fn introduce(&mut self) {
        let because = self.shared.because.clone();
        if let Some(why) = because
            && let Some(record) = self.keeper.record()
        {
            record.tell(Story::Apart { why });
        }
        self.tell_broker(&ToBroker::Named(self.keeper.id().to_string()));
    }

    fn tell_broker(&mut self, word: &ToBroker) {
        use std::os::fd::AsFd;
        if let Some(control) = &self.control {
            // A broker that has gone is noticed by its socket.
            send(control.as_fd(), word, None).ok();
        }
    }

    fn do_what_is_due(&mut self) {
        let now = self.now();
        if self.lifecycle.deadline().is_some_and(|at| at <= now) {
            self.settle();
        }
        while let Some(effects) = self.lifecycle.tick(now) {
            self.perform(effects);
        }
        if let Some(loss) = self.keeper.end_on() {
            self.on_child_lost(loss);
        }
        if let Some((generation, far)) = self.keeper.over_memory() {
            use MachineEvent::{FarOverMemory, OverMemory};
            self.drive(if far { FarOverMemory(generation) } else { OverMemory(generation) });
        }
        self.go_on_with_start();
        self.settle();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        self.see_off();
        if due(self.shared_at) {
            self.shared_at = None;
            self.put_leases_on_record();
        }
        if due(self.sweep_at) {
            self.sweep_at = None;
            self.keeper.sweep();
            // The sweep has touched much of the program once more.
            self.tidy_at = Some(Instant::now());
        }
        if due(self.tidy_at) {
            self.tidy_at = None;
            self.tidy();
        }
        self.look_whether_over();
    }

    /// Without a session and without a child there is nothing to do. The broker knows whether a session is on its way.
    fn look_whether_over(&mut self) {
        let is_idle = self.attachments.is_empty()
            && !self.lifecycle.is_lingering()
            && self.keeper.child.is_none()
            && self.waits_to_start.is_none()
            && self.lifecycle.state().live().is_none();
        if !is_idle {
            return;
        }
        if self.is_leaving || self.control.is_none() {
            self.is_over = true;
        } else if self.told_idle != Some(self.leases) {
            self.told_idle = Some(self.leases);
            self.tell_broker(&ToBroker::Idle { seen: self.leases });
        }
    }

    /// Lets the lifecycle see whether the child is ready, and what is in flight.
    fn settle(&mut self) {
        let now = self.now();
        // To hold a daemon is to need it, and nothing else ever does.
        if self.is_daemon() && *self.lifecycle.state() == State::Asleep && !self.attachments.is_empty() {
            self.drive(MachineEvent::Demanded);
        }
        if matches!(self.lifecycle.state(), State::Starting(_)) {
            let effects = self.look_whether_ready(now);
            self.perform(effects);
        }
        let is_busy = self.router.is_busy(now);
        let effects = self.lifecycle.observe(Activity { asked: is_busy, busy: is_busy }, now);
        if !effects.is_empty() {
            self.perform(effects);
        }
    }

    /// Whether the child is a daemon, which takes no messages.
    fn is_daemon(&self) -> bool {
        self.keeper.config().spec.daemon
    }

    /// A child is ready with its first answer. A daemon has no protocol: it is ready by the user's condition, or as soon as it runs.
    fn look_whether_ready(&mut self, now: Moment) -> Vec<Effect> {
        let has_condition = self.keeper.config().spec.ready != Ready::Started;
        match self.is_daemon() {
            false if self.router.has_answered() => self.lifecycle.child_answered(now),
            true if has_condition && self.keeper.is_ready() => self.lifecycle.child_answered(now),
            true if self.keeper.is_ready() => self.lifecycle.child_runs(now),
            _ => Vec::new(),
        }
    }
}
