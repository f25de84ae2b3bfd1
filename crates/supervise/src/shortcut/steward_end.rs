//! The shortcut as the steward has it: reads the host, and writes to it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_rpc::{Id, Lines, QuickEnvelope, quick_read};
use nostray_sys::masks::is_ascii;
use nostray_sys::stream::{self, Sink};

use super::memory::{Inbox, MAX_CALLS, Memory, copy_to};
use crate::flights::Quick;
use crate::session::{Protocol, usual_call};

/// So much is in transit at once. The pipe has room for it, so that it is written whole.
const MAX_IN_TRANSIT: usize = 48 << 10;

/// The steward's end.
#[derive(Debug)]
pub struct StewardEnd {
    protocol: Protocol,
    memory: Memory,
    inbox: Inbox,
    from_host: OwnedFd,
    to_host: OwnedFd,
    kind: Sink,
    transit: [OwnedFd; 2],
    /// Taken out while it is read.
    lines: Option<Lines>,
    /// The calls in flight, by their place in the table.
    calls: HashMap<Id, usize, BuildHasherDefault<Quick>>,
    free: Vec<usize>,
    /// The answers that wait to be in transit: where each ends, and its call.
    waiting: VecDeque<(usize, usize)>,
    in_transit: Vec<usize>,
    bytes_in_transit: usize,
}

/// The end of what the host says, or what is too long for a shortcut: for the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unusual;

impl StewardEnd {
    /// The shortcut that a front has handed over, for lines of up to so many bytes.
    #[must_use]
    pub fn take(handed: Vec<OwnedFd>, protocol: Protocol, max_line: usize) -> Option<Self> {
        let [memory, from_host, to_host, reader, writer] = <[OwnedFd; 5]>::try_from(handed).ok()?;
        let memory = Memory::of(memory).ok()?;
        let mut free: Vec<usize> = (0..MAX_CALLS).rev().collect();
        let mut calls = HashMap::default();
        for call in memory.calls() {
            // The front has put them there in their order.
            calls.insert(call.id, usize::try_from(call.order).ok()?);
        }
        free.truncate(MAX_CALLS - calls.len());
        Some(Self {
            protocol,
            memory,
            inbox: Inbox::new(),
            from_host,
            kind: Sink::of(to_host.as_fd()),
            to_host,
            transit: [reader, writer],
            lines: Some(Lines::new(max_line)),
            calls,
            free,
            waiting: VecDeque::new(),
            in_transit: Vec::new(),
            bytes_in_transit: 0,
        })
    }

