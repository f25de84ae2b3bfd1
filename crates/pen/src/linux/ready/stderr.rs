//! Passes on the child's standard error, byte by byte as it comes, while its lines are matched.
//!
//! It reads only what it can write at once, so hardly a byte is ever held here: bytes wait in the child's pipe, where a spare that takes
//! over finds them. And it never blocks: a host that does not read makes its child wait, as it would without nostray, and no other process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nostray_sys::descriptors::standard_error;
use nostray_sys::poll::{self, Until};
use nostray_sys::stream::{self, Sink};

use super::lines::LineMatcher;

/// What every pipe takes at once if it can be written to.
const READ_SIZE: usize = 4096;
/// The most reads in a row before other events have their turn.
const MAX_READS_PER_WAKEUP: usize = 64;
/// The most that an ended child can have left in its pipe. A process that outlives it may write for ever.
const MAX_PIPE_CAPACITY: usize = 1 << 20;

/// The way from the child's standard error to the host's.
#[derive(Debug)]
pub(super) struct StderrRelay<'a> {
    from: BorrowedFd<'a>,
    /// A terminal, as an open file of our own.
    terminal: Option<OwnedFd>,
    sink: Sink,
    /// What was read and could not be written, because another writer was faster.
    pending: Vec<u8>,
    waits_for: WaitsFor,
    /// Until a line has matched.
    lines: Option<LineMatcher<'a>>,
    /// The host has closed its end for good.
    reader_is_gone: bool,
}

/// What has to happen before there is more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// The child writes.
    Child,
    /// The host reads.
    Host,
    /// Nothing will happen: all writers have closed it.
    Nothing,
}

impl<'a> StderrRelay<'a> {
    pub(super) fn new(from: BorrowedFd<'a>) -> Self {
        let to = standard_error();
        let terminal = stream::own_terminal(to);
        let sink = if terminal.is_some() { Sink::OwnPipe } else { Sink::of(to) };
        Self {
            from,
            terminal,
            sink,
            pending: Vec::new(),
            waits_for: WaitsFor::Child,
            lines: None,
            reader_is_gone: false,
        }
    }

    /// From now on every line is matched, until one matches.
    pub(super) fn look_at(&mut self, lines: LineMatcher<'a>) {
        self.lines = Some(lines);
    }

    /// Stops matching lines.
    pub(super) fn look_no_more(&mut self) {
        self.lines = None;
    }

    fn to(&self) -> BorrowedFd<'_> {
        match &self.terminal {
            Some(terminal) => terminal.as_fd(),
            None => standard_error(),
        }
    }

    /// The file descriptor to wait for.
    pub(super) fn watch(&self) -> Option<(BorrowedFd<'_>, Until)> {
        match self.waits_for {
            WaitsFor::Child => Some((self.from, Until::Readable)),
            WaitsFor::Host => Some((self.to(), Until::Writable)),
            WaitsFor::Nothing => None,
        }
    }

    /// Passes on what there is. True if a line has matched.
    pub(super) fn pass_on(&mut self) -> bool {
        self.pass(MAX_READS_PER_WAKEUP * READ_SIZE, &mut false)
    }

    /// Once the tree is empty: passes on what is left. False if there is more, and the host has to read first. Sets `has_moved` if the
    /// host has read some.
    pub(super) fn pass_on_the_rest(&mut self, has_moved: &mut bool) -> bool {
        self.lines = None;
        self.pass(MAX_PIPE_CAPACITY, has_moved);
        self.waits_for != WaitsFor::Host
    }

    fn pass(&mut self, mut most: usize, has_moved: &mut bool) -> bool {
        let mut matches = false;
        while most > 0 {
            *has_moved |= self.write_on();
            if !self.pending.is_empty() {
                self.waits_for = WaitsFor::Host;
                return matches;
            }
            let both = [(self.from, Until::Readable), (self.to(), Until::Writable)];
            let fired = poll::wait(&both, Some(Duration::ZERO)).unwrap_or_default();
            match fired[..] {
                [true, true] => {}
                [true, false] if self.reader_is_gone => {}
                [true, false] => {
                    self.waits_for = WaitsFor::Host;
                    return matches;
                }
                _ => {
                    self.waits_for = WaitsFor::Child;
                    return matches;
                }
            }
            self.pending.resize(READ_SIZE, 0);
            let count = stream::read(self.from, &mut self.pending).unwrap_or(Some(0));
            self.pending.truncate(count.unwrap_or(0));
            most -= self.pending.len().max(1);
            matches |= self.lines.as_mut().is_some_and(|lines| lines.take(&self.pending));
            if count == Some(0) {
                // The last line may have no end.
                matches |= self.lines.take().is_some_and(|mut lines| lines.end());
                self.waits_for = WaitsFor::Nothing;
                return matches;
            }
        }
        *has_moved |= self.write_on();
        self.waits_for = if self.pending.is_empty() { WaitsFor::Child } else { WaitsFor::Host };
        matches
    }

    /// Writes what was read. True if some of it could be written.
    fn write_on(&mut self) -> bool {
        let mut done = 0;
        while done < self.pending.len() && !self.reader_is_gone {
            match self.sink.write(self.to(), &self.pending[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                // A host that has closed its end wants no bytes. The child must not die of it, and a line may still have to match.
                Err(_) => self.reader_is_gone = true,
            }
        }
        if self.reader_is_gone {
            self.pending.clear();
        }
        self.pending.drain(..done.min(self.pending.len()));
        done > 0
    }
}
