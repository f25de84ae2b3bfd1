//! Splits a stream of bytes into lines.
//!
//! Only 0x0A ends a line: U+2028 is data, and so is a 0x0D without a 0x0A after it. The caller reads bytes straight into the buffer
//! and borrows lines from it. No byte is searched twice. An unfinished line moves to the front of the buffer only when there is
//! too little room behind it.

use std::ops::Range;

use memchr::memchr;

use crate::long_line::{LineSummary, LongLineReader};

/// The default capacity of a pipe: one read cannot return more.
const BUFFER_SIZE: usize = 64 << 10;
/// Room behind an unfinished line. With less, reads would become small and many.
const MIN_READ: usize = 16 << 10;
/// The buffer grows by at most this much at once. It is the largest capacity that an unprivileged process can give a pipe.
const MAX_READ: usize = 1 << 20;

/// The lines of a stream.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    /// The buffer holds the bytes `start..end`; there is no 0x0A in `start..searched`.
    start: usize,
    searched: usize,
    end: usize,
    max_line: usize,
    /// The line that is being discarded because it is too long.
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
    /// A line within the limit.
    Whole {
        /// Without its ending.
        text: &'a [u8],
        /// As it came, including its ending.
        raw: &'a [u8],
    },
    /// A line above the limit, which was discarded.
    TooLong {
        /// Its length in bytes, without its ending.
        length: u64,
        /// What is known of it.
        summary: LineSummary,
    },
}

/// One line, by its place in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A line within the limit.
    Whole(Span),
    /// A line above the limit, which was discarded.
    TooLong {
        /// Its length in bytes, without its ending.
        length: u64,
        /// What is known of it.
        summary: LineSummary,
    },
}

/// Where a line is in the buffer. Valid until the next call of [`Lines::space`]. The next line begins where this one's `raw` ends,
/// so several lines in a row are one range for [`Lines::bytes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Without its ending.
    pub text: Range<usize>,
    /// Including its ending.
    pub raw: Range<usize>,
}

impl Lines {
    /// Returns lines of up to `max_line` bytes, without their endings, and discards longer ones.
    #[must_use]
    pub fn new(max_line: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, end: 0, max_line, oversized: None }
    }

    /// Returns room to read into: at least 16 KiB, usually nearly 64 KiB, and more while a long line is incomplete.
    ///
    /// Take all lines first: lines that are not taken may have to be moved.
    pub fn space(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            // Unlike `resize`, this maps zero pages and touches none of them.
            self.buffer = vec![0; BUFFER_SIZE];
        }
        let held = self.len();
        if self.start > 0 && (held == 0 || self.buffer.len() - self.end < MIN_READ) {
            self.buffer.copy_within(self.start..self.end, 0);
            self.searched -= self.start;
            (self.start, self.end) = (0, held);
        }
        if self.buffer.len() - self.end < MIN_READ {
            // A vector doubles its capacity, so the cost of a long line is proportional to its length. Only the bytes that the
            // next read may fill are zeroed, so no page is touched in vain.
            self.buffer.resize(self.end + held.clamp(BUFFER_SIZE, MAX_READ), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Whether the buffer is larger than usual, because of a long line.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.buffer.capacity() > BUFFER_SIZE
    }

    /// Shrinks the buffer to its usual size, or to the bytes that it holds. Call it when the stream is idle: the next long line
    /// allocates again.
    pub fn tidy(&mut self) {
        let held = self.len();
        self.buffer.copy_within(self.start..self.end, 0);
        self.searched -= self.start;
        (self.start, self.end) = (0, held);
        // An empty buffer is freed. The next one takes only the pages that are read into.
        self.buffer.truncate(if held == 0 { 0 } else { BUFFER_SIZE.max(held) });
        self.buffer.shrink_to_fit();
    }

    /// Hands over the buffer, and continues in `instead`. Ranges that were found before stay valid in the returned buffer, so the
    /// caller need not copy the lines. Pass a buffer that was handed over before: it has the right size.
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

    /// Uses `room` as the buffer, unless it has a buffer of its own.
    pub fn borrow_room(&mut self, room: &mut Vec<u8>) {
        if self.buffer.is_empty() {
            self.buffer = std::mem::take(room);
        }
    }

    /// Returns the buffer to `room` if it holds no bytes, so that other streams can use it.
    pub fn return_room(&mut self, room: &mut Vec<u8>) {
        if self.is_empty() {
            let own = std::mem::take(&mut self.buffer);
            (self.start, self.searched, self.end) = (0, 0, 0);
            if own.len() > room.len() {
                *room = own;
            }
        }
    }

    /// Tells that the caller has read `count` bytes into the space.
    ///
    /// # Panics
    /// If the space is smaller than that.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.end, "more was read than there is room for");
        self.end += count;
    }

    /// The number of bytes in the buffer: of lines that were not taken yet, and of an unfinished line.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the buffer holds no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the stream stands behind the end of a line, or at its beginning.
    #[must_use]
    pub fn is_between_lines(&self) -> bool {
        self.is_empty() && self.oversized.is_none()
    }

    /// The next complete line.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        self.next_found().map(|found| self.line(found))
    }

    /// At the end of the stream: the bytes after the last 0x0A, if there are any.
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
    /// May panic if the range is from before the last call of [`Lines::space`].
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// The next complete line, by its place in the buffer.
    pub fn next_found(&mut self) -> Option<Found> {
        match memchr(b'\n', &self.buffer[self.searched..self.end]) {
            Some(at) => {
                let ending = self.searched + at;
                Some(self.take(ending, ending + 1))
            }
            None => {
                self.searched = self.end;
                // One byte above the limit may still be the 0x0D of the ending.
                if self.oversized.is_some() || self.len() > self.max_line.saturating_add(1) {
                    self.discard(self.end);
                    self.start = self.end;
                }
                None
            }
        }
    }

    /// At the end of the stream: the bytes after the last 0x0A, by their place in the buffer.
    pub fn rest_found(&mut self) -> Option<Found> {
        (self.oversized.is_some() || !self.is_empty()).then(|| self.take(self.end, self.end))
    }

    /// Takes the line whose text ends at `text_end` and whose ending ends at `raw_end`.
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

    /// Feeds the bytes up to `end` to the reader of long lines.
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
                // A stream with half a line keeps its buffer.
                assert_eq!(lines.buffer.len(), if round == 1 { BUFFER_SIZE } else { 0 }, "{round} {number}");
            }
        }
        assert_eq!(room.len(), BUFFER_SIZE);
    }

    #[test]
    fn a_line_that_is_too_long_takes_bounded_memory() {
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
