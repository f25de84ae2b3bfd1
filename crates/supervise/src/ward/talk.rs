//! Our ends of a conversation in lines: with a child over its pipes, or with a steward over a socket. Nothing is waited for.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_rpc::Lines;
use nostray_sys::stream::{self, Sink, widen};

use crate::outbox::{Outbox, WIDE};
use crate::said::Said;

/// One conversation.
#[derive(Debug)]
pub struct Talk {
    /// Where what we say goes, until that is closed.
    ear: Option<OwnedFd>,
    to: Outbox,
    /// What was said to a child.
    said: Option<Said>,
    /// What was taken back when its input ended.
    unread: Vec<u8>,
    /// Where what is said to us comes from, until it ends.
    mouth: Option<OwnedFd>,
    /// Taken out while it is read.
    from: Option<Lines>,
    /// Its output has been given more room.
    is_wide: bool,
}

impl Talk {
    /// With whoever reads the one and writes the other.
    #[must_use]
    pub fn new(ear: OwnedFd, mouth: OwnedFd, to: Outbox, max_line: usize) -> Self {
        let from = Some(Lines::new(max_line));
        Self { ear: Some(ear), to, said: None, unread: Vec::new(), mouth: Some(mouth), from, is_wide: false }
    }

    /// The same with a child that has a pipe for its input: see [`Talk::take_unread`]. To a daemon, which has no input, nothing is said.
    #[must_use]
    pub fn with_child(stdio: Option<(OwnedFd, OwnedFd)>, max_line: usize) -> Self {
        let (ear, mouth) = stdio.unzip();
        Self {
            ear,
            to: Outbox::new(Sink::OwnPipe),
            said: Some(Said::default()),
            unread: Vec::new(),
            mouth,
            from: Some(Lines::new(max_line)),
            is_wide: false,
        }
    }

