//! The sessions that are attached to the child, and how many calls each has in flight.

use std::collections::VecDeque;

use nostray_rpc::Id;
use nostray_supervise::Moment;

use super::levels::Level;
use super::queue::{Queue, QueuedMessage};

/// Names one attachment of a session to this child. No id is used again, and the newest is the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What is known of one session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) session_id: SessionId,
    /// It speaks to the child that is there now, and not to the one before.
    pub(super) heard: bool,
    /// It has said something to this child.
    pub(super) has_spoken: bool,
    /// It has said something to this child or to one before.
    pub(super) has_ever_spoken: bool,
    /// This child was told all that it must know of the session.
    pub(super) is_told: bool,
    /// Calls that it waits for.
    in_flight: usize,
    pub(super) streams: usize,
    queue: Queue,
    /// What it wants to see of the child's log.
    pub(super) level: Option<Level>,
    /// Until when the child is kept awake for the client's input to a call, for each such call.
    pub(super) input_rounds: VecDeque<Moment>,
    /// It needs another child.
    pub(super) elsewhere: Option<Elsewhere>,
}

/// What a session needs that this child is not, or is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elsewhere {
    pub(super) variant: String,
    pub(super) why: String,
}

impl Session {
    fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            heard: true,
            has_spoken: false,
            has_ever_spoken: false,
            is_told: true,
            in_flight: 0,
            streams: 0,
            queue: Queue::default(),
            level: None,
            input_rounds: VecDeque::new(),
            elsewhere: None,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Sorted by id.
    list: Vec<Session>,
    /// How many of them wait for answers.
    flying: usize,
    /// How many have said something that waits here.
    waiting: usize,
}

impl Sessions {
    fn index(&self, session_id: SessionId) -> Result<usize, usize> {
        self.list.binary_search_by_key(&session_id, |session| session.session_id)
    }

    pub(super) fn join(&mut self, session_id: SessionId) {
        if let Err(at) = self.index(session_id) {
            self.list.insert(at, Session::new(session_id));
        }
    }

    pub(super) fn leave(&mut self, session_id: SessionId) -> Option<Session> {
        let session = self.list.remove(self.index(session_id).ok()?);
        self.flying -= usize::from(session.in_flight > 0);
        self.waiting -= usize::from(!session.queue.is_empty());
        Some(session)
    }

    /// The child is gone, and all that was said to it.
    pub(super) fn start_over(&mut self) {
        for session in &mut self.list {
            let Session { session_id, has_ever_spoken, .. } = *session;
            *session = Session { heard: false, is_told: false, has_ever_spoken, ..Session::new(session_id) };
        }
        (self.flying, self.waiting) = (0, 0);
    }

    pub(super) fn get(&self, session_id: SessionId) -> Option<&Session> {
        self.index(session_id).ok().map(|at| &self.list[at])
    }

    pub(super) fn get_mut(&mut self, session_id: SessionId) -> Option<&mut Session> {
        self.index(session_id).ok().map(|at| &mut self.list[at])
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Session> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.list.iter_mut()
    }

    /// The sessions that have said something to the current child.
    pub(super) fn speaking(&self) -> impl DoubleEndedIterator<Item = &Session> {
        self.list.iter().filter(|session| session.heard && session.has_spoken)
    }

    /// The session that is alone with the child. A session that has spoken only to an earlier child may still have work in this one.
    pub(super) fn alone(&self) -> Option<SessionId> {
        let mut users = self.list.iter().filter(|session| session.has_ever_spoken);
        users.next().filter(|_| users.next().is_none()).map(|session| session.session_id)
    }

    /// The newest session that can be asked.
    pub(super) fn newest(&self) -> Option<SessionId> {
        self.list.iter().rfind(|session| session.heard && session.has_ever_spoken).map(|session| session.session_id)
    }

    /// Whether this child was told what it must know of every session.
    pub(super) fn all_told(&self) -> bool {
        self.list.iter().all(|session| session.is_told)
    }

    /// How many wait for answers.
    pub(super) fn flying(&self) -> usize {
        self.flying
    }

    /// The session with calls in flight, if it is only one.
    pub(super) fn only_one_flying(&self) -> Option<SessionId> {
        if self.flying != 1 {
            return None;
        }
        self.list.iter().find(|session| session.in_flight > 0).map(|session| session.session_id)
    }

    /// Whether a session has queued messages.
    pub(super) fn any_waits(&self) -> bool {
        self.waiting > 0
    }

    /// Whether another session has calls in flight.
    pub(super) fn others_fly(&self, session: &Session) -> bool {
        self.flying > usize::from(session.in_flight > 0)
    }

    /// Whether another session has queued messages.
    pub(super) fn others_wait(&self, session: &Session) -> bool {
        self.waiting > usize::from(!session.queue.is_empty())
    }

    /// A call has gone to the child.
    pub(super) fn took_off(&mut self, session_id: SessionId) {
        if let Ok(at) = self.index(session_id) {
            self.list[at].in_flight += 1;
            self.flying += usize::from(self.list[at].in_flight == 1);
        }
    }

    /// It is waited for no longer.
    pub(super) fn landed(&mut self, session_id: SessionId) {
        if let Ok(at) = self.index(session_id) {
            debug_assert!(self.list[at].in_flight > 0);
            self.list[at].in_flight -= 1;
            self.flying -= usize::from(self.list[at].in_flight == 0);
        }
    }

    /// Something of the session waits from now on.
    pub(super) fn push(&mut self, session_id: SessionId, waiting: QueuedMessage) {
        self.with_queue(session_id, |queue| queue.push(waiting));
    }

    pub(super) fn put_back(&mut self, session_id: SessionId, waiting: QueuedMessage) {
        self.with_queue(session_id, |queue| queue.put_back(waiting));
    }

    pub(super) fn pop(&mut self, session_id: SessionId) -> Option<QueuedMessage> {
        self.with_queue(session_id, Queue::pop).flatten()
    }

    pub(super) fn cancelled(&mut self, session_id: SessionId, id: &Id) -> Option<QueuedMessage> {
        self.with_queue(session_id, |queue| queue.cancelled(id)).flatten()
    }

    fn with_queue<T>(&mut self, session_id: SessionId, change: impl FnOnce(&mut Queue) -> T) -> Option<T> {
        let at = self.index(session_id).ok()?;
        let queue = &mut self.list[at].queue;
        let before = usize::from(!queue.is_empty());
        let changed = change(queue);
        self.waiting = self.waiting + usize::from(!queue.is_empty()) - before;
        Some(changed)
    }

    /// The next session after this one that has queued messages, going round.
    pub(super) fn next_waiting(&self, after: SessionId) -> Option<SessionId> {
        let (before, behind) = self.list.split_at(self.list.partition_point(|session| session.session_id <= after));
        behind.iter().chain(before).find(|session| !session.queue.is_empty()).map(|session| session.session_id)
    }
}
