//! Reads lines on one side and writes them on the other, as the router says. A session that floods or does not read slows down only
//! itself.

use std::ops::Range;
use std::time::{Duration, Instant};

use nostray_rpc::{Found, Lines};
use nostray_supervise::wire::{ToFront, ToSteward, parse_control};
use nostray_supervise::{Cause, Moment, Unusual};
use nostray_sys::allocator;

use super::Steward;
use super::attachments::{Attachment, GATHERED, Inbound};
use crate::router::{Edits, Effect, FromChild, FromSession, Piece, SessionId};

/// A line that is longer is not copied.
const LONG_LINE: usize = 32 << 10;
/// What a child that has ended can have left in its pipe. A descendant that outlives it may write for ever.
const MAX_PIPE_BYTES: usize = 1 << 20;
/// A session that does not read gets no more notifications beyond this, and is given up beyond that.
const DROP_NOTIFICATIONS_AT: usize = 16 << 20;
const DETACH_AT: usize = 192 << 20;
/// With more sessions, none goes by the shortcut: each that does needs six more files, and memory.
const MAX_WITH_SHORTCUTS: usize = 32;
/// How long after the last long line the memory for long lines is given back.
const TIDY_AFTER: Duration = Duration::from_millis(500);

impl Steward {
    /// Reads what a session says: once, so that every session has a turn.
    pub(super) fn read_session(&mut self, at: usize) {
        let Some(attachment) = self.attachments.at(at) else { return };
        let session_id = attachment.session_id;
        let Some((count, mut lines)) = attachment.channel.read_into(&mut self.room) else { return };
        self.session_says(session_id, &mut lines);
        if count == Some(0)
            && let Some(attachment) = self.attachments.of(session_id)
        {
            attachment.front_is_silent();
        }
        self.tidy_after(&lines);
        self.flush();
        let eof = self.keeper.config().spec.graces.eof();
        let Some(attachment) = self.attachments.of(session_id) else { return };
        if count == Some(0) {
            // It has said all; what it has asked may still be answered.
            attachment.channel.close_reader();
            attachment.leaves_at.get_or_insert_with(|| Instant::now() + eof);
        } else {
            attachment.channel.return_lines_and_buffer(lines, &mut self.room);
        }
        self.settle();
        self.see_off();
    }

    /// Reads what the host of a session says that goes by the shortcut.
    pub(super) fn read_shortcut(&mut self, at: usize) {
        let Some(attachment) = self.attachments.at(at) else { return };
        let session_id = attachment.session_id;
        let Some(shortcut) = attachment.shortcut_end() else { return };
        match shortcut.read(&mut self.room) {
            Ok(Some(mut lines)) => {
                self.host_says(session_id, &mut lines);
                if let Some(shortcut) = self.attachments.of(session_id).and_then(Attachment::shortcut_end) {
                    shortcut.return_lines(lines, &mut self.room);
                }
            }
            Ok(None) => return,
            Err(Unusual) => attachment.end_shortcut(),
        }
        self.flush();
        self.settle();
        self.see_off();
    }

    /// Takes usual calls alone. The first line that is none is the front's, and all that follows.
    fn host_says(&mut self, session_id: SessionId, lines: &mut Lines) {
        let now = self.now();
        while let Some(found) = lines.next_found() {
            let Some(attachment) = self.attachments.of(session_id).filter(|attachment| attachment.gone.is_none())
            else {
                return;
            };
            let Some(shortcut) = attachment.shortcut_end() else { return };
            match found {
                Found::Whole(span) if shortcut.takes(lines.bytes(span.text.clone()), span.raw.len()) => {
                    self.say_to_child(session_id, lines, span.text, now);
                }
                _ => return attachment.end_shortcut(),
            }
            self.perform_routing();
        }
    }