    /// What waits to be taken by the other side, or to be taken back.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.to.len() + self.unread.len()
    }

    /// Where to wait until the other side takes more; nothing if nothing waits.
    #[must_use]
    pub fn ear(&self) -> Option<&OwnedFd> {
        self.ear.as_ref().filter(|_| !self.to.is_empty())
    }

    /// Where to wait for what the other side says.
    #[must_use]
    pub fn mouth(&self) -> Option<&OwnedFd> {
        self.mouth.as_ref()
    }

    /// Everything that it keeps open.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ear.iter().chain(&self.mouth).map(AsFd::as_fd)
    }

    /// Says something.
    pub fn say(&mut self, bytes: &[u8]) {
        self.remember(&[bytes]);
        let said = self.ear.as_ref().is_some_and(|ear| self.to.pass(ear.as_fd(), bytes).is_ok());
        if !said {
            self.is_not_heard(&[bytes]);
        }
    }

    /// Passes on what was found. `is_last` if nothing else is to be done with what was found there.
    pub fn say_found(&mut self, lines: &mut Lines, found: Range<usize>, is_last: bool) {
        self.say_around(b"", lines, found, b"", is_last);
    }

    /// Passes on what was found, between something else. Nothing else is to be done with what was found there.
    pub fn say_between(&mut self, before: &[u8], lines: &mut Lines, found: Range<usize>, after: &[u8]) {
        self.say_around(before, lines, found, after, true);
    }

    fn say_around(&mut self, before: &[u8], lines: &mut Lines, found: Range<usize>, after: &[u8], is_last: bool) {
        self.remember(&[before, lines.bytes(found.clone()), after]);
        let said = self.ear.as_ref().is_some_and(|ear| {
            self.to.pass_between(ear.as_fd(), before, lines, found.clone(), after, is_last).is_ok()
        });
        if !said {
            self.is_not_heard(&[before, lines.bytes(found), after]);
        }
    }

    /// Says what waits, as far as that is possible.
    pub fn say_on(&mut self) {
        let said = self.ear.as_ref().is_none_or(|ear| self.to.flush(ear.as_fd()).is_ok());
        if !said {
            self.is_not_heard(&[]);
        }
    }

    /// Remembers where lines end that a child may not read.
    fn remember(&mut self, pieces: &[&[u8]]) {
        let Some(said) = &mut self.said else { return };
        pieces.iter().for_each(|piece| said.add(piece));
        if said.is_long()
            && let Some(in_pipe) = self.ear.as_ref().and_then(|ear| stream::unread(ear.as_fd()))
        {
            said.is_read(in_pipe + self.to.len() as u64 + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        }
    }

    /// The other side listens no more, and its end will be told. What was just said to a child, and what it has not read, is kept.
    fn is_not_heard(&mut self, just_said: &[&[u8]]) {
        if self.said.is_some() {
            self.stop_saying(true);
            just_said.iter().for_each(|piece| self.unread.extend_from_slice(piece));
        }
        self.to.discard();
    }

    /// Closes a child's input. `at_once` if what it has not read is taken from it.
    fn stop_saying(&mut self, at_once: bool) {
        if let Some(ear) = self.ear.take() {
            if at_once {
                self.unread = stream::take_back(ear.as_fd());
            }
            self.to.take_back(&mut self.unread);
        }
    }

    /// Takes from a child, which is about to end or has ended, the lines that it has not read. No process of its tree has read anything
    /// of them, and none will.
    #[must_use]
    pub fn take_unread(&mut self) -> Vec<u8> {
        let Some(said) = &self.said else { return Vec::new() };
        let mut unread = std::mem::take(&mut self.unread);
        if let Some(ear) = &self.ear {
            unread = stream::take_back(ear.as_fd());
            self.to.take_back(&mut unread);
        }
        said.whole_lines(unread)
    }

    /// Nothing more is said to the other side. From a child that cannot answer any more, what it has not read is taken back.
    pub fn fall_silent(&mut self) {
        if self.said.is_some() {
            self.stop_saying(self.mouth.is_none());
        }
        self.ear = None;
        self.to.discard();
    }

    /// The other side says no more.
    pub fn is_mute(&mut self) {
        self.mouth = None;
    }

    /// Whether everything has been taken by the other side.
    #[must_use]
    pub fn is_said(&self) -> bool {
        self.to.is_empty()
    }

    /// Reads what is there: how much, and the lines that it is a part of, to be given back by [`Talk::heard`]. Nothing at the end is
    /// 0, and nothing so far is `None`.
    pub fn hear(&mut self) -> Option<(Option<usize>, Lines)> {
        let mouth = self.mouth.as_ref()?;
        let mut lines = self.from.take()?;
        let count = stream::read(mouth, lines.space()).unwrap_or(Some(0));
        lines.filled(count.unwrap_or(0));
        Some((count, lines))
    }

    /// The same in a buffer that many share: of those who have nothing on the way, none needs one.
    pub fn hear_in(&mut self, room: &mut Vec<u8>) -> Option<(Option<usize>, Lines)> {
        self.from.as_mut()?.borrow_room(room);
        self.hear()
    }

    /// Gives back what [`Talk::hear_in`] gave.
    pub fn heard_in(&mut self, mut lines: Lines, room: &mut Vec<u8>) {
        lines.return_room(room);
        self.heard(lines);
    }

    /// Gives back what [`Talk::hear`] gave.
    pub fn heard(&mut self, lines: Lines) {
        if lines.is_large()
            && !std::mem::replace(&mut self.is_wide, true)
            && let Some(mouth) = &self.mouth
        {
            widen(mouth.as_fd(), WIDE);
        }
        self.from = Some(lines);
    }

    /// Whether memory is kept that only long lines need.
    #[must_use]
    pub fn keeps_much(&self) -> bool {
        self.to.keeps_much()
    }

    /// Gives back what long lines have needed.
    pub fn tidy(&mut self) {
        self.to.tidy();
        if let Some(lines) = &mut self.from {
            lines.tidy();
        }
    }

    /// Says this at once, before the other side can have gone, and fails if it has.
    pub fn try_say(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &self.ear {
            Some(ear) => self.to.pass(ear.as_fd(), bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
