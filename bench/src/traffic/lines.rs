//! Lines of a stream, with as little work between the kernel and the reader as there can be: bytes are read into one
//! buffer, looked through once, and handed out where they lie. Both ends of what is measured use it, so that neither is
//! what takes the time.

use std::io::{self, BufRead, ErrorKind, Read};

/// The least size of one read. A pipe holds no more unless a program has enlarged it (`F_SETPIPE_SZ`).
const CHUNK: usize = 64 * 1024;

/// What was read and not yet handed out.
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to here it has no end.
    searched: usize,
    /// Where what was read ends.
    end: usize,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; 4 * CHUNK], start: 0, searched: 0, end: 0 }
    }

    /// Reads once. False at the end of the stream.
    pub(crate) fn read(&mut self, from: &mut impl Read) -> io::Result<bool> {
        self.make_room();
        loop {
            match from.read(&mut self.bytes[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether there is a line that is whole.
    pub(crate) fn has_next(&mut self) -> bool {
        if !self.ends_here() {
            let mut new = &self.bytes[self.searched..self.end];
            // Reading from memory cannot fail. It is the standard library's way to the C library's memchr.
            self.searched += new.skip_until(b'\n').unwrap_or_default();
        }
        self.ends_here()
    }

    fn ends_here(&self) -> bool {
        self.searched > self.start && self.bytes[self.searched - 1] == b'\n'
    }

    /// The next line that is whole, with its end.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        if !self.has_next() {
            return None;
        }
        let line = self.start..self.searched;
        self.start = self.searched;
        Some(&self.bytes[line])
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.searched, self.end) = (0, 0, 0);
        }
        if self.bytes.len() - self.end >= CHUNK {
            return;
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.searched -= self.start;
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < CHUNK {
            self.bytes.resize(2 * self.bytes.len(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives so many bytes at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn every_line_comes_out_once_however_it_came_in() {
        let lines: Vec<Vec<u8>> = [0, 1, 199, CHUNK, 3, 1 << 20, 7]
            .iter()
            .map(|&length| std::iter::repeat_n(b'x', length).chain([b'\n']).collect())
            .collect();
        let all = lines.concat();
        for step in [1, 7, 1000, CHUNK, all.len()] {
            let (mut from, mut reader, mut seen) = (Drip(&all, step), Lines::new(), Vec::new());
            while reader.read(&mut from).expect("cannot fail") {
                while let Some(line) = reader.next() {
                    seen.push(line.to_vec());
                }
            }
            assert!(seen == lines, "in steps of {step}");
        }
    }
}
