//! What the sessions have asked and the child has not answered yet, by the id under which the child knows it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use nostray_registry::{Method, Traffic};
use nostray_rpc::Id;
use nostray_supervise::Moment;

use super::edits::Token;
use super::levels::Level;
use super::{SessionId, WireIds};

/// How many abandoned calls are remembered. Most servers never answer a call that was cancelled.
const MAX_GIVEN_UP: usize = 1024;

/// How long a cancelled call may still ask back. A server that heeds a cancel has ended the call by then. A server that
/// ignores it may ask at any time; but no session's questions are refused for ever because of that.
const MAY_STILL_ASK: Duration = Duration::from_secs(2);

/// One request on its way.
#[derive(Debug)]
pub(super) struct Call {
    /// The session that calls; none if the router itself does.
    pub(super) session_id: Option<SessionId>,
    /// Its id, as the session wrote it.
    pub(super) id: Token,
    /// Its progress token, as the session wrote it.
    pub(super) progress: Option<Token>,
    /// What its answer will mean.
    pub(super) note: Note,
    /// The batch that its answer belongs to.
    pub(super) batch: Option<u64>,
    /// It is of the newer era.
    pub(super) modern: bool,
    /// What it wants to be told meanwhile, in the newer era.
    pub(super) log: Option<Level>,
    /// It was cancelled, or its session has left.
    pub(super) given_up: bool,
    /// Its place in the order of all calls. [`Calls::add`] sets it.
    pub(super) serial: u64,
    /// What it is counted as, and since when the child has it.
    pub(super) method: Method,
    pub(super) since: Moment,
}

impl Call {
    /// A call of the router's own.
    pub(super) fn of_our_own(note: Note) -> Self {
        Self {
            session_id: None,
            id: Token::default(),
            progress: None,
            note,
            batch: None,
            modern: false,
            log: None,
            given_up: false,
            serial: 0,
            method: Method::default(),
            since: Moment::ZERO,
        }
    }

    /// The session that waits for its answer, if any does.
    pub(super) fn waited_for_by(&self) -> Option<SessionId> {
        self.session_id.filter(|_| !self.given_up && !self.note.is_stream())
    }
}

/// What the answer to a request will mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// Nothing to us.
    Nothing,
    /// That the child is alive.
    Ping,
    /// A call of the newer era, which may be answered by a question.
    MayAskBack,
    /// The older era's handshake.
    Initialize,
    /// The newer era's way to ask what a server can do.
    Discover,
    /// The log level.
    SetLevel {
        /// What the session wants.
        asked: Option<Level>,
        /// What the child is told.
        told: Level,
    },
    /// News of a resource from now on.
    Subscribe(Box<str>),
    /// No more of them.
    Unsubscribe(Box<str>),
    /// A stream of notifications, which is open until session or child end it.
    Listen,
    /// All tasks, of which the session may see its own.
    ListTasks,
}

impl Note {
    /// Whether the session waits for no answer that ends it.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Listen)
    }

    /// Whether what it does in the child is of concern to other sessions too, so that its answer has to be known even if its own
    /// session has left.
    pub(super) fn concerns_others(&self) -> bool {
        match self {
            Self::Initialize | Self::Discover => true,
            Self::SetLevel { .. } | Self::Subscribe(_) | Self::Unsubscribe(_) => true,
            Self::Nothing | Self::Ping | Self::MayAskBack | Self::Listen | Self::ListTasks => false,
        }
    }

    /// Whether no work is done for it, so that no child is kept awake.
    fn is_light(&self) -> bool {
        matches!(self, Self::Ping | Self::SetLevel { .. })
    }
}

/// All of them.
pub(super) struct Calls {
    by_id: HashMap<i64, Call, BuildHasherDefault<Spread>>,
    ids: WireIds,
    /// How many there have been.
    count: u64,
    /// Abandoned calls, and since when the child knows that.
    given_up: VecDeque<(Option<Moment>, i64)>,
    /// Calls that need no work, with their sessions. Mostly none.
    light: Vec<(i64, SessionId)>,
    /// Counts the calls of sessions when they end, if they are counted.
    pub(super) traffic: Option<Traffic>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("by_id", &self.by_id).field("given_up", &self.given_up).finish_non_exhaustive()
    }
}

/// Sessions do not choose these ids, so they cannot make them collide; they only have to be spread.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i64(i64::from(*byte));
        }
    }

    fn write_i64(&mut self, number: i64) {
        self.0 = (self.0 ^ number.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The map looks at the highest bits and at the lowest.
        self.0 ^ (self.0 >> 32)
    }
}

/// The call that was made before the others.
fn first<'a>(calls: impl Iterator<Item = (&'a i64, &'a Call)>) -> Option<i64> {
    calls.min_by_key(|(_, call)| call.serial).map(|(id, _)| *id)
}

impl Calls {
    pub(super) fn new(ids: WireIds) -> Self {
        Self { by_id: HashMap::default(), ids, count: 0, given_up: VecDeque::new(), light: Vec::new(), traffic: None }
    }

