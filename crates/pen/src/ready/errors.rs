//! Passing on what the child writes to its standard error, byte by byte as it comes, while somebody looks at the lines.
//!
//! Nothing is read that could not be written on at once, so hardly a byte is ever held here: it waits in the child's pipe, where
//! whoever takes over finds it. And nothing is waited for: a host that does not read makes its child wait, as it would without us,
//! and nobody else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nostray_sys::descriptors::standard_error;
use nostray_sys::poll::{self, Until};
use nostray_sys::stream::{self, Sink};

use super::lines::Lines;

/// What every pipe takes at once if it can be written to.
const AT_ONCE: usize = 4096;
/// So often in a row, then others have their turn.
const TURNS: usize = 64;
/// What a child that has ended can have left in its pipe. Somebody who outlives it may write for ever.
const MOST_IN_A_PIPE: usize = 1 << 20;

/// The way from the child's standard error to the host's.
#[derive(Debug)]
pub(super) struct Errors<'a> {
    from: BorrowedFd<'a>,
    /// A terminal, as an open file of our own.
    terminal: Option<OwnedFd>,
    sink: Sink,
    /// What was read and could not be written, because somebody else was faster.
    kept: Vec<u8>,
    waits_for: WaitsFor,
    /// Until a line has matched.
    lines: Option<Lines<'a>>,
    /// Nobody reads at the other end, and nobody ever will.
    is_deaf: bool,
}

/// What has to happen before there is more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// The child writes.
    Child,
    /// The host reads.
    Host,
    /// Nothing will happen: everybody has closed it.
    Nobody,
}

impl<'a> Errors<'a> {
    pub(super) fn new(from: BorrowedFd<'a>) -> Self {
        let to = standard_error();
        let terminal = stream::own_terminal(to);
        let sink = if terminal.is_some() { Sink::OwnPipe } else { Sink::of(to) };
        Self { from, terminal, sink, kept: Vec::new(), waits_for: WaitsFor::Child, lines: None, is_deaf: false }
    }

    /// From now on every line is looked at, until one matches.
    pub(super) fn look_at(&mut self, lines: Lines<'a>) {
        self.lines = Some(lines);
    }

    /// Lines are of no interest any more.
    pub(super) fn look_no_more(&mut self) {
        self.lines = None;
    }

    fn to(&self) -> BorrowedFd<'_> {
        match &self.terminal {
            Some(terminal) => terminal.as_fd(),
            None => standard_error(),
        }
    }

    /// What there is to wait for.
    pub(super) fn watch(&self) -> Option<(BorrowedFd<'_>, Until)> {
        match self.waits_for {
            WaitsFor::Child => Some((self.from, Until::Readable)),
            WaitsFor::Host => Some((self.to(), Until::Writable)),
            WaitsFor::Nobody => None,
        }
    }

    /// Passes on what there is. True if a line has matched.
    pub(super) fn pass_on(&mut self) -> bool {
        self.pass(TURNS * AT_ONCE, &mut false)
    }

    /// Once nobody is left who writes: passes on what is left. False if there is more, for which the host would have to read.
    /// `has_moved` if it has read some.
    pub(super) fn pass_on_the_rest(&mut self, has_moved: &mut bool) -> bool {
        self.lines = None;
        self.pass(MOST_IN_A_PIPE, has_moved);
        self.waits_for != WaitsFor::Host
    }

    fn pass(&mut self, mut most: usize, has_moved: &mut bool) -> bool {
        let mut matches = false;
        while most > 0 {
            *has_moved |= self.write_on();
            if !self.kept.is_empty() {
                self.waits_for = WaitsFor::Host;
                return matches;
            }
            let both = [(self.from, Until::Readable), (self.to(), Until::Writable)];
            let came = poll::wait(&both, Some(Duration::ZERO)).unwrap_or_default();
            match came[..] {
                [true, true] => {}
                [true, false] if self.is_deaf => {}
                [true, false] => {
                    self.waits_for = WaitsFor::Host;
                    return matches;
                }
                _ => {
                    self.waits_for = WaitsFor::Child;
                    return matches;
                }
            }
            self.kept.resize(AT_ONCE, 0);
            let count = stream::read(self.from, &mut self.kept).unwrap_or(Some(0));
            self.kept.truncate(count.unwrap_or(0));
            most -= self.kept.len().max(1);
            matches |= self.lines.as_mut().is_some_and(|lines| lines.take(&self.kept));
            if count == Some(0) {
                // The last line may have no end.
                matches |= self.lines.take().is_some_and(|mut lines| lines.end());
                self.waits_for = WaitsFor::Nobody;
                return matches;
            }
        }
        *has_moved |= self.write_on();
        self.waits_for = if self.kept.is_empty() { WaitsFor::Child } else { WaitsFor::Host };
        matches
    }

    /// Writes what was read. True if some of it could be written.
    fn write_on(&mut self) -> bool {
        let mut done = 0;
        while done < self.kept.len() && !self.is_deaf {
            match self.sink.write(self.to(), &self.kept[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                // Whoever has closed its end wants no words. The child is not to die of it, and somebody may still wait for a line.
                Err(_) => self.is_deaf = true,
            }
        }
        if self.is_deaf {
            self.kept.clear();
        }
        self.kept.drain(..done.min(self.kept.len()));
        done > 0
    }
}
