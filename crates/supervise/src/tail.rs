//! The last lines that a child wrote to its standard error: what a person wants to see when it is gone.

use std::collections::VecDeque;

const LINES: usize = 20;
const LONGEST: usize = 500;

/// The last lines.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
    unfinished: Vec<u8>,
}

impl Tail {
    /// More was written.
    pub fn add(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let room = LONGEST.saturating_sub(self.unfinished.len());
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
    pub fn lines(&mut self) -> Vec<String> {
        self.finish();
        self.lines.iter().cloned().collect()
    }

    /// Another child.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let mut tail = Tail::default();
        for n in 0..100 {
            tail.add(format!("line {n}\r\n\n").as_bytes());
        }
        tail.add(&[b'x'; 10_000]);
        tail.add(b"\nhalf a li");
        tail.add(b"ne");
        let lines = tail.lines();
        assert_eq!(lines.len(), LINES);
        assert_eq!((lines[0].as_str(), lines[LINES - 1].as_str()), ("line 82", "half a line"));
        assert_eq!(lines[LINES - 2].len(), LONGEST);
    }
}
