//! What front and steward have in common: two halves of room for what the host says, and the table of calls.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nostray_rpc::Id;
use nostray_sys::shared_memory::SharedMemory;

/// The words at the beginning. Places in the host's stream are counted from [`FIRST_LINE`].
const FILLED: usize = 0;
const TAKEN: usize = 1;
/// Which half is in use, in the highest bit, and the place in the stream that it begins with.
const BASE: usize = 2;
/// How many bytes of answers have reached the host.
const DELIVERED: usize = 3;
const SECOND_HALF: u64 = 1 << 63;

/// Calls from before the shortcut come first in the order of calls, which is by their place in the stream.
pub(super) const FIRST_LINE: u64 = 1 << 32;

const HEADER: usize = 4 << 10;
/// As much as a pipe holds.
pub(super) const HALF: usize = 64 << 10;
const CALLS: usize = HEADER + 2 * HALF;
/// As many calls as a session may have in flight.
pub(super) const MAX_CALLS: usize = 1024;
/// A state, a place in the order, a length, and an id.
const CALL: usize = 64;
const WORD: usize = size_of::<u64>();
const OF_ID: usize = 2 * WORD + 1;
/// A longer id does not go by the shortcut.
const MAX_ID: usize = CALL - OF_ID;
/// In the place of a length: the id is a number, as nearly all are.
const IS_NUMBER: u8 = u8::MAX;
const LENGTH: usize = CALLS + MAX_CALLS * CALL;
/// With less room, what was taken is made room of.
const SMALL: usize = 4 << 10;

/// What has become of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallState {
    InFlight = 1,
    /// Its answer is in transit, or has reached the host.
    Answered = 2,
}

/// A call as the front finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundCall {
    pub(super) order: u64,
    pub(super) state: CallState,
    pub(super) id: Id,
}

/// The memory, from either side.
#[derive(Debug)]
pub(super) struct Memory(SharedMemory);

impl Memory {
    pub(super) fn new() -> io::Result<Self> {
        let memory = Self(SharedMemory::new("nostray-shortcut", LENGTH)?);
        for word in [FILLED, TAKEN, BASE] {
            memory.word(word).store(FIRST_LINE, Ordering::Release);
        }
        Ok(memory)
    }

    pub(super) fn of(file: OwnedFd) -> io::Result<Self> {
        SharedMemory::of(file, LENGTH).map(Self)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.0.words()[at]
    }

    fn state(&self, call: usize) -> &AtomicU64 {
        self.word((CALLS + call * CALL) / WORD)
    }

    /// From now on this call is in flight. False if its id is too long.
    pub(super) fn add(&self, call: usize, id: &Id, order: u64) -> bool {
        let at = CALLS + call * CALL;
        if let Id::Int(number) = id {
            self.0.write(at + OF_ID - 1, &[IS_NUMBER]);
            self.0.write(at + OF_ID, &number.to_ne_bytes());
        } else {
            let json = id.to_json();
            let Some(length) = u8::try_from(json.len()).ok().filter(|length| usize::from(*length) <= MAX_ID) else {
                return false;
            };
            self.0.write(at + OF_ID - 1, &[length]);
            self.0.write(at + OF_ID, json.as_bytes());
        }
        self.word(at / WORD + 1).store(order, Ordering::Relaxed);
        self.state(call).store(CallState::InFlight as u64, Ordering::Release);
        true
    }

    fn id_of(&self, call: usize) -> Option<Id> {
        let at = CALLS + call * CALL;
        let bytes = self.0.copy(at + OF_ID - 1..at + CALL);
        let (length, id) = bytes.split_first()?;
        if *length == IS_NUMBER {
            return id.first_chunk().map(|number| Id::Int(i64::from_ne_bytes(*number)));
        }
        Id::from_json(id.get(..usize::from(*length))?)
    }

    /// Its answer is in transit.
    pub(super) fn mark_answered(&self, call: usize) {
        self.state(call).store(CallState::Answered as u64, Ordering::Release);
    }

    /// Its answer has reached the host.
    pub(super) fn remove(&self, call: usize) {
        self.state(call).store(0, Ordering::Release);
    }

