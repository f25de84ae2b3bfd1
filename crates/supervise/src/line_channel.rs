//! Our ends of a connection that carries lines: the pipes of a child, or those between a front and a steward. Nothing blocks.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_rpc::Lines;
use nostray_sys::local;
use nostray_sys::stream::{self, Ends, Sink, widen};

use crate::outbox::{Outbox, WIDE};
use crate::sent_lines::SentLines;

/// One connection.
#[derive(Debug)]
pub struct LineChannel {
    /// Where what we say goes, until that is closed.
    writer: Option<OwnedFd>,
    to: Outbox,
    /// What was sent to a child.
    sent: Option<SentLines>,
    /// What was taken back when its input ended.
    unread: Vec<u8>,
    /// Where what is sent to us comes from, until it ends.
    reader: Option<OwnedFd>,
    /// The descriptors that came with it, if it is a socket over which some may come.
    handed: Option<Vec<OwnedFd>>,
    /// Taken out while it is read.
    from: Option<Lines>,
    /// Its output has been given more room.
    is_wide: bool,
}

impl LineChannel {
    /// A connection with another process of ours, over two pipes.
    #[must_use]
    pub fn new(Ends { writer, reader }: Ends, max_line: usize) -> Self {
        Self { sent: None, ..Self::with_child(Some((writer, reader)), max_line) }
    }

    /// The same over a socket, by which descriptors may come.
    pub fn over_socket(socket: &OwnedFd, max_line: usize) -> io::Result<Self> {
        let ends = Ends { writer: local::again(socket)?, reader: local::again(socket)? };
        Ok(Self { to: Outbox::new(Sink::Socket), handed: Some(Vec::new()), ..Self::new(ends, max_line) })
    }

    /// Goes on over these two pipes, with what was not read to its end. Returns what it was over before.
    pub fn move_to(&mut self, Ends { writer, reader }: Ends) -> Option<OwnedFd> {
        (self.writer, self.handed) = (Some(writer), None);
        self.to = Outbox::new(Sink::OwnPipe);
        self.reader.replace(reader)
    }

    /// Takes the descriptors that came with what was read.
    pub fn take_handed(&mut self) -> Vec<OwnedFd> {
        self.handed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The same with a child that has a pipe for its input: see [`LineChannel::take_unread`]. To a daemon, which has no input, nothing is sent.
    #[must_use]
    pub fn with_child(stdio: Option<(OwnedFd, OwnedFd)>, max_line: usize) -> Self {
        let (writer, reader) = stdio.unzip();
        Self {
            writer,
            to: Outbox::new(Sink::OwnPipe),
            sent: Some(SentLines::default()),
            unread: Vec::new(),
            reader,
            handed: None,
            from: Some(Lines::new(max_line)),
            is_wide: false,
        }
    }

    /// What waits to be taken by the other side, or to be taken back.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.to.len() + self.unread.len()
    }

    /// Where to wait until the other side takes more; nothing if nothing waits.
    #[must_use]
    pub fn pending_writer(&self) -> Option<&OwnedFd> {
        self.writer.as_ref().filter(|_| !self.to.is_empty())
    }

    /// Where to wait for what the other side says.
    #[must_use]
    pub fn reader(&self) -> Option<&OwnedFd> {
        self.reader.as_ref()
    }

