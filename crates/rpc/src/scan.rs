//! Finds the end of a JSON value, without parsing it.
//!
//! The end of a string is found by a vectorised search. Objects and lists are scanned in blocks of 64 bytes; each block becomes one
//! bit mask for each class of bytes that matters. The depth is a counter, so deep nesting needs no stack.
//!
//! # Why not serde_json's raw values
//! They take 1.5 to 6.0 times as long for the same envelope, since they check the grammar of the whole value. Nanoseconds per
//! message, on a 2-core virtual machine (`cargo run --release -p nostray-rpc --example raw_values`):
//!
//! | line | bytes | `quick_read` | `read` | `Agreement::check` | `&RawValue` | `Box<RawValue>` |
//! | --- | ---: | ---: | ---: | ---: | ---: | ---: |
//! | request, 200 B | 199 | 12 | 143 | 270 | 261 | 308 |
//! | result, 200 B | 218 | 6 | 133 | 162 | 193 | 229 |
//! | result, 4 KiB of text | 4,124 | 6 | 206 | 359 | 756 | 850 |
//! | result, 4 KiB of objects | 4,038 | 7 | 1,143 | 6,167 | 5,172 | 5,274 |
//! | result, 1 MiB of text | 1,047,992 | 30 | 25,217 | 57,285 | 151,435 | 174,850 |
//! | result, 1 MiB of code | 1,040,092 | 141 | 318,854 | 436,490 | 815,743 | 877,585 |
//! | result, 1 MiB of objects | 1,016,038 | 1,102 | 271,634 | 1,505,079 | 1,304,320 | 1,439,592 |
//! | request, params 60 deep | 297 | 11 | 254 | 536 | 601 | 646 |
//!
//! `Agreement::check` checks the whole grammar too. Raw values cannot replace it, since it also finds names that occur twice. Nor
//! can serde_json read a line that arrives in pieces ([`LongLineReader`](crate::LongLineReader)), or a line with NaN, which Python
//! writes.

use memchr::memchr2;

use nostray_sys::masks::{BLOCK, Masks};

/// The place of the first byte from `at` on that is not insignificant whitespace.
#[inline]
pub(crate) fn after_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = text.get(at) {
        at += 1;
    }
    at
}

/// Whether this byte is part of a number, of `true`, `false` or `null`, or of another bare word (Python writes NaN).
#[inline]
pub(crate) fn is_bare(byte: u8) -> bool {
    !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']')
}

/// The length of the number at the start of `text`.
#[inline]
pub(crate) fn number_length(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| digits(&text[from..]);
    let mut at = usize::from(text.first() == Some(&b'-'));
    at += match (text.get(at)?, digits(at)) {
        (_, 0) => return None,
        (b'0', _) => 1,
        (_, count) => count,
    };
    if text.get(at) == Some(&b'.') {
        let count = digits(at + 1);
        at += (count > 0).then_some(1 + count)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let count = digits(at + 1 + sign);
        at += (count > 0).then_some(1 + sign + count)?;
    }
    Some(at)
}

