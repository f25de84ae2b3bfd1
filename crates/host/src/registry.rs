//! Every child on record: of this program, of other hosts, and of `nostray` on the command line.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::Stream;

use nostray_pen::{Ask, Takes};
use nostray_registry::{Entry, Followers, Outcome, Pen, Place, Policy, State, Story, census, sweep};
use nostray_sys::Pidfd;
use nostray_sys::identity::Identity;
use nostray_sys::poll::{Until, wait};

use crate::spawn::{PenNumber, pens_of_session};
use crate::wakeup::{Wakeup, sleep};

/// A child on record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Child {
    /// Its name.
    pub id: String,
    /// How far it has come.
    pub state: ChildState,
    /// Its command line, with secrets masked.
    pub command: Vec<String>,
    /// The session that it belongs to.
    pub session: Option<String>,
    /// What was attached to it.
    pub labels: BTreeMap<String, String>,
    /// The slot that it holds.
    pub slot: Option<String>,
    /// The process that started it.
    pub host: Option<i32>,
    /// Its own process.
    pub pid: Option<i32>,
    /// The processes of its tree.
    pub tree: Vec<i32>,
    /// Bytes of memory that its tree uses.
    pub memory: u64,
    pen: Pen,
}

/// How far a child has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChildState {
    /// It is being started, or is not ready yet.
    Starting,
    /// It is ready.
    Ready,
    /// Its tree is being ended.
    Stopping,
    /// It was ended since no host called it; the next call starts it.
    Asleep,
    /// It ended by itself, and is started again in a while.
    BackingOff,
    /// It failed too often; calls are refused for a while.
    Tripped,
    /// All of nostray's processes around it are dead. A sweep ends what is left of it.
    Orphaned,
}

impl ChildState {
    /// The word that `nostray ps` shows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::Asleep => "asleep",
            Self::BackingOff => "backing-off",
            Self::Tripped => "tripped",
            Self::Orphaned => "orphaned",
        }
    }
}

impl fmt::Display for ChildState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&State> for ChildState {
    fn from(state: &State) -> Self {
        match state {
            State::Starting => Self::Starting,
            State::Ready => Self::Ready,
            State::Stopping { .. } => Self::Stopping,
            State::Asleep => Self::Asleep,
            State::BackingOff { .. } => Self::BackingOff,
            State::Tripped { .. } => Self::Tripped,
        }
    }
}

/// What happened to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// Its guard was started.
    Started,
    /// It is ready.
    Ready,
    /// Its program could not be executed.
    NotExecuted,
    /// A daemon has forked into the background.
    Forked,
    /// The end of its tree has begun.
    Stopping,
    /// Its own process has ended.
    Exited,
    /// Processes of its tree did not end when they were asked to, and were killed.
    Killed,
    /// Nothing is left of its tree.
    Empty,
    /// A sweep has ended what was left of it.
    Swept,
    /// A sweep found processes that may be of its tree, or not.
    Unproved,
    /// It ended by itself, and is started again in a while.
    Respawning,
    /// It failed too often, and is not started again for a while.
    Tripped,
    /// It was ended since no host called it.
    Asleep,
    /// A new child has taken up the session.
    Answering,
    /// A session holds it, too.
    Attached,
    /// A session holds it no more.
    Detached,
    /// It is ended, since no session holds it any more.
    Unheld,
    /// It is a child of its own, for sessions that a shared one cannot serve.
    Apart,
    /// It has named no session in the way that `--route-by` says.
    NeverRouted,
    /// Something about its slot.
    Slot,
    /// Something was not done.
    Refused,
    /// Something that this version does not know.
    Unknown,
}

impl From<&Story> for ChangeKind {
    fn from(story: &Story) -> Self {
        match story {
            Story::Started { .. } => Self::Started,
            Story::Ready { .. } => Self::Ready,
            Story::NotExecuted { .. } => Self::NotExecuted,
            Story::Forked { .. } => Self::Forked,
            Story::Stopping(_) => Self::Stopping,
            Story::Exited { .. } => Self::Exited,
            Story::Killed { .. } => Self::Killed,
            Story::Empty => Self::Empty,
            Story::Swept { .. } => Self::Swept,
            Story::Unproved { .. } => Self::Unproved,
            Story::Respawning { .. } => Self::Respawning,
            Story::Tripped { .. } => Self::Tripped,
            Story::Asleep => Self::Asleep,
            Story::Answering { .. } => Self::Answering,
            Story::Attached { .. } => Self::Attached,
            Story::Detached { .. } => Self::Detached,
            Story::Unheld { .. } => Self::Unheld,
            Story::Apart { .. } => Self::Apart,
            Story::NeverRouted { .. } => Self::NeverRouted,
            Story::Slot { .. } => Self::Slot,
            Story::Refused { .. } => Self::Refused,
            _ => Self::Unknown,
        }
    }
}