    /// So many bytes of answers have reached the host.
    pub(super) fn has_moved(&self, bytes: usize) {
        let delivered = self.word(DELIVERED);
        delivered.store(delivered.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
    }

    /// The calls of the table, in their order, but those of lines that count as not taken.
    pub(super) fn calls(&self) -> Vec<FoundCall> {
        let taken = self.word(TAKEN).load(Ordering::Acquire);
        let found = |call| {
            let state = match self.state(call).load(Ordering::Acquire) {
                1 => CallState::InFlight,
                2 => CallState::Answered,
                _ => return None,
            };
            let order = self.word((CALLS + call * CALL) / WORD + 1).load(Ordering::Relaxed);
            let id = self.id_of(call)?;
            (order < taken).then_some(FoundCall { order, state, id })
        };
        let mut calls: Vec<_> = (0..MAX_CALLS).filter_map(found).collect();
        calls.sort_unstable_by_key(|call| call.order);
        calls
    }

    /// Grows with everything that passes.
    pub(super) fn activity(&self) -> u64 {
        self.word(FILLED).load(Ordering::Relaxed).wrapping_add(self.word(DELIVERED).load(Ordering::Relaxed))
    }

    /// What the host has said and no process has taken, also if the steward was killed before it could say how much that is. It is text, in
    /// which no byte is zero, and what is behind it is zero.
    pub(super) fn untaken(&self) -> Vec<u8> {
        let [base, taken, filled] = [BASE, TAKEN, FILLED].map(|word| self.word(word).load(Ordering::Acquire));
        let begin = base & !SECOND_HALF;
        let place = |at: u64| usize::try_from(at.saturating_sub(begin)).map_or(HALF, |place| place.min(HALF));
        let mut bytes = self.0.copy(half(base & SECOND_HALF != 0));
        let known = place(filled);
        let more = bytes[known..].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(known + more);
        bytes.split_off(place(taken).min(known))
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn half(second: bool) -> Range<usize> {
    let begin = HEADER + if second { HALF } else { 0 };
    begin..begin + HALF
}

/// The room for what the host says, as the steward uses it. What is behind the last byte that was read is zero.
#[derive(Debug)]
pub(super) struct Inbox {
    second: bool,
    begin: u64,
    taken: u64,
    filled: u64,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { second: false, begin: FIRST_LINE, taken: FIRST_LINE, filled: FIRST_LINE }
    }

    /// The place of the next line in the stream.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    fn used(&self) -> usize {
        usize::try_from(self.filled - self.begin).unwrap_or(HALF)
    }

    fn untaken(&self) -> usize {
        usize::try_from(self.filled - self.taken).unwrap_or(HALF)
    }

    /// Reads what the host says: where it is, and how long it is. An error if the line is too long for the room.
    pub(super) fn read(&mut self, memory: &Memory, host: &OwnedFd) -> io::Result<Option<Range<usize>>> {
        self.make_room(memory);
        let half = half(self.second);
        let room = half.start + self.used()..half.end;
        if room.len() < SMALL {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let Some(count) = memory.0.read_from(host, room.clone())? else { return Ok(None) };
        self.filled += count as u64;
        memory.word(FILLED).store(self.filled, Ordering::Release);
        Ok(Some(room.start..room.start + count))
    }

    /// The next bytes of the stream have been taken.
    pub(super) fn take(&mut self, memory: &Memory, count: usize) {
        self.taken += count as u64;
        memory.word(TAKEN).store(self.taken, Ordering::Release);
    }

    /// As [`Inbox::read`], up to the moment at which the bytes are there.
    #[cfg(test)]
    pub(super) fn read_and_be_killed(&mut self, memory: &Memory, host: &OwnedFd) {
        self.make_room(memory);
        let half = half(self.second);
        memory.0.read_from(host, half.start + self.used()..half.end).expect("it is open").expect("something");
    }

    fn make_room(&mut self, memory: &Memory) {
        let (used, untaken, old) = (self.used(), self.untaken(), half(self.second));
        if used < SMALL {
            return;
        }
        if untaken == 0 {
            memory.0.clear(old.start..old.start + used);
        } else if HALF - used < HALF / 4 && untaken < HALF / 2 {
            // What is not taken yet is at both places, until the base says which one counts.
            self.second = !self.second;
            let rest = memory.0.copy(old.start + used - untaken..old.start + used);
            memory.0.write(half(self.second).start, &rest);
        } else {
            return;
        }
        self.begin = self.taken;
        memory.word(BASE).store(self.begin | if self.second { SECOND_HALF } else { 0 }, Ordering::Release);
        if untaken > 0 {
            memory.0.clear(old.start..old.start + used);
        }
    }
}

/// Bytes of the memory that this process has read there.
pub(super) fn copy_to(memory: &Memory, range: Range<usize>, target: &mut [u8]) {
    memory.0.copy_to(range, target);
}
