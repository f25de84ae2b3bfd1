//! What the page is told of one child: the same facts as in `nostray ps --json`, without those that it does not show.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nostray_registry::{LastExit, MethodSeen, Process, Record, State, TrafficSeen, UsedBy, describe};
use nostray_sys::identity::Identity;
use nostray_sys::proc::Stat;
use nostray_view::{Listed, Rates, Saved, explain};
use serde::Serialize;

/// A child with more sessions than this is told with the first of them, and with their number.
const MAX_USERS: usize = 100;
/// The same for the processes of its tree.
const MAX_TREE: usize = 200;
/// A process may execute another program, so its command line is read again after this time.
const COMMAND_FOR: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    name: &'a str,
    state: &'static str,
    /// Why its record cannot be read.
    why: Option<String>,
    sessions: usize,
    used_by: Vec<User<'a>>,
    processes: usize,
    memory: u64,
    cpu: u64,
    cpu_percent: Option<f64>,
    restarts: Option<u64>,
    saved: SavedBytes,
    rates: Option<PerMinute>,
    traffic: Option<TrafficTold<'a>>,
    tree: Vec<Member>,
    #[serde(flatten)]
    record: Option<FromRecord<'a>>,
}

#[derive(Serialize)]
struct FromRecord<'a> {
    reason: Option<&'a str>,
    status: Option<&'a str>,
    generation: Option<u64>,
    is_shared: bool,
    key: Option<&'a str>,
    because: Option<&'a str>,
    slot: Option<&'a str>,
    session: Option<&'a str>,
    labels: &'a nostray_registry::Labels,
    since: u64,
    started: u64,
    command: &'a [String],
    cwd: &'a str,
    front: i32,
    spare: Option<i32>,
    guard: Option<i32>,
    child: Option<i32>,
    tier: &'a str,
    last_exit: Option<&'a LastExit>,
}

#[derive(Serialize)]
struct User<'a> {
    program: &'a str,
    pid: i32,
    session: Option<&'a str>,
    since: u64,
    front: Option<i32>,
}

#[derive(Serialize)]
struct Member {
    pid: i32,
    parent: Option<i32>,
    command: String,
}

#[derive(Serialize)]
struct SavedBytes {
    sharing: u64,
    sleeping: u64,
}

#[derive(Serialize)]
struct PerMinute {
    messages: f64,
    calls: f64,
    errors: f64,
}

#[derive(Serialize)]
struct TrafficTold<'a> {
    messages: u64,
    calls: u64,
    errors: u64,
    methods: Vec<MethodTold<'a>>,
}

#[derive(Serialize)]
struct MethodTold<'a> {
    name: &'a str,
    calls: u64,
    errors: u64,
    /// Of those that the child has answered.
    mean: Option<f64>,
}

/// Writes rows, and remembers command lines: reading them is most of the work.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    commands: HashMap<Identity, (Instant, String)>,
}

impl Rows {
    /// This child as JSON.
    pub(crate) fn row(&mut self, child: &Listed, rates: Option<Rates>) -> String {
        let Saved { sharing, sleeping } = child.saved();
        let row = Row {
            id: &child.pen.id,
            name: &child.name,
            state: child.condition.word(),
            why: child.pen.record.as_ref().err().map(explain),
            sessions: child.sessions(),
            used_by: child.used_by.iter().take(MAX_USERS).map(user).collect(),
            processes: child.tally.processes,
            memory: child.tally.memory,
            cpu: u64::try_from(child.tally.cpu.as_millis()).unwrap_or(u64::MAX),
            cpu_percent: child.cpu_percent.map(tenths),
            restarts: child.restarts(),
            saved: SavedBytes { sharing, sleeping },
            rates: rates.map(per_minute),
            traffic: child.traffic.as_ref().map(traffic),
            tree: child.pen.tree.iter().take(MAX_TREE).map(|stat| self.member(stat)).collect(),
            record: child.record().map(from_record),
        };
        // Nothing in a row can fail to be written.
        serde_json::to_string(&row).unwrap_or_default()
    }

    fn member(&mut self, stat: &Stat) -> Member {
        let known = self.commands.entry(stat.into()).or_insert_with(|| (Instant::now(), describe(stat.pid)));
        let parent = stat.parent.map(|parent| parent.as_raw_nonzero().get());
        Member { pid: stat.pid.as_raw_nonzero().get(), parent, command: known.1.clone() }
    }

    /// Forgets what may have changed, and the processes that have ended.
    pub(crate) fn end_look(&mut self) {
        self.commands.retain(|_, (read, _)| read.elapsed() < COMMAND_FOR);
    }
}

fn from_record(record: &Record) -> FromRecord<'_> {
    let pid = |process: Option<Process>| process.map(|process| process.pid);
    let shared = record.shared.as_ref();
    FromRecord {
        reason: match &record.state {
            State::Stopping { reason } => Some(reason),
            State::BackingOff { cause } | State::Tripped { cause } => Some(cause),
            State::Starting | State::Ready | State::Asleep => None,
        },
        status: record.status.as_deref(),
        generation: record.generation,
        is_shared: shared.is_some(),
        key: shared.and_then(|shared| shared.key.as_deref()),
        because: shared.and_then(|shared| shared.because.as_deref()),
        slot: record.slot.as_deref(),
        session: record.session.as_deref(),
        labels: &record.labels,
        since: record.since,
        started: record.started,
        command: &record.command,
        cwd: &record.cwd,
        front: record.front.pid,
        spare: pid(record.spare),
        guard: pid(record.guard),
        child: pid(record.child),
        tier: &record.tier,
        last_exit: record.last_exit.as_ref(),
    }
}

fn user(one: &UsedBy) -> User<'_> {
    User {
        program: &one.program,
        pid: one.process.pid,
        session: one.session.as_deref(),
        since: one.since,
        front: one.front.map(|front| front.pid),
    }
}

fn traffic(seen: &TrafficSeen) -> TrafficTold<'_> {
    let methods = seen.methods.iter().map(method).collect();
    TrafficTold { messages: seen.messages, calls: seen.calls, errors: seen.errors, methods }
}

fn method(seen: &MethodSeen) -> MethodTold<'_> {
    let mean = seen.time.as_secs_f64() * 1000.0 / seen.answers as f64;
    MethodTold {
        name: &seen.name,
        calls: seen.calls,
        errors: seen.errors,
        mean: (seen.answers > 0).then(|| (mean * 100.0).round() / 100.0),
    }
}

fn per_minute(rates: Rates) -> PerMinute {
    PerMinute { messages: tenths(rates.messages), calls: tenths(rates.calls), errors: tenths(rates.errors) }
}

/// With one digit behind the point, so that a row does not change for less.
fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
