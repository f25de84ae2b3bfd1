//! The shortcut as the front has it: opens it, and takes back what was on its way.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_rpc::{Id, QuickEnvelope, quick_read};
use nostray_sys::local;
use nostray_sys::stream::{self, Pipe, do_not_wait};

use super::memory::{CallState, FIRST_LINE, HALF, MAX_CALLS, Memory};

/// The front's end.
#[derive(Debug)]
pub(crate) struct FrontEnd {
    memory: Memory,
    transit: OwnedFd,
}

/// What was on its way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenBack {
    /// Calls that were not answered, in their order.
    pub(crate) calls: Vec<Id>,
    /// Answers that have not reached the host. The first one may have reached it in part.
    pub(crate) undelivered: Vec<u8>,
    /// What the host has said and no process has taken. The last line may be without its end.
    pub(crate) untaken: Vec<u8>,
}

impl FrontEnd {
    /// Opens a shortcut for a session with these calls in flight, and hands it to the steward at the other end of the socket.
    pub(crate) fn open(calls: &[Id], socket: &OwnedFd, host: [BorrowedFd<'_>; 2]) -> io::Result<Self> {
        let memory = Memory::new()?;
        for (order, id) in calls.iter().enumerate() {
            if order >= MAX_CALLS / 2 || !memory.add(order, id, order as u64) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
        let Pipe { reader, writer } = Pipe::new()?;
        // A user who has very many pipes gets smaller ones.
        if stream::capacity(writer.as_fd()) < HALF {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        do_not_wait(&reader)?;
        do_not_wait(&writer)?;
        let [stdin, stdout] = host;
        local::send_with(socket.as_fd(), b"!", &[memory.as_fd(), stdin, stdout, reader.as_fd(), writer.as_fd()])?;
        Ok(Self { memory, transit: reader })
    }

    /// Grows with everything that passes.
    pub(crate) fn activity(&self) -> u64 {
        self.memory.activity()
    }

    /// How much has passed since it was opened.
    pub(crate) fn passed(&self) -> u64 {
        self.activity() - FIRST_LINE
    }

    /// The steward has let go of it, or has ended: takes back what was on its way.
    pub(crate) fn take_back(self) -> TakenBack {
        let mut undelivered = Vec::new();
        let mut buffer = vec![0; HALF];
        while let Ok(Some(count @ 1..)) = stream::read(&self.transit, &mut buffer) {
            undelivered.extend_from_slice(&buffer[..count]);
        }
        // A steward that was killed may not have marked all that it has written: of each id, so many more answers are there than are marked.
        let mut unmarked: HashMap<Id, usize> = HashMap::new();
        for line in undelivered.split(|byte| *byte == b'\n') {
            if let Some(QuickEnvelope::Result { id }) = quick_read(line) {
                *unmarked.entry(id).or_default() += 1;
            }
        }
        let (marked, mut left): (Vec<_>, Vec<_>) =
            self.memory.calls().into_iter().partition(|call| call.state == CallState::Answered);
        let mut is_one_less = |id: &Id| match unmarked.get_mut(id) {
            Some(count @ 1..) => {
                *count -= 1;
                true
            }
            _ => false,
        };
        for call in &marked {
            is_one_less(&call.id);
        }
        left.retain(|call| !is_one_less(&call.id));
        let calls = left.into_iter().map(|call| call.id).collect();
        TakenBack { calls, undelivered, untaken: self.memory.untaken() }
    }
}