/// Something that happened to a child, as the journal tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The child.
    pub id: String,
    /// Milliseconds of Unix time.
    pub time: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The same as JSON, with all that is known of it; `nostray log --json` shows the same.
    pub detail: serde_json::Value,
}

/// How to end what dead owners have left.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SweepPolicy {
    /// Only look.
    pub dry_run: bool,
    /// No more time than this for all of it.
    pub budget: Duration,
}

impl Default for SweepPolicy {
    fn default() -> Self {
        Self { dry_run: false, budget: Policy::thorough().budget }
    }
}

impl SweepPolicy {
    /// Only looks.
    #[must_use]
    pub fn dry_run() -> Self {
        Self { dry_run: true, ..Self::default() }
    }
}

/// What came of one dead owner's child.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Swept {
    /// Its name.
    pub id: String,
    /// The processes that were left.
    pub found: Vec<i32>,
    /// How many still are, or may be.
    pub left: usize,
}

/// Every child on record. A directory is read; there is no server, and nothing to be opened.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Registry;

/// How often to look what has happened.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a child may take beyond what it was promised.
const MARGIN: Duration = Duration::from_secs(15);

impl Registry {
    /// The one of this user.
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    /// Every child on record. What cannot be read is left out; `nostray ps` says why.
    #[must_use]
    pub fn list(&self) -> Vec<Child> {
        census().into_iter().filter_map(child).collect()
    }

    /// Those of a session.
    #[must_use]
    pub fn active_for_session(&self, key: &str) -> Vec<Child> {
        let belongs = |child: &Child| {
            let record = child.pen.record.as_ref();
            let leases = record.iter().flat_map(|record| &record.shared).flat_map(|shared| &shared.leases);
            child.session.as_deref() == Some(key)
                || leases.into_iter().any(|lease| lease.session.as_deref() == Some(key))
        };
        self.list().into_iter().filter(belongs).collect()
    }

    /// Ends all that belongs to a session, politely, and waits until nothing is left of it: for a closed connection, for a request to
    /// close a session, and for the shutdown of a server. Of a child that several sessions share, only this one's hold ends. Returns
    /// the names of the children that did not end.
    pub fn close_session(&self, key: &str) -> Vec<String> {
        self.close_session_before(key, None)
    }

    /// The same, but of the pens of this process only those started before this number.
    pub(crate) fn close_session_before(&self, key: &str, before: Option<PenNumber>) -> Vec<String> {
        let begun = Instant::now();
        let mut asked = Vec::new();
        let on_record = self.active_for_session(key);
        // A pen of this process that is just being started is not on record yet.
        let (ours, later): (Vec<_>, Vec<_>) =
            pens_of_session(key).into_iter().partition(|own| before.is_none_or(|before| own.number < before));
        for own in ours {
            if on_record.iter().all(|child| child.id != own.id) && nostray_pen::ask(&own.front, Ask::Stop).is_ok() {
                asked.push((own.id, vec![own.front], own.promised));
            }
        }
        for child in on_record.into_iter().filter(|child| later.iter().all(|own| own.id != child.id)) {
            let Ok(record) = &child.pen.record else { continue };
            match &record.shared {
                Some(shared) => {
                    let ours = shared.leases.iter().filter(|lease| lease.session.as_deref() == Some(key));
                    for front in ours.filter_map(|lease| lease.front.identity()).filter_map(Identity::open) {
                        // It may be of another version than its steward.
                        nostray_pen::send(&front, Ask::Stop, Takes::Terms).ok();
                        asked.push((child.id.clone(), vec![Arc::new(front)], Duration::ZERO));
                    }
                }
                None => {
                    let keepers = record.keepers().into_iter().filter_map(Identity::open).map(Arc::new).collect();
                    let promised = Duration::from_millis(record.eof_grace.saturating_add(record.term_grace));
                    if child.pen.ask(Ask::Stop) {
                        asked.push((child.id.clone(), keepers, promised));
                    }
                }
            }
        }
        let still = |(id, handles, promised): (String, Vec<Arc<Pidfd>>, Duration)| {
            // A promise that no clock can keep was none of ours.
            let deadline = begun.checked_add(promised.saturating_add(MARGIN)).unwrap_or(begun + MARGIN);
            (!have_ended(handles, deadline)).then_some(id)
        };
        asked.into_iter().filter_map(still).collect()
    }

