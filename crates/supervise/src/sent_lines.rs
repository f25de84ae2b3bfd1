//! Where the lines end that were said to a child, as far back as it may not have read them. With it, what is left unread when the
//! child is gone is known line by line: a line of which a part was read counts as read.

use std::collections::VecDeque;

use memchr::{memchr, memchr_iter};

/// With more ends than this, it is time to find out which of them are still of interest.
const FEW: usize = 1024;

/// What was said to one child, in whole lines.
#[derive(Debug, Default)]
pub struct SentLines {
    bytes: u64,
    /// Where lines end, counted in bytes from the first line that was written.
    ends: VecDeque<u64>,
    /// How many ends were left at the last look.
    kept: usize,
}

impl SentLines {
    /// This was said, after everything else.
    pub fn add(&mut self, lines: &[u8]) {
        self.ends.extend(memchr_iter(b'\n', lines).map(|at| self.bytes + at as u64 + 1));
        self.bytes += lines.len() as u64;
    }

    /// Whether it is time for [`SentLines::is_read`].
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.ends.len() > FEW.max(2 * self.kept)
    }

    /// Everything but the last so many bytes was read.
    pub fn is_read(&mut self, unread: u64) {
        let read = self.bytes.saturating_sub(unread);
        self.ends.drain(..self.ends.partition_point(|end| *end < read));
        self.ends.shrink_to(FEW);
        self.kept = self.ends.len();
    }

    /// Of the last bytes, which were not read: the lines that were not read at all.
    #[must_use]
    pub fn whole_lines(&self, mut unread: Vec<u8>) -> Vec<u8> {
        let read = self.bytes.saturating_sub(unread.len() as u64);
        if read > 0 && self.ends.binary_search(&read).is_err() {
            let end = memchr(b'\n', &unread).map_or(unread.len(), |at| at + 1);
            unread.drain(..end);
        }
        unread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wherever_a_reader_has_stopped_the_lines_that_it_has_not_begun_are_left() {
        let lines: Vec<String> = (0..40).map(|n| format!("{}\n", "x".repeat(n % 7))).collect();
        let text = lines.concat();
        let mut said = SentLines::default();
        // In pieces of one line and of several.
        lines.chunks(3).for_each(|some| said.add(some.concat().as_bytes()));
        for read in 0..=text.len() {
            let begun = text[..read].split_inclusive('\n').count();
            let left = said.whole_lines(text.as_bytes()[read..].to_vec());
            assert_eq!(String::from_utf8_lossy(&left), lines[begun..].concat(), "{read}");
        }
    }

    #[test]
    fn what_was_read_is_forgotten_and_what_was_not_is_known_all_the_same() {
        let mut said = SentLines::default();
        for n in 0..100_000 {
            said.add(b"a line\n");
            if said.is_long() {
                said.is_read(10);
            }
            assert!(said.ends.len() <= FEW + 1, "{n}");
        }
        assert_eq!(said.whole_lines(b"e\na line\n".to_vec()), b"a line\n");
        assert_eq!(said.whole_lines(b"a line\n".to_vec()), b"a line\n");
    }
}
