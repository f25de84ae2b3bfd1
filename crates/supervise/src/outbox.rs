//! Bytes that are pending for a reader which may be slow. Nothing blocks. The caller checks first whether there is room, so the outbox
//! does not grow without bound.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::BorrowedFd;

use nostray_rpc::Lines;
use nostray_sys::stream::{Sink, widen};

/// A rest that is longer is not copied: its buffer is taken over.
const WORTH_TAKING: usize = 32 << 10;
/// What a pipe is widened to when long lines go through it: each time that it is full, two processes take turns. Not more, and
/// not before it is needed: the kernel counts it for the user.
pub(crate) const WIDE: usize = 256 << 10;

/// So many pieces are written at once.
const TOGETHER: usize = 8;

/// What is on its way to one reader.
#[derive(Debug)]
pub struct Outbox {
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
    /// Nothing so far.
    #[must_use]
    pub fn new(sink: Sink) -> Self {
        Self { sink, pieces: VecDeque::new(), bytes: 0, spare: Vec::new(), is_wide: false }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How much waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, buffer: Vec<u8>, left: Range<usize>) {
        if !left.is_empty() {
            self.bytes += left.len();
            self.pieces.push_back(Piece { buffer, left });
        }
    }

    /// Writes at once what can be written, and keeps the rest.
    pub fn pass(&mut self, to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        let written = if self.is_empty() { self.sink.write(to, bytes)? } else { 0 };
        self.push(bytes[written..].to_vec(), 0..bytes.len() - written);
        Ok(())
    }

    /// The same for what was found in `lines`, without a copy if it is long.
    pub fn pass_found(
        &mut self,
        to: BorrowedFd<'_>,
        lines: &mut Lines,
        found: Range<usize>,
        is_last: bool,
    ) -> io::Result<()> {
        self.pass_between(to, b"", lines, found, b"", is_last)
    }

    /// The same between something else, all of it at once.
    pub fn pass_between(
        &mut self,
        to: BorrowedFd<'_>,
        before: &[u8],
        lines: &mut Lines,
        found: Range<usize>,
        after: &[u8],
        is_last: bool,
    ) -> io::Result<()> {
        if found.len() > WORTH_TAKING && !std::mem::replace(&mut self.is_wide, true) && self.sink != Sink::Socket {
            widen(to, WIDE);
        }
        let text = lines.bytes(found.clone());
        let mut written = match (self.is_empty(), before.is_empty() && after.is_empty()) {
            (true, true) => self.sink.write(to, text)?,
            (true, false) => self.sink.write_pieces(to, &[before, text, after].map(IoSlice::new))?,
            (false, _) => 0,
        };
        let mut rest = |length: usize| {
            let gone = written.min(length);
            written -= gone;
            gone..length
        };
        let (of_before, of_found, of_after) = (rest(before.len()), rest(found.len()), rest(after.len()));
        self.push(before[of_before.clone()].to_vec(), 0..of_before.len());
        let left = found.start + of_found.start..found.end;
        if left.len() > WORTH_TAKING && is_last {
            let buffer = lines.hand_over(std::mem::take(&mut self.spare));
            self.push(buffer, left);
        } else {
            self.push(lines.bytes(left.clone()).to_vec(), 0..left.len());
        }
        self.push(after[of_after.clone()].to_vec(), 0..of_after.len());
        Ok(())
    }

    /// Writes what can be written.
    pub fn flush(&mut self, to: BorrowedFd<'_>) -> io::Result<()> {
        while !self.is_empty() {
            // Several at once: a long line that was changed has short pieces before and behind it.
            let mut together = [IoSlice::new(b""); TOGETHER];
            for (slice, piece) in together.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(&piece.buffer[piece.left.clone()]);
            }
            let mut written = self.sink.write_pieces(to, &together[..self.pieces.len().min(TOGETHER)])?;
            if written == 0 {
                break;
            }
            self.bytes -= written;
            while let Some(Piece { left, .. }) = self.pieces.front_mut() {
                let gone = written.min(left.len());
                left.start += gone;
                written -= gone;
                if left.start < left.end {
                    break;
                }
                if let Some(Piece { buffer, .. }) = self.pieces.pop_front()
                    && buffer.len() > self.spare.len()
                {
                    self.spare = buffer;
                }
            }
        }
        Ok(())
    }

    /// Takes back what waits.
    pub(crate) fn take_back(&mut self, all: &mut Vec<u8>) {
        for Piece { buffer, left } in self.pieces.drain(..) {
            all.extend_from_slice(&buffer[left]);
        }
        self.bytes = 0;
    }

    /// Drops everything: the reader is gone.
    pub fn discard(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
    }

    /// Whether something is kept for the next long line.
    #[must_use]
    pub fn holds_spare_memory(&self) -> bool {
        self.spare.capacity() > 0
    }

    /// Gives back what is kept for the next long line.
    pub fn tidy(&mut self) {
        self.spare = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostray_sys::stream::{Pipe, do_not_wait, read};
    use std::os::fd::AsFd;

    /// A line of so many bytes, as it was found.
    fn found(length: usize) -> (Lines, Range<usize>) {
        let mut lines = Lines::new(usize::MAX);
        let text: Vec<u8> = (0..length).map(|at| b'a' + u8::try_from(at % 23).unwrap_or(0)).collect();
        let mut left = &text[..];
        while !left.is_empty() {
            let space = lines.space();
            let count = space.len().min(left.len());
            space[..count].copy_from_slice(&left[..count]);
            lines.filled(count);
            left = &left[count..];
        }
        (lines, 0..length)
    }

    #[test]
    fn what_is_passed_arrives_in_its_order_however_little_is_taken_at_a_time() {
        for length in [0, 10, 5000, 100_000, 1 << 20] {
            let pipe = Pipe::new().expect("pipe");
            do_not_wait(&pipe.writer).expect("a pipe");
            do_not_wait(&pipe.reader).expect("a pipe");
            let mut outbox = Outbox::new(Sink::OwnPipe);
            let mut expected = Vec::new();
            for round in 0..4 {
                let (mut lines, range) = found(length);
                let (before, after) = (vec![b'0' + round; 7 * usize::from(round)], *b"}\n");
                expected.extend([&before[..], lines.bytes(range.clone()), &after].concat());
                outbox
                    .pass_between(pipe.writer.as_fd(), &before, &mut lines, range, &after, round % 2 == 0)
                    .expect("the reader is open");
            }
            let (mut got, mut buffer) = (Vec::new(), vec![0; 3000]);
            loop {
                let count = read(&pipe.reader, &mut buffer).expect("read").unwrap_or(0);
                got.extend_from_slice(&buffer[..count]);
                if count == 0 && outbox.is_empty() {
                    break;
                }
                outbox.flush(pipe.writer.as_fd()).expect("the reader is open");
            }
            assert!(got == expected, "{length}");
            assert_eq!(outbox.len(), 0);
        }
    }
}
