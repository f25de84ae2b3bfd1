//! What a new child must be told so that the host's session goes on as if nothing had happened: the handshake, and what the host
//! has set since. Each is kept as the line that the host wrote, and written to the new child as it is: an id that the host has
//! used once is free again in a child that has never seen it.

use nostray_rpc::Id;

use serde_json::Value;

use crate::cache::Asker;
use crate::lists::ListKind;
use crate::replays::{Entry, Replay, Replays};

/// How many subscriptions and how many lines named by `--replay` are kept. Beyond it the oldest is forgotten, but of what is open until
/// it is closed nothing is: there the next one is refused.
pub(crate) const MAX_REMEMBERED: usize = 1024;

/// A line as the host wrote it, with its end.
pub(crate) type Line = Box<[u8]>;

/// What the answer to a request will mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// Nothing to us.
    Nothing,
    /// That the connection is alive.
    Ping,
    /// The older era's handshake.
    Initialize(Line),
    /// The newer era's way to ask what a server can do, with the client that asks.
    Discover(Option<Asker>),
    /// A page of a list.
    List {
        kind: ListKind,
        /// Where it begins; the first page has none.
        cursor: Option<String>,
        /// All that was said with it.
        params: Value,
    },
    /// A call of the newer era, which may be answered by a question.
    Call,
    /// The log level.
    SetLevel(Line),
    /// News of a resource from now on.
    Subscribe(String, Line),
    /// No more of them.
    Unsubscribe(String),
    /// A stream of notifications, which is open until host or child end it.
    Listen(Line),
    /// Named by the user.
    Replay(Entry),
}

impl Note {
    /// Whether the host waits for no answer that ends it.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Listen(_))
    }
}

/// What is remembered of a session.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    initialize: Option<Line>,
    initialized: Option<Line>,
    level: Option<Line>,
    subscriptions: Vec<(String, Line)>,
    listens: Vec<Listen>,
    pub(crate) replays: Replays,
}

/// A stream that the host has asked for.
#[derive(Debug)]
struct Listen {
    id: Id,
    line: Line,
    /// The host knows that it is open.
    acknowledged: bool,
}

/// One thing to tell a new child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The handshake, whose answer is compared with the last one.
    Handshake(Line),
    /// A request, whose answer is waited for and swallowed.
    Ask(Line),
    /// A notification.
    Tell(Line),
    /// A stream that goes on: what comes of it is the host's, but that it was opened only if the host does not know.
    Reopen { id: Id, line: Line, acknowledged: bool },
}

impl Memory {
    /// A memory that also keeps what `--replay` names.
    pub(crate) fn new(replays: Vec<Replay>) -> Self {
        Self { replays: Replays::new(replays), ..Self::default() }
    }

    /// Whether the host has begun a session in the older era.
    pub(crate) fn has_handshake(&self) -> bool {
        self.initialize.is_some()
    }

    /// The session has begun, or begins anew.
    pub(crate) fn initialize(&mut self, line: Line) {
        let mut replays = std::mem::take(&mut self.replays);
        replays.clear();
        *self = Self { initialize: Some(line), replays, ..Self::default() };
    }

    /// The host's `notifications/initialized`.
    pub(crate) fn initialized(&mut self, line: Line) {
        self.initialized = Some(line);
    }

    pub(crate) fn set_level(&mut self, line: Line) {
        self.level = Some(line);
    }

    pub(crate) fn subscribe(&mut self, uri: String, line: Line) {
        self.unsubscribe(&uri);
        push(&mut self.subscriptions, (uri, line));
    }

    pub(crate) fn unsubscribe(&mut self, uri: &str) {
        self.subscriptions.retain(|(subscribed, _)| subscribed != uri);
    }

    pub(crate) fn listen(&mut self, id: Id, line: Line) {
        self.unlisten(&id);
        push(&mut self.listens, Listen { id, line, acknowledged: false });
    }

    /// The host learns that a stream is open.
    pub(crate) fn acknowledged(&mut self, id: &Id) {
        if let Some(listen) = self.listens.iter_mut().find(|listen| listen.id == *id) {
            listen.acknowledged = true;
        }
    }

    /// True if it was one.
    pub(crate) fn unlisten(&mut self, id: &Id) -> bool {
        let before = self.listens.len();
        self.listens.retain(|listen| listen.id != *id);
        before > self.listens.len()
    }

    /// Whether it is a stream that was open before.
    pub(crate) fn listens(&self, id: &Id) -> bool {
        self.listens.iter().any(|listen| listen.id == *id)
    }

    /// The streams that carry news of a list.
    pub(crate) fn listening_for(&self, kind: ListKind) -> Vec<Id> {
        let wants = |line: &[u8]| {
            nostray_rpc::find(line, &["params", "notifications", kind.filter()])
                .is_some_and(|at| &line[at] == b"true")
        };
        self.listens.iter().filter(|listen| wants(&listen.line)).map(|listen| listen.id.clone()).collect()
    }

    /// All that a new child is told, in this order.
    pub(crate) fn script(&self) -> Vec<Step> {
        let mut script = Vec::new();
        if let Some(line) = &self.initialize {
            script.push(Step::Handshake(line.clone()));
        }
        script.extend(self.initialized.clone().map(Step::Tell));
        script.extend(self.level.clone().map(Step::Ask));
        script.extend(self.subscriptions.iter().map(|(_, line)| Step::Ask(line.clone())));
        for line in self.replays.lines() {
            let is_request = matches!(
                nostray_rpc::read(line.trim_ascii_end()),
                Ok(nostray_rpc::Message::One(nostray_rpc::Envelope { kind: nostray_rpc::Kind::Request { .. }, .. }))
            );
            script.push(if is_request { Step::Ask(line.clone()) } else { Step::Tell(line.clone()) });
        }
        script.extend(self.listens.iter().map(|Listen { id, line, acknowledged }| Step::Reopen {
            id: id.clone(),
            line: line.clone(),
            acknowledged: *acknowledged,
        }));
        script
    }
}

fn push<T>(kept: &mut Vec<T>, new: T) {
    if kept.len() >= MAX_REMEMBERED {
        kept.remove(0);
    }
    kept.push(new);
}