    /// Ends what dead owners have left behind, and nothing else.
    pub fn sweep(&self, policy: &SweepPolicy) -> Vec<Swept> {
        let policy = Policy { dry_run: policy.dry_run, budget: policy.budget, ..Policy::thorough() };
        let numbers = |found: Vec<nostray_registry::Found>| -> Vec<i32> {
            found.into_iter().map(|found| found.process.pid.as_raw_nonzero().get()).collect()
        };
        let swept = sweep(&policy).into_iter().filter_map(|swept| match swept.outcome {
            Outcome::Survivors { found, left } => Some(Swept { id: swept.id, found: numbers(found), left }),
            Outcome::Unproved { found, candidates } => {
                Some(Swept { id: swept.id, found: numbers(found), left: candidates.len() })
            }
            _ => None,
        });
        swept.collect()
    }

    /// What happens from now on. Dropping it ends it.
    #[must_use]
    pub fn watch(&self) -> Watch {
        // Before the first child ever there is nothing to follow, and it will be there.
        Place::for_writing().ok();
        Watch { followers: Followers::from_now(), ready: Vec::new(), pause: None }
    }
}

/// What happens to children, as it happens.
#[derive(Debug)]
pub struct Watch {
    followers: Followers,
    ready: Vec<Change>,
    /// Until the next look.
    pause: Option<Wakeup>,
}

impl Watch {
    /// The next change. In a runtime.
    pub async fn next(&mut self) -> Change {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Change> {
        loop {
            if let Some(change) = self.try_next() {
                return Poll::Ready(change);
            }
            // A file that others add to has no event that all systems know; a tenth of a second is soon enough for a person.
            let pause = self.pause.get_or_insert_with(|| sleep(POLL_INTERVAL));
            if ready!(Pin::new(pause).poll(context)).is_err() {
                std::thread::sleep(POLL_INTERVAL); // no thread could be started that wakes this task
            }
            self.pause = None;
        }
    }

    /// The next change, if there is one now.
    pub fn try_next(&mut self) -> Option<Change> {
        if self.ready.is_empty() {
            self.ready = self.followers.more().into_iter().map(change).collect();
            self.ready.reverse();
        }
        self.ready.pop()
    }
}

/// It has no end.
impl Stream for Watch {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        self.poll(context).map(Some)
    }
}

fn change(entry: Entry) -> Change {
    let (kind, detail) = (ChangeKind::from(&entry.story), serde_json::to_value(&entry).unwrap_or_default());
    Change { id: entry.id, time: entry.time, kind, detail }
}

fn child(pen: Pen) -> Option<Child> {
    let record = pen.record.as_ref().ok()?;
    let tally = pen.tally();
    let number = |process: Option<nostray_registry::Process>| process.map(|process| process.pid);
    Some(Child {
        id: pen.id.clone(),
        state: if pen.owner_alive { ChildState::from(&record.state) } else { ChildState::Orphaned },
        command: record.command.clone(),
        session: record.session.clone(),
        labels: record.labels.clone(),
        slot: record.slot.clone(),
        host: number(record.host),
        pid: number(record.child),
        tree: pen.tree.iter().map(|stat| stat.pid.as_raw_nonzero().get()).collect(),
        memory: tally.memory,
        pen,
    })
}

fn have_ended(mut handles: Vec<Arc<Pidfd>>, deadline: Instant) -> bool {
    while !handles.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let events: Vec<_> = handles.iter().map(|handle| (handle.as_fd(), Until::Readable)).collect();
        let ended = wait(&events, Some(left)).unwrap_or_default();
        if !ended.contains(&true) {
            return false;
        }
        let mut ended = ended.into_iter();
        handles.retain(|_| !ended.next().unwrap_or(false));
    }
    true
}
