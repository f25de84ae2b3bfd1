//! Our ends of a conversation in lines: with a child over its pipes, or with a steward over a socket. Nothing is waited for.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_rpc::Lines;
use nostray_sys::stream::{self, widen};

use crate::outbox::{Outbox, WIDE};

/// One conversation.
#[derive(Debug)]
pub struct Talk {
    /// Where what we say goes, until that is closed.
    ear: Option<OwnedFd>,
    to: Outbox,
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
        Self { ear: Some(ear), to, mouth: Some(mouth), from: Some(Lines::new(max_line)), is_wide: false }
    }

    /// What waits to be taken by the other side.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.to.len()
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
        let Some(ear) = &self.ear else { return };
        if self.to.pass(ear.as_fd(), bytes).is_err() {
            self.to.discard(); // it listens no more; its end will be told
        }
    }

    /// Passes on what was found. `is_last` if nothing else is to be done with what was found there.
    pub fn say_found(&mut self, lines: &mut Lines, found: Range<usize>, is_last: bool) {
        let Some(ear) = &self.ear else { return };
        if self.to.pass_found(ear.as_fd(), lines, found, is_last).is_err() {
            self.to.discard();
        }
    }

    /// Passes on what was found, between something else. Nothing else is to be done with what was found there.
    pub fn say_between(&mut self, before: &[u8], lines: &mut Lines, found: Range<usize>, after: &[u8]) {
        let Some(ear) = &self.ear else { return };
        if self.to.pass_between(ear.as_fd(), before, lines, found, after, true).is_err() {
            self.to.discard();
        }
    }

    /// Says what waits, as far as that is possible.
    pub fn say_on(&mut self) {
        let Some(ear) = &self.ear else { return };
        if self.to.flush(ear.as_fd()).is_err() {
            self.to.discard();
        }
    }

    /// Nothing more is said to the other side.
    pub fn fall_silent(&mut self) {
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
