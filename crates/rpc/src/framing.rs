//! Cuts a stream of bytes into lines.
//!
//! 0x0A ends a line and nothing else does: U+2028 is data, and so is a 0x0D that no 0x0A follows. Bytes are read straight into
//! the buffer and lines are borrowed from it. What was searched is not searched again, and what is left of an unfinished line
//! is moved to the front only when there is no room behind it.

use std::ops::Range;

use memchr::memchr;

use crate::long_line::{LineSummary, LongLineReader};

/// What a pipe holds: more cannot come at once.
const BUFFER_SIZE: usize = 64 << 10;
/// With less room than this behind an unfinished line, reading would be done in crumbs.
const MIN_READ: usize = 16 << 10;
/// More than this is never asked for at once: it is what a pipe can be made to hold.
const MAX_READ: usize = 1 << 20;

/// The lines of a stream.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    /// The bytes that are held are those from `start` to `end`; there is no 0x0A before `searched`.
    start: usize,
    searched: usize,
    end: usize,
    max_line: usize,
    /// The line that is going by, if it is too long to be kept.
    oversized: Option<Oversized>,
}

#[derive(Debug, Default)]
struct Oversized {
    length: u64,
    ends_in_return: bool,
    reader: LongLineReader,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// One that was kept.
    Whole {
        /// Without its ending.
        text: &'a [u8],
        /// As it came, including its ending.
        raw: &'a [u8],
    },
    /// One that was too long, and not kept.
    TooLong {
        /// How long it was, in bytes, without its ending.
        length: u64,
        /// What was seen of it.
        summary: LineSummary,
    },
}

/// One line, by where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// One that was kept.
    Whole(Span),
    /// One that was too long, and not kept.
    TooLong {
        /// How long it was, in bytes, without its ending.
        length: u64,
        /// What was seen of it.
        summary: LineSummary,
    },
}

/// Where a line is in the buffer, until [`Lines::space`] is called. The next line begins where this one's `raw` ends, so a run
/// of lines is one range, which [`Lines::bytes`] turns into bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Without its ending.
    pub text: Range<usize>,
    /// Including its ending.
    pub raw: Range<usize>,
}