/// How many digits `text` begins with. Ids between us and a child have sixteen.
#[inline]
fn digits(text: &[u8]) -> usize {
    let (words, _) = text.as_chunks::<8>();
    let mut count = 0;
    for word in words {
        let other = other_than_digits(u64::from_le_bytes(*word));
        if other != 0 {
            return count + other.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    count + text[count..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Marks the bytes that are no digits by their top bit. All marks are right.
#[inline]
fn other_than_digits(word: u64) -> u64 {
    const TOP: u64 = ONES << 7;
    // A digit becomes 0 to 9; with 0x76 more, what is above that, and no other byte, has the top bit.
    let value = word ^ (ONES * u64::from(b'0'));
    (((value & !TOP) + ONES * 0x76) | value) & TOP
}

/// Skips a string, from after its opening quote.
#[derive(Debug, Default)]
pub(crate) struct Text {
    escaped: bool,
}

impl Text {
    /// Continues with this piece. `Some`: the length of the part that belongs to the string, with its closing quote. `None`: all
    /// of the piece does.
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

/// The first quote or backslash. Most strings at the top are a few bytes long; for these a call to a vectorised search costs more
/// than it saves.
#[inline]
fn special(piece: &[u8]) -> Option<usize> {
    let (words, _) = piece.as_chunks::<8>();
    let short = words.len().min(4);
    for (index, word) in words[..short].iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero_bytes(word ^ (ONES * u64::from(b'"'))) | zero_bytes(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    memchr2(b'"', b'\\', &piece[short * 8..]).map(|at| at + short * 8)
}

/// Why a string is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAString {
    NoEnd,
    ControlCharacter,
    UnknownEscape,
}

/// A string that is valid by the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StrictString {
    /// Where it ends, after its closing quote.
    pub(crate) end: usize,
    pub(crate) has_escapes: bool,
}

/// Finds the ends of the strings of a line. It looks at each block once, however many strings are in it.
#[derive(Debug)]
pub(crate) struct StringEnds<'a> {
    text: &'a [u8],
    /// Where the block begins that was looked at last, and which of its bytes end a string, begin an escape or are not
    /// allowed in a string.
    block: usize,
    ends: u64,
}

impl<'a> StringEnds<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        // No block begins there.
        Self { text, block: usize::MAX, ends: 0 }
    }

    #[inline(never)]
    fn look_at(&mut self, start: usize) {
        let rest = self.text.get(start..).unwrap_or_default();
        self.block = start;
        self.ends = match (rest.first_chunk(), self.text.last_chunk()) {
            (Some(block), _) => Masks::of(block).ends_text(),
            (None, Some(last)) => Masks::of(last).ends_text() >> (BLOCK - rest.len()),
            (None, None) => Masks::of(&padded(rest)).ends_text(),
        };
    }

    /// Where a string ends that begins at `at`, after its opening quote. `None` if it has an escape, or is invalid: see [`strict_string`].
    #[inline]
    pub(crate) fn plain_end(&mut self, mut at: usize) -> Option<usize> {
        loop {
            let start = at / BLOCK * BLOCK;
            if start != self.block {
                if start >= self.text.len() {
                    return None;
                }
                self.look_at(start);
            }
            let ends = self.ends >> (at - start);
            if ends != 0 {
                at += ends.trailing_zeros() as usize;
                return (self.text[at] == b'"').then_some(at + 1);
            }
            at = start + BLOCK;
        }
    }
}

/// A block with spaces behind a text that is shorter.
fn padded(text: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block[..text.len()].copy_from_slice(text);
    block
}

/// Checks a string against the grammar, from `at`, which is after its opening quote. A bit mask marks the bytes of a block that need a
/// check.
pub(crate) fn strict_string(text: &[u8], mut at: usize) -> Result<StrictString, NotAString> {
    let (mut escaped, mut has_escapes) = (0, false);
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let short;
        let block = match rest.first_chunk::<BLOCK>() {
            Some(block) => block,
            None if rest.is_empty() => return Err(NotAString::NoEnd),
            None => {
                short = padded(rest);
                &short
            }
        };
        let masks = Masks::of(block);
        if masks.ends_text() != 0 || escaped != 0 {
            let quote = masks.equal(b'"');
            let backslash = masks.equal(b'\\');
            let letters = escaped_bytes(backslash, escaped);
            let ends = quote & !letters.bytes;
            // All bytes before the closing quote, or all bytes if there is none.
            let inside = ends.wrapping_sub(1) & !ends;
            if masks.control() & inside != 0 {
                return Err(NotAString::ControlCharacter);
            }
            check_escapes(text, at, block, letters.bytes & inside)?;
            has_escapes |= backslash & inside != 0;
            if ends != 0 {
                return Ok(StrictString { end: at + ends.trailing_zeros() as usize + 1, has_escapes });
            }
            escaped = letters.next;
        }
        at += BLOCK;
    }
}

/// Checks that the bytes of a block at `letters`, which follow a backslash, form valid escapes.
#[inline]
fn check_escapes(text: &[u8], at: usize, block: &[u8; BLOCK], letters: u64) -> Result<(), NotAString> {
    if letters == 0 {
        return Ok(());
    }
    let known = |byte| matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't');
    let mut others = letters;
    while others != 0 {
        let bit = others.trailing_zeros() as usize;
        if known(block[bit]) {
            others &= others - 1;
            continue;
        }
        let place = at + bit;
        let digits = text.get(place + 1..place + 5).filter(|_| text[place] == b'u');
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(NotAString::UnknownEscape);
        }
        others &= others - 1;
    }
    Ok(())
}

pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;

/// Marks zero bytes by their top bit. The first mark is right; the marks after it may be wrong.
#[inline]
pub(crate) fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

/// Skips an object or a list, from its opening bracket on.
///
/// The value ends when all brackets are closed. A mismatch of bracket kinds is not detected: that needs a stack, and the receiver
/// that parses the message detects it.
#[derive(Debug, Default)]
pub(crate) struct Nest {
    depth: u64,
    /// All ones inside a string, zero outside.
    in_string: u64,
    /// One if the next byte follows a backslash that escapes it.
    escaped: u64,
}

impl Nest {
    /// Continues with this piece. `Some`: the length of the part that belongs to the value, with its closing bracket. `None`: all
    /// of the piece does.
    #[inline(never)]
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
            // The whole block is inside of a string: it is probably a long one, so search for its end only.
            if quiet && self.in_string != 0 && at < piece.len() {
                at += memchr2(b'"', b'\\', &piece[at..]).unwrap_or(piece.len() - at);
            }
        }
        None
    }

    #[inline]
    fn block(&mut self, classes: &Classes, length: usize) -> Option<usize> {
        let escaped = escaped_bytes(classes.backslash, self.escaped);
        // Bytes past the length are zero and not backslashes, so the bit after the last byte is the next escape state.
        self.escaped = if length < BLOCK { escaped.bytes >> length & 1 } else { escaped.next };
        let inside = running_parity(classes.quote & !escaped.bytes) ^ self.in_string;
        self.in_string = ((inside as i64) >> 63) as u64;

        let open = classes.open & !inside;
        let close = classes.close & !inside;
        // The value is too deep to end in this block, so only count the brackets.
        if self.depth > BLOCK as u64 {
            self.depth = self.depth + u64::from(open.count_ones()) - u64::from(close.count_ones());
            return None;
        }
        let mut brackets = open | close;
        while brackets != 0 {
            let lowest = brackets & brackets.wrapping_neg();
            if open & lowest != 0 {
                self.depth += 1;
            } else {
                self.depth -= 1;
                if self.depth == 0 {
                    return Some(lowest.trailing_zeros() as usize + 1);
                }
            }
            brackets ^= lowest;
        }
        None
    }
}

struct Escaped {
    /// The bytes of this block that are escaped.
    bytes: u64,
    /// Whether the first byte of the next block is escaped.
    next: u64,
}

/// The bytes that follow an odd run of backslashes. `first`: the first byte is escaped by the block before.
#[inline]
fn escaped_bytes(backslash: u64, first: u64) -> Escaped {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let backslash = backslash & !first;
    if backslash == 0 {
        return Escaped { bytes: first, next: 0 };
    }
    // Adding a run's first bit to the run carries into the bit after the run. The run has an even length if its start and this
    // bit are both even or both odd (the method of simdjson, by Langdale and Lemire).
    let follows = backslash << 1 | first;
    let odd_starts = backslash & !EVEN & !follows;
    let (even_runs, carry) = odd_starts.overflowing_add(backslash);
    Escaped { bytes: (EVEN ^ even_runs << 1) & follows, next: u64::from(carry) }
}

/// Bit n is the parity of bits 0 to n: ones from each opening quote up to before its closing quote.
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

#[inline]
fn classify(block: &[u8; BLOCK]) -> Classes {
    let masks = Masks::of(block);
    let (open, close) = masks.brackets();
    Classes { quote: masks.equal(b'"'), backslash: masks.equal(b'\\'), open, close }
}

#[cfg(test)]
mod tests {
    use nostray_sys::random::Random;

    use super::*;