    fn session_says(&mut self, session_id: SessionId, lines: &mut Lines) {
        let now = self.now();
        while let Some(found) = lines.next_found() {
            let Some(attachment) = self.attachments.of(session_id).filter(|attachment| attachment.gone.is_none())
            else {
                return;
            };
            match found {
                Found::Whole(span) if lines.bytes(span.text.clone()).first() == Some(&b'!') => {
                    if let Some(message) = parse_control(lines.bytes(span.text)) {
                        self.on_control(session_id, &message);
                    }
                }
                Found::Whole(span) if attachment.inbound != Inbound::Routed => {
                    attachment.give_back(lines.bytes(span.text))
                }
                Found::Whole(span) => self.say_to_child(session_id, lines, span.text, now),
                Found::TooLong { length, summary } => {
                    let limit = self.keeper.config().max_line;
                    self.router.session_said_too_much(session_id, length, limit, &summary);
                }
            }
            self.perform_routing();
        }
    }

    fn say_to_child(&mut self, session_id: SessionId, lines: &mut Lines, text: Range<usize>, now: Moment) {
        match self.router.session_says(session_id, lines.bytes(text.clone()), now) {
            FromSession::ToChild(edits) => self.pass_to_child(lines, text, &edits),
            FromSession::Swallow => {}
            FromSession::Elsewhere { variant, why } => {
                if let Some(attachment) = self.attachments.of(session_id) {
                    send_elsewhere(attachment, variant, why, [lines.bytes(text)].into_iter());
                }
            }
        }
    }

    fn on_control(&mut self, session_id: SessionId, message: &ToSteward) {
        match message {
            ToSteward::Heard => {
                let Some(attachment) = self.attachments.of(session_id) else { return };
                match std::mem::replace(&mut attachment.inbound, Inbound::Routed) {
                    Inbound::Redirected { variant, why } => {
                        attachment.tell(&ToFront::Elsewhere { variant, why: why.clone() });
                        attachment.gone = Some(why);
                    }
                    Inbound::GivenBack => {
                        attachment.tell(&ToFront::Settled);
                        self.rejoin(session_id);
                    }
                    Inbound::Routed => {}
                }
            }
            // Of a child that is gone it means nothing.
            ToSteward::Told => {
                if self.attachments.of(session_id).is_some_and(|attachment| attachment.inbound == Inbound::Routed) {
                    self.router.told(session_id);
                }
            }
            ToSteward::Shortcut(number) => {
                let may = self.is_up && self.attachments.len() <= MAX_WITH_SHORTCUTS;
                let Some(attachment) = self.attachments.of(session_id) else { return };
                if may && attachment.inbound == Inbound::Routed && attachment.channel.is_flushed() {
                    attachment.wait_for_shortcut(*number);
                } else {
                    attachment.tell(&ToFront::ShortcutOver(*number));
                }
            }
            ToSteward::ShortcutBegins(number) => {
                let (protocol, max_line) = (self.router.protocol(), self.keeper.config().max_line);
                let Some(attachment) = self.attachments.of(session_id) else { return };
                attachment.begin_shortcut(*number, protocol, max_line);
            }
            ToSteward::EndShortcut(number) => {
                let Some(attachment) = self.attachments.of(session_id) else { return };
                if attachment.shortcut.as_ref().is_some_and(|shortcut| shortcut.number == *number) {
                    attachment.end_shortcut();
                }
            }
            ToSteward::Wake => {
                let effects = self.lifecycle.call_announced(self.now());
                self.perform(effects);
            }
        }
    }

    fn rejoin(&mut self, session_id: SessionId) {
        self.router.rejoin(session_id);
        self.tell_of_child(session_id);
    }

    /// Does what the router says beside what it says of a line.
    pub(super) fn perform_routing(&mut self) {
        while self.router.has_effects() {
            for effect in self.router.effects() {
                match effect {
                    Effect::ToChild(line) => {
                        self.to_child.extend_from_slice(&line);
                        self.flush_to_child_if(GATHERED);
                    }
                    Effect::ToSession(session_id, line) => {
                        if let Some(attachment) = self.attachments.of(session_id) {
                            gather(attachment, &line);
                        }
                    }
                    Effect::Elsewhere { session_id, variant, why, lines } => {
                        if let Some(attachment) = self.attachments.of(session_id) {
                            send_elsewhere(attachment, variant, why, lines.split(|byte| *byte == b'\n'));
                        }
                    }
                }
            }
        }
    }