impl Lines {
    /// Lines of up to so many bytes, endings not counted, are kept.
    #[must_use]
    pub fn new(max_line: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, end: 0, max_line, oversized: None }
    }

    /// Room to read into: 16 KiB at least, usually nearly 64, and more while a long line is being collected.
    ///
    /// Take all lines before asking for it: what is not taken is kept and has to be moved.
    pub fn space(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            // Unlike what is resized, this is not touched before it is used.
            self.buffer = vec![0; BUFFER_SIZE];
        }
        let held = self.len();
        if self.start > 0 && (held == 0 || self.buffer.len() - self.end < MIN_READ) {
            self.buffer.copy_within(self.start..self.end, 0);
            self.searched -= self.start;
            (self.start, self.end) = (0, held);
        }
        if self.buffer.len() - self.end < MIN_READ {
            // A vector doubles what it reserves, so a long line costs in proportion to its length; only what is about to be
            // filled is zeroed, so that no page is touched in vain.
            self.buffer.resize(self.end + held.clamp(BUFFER_SIZE, MAX_READ), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Whether it holds more memory than usual, since a long line came by.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.buffer.capacity() > BUFFER_SIZE
    }

    /// Gives back what long lines have needed, as far as it is not needed now. For a quiet moment: the next one would have to
    /// get it again.
    pub fn tidy(&mut self) {
        let held = self.len();
        self.buffer.copy_within(self.start..self.end, 0);
        self.searched -= self.start;
        (self.start, self.end) = (0, held);
        // What is not there takes no memory, and the next buffer takes only what is read into it.
        self.buffer.truncate(if held == 0 { 0 } else { BUFFER_SIZE.max(held) });
        self.buffer.shrink_to_fit();
    }

    /// Hands over the buffer itself, in which ranges that were found before stay valid, instead of copies of them, and goes on
    /// in another one: best in one that was handed over before, since that is as large as needed.
    pub fn hand_over(&mut self, instead: Vec<u8>) -> Vec<u8> {
        let given = std::mem::replace(&mut self.buffer, instead);
        let held = self.start..self.end;
        if self.buffer.len() < BUFFER_SIZE.max(held.len()) {
            self.buffer.resize(BUFFER_SIZE.max(held.len()), 0);
        }
        self.buffer[..held.len()].copy_from_slice(&given[held.clone()]);
        self.searched -= held.start;
        (self.start, self.end) = (0, held.len());
        given
    }

    /// Reads into this buffer instead of one of its own, unless it has one.
    pub fn borrow_room(&mut self, room: &mut Vec<u8>) {
        if self.buffer.is_empty() {
            self.buffer = std::mem::take(room);
        }
    }

    /// Gives the buffer away if nothing is held, so that others can read into it meanwhile.
    pub fn return_room(&mut self, room: &mut Vec<u8>) {
        if self.is_empty() {
            let own = std::mem::take(&mut self.buffer);
            (self.start, self.searched, self.end) = (0, 0, 0);
            if own.len() > room.len() {
                *room = own;
            }
        }
    }

    /// So many bytes of the space were filled.
    ///
    /// # Panics
    /// If that is more than there was.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.end, "more was read than there is room for");
        self.end += count;
    }

    /// How many bytes are held: of lines that were not taken yet, and of one that is not finished.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether none are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next complete line.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        self.next_found().map(|found| self.line(found))
    }

    /// At the end of the stream: what came after the last 0x0A, if anything.
    pub fn rest(&mut self) -> Option<Line<'_>> {
        self.rest_found().map(|found| self.line(found))
    }

    fn line(&self, found: Found) -> Line<'_> {
        match found {
            Found::Whole(span) => Line::Whole { text: self.bytes(span.text), raw: self.bytes(span.raw) },
            Found::TooLong { length, summary } => Line::TooLong { length, summary },
        }
    }

    /// The bytes of a [`Span`], or of several that follow each other.
    ///
    /// # Panics
    /// May do so if the range is from before the last call of [`Lines::space`].
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// The next complete line, by where it is.
    pub fn next_found(&mut self) -> Option<Found> {
        match memchr(b'\n', &self.buffer[self.searched..self.end]) {
            Some(at) => {
                let ending = self.searched + at;
                Some(self.take(ending, ending + 1))
            }
            None => {
                self.searched = self.end;
                // One byte over may still be the 0x0D of the ending.
                if self.oversized.is_some() || self.len() > self.max_line.saturating_add(1) {
                    self.discard(self.end);
                    self.start = self.end;
                }
                None
            }
        }
    }

    /// At the end of the stream: what came after the last 0x0A, by where it is.
    pub fn rest_found(&mut self) -> Option<Found> {
        (self.oversized.is_some() || !self.is_empty()).then(|| self.take(self.end, self.end))
    }

    /// Takes the line whose text ends here and whose ending ends there.
    fn take(&mut self, text_end: usize, raw_end: usize) -> Found {
        let raw = self.start..raw_end;
        let mut text = self.start..text_end;
        if self.buffer[text.clone()].last() == Some(&b'\r') {
            text.end -= 1;
        }
        let found = if self.oversized.is_some() || text.len() > self.max_line {
            self.discard(text_end);
            let oversized = self.oversized.take().unwrap_or_default();
            let length = oversized.length - u64::from(oversized.ends_in_return);
            Found::TooLong { length, summary: oversized.reader.finish() }
        } else {
            Found::Whole(Span { text, raw })
        };
        self.start = raw_end;
        self.searched = raw_end;
        found
    }

    /// Lets what is held up to here go by.
    fn discard(&mut self, end: usize) {
        let piece = &self.buffer[self.start..end];
        let oversized = self.oversized.get_or_insert_default();
        oversized.length += piece.len() as u64;
        if let Some(last) = piece.last() {
            oversized.ends_in_return = *last == b'\r';
        }
        oversized.reader.feed(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(lines: &mut Lines, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = lines.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            lines.filled(count);
            bytes = &bytes[count..];
            while lines.next_found().is_some() {}
        }
    }

    fn feed_once(lines: &mut Lines, bytes: &[u8]) {
        lines.space()[..bytes.len()].copy_from_slice(bytes);
        lines.filled(bytes.len());
    }

    #[test]
    fn memory_goes_back_after_a_large_line() {
        for max_line in [usize::MAX, 3 << 20] {
            let mut lines = Lines::new(max_line);
            feed(&mut lines, &vec![b'x'; 8 << 20]);
            feed(&mut lines, b"\n{\"half");
            lines.space();
            assert!(lines.is_large());
            lines.tidy();
            assert_eq!((lines.buffer.len(), lines.buffer.capacity()), (BUFFER_SIZE, BUFFER_SIZE));
            assert_eq!(lines.rest(), Some(Line::Whole { text: b"{\"half", raw: b"{\"half" }));
        }
    }

    #[test]
    fn a_buffer_is_handed_over_with_what_was_found_in_it_and_the_rest_goes_on() {
        let mut lines = Lines::new(1 << 20);
        let text = b"{\"first\":1}\n{\"second\":";
        lines.space()[..text.len()].copy_from_slice(text);
        lines.filled(text.len());
        let Some(Found::Whole(span)) = lines.next_found() else { panic!("a line") };
        let given = lines.hand_over(Vec::new());
        assert_eq!(&given[span.raw], b"{\"first\":1}\n");
        lines.space()[..3].copy_from_slice(b"2}\n");
        lines.filled(3);
        assert!(matches!(lines.next_line(), Some(Line::Whole { text: b"{\"second\":2}", .. })));
    }

    #[test]
    fn many_share_a_buffer_of_which_one_has_something_at_a_time() {
        let (mut room, mut all) = (Vec::new(), [(); 3].map(|()| Lines::new(1 << 20)));
        for (round, part) in [&b"{\"a\":1}\n"[..], b"{\"b\"", b":2}\n", b"{\"c\":3}\n"].into_iter().enumerate() {
            for (number, lines) in all.iter_mut().enumerate() {
                lines.borrow_room(&mut room);
                feed_once(lines, part);
                let got = lines.next_line().map(|line| format!("{line:?}"));
                assert_eq!(got.is_some(), round != 1);
                assert_eq!(got.is_some_and(|line| line.contains(&format!("{:?}", b"{\"b\":2}"))), round == 2);
                lines.return_room(&mut room);
                // The first one holds a half, and keeps the buffer that it is in.
                assert_eq!(lines.buffer.len(), if round == 1 { BUFFER_SIZE } else { 0 }, "{round} {number}");
            }
        }
        assert_eq!(room.len(), BUFFER_SIZE);
    }

    #[test]
    fn a_line_that_is_too_long_takes_no_more_memory_than_one_that_is_not() {
        let mut lines = Lines::new(100_000);
        feed(&mut lines, &vec![b'x'; 8 << 20]);
        assert!(lines.buffer.capacity() <= 512 << 10, "{}", lines.buffer.capacity());
    }

    #[test]
    fn short_lines_are_not_moved_for_each_other() {
        let mut lines = Lines::new(1000);
        feed(&mut lines, &b"0123456789\n".repeat(4000));
        let before = (lines.start, lines.end);
        lines.space();
        assert_eq!((lines.start, lines.end), (0, 0), "{before:?}");
        lines.space()[..4].copy_from_slice(b"a\nbc");
        lines.filled(4);
        assert_eq!(lines.next_line(), Some(Line::Whole { text: b"a", raw: b"a\n" }));
        lines.space();
        assert_eq!((lines.start, lines.searched, lines.end), (2, 2, 4), "there is room behind it");
    }
}