    /// The same, a byte at a time.
    fn naive(text: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        for (at, byte) in text.iter().enumerate() {
            if std::mem::take(&mut escaped) && matches!(byte, b'"' | b'\\') {
                continue;
            }
            match byte {
                b'\\' => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn in_pieces(text: &[u8], size: usize) -> Option<usize> {
        let mut nest = Nest::default();
        let mut before = 0;
        for piece in text.chunks(size) {
            if let Some(end) = nest.skip(piece) {
                return Some(before + end);
            }
            before += piece.len();
        }
        None
    }

    #[test]
    fn blocks_and_bytes_are_counted_alike_for_any_pieces() {
        let alphabet = b"\"\"\\\\{}[]aaaaaaaaaaaaaaaa,:";
        let mut random = Random::new(1);
        let mut ended = 0;
        for round in 0..800 {
            let mut text = vec![b'['; 1 + round % 7];
            for _ in 0..round % 400 {
                let dice = random.index(usize::MAX);
                match dice % 50 {
                    0 => text.extend(std::iter::repeat_n(b'\\', dice / 50 % 70)),
                    1 => text.extend(std::iter::repeat_n(b'x', dice / 50 % 200)),
                    2 => text.extend(std::iter::repeat_n(b'[', dice / 50 % 90)),
                    _ => text.push(alphabet[dice / 50 % alphabet.len()]),
                }
            }
            let expected = naive(&text);
            ended += usize::from(expected.is_some());
            for size in [1, 5, 63, 64, 65, 100, usize::MAX] {
                assert_eq!(in_pieces(&text, size), expected, "pieces of {size}: {}", String::from_utf8_lossy(&text));
            }
        }
        assert!(ended > 100, "{ended}");
    }

    #[test]
    fn digits_are_counted_up_to_any_other_byte() {
        for before in 0..20 {
            for other in 0..=u8::MAX {
                for after in ["", "0", "12345678"] {
                    let text = [&b"0123456789".repeat(2)[..before], &[other], after.as_bytes()].concat();
                    let expected = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    assert_eq!(digits(&text), expected, "{}", text.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn a_string_ends_at_its_first_quote_that_is_not_escaped() {
        for length in 0..100 {
            for backslashes in 0..6 {
                let text = [&b"x".repeat(length)[..], &b"\\".repeat(backslashes), b"\"yy\""].concat();
                let end = length + backslashes + 1 + if backslashes % 2 == 0 { 0 } else { 3 };
                for size in [1, 2, 7, usize::MAX] {
                    let mut skipped = Text::default();
                    let mut before = 0;
                    let found = text.chunks(size).find_map(|piece| {
                        let end = skipped.skip(piece).map(|end| before + end);
                        before += piece.len();
                        end
                    });
                    assert_eq!(found, Some(end), "{length} {backslashes} {size}");
                }
            }
        }
    }

    /// The same, a byte at a time.
    fn naive_string(text: &[u8]) -> Option<StrictString> {
        let (mut at, mut has_escapes) = (0, false);
        loop {
            at += match text[at..] {
                [b'"', ..] => return Some(StrictString { end: at + 1, has_escapes }),
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
                [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(u8::is_ascii_hexdigit) => 6,
                [] | [b'\\' | 0..0x20, ..] => return None,
                [_, ..] => 1,
            };
            has_escapes |= text[..at].contains(&b'\\');
        }
    }

    #[test]
    fn a_strict_string_is_the_same_in_words_in_blocks_and_in_bytes() {
        let parts = [
            "x",
            "xxxxxxx",
            "\\\"",
            "\\\\",
            "\\u12aF",
            "\\n",
            "é漢",
            &"y".repeat(70),
            "\"",
            "\t",
            "\\x",
            "\\u12",
            "\u{7f}",
        ];
        let mut random = Random::new(7);
        let mut dice = |sides: usize| random.index(sides);
        let mut whole = 0;
        for _ in 0..4_000 {
            let mut text = String::new();
            for _ in 0..dice(30) {
                // The last parts of the list end the string, or make it invalid.
                let kinds = if dice(12) == 0 { parts.len() } else { 8 };
                text.push_str(parts[dice(kinds)]);
            }
            text.push_str(if dice(20) == 0 { "" } else { "\" and more" });
            let expected = naive_string(text.as_bytes());
            whole += usize::from(expected.is_some());
            assert_eq!(strict_string(text.as_bytes(), 0).ok(), expected, "{text:?}");
            let plain = expected.filter(|string| !string.has_escapes).map(|string| string.end);
            assert_eq!(StringEnds::of(text.as_bytes()).plain_end(0), plain, "{text:?}");
        }
        assert!((2_000..3_990).contains(&whole), "{whole}");
    }
}