    fn flush_to_child_if(&mut self, more_than: usize) {
        if self.to_child.len() > more_than {
            if let Some(child) = self.keeper.child.as_mut().filter(|_| self.is_up) {
                child.channel.write(&self.to_child);
            }
            self.to_child.clear();
            self.to_child.shrink_to(GATHERED);
        }
    }

    /// Writes what has been gathered, to the child and to every session.
    pub(super) fn flush(&mut self) {
        self.perform_routing();
        self.flush_to_child_if(0);
        for attachment in self.attachments.all_mut() {
            attachment.flush();
            if attachment.pending_bytes() > DETACH_AT {
                attachment.gone.get_or_insert_with(|| "it does not read what it is told".to_owned());
            }
        }
    }

    fn pass_to_child(&mut self, lines: &mut Lines, text: Range<usize>, edits: &Edits) {
        if text.len() <= LONG_LINE {
            edits.apply(lines.bytes(text), &mut self.to_child);
            self.to_child.push(b'\n');
            return self.flush_to_child_if(GATHERED);
        }
        self.flush_to_child_if(0);
        if let Some(child) = self.keeper.child.as_mut().filter(|_| self.is_up) {
            say_long(&mut child.channel, lines, text, edits);
        }
    }

    /// Reads what the child says. At its end all that is there: no more than a pipe holds.
    pub(super) fn read_child(&mut self, to_the_end: bool) {
        let mut left = MAX_PIPE_BYTES;
        loop {
            let heard = self.keeper.child.as_mut().and_then(|child| child.channel.read());
            let Some((count, mut lines)) = heard else { return };
            self.child_says(&mut lines);
            self.flush();
            self.tidy_after(&lines);
            if count == Some(0) {
                if let Some(Found::Whole(span)) = lines.rest_found() {
                    self.keeper.log("cut off", lines.bytes(span.text));
                }
                self.keeper.is_mute();
            } else if let Some(child) = &mut self.keeper.child {
                child.channel.return_lines(lines);
            }
            self.settle();
            left = left.saturating_sub(count.unwrap_or(0));
            if !to_the_end || left == 0 || !matches!(count, Some(1..)) {
                return;
            }
        }
    }

    fn child_says(&mut self, lines: &mut Lines) {
        let now = self.now();
        while let Some(found) = lines.next_found() {
            let span = match found {
                Found::Whole(span) => span,
                Found::TooLong { length, summary } => {
                    self.router.child_said_too_much(length, self.keeper.config().max_line, &summary, now);
                    self.keeper.log(&format!("longer than --max-line ({length} bytes)"), b"");
                    self.perform_routing();
                    continue;
                }
            };
            if !self.is_up {
                if !lines.bytes(span.text.clone()).is_empty() {
                    self.keeper.log("said after its end", lines.bytes(span.text));
                }
                continue;
            }
            match self.router.child_says(lines.bytes(span.text.clone()), now) {
                FromChild::To(session_id, edits) => self.pass_to_session(session_id, lines, span.text, &edits),
                FromChild::ToSeveral(session_ids, edits) => {
                    let line = edits.line(lines.bytes(span.text));
                    for session_id in session_ids {
                        let Some(attachment) = self.attachments.of(session_id) else { continue };
                        if attachment.pending_bytes() < DROP_NOTIFICATIONS_AT {
                            gather(attachment, &line);
                        } else {
                            // Otherwise a slow session would slow down the others.
                            let why = format!("not passed on to {}, which does not read as fast", attachment.front());
                            self.keeper.log(&why, &line);
                        }
                    }
                }
                FromChild::Swallow => {}
                FromChild::Log(why) => self.keeper.log(&why, lines.bytes(span.text)),
            }
            self.perform_routing();
        }
    }

