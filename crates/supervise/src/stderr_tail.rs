//! The last lines that a child wrote to stderr. An error that says how the child ended carries them.

use std::collections::VecDeque;

/// How many lines are kept.
const LINES: usize = 20;
/// How many bytes of each.
const LINE_BYTES: usize = 500;

/// The last lines that a child wrote to stderr, bounded in number and length.
#[derive(Debug, Default)]
pub(crate) struct StderrTail {
    lines: VecDeque<String>,
    unfinished: Vec<u8>,
}

impl StderrTail {
    /// Adds what the child has written.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let room = LINE_BYTES.saturating_sub(self.unfinished.len());
            self.unfinished.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        let text = String::from_utf8_lossy(&self.unfinished).trim_end().to_owned();
        self.unfinished.clear();
        if !text.is_empty() {
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(text);
        }
    }

    /// The last lines, the newest last.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        self.finish();
        self.lines.iter().cloned().collect()
    }

    /// Forgets everything: another child is started.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let mut tail = StderrTail::default();
        for n in 0..100 {
            tail.add(format!("line {n}\r\n\n").as_bytes());
        }
        tail.add(&[b'x'; 10_000]);
        tail.add(b"\nhalf a li");
        tail.add(b"ne");
        let lines = tail.lines();
        assert_eq!(lines.len(), LINES);
        assert_eq!((lines[0].as_str(), lines[LINES - 1].as_str()), ("line 82", "half a line"));
        assert_eq!(lines[LINES - 2].len(), LINE_BYTES);
    }
}