    /// Everything that it keeps open.
    pub fn file_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.writer.iter().chain(&self.reader).map(AsFd::as_fd)
    }

    /// Says something.
    pub fn write(&mut self, bytes: &[u8]) {
        self.remember(&[bytes]);
        let sent = self.writer.as_ref().is_some_and(|writer| self.to.pass(writer.as_fd(), bytes).is_ok());
        if !sent {
            self.is_closed_by_peer(&[bytes]);
        }
    }

    /// Passes on what was found. `is_last` if nothing else is to be done with what was found there.
    pub fn write_found(&mut self, lines: &mut Lines, found: Range<usize>, is_last: bool) {
        self.write_around(b"", lines, found, b"", is_last);
    }

    /// Passes on what was found, between something else. Nothing else is to be done with what was found there.
    pub fn write_between(&mut self, before: &[u8], lines: &mut Lines, found: Range<usize>, after: &[u8]) {
        self.write_around(before, lines, found, after, true);
    }

    fn write_around(&mut self, before: &[u8], lines: &mut Lines, found: Range<usize>, after: &[u8], is_last: bool) {
        self.remember(&[before, lines.bytes(found.clone()), after]);
        let sent = self.writer.as_ref().is_some_and(|writer| {
            self.to.pass_between(writer.as_fd(), before, lines, found.clone(), after, is_last).is_ok()
        });
        if !sent {
            self.is_closed_by_peer(&[before, lines.bytes(found), after]);
        }
    }

    /// Says what waits, as far as that is possible.
    pub fn flush(&mut self) {
        let sent = self.writer.as_ref().is_none_or(|writer| self.to.flush(writer.as_fd()).is_ok());
        if !sent {
            self.is_closed_by_peer(&[]);
        }
    }

    /// Remembers where lines end that a child may not read.
    fn remember(&mut self, pieces: &[&[u8]]) {
        let Some(sent) = &mut self.sent else { return };
        pieces.iter().for_each(|piece| sent.add(piece));
        if sent.is_long()
            && let Some(in_pipe) = self.writer.as_ref().and_then(|writer| stream::unread(writer.as_fd()))
        {
            sent.is_read(in_pipe + self.to.len() as u64 + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        }
    }

    /// The other side listens no more, and its end will be told. What was just sent to a child, and what it has not read, is kept.
    fn is_closed_by_peer(&mut self, just_written: &[&[u8]]) {
        if self.sent.is_some() {
            self.stop_writing(true);
            just_written.iter().for_each(|piece| self.unread.extend_from_slice(piece));
        }
        self.to.discard();
    }

    /// Closes a child's input. `at_once` if what it has not read is taken from it.
    fn stop_writing(&mut self, at_once: bool) {
        if let Some(writer) = self.writer.take() {
            if at_once {
                self.unread = stream::take_back(writer.as_fd());
            }
            self.to.take_back(&mut self.unread);
        }
    }

    /// Takes from a child, which is about to end or has ended, the lines that it has not read. No process of its tree has read anything
    /// of them, and none will.
    #[must_use]
    pub fn take_unread(&mut self) -> Vec<u8> {
        let Some(sent) = &self.sent else { return Vec::new() };
        let mut unread = std::mem::take(&mut self.unread);
        if let Some(writer) = &self.writer {
            unread = stream::take_back(writer.as_fd());
            self.to.take_back(&mut unread);
        }
        sent.whole_lines(unread)
    }

    /// Nothing more is sent to the other side. From a child that cannot answer any more, what it has not read is taken back.
    pub fn close_writer(&mut self) {
        if self.sent.is_some() {
            self.stop_writing(self.reader.is_none());
        }
        self.writer = None;
        self.to.discard();
    }

    /// The other side says no more.
    pub fn close_reader(&mut self) {
        self.reader = None;
    }

    /// Whether everything has been taken by the other side.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.to.is_empty()
    }

    /// Reads what is there: how much, and the lines that it is a part of, to be given back by [`LineChannel::return_lines`]. Nothing at the end is
    /// 0, and nothing so far is `None`.
    pub fn read(&mut self) -> Option<(Option<usize>, Lines)> {
        let reader = self.reader.as_ref()?;
        let mut lines = self.from.take()?;
        let read = match &mut self.handed {
            None => stream::read(reader, lines.space()),
            Some(handed) => local::receive_with(reader.as_fd(), lines.space(), handed),
        };
        let count = read.unwrap_or(Some(0));
        lines.filled(count.unwrap_or(0));
        Some((count, lines))
    }

    /// The same with a buffer that many channels share: a channel between two lines needs none of its own.
    pub fn read_into(&mut self, room: &mut Vec<u8>) -> Option<(Option<usize>, Lines)> {
        self.from.as_mut()?.borrow_room(room);
        self.read()
    }

    /// Gives back what [`LineChannel::read_into`] gave.
    pub fn return_lines_and_buffer(&mut self, mut lines: Lines, room: &mut Vec<u8>) {
        lines.return_room(room);
        self.return_lines(lines);
    }

    /// Gives back what [`LineChannel::read`] gave.
    pub fn return_lines(&mut self, lines: Lines) {
        if lines.is_large()
            && !std::mem::replace(&mut self.is_wide, true)
            && let Some(reader) = &self.reader
        {
            widen(reader.as_fd(), WIDE);
        }
        self.from = Some(lines);
    }

    /// Whether memory is kept that only long lines need.
    #[must_use]
    pub fn holds_spare_memory(&self) -> bool {
        self.to.holds_spare_memory()
    }

    /// Gives back what long lines have needed.
    pub fn tidy(&mut self) {
        self.to.tidy();
        if let Some(lines) = &mut self.from {
            lines.tidy();
        }
    }

    /// Says this at once, before the other side can have gone, and fails if it has.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &self.writer {
            Some(writer) => self.to.pass(writer.as_fd(), bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