    fn pass_to_session(&mut self, session_id: SessionId, lines: &mut Lines, text: Range<usize>, edits: &Edits) {
        let Some(attachment) = self.attachments.of(session_id) else { return };
        if text.len() <= LONG_LINE {
            let from = attachment.out.len();
            edits.apply(lines.bytes(text), &mut attachment.out);
            attachment.out.push(b'\n');
            attachment.has_gathered(from);
        } else {
            attachment.end_shortcut();
            attachment.flush();
            say_long(&mut attachment.channel, lines, text, edits);
        }
    }

    /// Reads the child's stderr, for the log and for the error that says how the child ended. True if there may be more.
    pub(super) fn read_errors(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let Some(read) = self.keeper.read_errors(&mut buffer) else { return false };
        self.lifecycle.stderr(read);
        let read = read.to_vec();
        let stream = if self.is_daemon() { "output" } else { "stderr" };
        for line in read.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.keeper.log(stream, line);
        }
        true
    }

    /// Long lines and many calls tend to come in numbers, so what they need is kept until none has come for a while.
    fn tidy_after(&mut self, lines: &Lines) {
        if lines.is_large() || allocator::holds_spare_memory() {
            self.tidy_at = Some(Instant::now() + TIDY_AFTER);
        }
    }

    /// The same for what was pending until the other side took it.
    pub(super) fn tidy_after_saying(&mut self, holds_spare_memory: bool) {
        if holds_spare_memory {
            self.tidy_at = Some(Instant::now() + TIDY_AFTER);
        }
    }

    pub(super) fn tidy(&mut self) {
        if let Some(child) = &mut self.keeper.child {
            child.channel.tidy();
        }
        for attachment in self.attachments.all_mut() {
            attachment.channel.tidy();
            attachment.out.shrink_to_fit();
        }
        self.to_child.shrink_to_fit();
        self.room = Vec::new();
        allocator::release_free();
        nostray_sys::memory::release_program_pages_at_next_wait();
    }
}

/// Keeps a line until the rest of what is being read has been seen, so that all of it is written at once.
fn gather(attachment: &mut Attachment, line: &[u8]) {
    let from = attachment.out.len();
    attachment.out.extend_from_slice(line);
    attachment.has_gathered(from);
    if attachment.out.len() > GATHERED {
        attachment.flush();
    }
}

/// This child is not for that session: what it says from now on goes back, until it knows.
fn send_elsewhere<'a>(
    attachment: &mut Attachment,
    variant: String,
    why: String,
    lines: impl Iterator<Item = &'a [u8]>,
) {
    let cause = Cause::because("cannot serve this session", why.as_str());
    attachment.tell(&ToFront::Down { cause, stderr: Vec::new(), orderly: true, for_good: false });
    attachment.inbound = Inbound::Redirected { variant, why };
    lines.filter(|line| !line.is_empty()).for_each(|line| attachment.give_back(line));
}

/// Passes on a long line without a copy of its longest piece.
fn say_long(channel: &mut nostray_supervise::LineChannel, lines: &mut Lines, text: Range<usize>, edits: &Edits) {
    let pieces: Vec<_> = edits.pieces(text.len()).collect();
    let longest = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Kept(kept) => Some(kept.len()),
            Piece::New(_) => None,
        })
        .max()
        .unwrap_or(0);
    // What comes behind the longest piece has to be copied before that is handed over.
    let (mut before, mut after, mut long) = (Vec::new(), Vec::new(), None);
    for piece in &pieces {
        match piece {
            Piece::Kept(kept) if long.is_none() && kept.len() == longest => {
                long = Some(text.start + kept.start..text.start + kept.end);
            }
            Piece::Kept(kept) => {
                let bytes = lines.bytes(text.start + kept.start..text.start + kept.end);
                if long.is_some() { &mut after } else { &mut before }.extend_from_slice(bytes);
            }
            Piece::New(new) => if long.is_some() { &mut after } else { &mut before }.extend_from_slice(new),
        }
    }
    after.push(b'\n');
    channel.write_between(&before, lines, long.unwrap_or(text.start..text.start), &after);
}
