//! What is on its way to somebody who may be slow. Nothing is ever waited for, and nothing grows: who fills it looks first
//! whether there is room.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use nostray_sys::stream::Sink;

#[derive(Debug)]
pub(super) struct Outbox {
    sink: Sink,
    pieces: VecDeque<Vec<u8>>,
    /// How much of the first piece is written.
    written: usize,
    bytes: usize,
}

impl Outbox {
    pub(super) fn new(sink: Sink) -> Self {
        Self { sink, pieces: VecDeque::new(), written: 0, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How much waits.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Writes at once what can be written, and keeps the rest.
    pub(super) fn pass(&mut self, to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        let written = if self.is_empty() { self.sink.write(to, bytes)? } else { 0 };
        self.push(bytes[written..].to_vec());
        Ok(())
    }

    /// Writes what can be written.
    pub(super) fn flush(&mut self, to: BorrowedFd<'_>) -> io::Result<()> {
        while let Some(piece) = self.pieces.front() {
            let written = self.sink.write(to, &piece[self.written..])?;
            if written == 0 {
                break;
            }
            self.written += written;
            self.bytes -= written;
            if self.written == piece.len() {
                self.pieces.pop_front();
                self.written = 0;
            }
        }
        Ok(())
    }

    /// Nobody will ever read it.
    pub(super) fn discard(&mut self) {
        self.pieces.clear();
        self.written = 0;
        self.bytes = 0;
    }
}
