//! What is on its way to somebody who may be slow. Nothing is ever waited for, and nothing grows: who fills it looks first
//! whether there is room.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use nostray_rpc::Lines;
use nostray_sys::stream::{Sink, widen};

/// A rest that is longer is not copied: its buffer is taken over.
const WORTH_TAKING: usize = 32 << 10;
/// What a pipe is widened to when long lines go through it: each time that it is full, two processes take turns. Not more, and
/// not before it is needed: the kernel counts it for the user.
pub(super) const WIDE: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Outbox {
    sink: Sink,
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// A buffer that was taken over and has been written.
    spare: Vec<u8>,
    is_wide: bool,
}

#[derive(Debug)]
struct Piece {
    buffer: Vec<u8>,
    left: Range<usize>,
}

impl Outbox {
    pub(super) fn new(sink: Sink) -> Self {
        Self { sink, pieces: VecDeque::new(), bytes: 0, spare: Vec::new(), is_wide: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How much waits.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, buffer: Vec<u8>, left: Range<usize>) {
        if !left.is_empty() {
            self.bytes += left.len();
            self.pieces.push_back(Piece { buffer, left });
        }
    }

    /// Writes at once what can be written, and keeps the rest.
    pub(super) fn pass(&mut self, to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        let written = if self.is_empty() { self.sink.write(to, bytes)? } else { 0 };
        self.push(bytes[written..].to_vec(), 0..bytes.len() - written);
        Ok(())
    }

    /// The same for what was found in `lines`, without a copy if it is long.
    pub(super) fn pass_found(
        &mut self,
        to: BorrowedFd<'_>,
        lines: &mut Lines,
        found: Range<usize>,
        is_last: bool,
    ) -> io::Result<()> {
        if found.len() > WORTH_TAKING && !std::mem::replace(&mut self.is_wide, true) && self.sink != Sink::Socket {
            widen(to, WIDE);
        }
        let written = if self.is_empty() { self.sink.write(to, lines.bytes(found.clone()))? } else { 0 };
        let rest = found.start + written..found.end;
        if rest.len() > WORTH_TAKING && is_last {
            let buffer = lines.hand_over(std::mem::take(&mut self.spare));
            self.push(buffer, rest);
        } else {
            self.push(lines.bytes(rest.clone()).to_vec(), 0..rest.len());
        }
        Ok(())
    }

    /// Writes what can be written.
    pub(super) fn flush(&mut self, to: BorrowedFd<'_>) -> io::Result<()> {
        while let Some(Piece { buffer, left }) = self.pieces.front_mut() {
            let written = self.sink.write(to, &buffer[left.clone()])?;
            if written == 0 {
                break;
            }
            left.start += written;
            self.bytes -= written;
            if left.start == left.end
                && let Some(Piece { buffer, .. }) = self.pieces.pop_front()
                && buffer.len() > self.spare.len()
            {
                self.spare = buffer;
            }
        }
        Ok(())
    }

    /// Nobody will ever read it.
    pub(super) fn discard(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
    }

    /// Whether something is kept for the next long line.
    pub(super) fn keeps_much(&self) -> bool {
        self.spare.capacity() > 0
    }

    /// Gives back what is kept for the next long line.
    pub(super) fn tidy(&mut self) {
        self.spare = Vec::new();
    }
}