    /// Everything that it keeps open.
    pub fn file_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let transit = self.transit.iter().map(AsFd::as_fd);
        [self.memory.as_fd(), self.from_host.as_fd(), self.to_host.as_fd()].into_iter().chain(transit)
    }

    /// Where to wait for what the host says.
    #[must_use]
    pub fn from_host(&self) -> BorrowedFd<'_> {
        self.from_host.as_fd()
    }

    /// Where to wait until the host takes more; nothing if nothing waits.
    #[must_use]
    pub fn pending_to_host(&self) -> Option<BorrowedFd<'_>> {
        (self.bytes_in_transit > 0).then(|| self.to_host.as_fd())
    }

    /// Reads what the host says, with a buffer that many channels share. The lines are to be given back by [`StewardEnd::return_lines`].
    pub fn read(&mut self, room: &mut Vec<u8>) -> Result<Option<Lines>, Unusual> {
        let range = match self.inbox.read(&self.memory, &self.from_host) {
            Ok(Some(range)) if !range.is_empty() => range,
            Ok(None) => return Ok(None),
            Ok(Some(_)) | Err(_) => return Err(Unusual),
        };
        let Some(mut lines) = self.lines.take() else { return Err(Unusual) };
        lines.borrow_room(room);
        let mut left = range;
        while !left.is_empty() {
            let space = lines.space();
            let count = space.len().min(left.len());
            copy_to(&self.memory, left.start..left.start + count, &mut space[..count]);
            lines.filled(count);
            left.start += count;
        }
        Ok(Some(lines))
    }

    /// Gives back what [`StewardEnd::read`] gave.
    pub fn return_lines(&mut self, mut lines: Lines, room: &mut Vec<u8>) {
        lines.return_room(room);
        self.lines = Some(lines);
    }

    /// Takes the next line of the host, if it is a usual call. Otherwise it is the front's, with all that follows.
    pub fn takes(&mut self, text: &[u8], raw_length: usize) -> bool {
        let Some(id) = usual_call(text, self.protocol) else { return false };
        let (Some(place), Entry::Vacant(call)) = (self.free.last(), self.calls.entry(id)) else { return false };
        if !self.memory.add(*place, call.key(), self.inbox.taken()) {
            return false;
        }
        self.inbox.take(&self.memory, raw_length);
        call.insert(*place);
        self.free.pop();
        true
    }

    /// Whether this line, at the end of what waits for the host, may go by the shortcut: if it is the result of a usual call. `end` is where
    /// it ends there.
    pub fn passes(&mut self, line: &[u8], end: usize) -> bool {
        let Some(QuickEnvelope::Result { id }) = quick_read(line) else { return false };
        if end > MAX_IN_TRANSIT && line.len() >= MAX_IN_TRANSIT
            || !(is_ascii(line) || std::str::from_utf8(line).is_ok())
        {
            return false;
        }
        let Some(call) = self.calls.remove(&id) else { return false };
        self.waiting.push_back((end, call));
        true
    }

    /// Writes to the host what waits for it, as far as that is possible. All of it is lines that may [pass](StewardEnd::passes). If there is
    /// still something in transit, [`StewardEnd::go_on`] goes on.
    pub fn write(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while self.bytes_in_transit == 0 && !out.is_empty() {
            let fits = |(at, (end, _)): &(usize, &(usize, usize))| *at == 0 || *end <= MAX_IN_TRANSIT;
            let batch = self.waiting.iter().enumerate().take_while(fits).count();
            let Some(length) = self.waiting.get(batch.wrapping_sub(1)).map(|(end, _)| *end) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let [reader, writer] = &self.transit;
            let written = Sink::OwnPipe.write(writer.as_fd(), &out[..length])?;
            if written < length {
                // The pipe is empty and large enough, so the kernel is out of memory. All of it goes by the front.
                stream::read(reader, &mut vec![0; written])?;
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            out.drain(..length);
            for (_, call) in self.waiting.drain(..batch) {
                self.memory.mark_answered(call);
                self.in_transit.push(call);
            }
            self.waiting.iter_mut().for_each(|(end, _)| *end -= length);
            self.bytes_in_transit = length;
            self.move_on()?;
        }
        Ok(())
    }

    /// The same when the host takes more.
    pub fn go_on(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.move_on()?;
        self.write(out)
    }

    fn move_on(&mut self) -> io::Result<()> {
        while self.bytes_in_transit > 0 {
            let moved = stream::move_on(&self.transit[0], self.to_host.as_fd(), self.kind, self.bytes_in_transit)?;
            if moved == 0 {
                return Ok(());
            }
            self.bytes_in_transit = self.bytes_in_transit.saturating_sub(moved);
            self.memory.has_moved(moved);
        }
        for call in self.in_transit.drain(..) {
            self.memory.remove(call);
            self.free.push(call);
        }
        Ok(())
    }
}

#[cfg(test)]
impl StewardEnd {
    /// One step of [`StewardEnd::write`] alone.
    pub(super) fn write_to_transit(&self, bytes: &[u8]) {
        assert_eq!(Sink::OwnPipe.write(self.transit[1].as_fd(), bytes).expect("the front is there"), bytes.len());
    }

    /// As if another process had filled the host's pipe.
    pub(super) fn write_to_host(&self, bytes: &[u8]) {
        assert_eq!(self.kind.write(self.to_host.as_fd(), bytes).expect("the host is there"), bytes.len());
    }
}