    /// A call takes off, and this is how the child will know it.
    pub(super) fn add(&mut self, call: Call) -> i64 {
        self.count += 1;
        loop {
            let id = (self.ids)();
            if let Entry::Vacant(place) = self.by_id.entry(id) {
                if let Some(session_id) = call.waited_for_by().filter(|_| call.note.is_light()) {
                    self.light.push((id, session_id));
                }
                place.insert(Call { serial: self.count, ..call });
                return id;
            }
        }
    }

    pub(super) fn get(&self, id: i64) -> Option<&Call> {
        self.by_id.get(&id)
    }

    /// It was answered, or has ended.
    pub(super) fn remove(&mut self, id: i64) -> Option<Call> {
        self.light.retain(|(light, _)| *light != id);
        self.by_id.remove(&id)
    }

    /// The same for a call of which this is true, found once. None of those that need no work.
    pub(super) fn remove_if(&mut self, id: i64, is_it: impl FnOnce(&Call) -> bool) -> Option<Call> {
        let Entry::Occupied(place) = self.by_id.entry(id) else { return None };
        (!place.get().note.is_light() && is_it(place.get())).then(|| place.remove())
    }

    /// The call is abandoned, and the child was told so at this moment, if at all. Whichever has been given up for longest is
    /// forgotten if there are too many.
    pub(super) fn give_up(&mut self, id: i64, told: Option<Moment>) -> Option<(i64, Call)> {
        if let Some(call) = self.by_id.get_mut(&id) {
            call.given_up = true;
            self.light.retain(|(light, _)| *light != id);
            self.given_up.push_back((told, id));
        }
        if self.given_up.len() <= MAX_GIVEN_UP {
            return None;
        }
        let (_, oldest) = self.given_up.pop_front()?;
        self.by_id.remove_entry(&oldest)
    }

    /// Takes a call out of its batch: what comes of it later comes alone.
    pub(super) fn take_batch(&mut self, id: i64) -> Option<u64> {
        self.by_id.get_mut(&id)?.batch.take()
    }

    /// The call that a session knows by this id. A session that uses one twice at a time means the first.
    pub(super) fn find(&self, session_id: SessionId, id: &Id) -> Option<i64> {
        let is_it = |call: &Call| {
            call.session_id == Some(session_id)
                && !call.given_up
                && Id::from_json(call.id.json()).as_ref() == Some(id)
        };
        first(self.by_id.iter().filter(|(_, call)| is_it(call)))
    }

    /// All of one session, in their order.
    pub(super) fn of(&self, session_id: SessionId) -> Vec<i64> {
        let mut calls: Vec<_> = self.by_id.iter().filter(|(_, call)| call.session_id == Some(session_id)).collect();
        calls.sort_unstable_by_key(|(_, call)| call.serial);
        calls.into_iter().map(|(id, _)| *id).collect()
    }

    /// The first of the newer era that was not given up, other than this one.
    pub(super) fn first_modern(&self, except: i64) -> Option<i64> {
        let others = self.by_id.iter().filter(|(id, call)| call.modern && !call.given_up && **id != except);
        first(others)
    }

    /// The sessions with a call that wants log messages of this level.
    pub(super) fn that_log(&self, level: Level) -> impl Iterator<Item = SessionId> {
        let wants = move |call: &&Call| call.log.is_some_and(|wanted| level >= wanted);
        self.by_id.values().filter(wants).filter_map(Call::waited_for_by)
    }

    /// Whose calls were given up and may still ask something. One that the child was not told to end goes on until it is answered.
    pub(super) fn may_still_ask(&self, now: Moment) -> impl Iterator<Item = SessionId> {
        self.given_up
            .iter()
            .filter(move |(told, _)| told.is_none_or(|told| told + MAY_STILL_ASK > now))
            .filter_map(|(_, id)| self.by_id.get(id).filter(|call| !call.note.is_stream())?.session_id)
    }

    /// How many of a session's need no work.
    pub(super) fn light_of(&self, session_id: SessionId) -> usize {
        self.light.iter().filter(|(_, of)| *of == session_id).count()
    }

    pub(super) fn has_light(&self) -> bool {
        !self.light.is_empty()
    }

    /// The method that a call names, to be counted.
    pub(super) fn method(&mut self, name: &str) -> Method {
        self.traffic.as_mut().map(|traffic| traffic.method(name)).unwrap_or_default()
    }

    /// The child has answered this one, now.
    pub(super) fn count_answer(&self, call: &Call, is_error: bool, now: Moment) {
        if let Some(traffic) = self.traffic.as_ref().filter(|_| call.session_id.is_some()) {
            traffic.answered(call.method, now.saturating_sub(call.since), is_error);
        }
    }

    /// The child is gone. What sessions wait for fails.
    pub(super) fn clear(&mut self) {
        if let Some(traffic) = &self.traffic {
            let failed = self.by_id.values().filter(|call| call.waited_for_by().is_some());
            failed.for_each(|call| traffic.failed(call.method));
        }
        self.by_id.clear();
        self.light.clear();
        self.given_up.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}
