//! Reads lines on one side and writes them on the other. Nothing blocks: the slow side stalls the fast one, and no buffer grows.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use nostray_rpc::{Found, Lines};
use nostray_sys::allocator;
use nostray_sys::stream::{self, widen};

use super::Front;
use crate::machine::Moment;
use crate::outbox::WIDE;
use crate::session::Verdict;

/// How much of the child's stderr is kept for a host that does not read it. The rest is dropped, or the child would block.
const STDERR_KEPT: usize = 64 << 10;
/// What a child that has ended can have left in its pipe. A descendant that outlives it may write for ever.
const MAX_PIPE_BYTES: usize = 1 << 20;
/// How long after the last long line the memory for long lines is given back.
const TIDY_AFTER: Duration = Duration::from_millis(500);

impl Front<'_> {
    pub(super) fn read_host(&mut self) -> io::Result<()> {
        let Some(mut lines) = self.from_host.take() else { return Ok(()) };
        let count = stream::read(self.host.stdin, lines.space()).unwrap_or(Some(0));
        lines.filled(count.unwrap_or(0));
        let passed = self.host_says(lines, count == Some(0));
        self.consider_shortcut(passed);
        Ok(())
    }

    /// Takes in what the host has said, here or to the steward. Returns how many of the lines pass as they came.
    pub(super) fn host_says(&mut self, mut lines: Lines, ended: bool) -> usize {
        let (now, mut passed) = (self.now(), 0);
        // Lines that go on as they are and follow each other are written in one piece.
        let mut run: Option<Range<usize>> = None;
        loop {
            let found = if ended { lines.next_found().or_else(|| lines.rest_found()) } else { lines.next_found() };
            let Some(found) = found else { break };
            match found {
                Found::Whole(span) => {
                    let (text, raw) = (lines.bytes(span.text), lines.bytes(span.raw.clone()));
                    let verdict = self.session.host_says(text, raw, now);
                    // What we say to the child ourselves comes before or after, never between.
                    if self.session.has_effects() || verdict != Verdict::Forward {
                        self.pass_to_child(&mut lines, run.take(), false);
                        self.perform();
                    }
                    let raw = lines.bytes(span.raw.clone());
                    match verdict {
                        Verdict::Forward if raw.last() != Some(&b'\n') || raw.first() == Some(&b'!') => {
                            let end: &[u8] = if raw.last() == Some(&b'\n') { b"" } else { b"\n" };
                            self.pass_to_child(&mut lines, run.take(), false);
                            self.tell_child(&[lines.bytes(span.raw), end].concat());
                        }
                        Verdict::Forward => {
                            passed += 1;
                            run = Some(run.map_or(span.raw.start, |run| run.start)..span.raw.end);
                        }
                        Verdict::Replace(line) => self.tell_child(&line),
                        Verdict::Swallow | Verdict::Log(_) => {}
                    }
                }
                Found::TooLong { length, summary } => {
                    self.session.host_said_too_much(length, self.keeper.config().max_line, &summary);
                    self.perform();
                }
            }
        }
        self.pass_to_child(&mut lines, run, true);
        self.tidy_after(&lines);
        if lines.is_large() && !std::mem::replace(&mut self.host_is_wide, true) {
            widen(self.host.stdin, WIDE);
        }
        if ended {
            self.session.host_closed(self.keeper.config().spec.graces.eof(), now);
        } else {
            self.from_host = Some(lines);
        }
        self.perform();
        passed
    }

    /// Passes on what was found. `is_last` if nothing else is to be done with what was found there.
    pub(super) fn pass_to_child(&mut self, lines: &mut Lines, found: Option<Range<usize>>, is_last: bool) {
        if let (Some(found), Some(channel)) = (found, self.channel()) {
            channel.write_found(lines, found, is_last);
        }
    }

    pub(super) fn tell_child(&mut self, bytes: &[u8]) {
        let looks_like_control = self.upstream.shared().is_some() && bytes.first() == Some(&b'!');
        if let Some(channel) = self.channel() {
            // A line of the host is never a control line. It is no JSON, and stays so behind a space.
            if looks_like_control {
                channel.write(b" ");
            }
            channel.write(bytes);
        }
    }

    /// Reads what the child says. At its end all that is there, however slow the host is: no more than a pipe holds.
    pub(super) fn read_child(&mut self, to_the_end: bool) -> io::Result<()> {
        let mut left = MAX_PIPE_BYTES;
        loop {
            let now = self.now();
            let Some((count, mut lines)) = self.channel().and_then(|channel| channel.read()) else { return Ok(()) };
            let passed = self.pass_on(&mut lines, now);
            self.tidy_after(&lines);
            if count == Some(0) {
                if let Some(Found::Whole(span)) = lines.rest_found() {
                    self.keeper.log("cut off", lines.bytes(span.text));
                }
                self.upstream_closed();
            } else if let Some(channel) = self.channel() {
                channel.return_lines(lines);
            }
            passed?;
            left = left.saturating_sub(count.unwrap_or(0));
            if !to_the_end || left == 0 || !matches!(count, Some(1..)) {
                return Ok(());
            }
        }
    }

    pub(super) fn pass_on(&mut self, lines: &mut Lines, now: Moment) -> io::Result<()> {
        let mut run: Option<Range<usize>> = None;
        while let Some(found) = lines.next_found() {
            match found {
                Found::Whole(span) if self.is_control(lines.bytes(span.text.clone())) => {
                    self.pass_to_host(lines, run.take(), false)?;
                    let text = lines.bytes(span.text).to_vec();
                    if !self.on_control(&text) {
                        return Ok(()); // what else was said is of no interest
                    }
                }
                Found::Whole(span) => {
                    let verdict = self.session.child_says(lines.bytes(span.text.clone()), now);
                    // What was said before goes first.
                    if self.session.has_effects() || verdict != Verdict::Forward {
                        self.pass_to_host(lines, run.take(), false)?;
                        self.perform();
                    }
                    match verdict {
                        Verdict::Forward => {
                            run = Some(run.map_or(span.raw.start, |run| run.start)..span.raw.end);
                        }
                        Verdict::Replace(line) => self.tell_host(&line)?,
                        Verdict::Swallow => {}
                        Verdict::Log(why) => self.keeper.log(&why, lines.bytes(span.text)),
                    }
                }
                Found::TooLong { length, summary } => {
                    self.session.child_said_too_much(length, self.keeper.config().max_line, &summary, now);
                    self.keeper.log(&format!("longer than --max-line ({length} bytes)"), b"");
                    self.perform();
                }
            }
        }
        self.pass_to_host(lines, run, true)
    }

    pub(super) fn pass_to_host(
        &mut self,
        lines: &mut Lines,
        found: Option<Range<usize>>,
        is_last: bool,
    ) -> io::Result<()> {
        match found {
            Some(found) if !self.host_deaf => self.to_host.pass_found(self.host.stdout, lines, found, is_last),
            _ => Ok(()),
        }
    }

    pub(super) fn tell_host(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.host_deaf { Ok(()) } else { self.to_host.pass(self.host.stdout, bytes) }
    }

    /// True if there may be more.
    pub(super) fn read_errors(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let Some(read) = self.keeper.read_errors(&mut buffer) else { return false };
        self.session.stderr(read);
        let room = STDERR_KEPT.saturating_sub(self.errors.len());
        if self.errors.pass(self.host.stderr, &read[..read.len().min(room)]).is_err() {
            self.errors.discard();
        }
        true
    }

    /// The host has closed its stdin for answers, so it waits for none: releases the child.
    pub(super) fn host_is_deaf(&mut self) {
        self.host_deaf = true;
        self.to_host.discard();
        self.session.release(self.now());
    }

    /// Long lines and many calls tend to come in numbers, so what they need is kept until none has come for a while.
    pub(super) fn tidy_after(&mut self, lines: &Lines) {
        let is_kept = self.to_host.holds_spare_memory()
            || self.session.holds_spare_memory()
            || self.channel().is_some_and(|channel| channel.holds_spare_memory());
        if lines.is_large() || is_kept || allocator::holds_spare_memory() {
            self.tidy_at = Some(Instant::now() + TIDY_AFTER);
        }
    }

    pub(super) fn tidy(&mut self) {
        self.tidy_at = None;
        self.session.tidy();
        self.to_host.tidy();
        if let Some(lines) = &mut self.from_host {
            lines.tidy();
        }
        if let Some(channel) = self.channel() {
            channel.tidy();
        }
        allocator::release_free();
        nostray_sys::memory::release_program_pages_at_next_wait();
    }
}
