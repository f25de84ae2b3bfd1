//! Which message belongs to which session, when many sessions share one child. Lines come in, lines and effects go out; there is no
//! I/O and no clock here.
//!
//! Each session believes that the child is its own. So what it names (ids, progress tokens) is renamed on the way, what it sets (a
//! log level, subscriptions) is counted together with what the others have set, what the child says of itself goes to all, and what
//! it asks goes to the one session that it certainly asks.

mod admission;
mod batches;
mod calls;
mod child_says;
mod claim;
mod edits;
mod gate;
mod leaving;
mod levels;
mod meta;
mod notifications;
mod owners;
mod queue;
mod reverse;
mod routes;
mod session_says;
mod sessions;
mod subscriptions;
mod tasks;
#[cfg(test)]
mod tests;
mod turns;
mod unread;

use nostray_registry::Traffic;
use nostray_supervise::error_text::ServerLabel;
pub use nostray_supervise::wire::ReverseTo;
use nostray_supervise::{Moment, Protocol};

use batches::Batches;
use calls::Calls;
use claim::Claim;
pub use edits::{Edits, Piece};
use gate::Gate;
use levels::Levels;
use owners::Owners;
use reverse::{Handshake, Questions};
use routes::Routes;
pub use sessions::SessionId;
use sessions::Sessions;
use subscriptions::Subscriptions;
use turns::Turns;

/// What a user wants.
#[derive(Clone, Debug)]
pub struct Routing {
    /// What is spoken.
    pub protocol: Protocol,
    /// Which session answers what the child asks.
    pub reverse: ReverseTo,
    /// The members of the messages by which the child says whose they are, each by the names that lead to it.
    pub route_by: Vec<Vec<String>>,
    /// How many calls a session may have in flight while it is alone.
    pub window: usize,
}

/// Gives the ids by which the child knows the calls of all sessions: positive, up to 2^53, as every reader can keep them. No session
/// may be able to guess one, so that none can name a call of another even if everything else here fails.
pub type WireIds = Box<dyn FnMut() -> i64 + Send>;

/// What becomes of a line of a session. It comes before the [effects](Router::effects).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromSession {
    /// It goes to the child, changed like this.
    ToChild(Edits),
    /// It stays here.
    Swallow,
    /// This child is not for that session: the session needs a child that was told something else. So do all further
    /// lines of the session.
    Elsewhere {
        /// What the session needs, as a text that is equal for all sessions that need the same.
        variant: String,
        /// For people.
        why: String,
    },
}

/// What becomes of a line of the child. It comes before the [effects](Router::effects).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromChild {
    /// It goes to this session, changed like this.
    To(SessionId, Edits),
    /// It goes to each of these.
    ToSeveral(Vec<SessionId>, Edits),
    /// It stays here.
    Swallow,
    /// It is for the child's log, with the reason why.
    Log(String),
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write this line to the child.
    ToChild(Vec<u8>),
    /// Write this line to a session.
    ToSession(SessionId, Vec<u8>),
    /// A session has waited to see what the child is told, and it is not what the session needs: as [`FromSession::Elsewhere`].
    Elsewhere {
        /// Which one.
        session_id: SessionId,
        /// What it needs.
        variant: String,
        /// For people.
        why: String,
        /// What it has said and no child has read: lines as they came, with their ends.
        lines: Vec<u8>,
    },
}

/// Error codes, from the range that JSON-RPC leaves to servers. The SDKs use the same.
const GONE: i64 = -32000;
const PARSE: i64 = -32700;
const INVALID: i64 = -32600;
const INTERNAL: i64 = -32603;

/// The router of one child, and of its successors.
#[derive(Debug)]
pub struct Router {
    protocol: Protocol,
    gate: Gate,
    reverse_to: ReverseTo,
    sessions: Sessions,
    calls: Calls,
    batches: Batches,
    turns: Turns,
    claim: Claim,
    /// What the child has answered to `initialize`.
    hello: Option<Box<[u8]>>,
    handshake: Handshake,
    /// What the child has answered to `server/discover`, if it does not know that.
    no_discovery: Option<Box<[u8]>>,
    levels: Levels,
    subscriptions: Subscriptions,
    questions: Questions,
    elicitations: Owners,
    tasks: Owners,
    routes: Routes,
    has_answered: bool,
    /// What errors call the child.
    label: ServerLabel,
    effects: Vec<Effect>,
    /// When the line came in that is being acted on.
    now: Moment,
}

impl Router {
    /// A router without sessions.
    #[must_use]
    pub fn new(routing: Routing, ids: WireIds) -> Self {
        Self {
            protocol: routing.protocol,
            gate: Gate::new(routing.protocol, &routing.route_by),
            reverse_to: routing.reverse,
            sessions: Sessions::default(),
            calls: Calls::new(ids),
            batches: Batches::default(),
            turns: Turns::new(routing.window),
            claim: Claim::default(),
            hello: None,
            handshake: Handshake::default(),
            no_discovery: None,
            levels: Levels::default(),
            subscriptions: Subscriptions::default(),
            questions: Questions::default(),
            elicitations: Owners::default(),
            tasks: Owners::default(),
            routes: Routes::new(routing.route_by),
            has_answered: false,
            label: ServerLabel::default(),
            effects: Vec::new(),
            now: Moment::ZERO,
        }
    }

    /// From now on, what passes is counted.
    pub fn count_traffic(&mut self, traffic: Traffic) {
        self.calls.traffic = Some(traffic);
    }

