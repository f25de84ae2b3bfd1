//! What is changed in a line on its way: an id, a progress token, a log level. Everything else of it passes as the bytes it came in,
//! so a line is never written anew, and a long line need not be copied to be changed.

use std::fmt;
use std::ops::Range;

/// A few bytes of JSON: an id, or something that looks like one. Ids as clients use them need no memory of their own.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Token {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

/// So much fits beside a length and a tag in the size of three words; a UUID does not, and a counter does.
const SHORT: usize = 22;

/// All numbers of two digits.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

impl Token {
    pub(super) fn new(json: &[u8]) -> Self {
        match u8::try_from(json.len()) {
            Ok(length) if json.len() <= SHORT => {
                let mut bytes = [0; SHORT];
                bytes[..json.len()].copy_from_slice(json);
                Self::Short { length, bytes }
            }
            _ => Self::Long(json.into()),
        }
    }

    /// A number that was drawn here, so it is not negative.
    pub(super) fn number(number: i64) -> Self {
        let mut number = number.unsigned_abs();
        let mut digits = [0; SHORT];
        let mut at = SHORT;
        loop {
            at -= 2;
            // A remainder of a hundred has two digits.
            digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
            if number == 0 {
                return Self::new(&digits[at + usize::from(digits[at] == b'0')..]);
            }
        }
    }

    pub(super) fn json(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length)],
            Self::Long(json) => json,
        }
    }
}

impl Default for Token {
    fn default() -> Self {
        Self::Short { length: 0, bytes: [0; SHORT] }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.json()))
    }
}

/// What is put in the place of which bytes of a line. Where nothing is said, the line stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// In the order of their places, which do not overlap.
    list: [(Range<usize>, Token); MAX_EDITS],
    count: usize,
}

/// An id, a progress token, and one thing more.
const MAX_EDITS: usize = 3;

/// A part of a changed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// These bytes of the line, as they are.
    Kept(Range<usize>),
    /// These in the place of some.
    New(&'a [u8]),
}

impl Edits {
    /// The line is passed on as it is.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether the line is passed on as it is.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.count == 0
    }

    /// One more. The places come in any order.
    pub(super) fn replace(&mut self, place: Range<usize>, new: Token) {
        debug_assert!(self.count < MAX_EDITS, "a line has at most so many edits");
        if self.count < MAX_EDITS {
            let mut at = self.count;
            self.list[at] = (place, new);
            while at > 0 && self.list[at - 1].0.start > self.list[at].0.start {
                self.list.swap(at - 1, at);
                at -= 1;
            }
            self.count += 1;
        }
    }

    /// The parts of the changed line, in their order. `length` is that of the line as it came; empty parts are left out.
    pub fn pieces(&self, length: usize) -> impl Iterator<Item = Piece<'_>> {
        let mut at = 0;
        let changed = self.list[..self.count].iter().flat_map(move |(place, new)| {
            let before = std::mem::replace(&mut at, place.end)..place.start;
            [Piece::Kept(before), Piece::New(new.json())]
        });
        let rest = self.list[..self.count].last().map_or(0, |(place, _)| place.end)..length;
        changed.chain([Piece::Kept(rest)]).filter(|piece| match piece {
            Piece::Kept(place) => !place.is_empty(),
            Piece::New(bytes) => !bytes.is_empty(),
        })
    }

    /// Writes the changed line.
    pub fn apply(&self, text: &[u8], into: &mut Vec<u8>) {
        let mut at = 0;
        for (place, new) in &self.list[..self.count] {
            into.extend_from_slice(&text[at..place.start]);
            into.extend_from_slice(new.json());
            at = place.end;
        }
        into.extend_from_slice(&text[at..]);
    }

    /// The changed line, with its end.
    #[must_use]
    pub fn line(&self, text: &[u8]) -> Vec<u8> {
        let mut line = Vec::with_capacity(text.len() + 64);
        self.apply(text, &mut line);
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_is_and_the_rest_stays() {
        let text = b"0123456789";
        let mut edits = Edits::none();
        assert_eq!(edits.pieces(10).collect::<Vec<_>>(), [Piece::Kept(0..10)]);
        edits.replace(8..10, Token::new(b"END"));
        edits.replace(0..1, Token::new(b""));
        edits.replace(4..6, Token::number(1_234_567));
        let mut changed = Vec::new();
        edits.apply(text, &mut changed);
        assert_eq!(changed, b"123123456767END");
        let pieces: Vec<_> = edits.pieces(10).collect();
        assert_eq!(pieces, [Piece::Kept(1..4), Piece::New(b"1234567"), Piece::Kept(6..8), Piece::New(b"END")],);
    }

    #[test]
    fn tokens_of_any_length_are_kept_byte_for_byte() {
        for length in 0..60 {
            let json = vec![b'x'; length];
            assert_eq!(Token::new(&json).json(), json);
        }
        for number in [0, 9, 10, 99, 100, 101, 4711, 1 << 53, i64::MAX] {
            assert_eq!(Token::number(number).json(), number.to_string().as_bytes());
        }
        assert_eq!(size_of::<Token>(), 24);
    }
}
