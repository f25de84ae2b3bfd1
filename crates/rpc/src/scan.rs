//! Where a JSON value ends, without looking at what it is.
//!
//! Strings are searched at the speed of memory; objects and lists are counted through in blocks of 64 bytes, each turned into
//! one bit a byte for each kind of byte that matters. Depth is a number, so no depth of nesting costs a stack.

use memchr::memchr2;

const BLOCK: usize = 64;

/// Where the first byte is that is not insignificant whitespace, from `at` on.
#[inline]
pub(crate) fn after_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = text.get(at) {
        at += 1;
    }
    at
}

/// Whether this byte is part of a number, of `true`, `false` or `null`, or of what stands in their place (Python writes NaN).
#[inline]
pub(crate) fn is_bare(byte: u8) -> bool {
    !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']')
}

/// A string that is being skipped, from after its opening quote.
#[derive(Debug, Default)]
pub(crate) struct Text {
    escaped: bool,
}

impl Text {
    /// Goes on with this piece. Some: how much of it belongs to the string, with its closing quote; None: all of it does.
    #[inline]
    pub(crate) fn skip(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        if self.escaped && !piece.is_empty() {
            self.escaped = false;
            at = 1;
        }
        loop {
            at += special(piece.get(at..)?)?;
            if piece[at] == b'"' {
                return Some(at + 1);
            }
            at += 2;
            if at > piece.len() {
                self.escaped = true;
                return None;
            }
        }
    }
}

/// Most strings at the top are a few bytes long, for which a call to a vectorised search would cost more than it saves.
#[inline]
fn special(piece: &[u8]) -> Option<usize> {
    const SHORT: usize = 16;
    let short = &piece[..piece.len().min(SHORT)];
    if let Some(at) = short.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        return Some(at);
    }
    memchr2(b'"', b'\\', &piece[short.len()..]).map(|at| at + short.len())
}

/// An object or a list that is being skipped, from its opening bracket on.
///
/// It has ended when as many brackets were closed as were opened. Which kind closes which is not checked: that would take a
/// stack, and whoever parses the message will see it.
#[derive(Debug, Default)]
pub(crate) struct Nest {
    depth: u64,
    /// All ones inside a string, zero outside.
    in_string: u64,
    /// One if the next byte follows a backslash that escapes it.
    escaped: u64,
}

impl Nest {
    /// Goes on with this piece. Some: how much of it belongs to the value, with its closing bracket; None: all of it does.
    pub(crate) fn skip(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < piece.len() {
            let rest = &piece[at..];
            let (classes, length) = match rest.first_chunk::<BLOCK>() {
                Some(block) => (classify(block), BLOCK),
                None => {
                    let mut block = [0; BLOCK];
                    block[..rest.len()].copy_from_slice(rest);
                    (classify(&block), rest.len())
                }
            };
            let quiet = classes.quote | classes.backslash == 0;
            if let Some(end) = self.block(&classes, length) {
                return Some(at + end);
            }
            at += length;
            // A block in the middle of a string, and nothing in it: probably a long string, so look for its end only.
            if quiet && self.in_string != 0 && at < piece.len() {
                at += memchr2(b'"', b'\\', &piece[at..]).unwrap_or(piece.len() - at);
            }
        }
        None
    }

    #[inline]
    fn block(&mut self, classes: &Classes, length: usize) -> Option<usize> {
        let escaped = escaped_bytes(classes.backslash, self.escaped);
        // Bytes past the length are zero and no backslashes, so the bit after the last byte tells.
        self.escaped = if length < BLOCK { escaped.bytes >> length & 1 } else { escaped.next };
        let inside = running_parity(classes.quote & !escaped.bytes) ^ self.in_string;
        self.in_string = ((inside as i64) >> 63) as u64;

        let open = classes.open & !inside;
        let mut close = classes.close & !inside;
        let closing = u64::from(close.count_ones());
        if self.depth > closing {
            self.depth = self.depth + u64::from(open.count_ones()) - closing;
            return None;
        }
        let mut closed = 0;
        while close != 0 {
            let at = close.trailing_zeros();
            let before = (1_u64 << at) - 1;
            closed += 1;
            if self.depth + u64::from((open & before).count_ones()) == closed {
                return Some(at as usize + 1);
            }
            close &= close - 1;
        }
        self.depth = self.depth + u64::from(open.count_ones()) - closed;
        None
    }
}

struct Escaped {
    /// The bytes of this block that are escaped.
    bytes: u64,
    /// Whether the first byte of the next block is.
    next: u64,
}

/// Which bytes follow an odd run of backslashes. `first`: the first byte does.
#[inline]
fn escaped_bytes(backslash: u64, first: u64) -> Escaped {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let backslash = backslash & !first;
    if backslash == 0 {
        return Escaped { bytes: first, next: 0 };
    }
    // Adding a run's first bit to the run carries out just behind it; whether start and end are both even or both odd then
    // says whether the run was of even length (the method of simdjson, by Langdale and Lemire).
    let follows = backslash << 1 | first;
    let odd_starts = backslash & !EVEN & !follows;
    let (even_runs, carry) = odd_starts.overflowing_add(backslash);
    Escaped { bytes: (EVEN ^ even_runs << 1) & follows, next: u64::from(carry) }
}

/// Bit n is the parity of bits 0 to n: ones from each opening quote up to before its closing one.
#[inline]
fn running_parity(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ bits << 32
}

/// One bit for each byte of a block.
#[derive(Debug, Default, PartialEq, Eq)]
struct Classes {
    quote: u64,
    backslash: u64,
    open: u64,
    close: u64,
}

/// With 0x20 set, both opening brackets are `{` and both closing ones are `}`, and nothing else is.
const CASE: u8 = 0x20;

/// Eight bytes at a time, with plain arithmetic.
#[inline]
fn classify(block: &[u8; BLOCK]) -> Classes {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    const ONES: u64 = 0x0101_0101_0101_0101;
    let bits = |word: u64, wanted: u8| {
        let differ = word ^ (ONES * u64::from(wanted));
        // The top bit of each byte that is zero, exactly: the sum cannot carry from one byte into the next.
        let equal = !(((differ & LOW) + LOW) | differ | LOW);
        // Gathers the eight top bits in the topmost byte.
        (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    };
    let mut classes = Classes::default();
    let (words, _) = block.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let folded = word | (ONES * u64::from(CASE));
        let shift = index * 8;
        classes.quote |= bits(word, b'"') << shift;
        classes.backslash |= bits(word, b'\\') << shift;
        classes.open |= bits(folded, b'{') << shift;
        classes.close |= bits(folded, b'}') << shift;
    }
    classes
}