    /// Where what passes is counted, if it is.
    #[must_use]
    pub fn traffic(&self) -> Option<&Traffic> {
        self.calls.traffic.as_ref()
    }

    /// What errors are to call the child from now on.
    pub fn call_server(&mut self, label: ServerLabel) {
        self.label = label;
    }

    /// A session has come.
    pub fn join(&mut self, session_id: SessionId) {
        self.sessions.join(session_id);
    }

    /// A session knows that the last child is gone, and speaks to the next one.
    pub fn rejoin(&mut self, session_id: SessionId) {
        if let Some(session) = self.sessions.get_mut(session_id) {
            session.heard = true;
        }
    }

    /// The session's front has replayed all that the new child must know.
    pub fn told(&mut self, session_id: SessionId) {
        if let Some(session) = self.sessions.get_mut(session_id) {
            session.is_told = true;
        }
    }

    /// The child is gone, and with it all that it knew. Sessions stay, and are not heard until each has [rejoined](Self::rejoin).
    pub fn child_gone(&mut self) {
        self.sessions.start_over();
        self.calls.clear();
        self.batches.clear();
        self.claim = Claim::default();
        self.hello = None;
        self.handshake = Handshake::default();
        self.no_discovery = None;
        self.levels = Levels::default();
        self.subscriptions.clear();
        self.questions.clear();
        self.elicitations.clear();
        self.tasks.clear();
        let sessions = &self.sessions;
        self.routes.child_gone(|session_id| sessions.get(session_id).is_some());
        self.has_answered = false;
        // What is still to be said to it need not be.
        self.effects.retain(|effect| !matches!(effect, Effect::ToChild(_)));
    }

    /// What is to be done.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether there is something to do.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Whether more may be read from this session.
    #[must_use]
    pub fn has_room(&self, session_id: SessionId) -> bool {
        // Asked of every session for every message; where nothing waits, nothing is full.
        !self.sessions.any_waits() || self.sessions.get(session_id).is_none_or(|session| !session.queue().is_full())
    }

    /// Whether the child is to be kept awake: a session waits for it, or it waits for a session.
    pub fn is_busy(&mut self, now: Moment) -> bool {
        let mut between_rounds = false;
        for session in self.sessions.iter_mut() {
            while session.input_rounds.front().is_some_and(|until| *until <= now) {
                session.input_rounds.pop_front();
            }
            between_rounds |= !session.input_rounds.is_empty();
        }
        between_rounds || self.works() || self.sessions.any_waits() || self.questions.any()
    }

    /// Whether the child does something for a session. What needs no work is not that.
    fn works(&self) -> bool {
        let works = |session: &sessions::Session| session.in_flight() > self.calls.light_of(session.session_id);
        self.sessions.flying() > 0 && (!self.calls.has_light() || self.sessions.iter().any(works))
    }

    /// When [`is_busy`](Self::is_busy) may change although nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        self.sessions.iter().filter_map(|session| session.input_rounds.front().copied()).min()
    }

    /// Whether this child has answered anything.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Whether the child has been asked something that it has not answered, also if the session that asked has gone.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.calls.len() > 0
    }

    /// Whether nothing that a session has said waits for the child, here or there.
    #[must_use]
    pub fn has_nothing_of(&self, session_id: SessionId) -> bool {
        self.sessions.get(session_id).is_none_or(|session| session.in_flight() == 0 && session.queue().is_empty())
    }

    /// How many calls of a session the child works on.
    #[must_use]
    pub fn in_flight(&self, session_id: SessionId) -> usize {
        self.sessions.get(session_id).map_or(0, sessions::Session::in_flight)
    }

    /// What this child was told of its clients, once it has agreed: as the variant of [`FromSession::Elsewhere`].
    #[must_use]
    pub fn variant(&self) -> Option<String> {
        self.claim.settled().map(claim::Need::variant)
    }

    /// Whether the sessions take turns, since the child has asked something and it was not certain which session it
    /// meant.
    #[must_use]
    pub fn takes_turns(&self) -> bool {
        self.turns.are_taken()
    }

    /// What `--route-by` names, if the child has said something by now and no message of it has named a session. Once.
    pub fn never_matched(&mut self) -> Option<String> {
        self.routes.never_matched()
    }

    /// What is spoken.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// How many things are remembered. When no session is left and the child is gone, it is nothing.
    #[must_use]
    pub fn footprint(&self) -> usize {
        let of_sessions: usize =
            self.sessions.iter().map(|session| 1 + session.queue().len() + session.input_rounds.len()).sum();
        let of_child = self.calls.len() + self.subscriptions.len() + self.questions.len();
        of_sessions
            + of_child
            + self.batches.len()
            + self.elicitations.len()
            + self.tasks.len()
            + self.routes.len()
            + self.effects.len()
    }

    fn is_mcp(&self) -> bool {
        self.protocol == Protocol::Mcp
    }

    /// Says something to a session, alone or as a part of a batch. The line has its end.
    fn answer(&mut self, session_id: SessionId, batch: Option<u64>, line: Vec<u8>) {
        match batch {
            None => self.effects.push(Effect::ToSession(session_id, line)),
            Some(batch) => self.answer_in(batch, Some(&line)),
        }
    }

    /// One request of a batch is done with.
    fn answer_in(&mut self, batch: u64, answer: Option<&[u8]>) {
        if let Some((session_id, line)) = self.batches.answered(batch, answer) {
            self.effects.push(Effect::ToSession(session_id, line));
        }
    }
}
