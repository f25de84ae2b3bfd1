//! Looks once a second, and tells all viewers what has changed. **Without a viewer it does nothing**: no look, no wake-up.
//!
//! A new viewer gets a snapshot, and then changes. What is sent is bounded: a viewer that does not read fast enough misses changes, and gets
//! another snapshot.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use nostray_view::{Looker, Sample, Troubles};
use serde_json::json;
use tokio::sync::{broadcast, oneshot};

use crate::journal::RecentJournal;
use crate::row::Rows;

/// The time between two looks.
const PACE: Duration = Duration::from_secs(1);
/// So many changes wait for a slow viewer.
const BACKLOG: usize = 8;

/// What a viewer is sent, written once for all of them.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Change(Bytes),
    /// `nostray web` ends.
    End(Bytes),
}

/// A viewer's place.
#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) snapshot: Bytes,
    pub(crate) events: broadcast::Receiver<Event>,
}

#[derive(Debug)]
enum Request {
    Join(oneshot::Sender<Viewer>),
    History(String, oneshot::Sender<String>),
    End,
}

/// The handle of the thread that looks.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    requests: mpsc::Sender<Request>,
}

impl Feed {
    pub(crate) fn start() -> io::Result<Self> {
        let (requests, received) = mpsc::channel();
        std::thread::Builder::new().name("looker".to_owned()).spawn(move || Looking::new().run(&received))?;
        Ok(Self { requests })
    }

    /// A snapshot, and the changes that follow it. `None` if `nostray web` ends.
    pub(crate) async fn join(&self) -> Option<Viewer> {
        let (to, joined) = oneshot::channel();
        self.requests.send(Request::Join(to)).ok()?;
        joined.await.ok()
    }

    /// What the last minutes have seen of a child, as JSON.
    pub(crate) async fn history(&self, id: String) -> Option<String> {
        let (to, told) = oneshot::channel();
        self.requests.send(Request::History(id, to)).ok()?;
        told.await.ok()
    }

    /// Tells all viewers that `nostray web` ends.
    pub(crate) fn end(&self) {
        // The thread has ended already if this fails.
        self.requests.send(Request::End).ok();
    }
}

/// The thread that looks.
struct Looking {
    events: broadcast::Sender<Event>,
    looker: Looker,
    rows: Rows,
    troubles: Troubles,
    journal: Option<RecentJournal>,
    /// What viewers know: the JSON of each child, by id.
    known: BTreeMap<String, String>,
    known_notes: Vec<String>,
    last_look: Option<Instant>,
    /// Of the last look.
    took: Duration,
    /// Made for the first viewer that joins after a look.
    snapshot: Option<Bytes>,
}

impl Looking {
    fn new() -> Self {
        Self {
            events: broadcast::channel(BACKLOG).0,
            looker: Looker::default(),
            rows: Rows::default(),
            troubles: Troubles::default(),
            journal: None,
            known: BTreeMap::new(),
            known_notes: Vec::new(),
            last_look: None,
            took: Duration::ZERO,
            snapshot: None,
        }
    }

    fn run(mut self, requests: &mpsc::Receiver<Request>) {
        loop {
            let request = match self.last_look.filter(|_| self.events.receiver_count() > 0) {
                None => requests.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(last) => requests.recv_timeout(PACE.saturating_sub(last.elapsed())),
            };
            match request {
                Ok(Request::Join(to)) => {
                    let viewer = self.viewer();
                    to.send(viewer).ok(); // the viewer may have left meanwhile
                }
                Ok(Request::History(id, to)) => {
                    to.send(self.history(&id)).ok(); // as above
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let change = self.look();
                    self.tell(Event::Change(change));
                }
                Ok(Request::End) => return self.tell(Event::End(event("end", "{}"))),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn tell(&self, event: Event) {
        self.events.send(event).ok(); // the last viewer may have left meanwhile
    }

    /// Looks, and returns what has changed as an event.
    fn look(&mut self) -> Bytes {
        let began = Instant::now();
        let children = self.looker.quick();
        let (mut rows, mut seen) = (Vec::new(), BTreeMap::new());
        for child in &children {
            let row = self.rows.row(child, self.looker.rates(&child.pen.id));
            if self.known.get(&child.pen.id) != Some(&row) {
                rows.push(row.clone());
            }
            seen.insert(child.pen.id.clone(), row);
        }
        self.rows.end_look();
        let gone: Vec<&String> = self.known.keys().filter(|id| !seen.contains_key(*id)).collect();
        let gone = json!(gone).to_string();
        self.known = seen;
        self.known_notes = self.troubles.look(&children);
        let entries = match &mut self.journal {
            Some(journal) => journal.more(),
            journal => {
                *journal = Some(RecentJournal::new());
                Vec::new()
            }
        };
        (self.last_look, self.snapshot, self.took) = (Some(began), None, began.elapsed());
        let [rows, entries] = [rows, entries].map(|list| list.join(","));
        event(
            "change",
            &format!(
                r#"{{"now":{},"took":{},"rows":[{rows}],"gone":{gone},"journal":[{entries}],"notes":{}}}"#,
                now(),
                self.took.as_micros(),
                json!(self.known_notes)
            ),
        )
    }

    /// A viewer who knows everything up to now.
    fn viewer(&mut self) -> Viewer {
        let is_recent = |last: Instant| self.events.receiver_count() > 0 && last.elapsed() < PACE * 2;
        if !self.last_look.is_some_and(is_recent) {
            // Other viewers would miss this change.
            let change = self.look();
            self.tell(Event::Change(change));
        }
        let snapshot = self.snapshot.clone().unwrap_or_else(|| self.write_snapshot());
        self.snapshot = Some(snapshot.clone());
        Viewer { snapshot, events: self.events.subscribe() }
    }

    fn write_snapshot(&self) -> Bytes {
        let rows = self.known.values().map(String::as_str).collect::<Vec<_>>().join(",");
        let entries = self.journal.iter().flat_map(RecentJournal::entries).collect::<Vec<_>>().join(",");
        event(
            "snapshot",
            &format!(
                r#"{{"version":"{}","now":{},"took":{},"rows":[{rows}],"journal":[{entries}],"notes":{}}}"#,
                env!("CARGO_PKG_VERSION"),
                now(),
                self.took.as_micros(),
                json!(self.known_notes)
            ),
        )
    }

    /// Samples of this child, the oldest first: Unix time in milliseconds, memory, messages, calls, errors.
    fn history(&self, id: &str) -> String {
        let now = now();
        let sample = |sample: &Sample| {
            let ago = u64::try_from(sample.at.elapsed().as_millis()).unwrap_or(0);
            [now.saturating_sub(ago), sample.memory, sample.messages, sample.calls, sample.errors]
        };
        json!(self.looker.history(id).map(sample).collect::<Vec<_>>()).to_string()
    }
}

/// Milliseconds of Unix time.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(0)
}

/// A server-sent event. JSON has no line ends of its own.
fn event(name: &str, json: &str) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {json}\n\n"))
}
