//! Finds a matching line in bytes that come in pieces.

use crate::condition::Pattern;

/// Only the beginning of a longer line is matched.
const MAX_LINE: usize = 64 << 10;

/// The line that is being read.
#[derive(Debug)]
pub(super) struct LineMatcher<'a> {
    pattern: &'a Pattern,
    line: Vec<u8>,
}

impl<'a> LineMatcher<'a> {
    pub(super) fn new(pattern: &'a Pattern) -> Self {
        Self { pattern, line: Vec::new() }
    }

    /// Takes these in. True if a line that has ended in them matches.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let mut pieces = bytes.split(|&b| b == b'\n');
        let last = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            self.keep(piece);
            if self.end() {
                return true;
            }
        }
        self.keep(last);
        false
    }

    /// The line has ended, or there will be no more of it. True if it matches.
    pub(super) fn end(&mut self) -> bool {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let matches = self.pattern.matches(&String::from_utf8_lossy(line));
        self.line.clear();
        matches
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = MAX_LINE - self.line.len();
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().expect("a pattern")
    }

    #[test]
    fn a_line_is_found_however_it_is_cut() {
        let text = b"loading\nnot ready yet\r\nready\r\nmore";
        let pattern = pattern("^ready$");
        for size in 1..text.len() {
            let mut lines = LineMatcher::new(&pattern);
            let found = text.chunks(size).position(|piece| lines.take(piece)).expect("is there");
            assert_eq!(found, 29 / size, "the end of the line is at 29, pieces of {size}");
        }
    }

    #[test]
    fn half_a_line_is_none_until_nothing_more_can_come() {
        let pattern = pattern("ready");
        let mut lines = LineMatcher::new(&pattern);
        assert!(!lines.take(b"ready"));
        assert!(lines.end());
        assert!(!lines.end(), "once");
    }

    #[test]
    fn only_the_beginning_of_a_long_line_is_kept() {
        let pattern = pattern("end$");
        let mut lines = LineMatcher::new(&pattern);
        for _ in 0..100 {
            assert!(!lines.take(&[b'x'; 10_000]));
        }
        assert_eq!(lines.line.len(), MAX_LINE);
        assert!(!lines.take(b"end\n") && lines.take(b"end\n"));
    }

    #[test]
    fn what_is_no_text_harms_nothing() {
        let pattern = pattern("ready");
        assert!(LineMatcher::new(&pattern).take(b"\xff\xfe\0ready\n"));
    }
}
