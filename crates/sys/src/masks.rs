//! Compares the bytes of a block of 64 with a few others, all at once: one bit for each byte. For readers of JSON; it is here because the
//! instructions for it can only be named in unsafe code.

/// The bytes that are looked at together.
pub const BLOCK: usize = 64;
/// With this bit set, both opening brackets equal `{`, both closing brackets equal `}`, and no other byte equals either.
const CASE: u8 = 0x20;
/// The first byte that is no control character.
const FIRST_PRINTED: u8 = 0x20;

/// Whether all bytes are ASCII. Made for short texts, which the standard library's looks at in smaller steps; it reads a long one to its end.
#[inline]
#[must_use]
pub fn is_ascii(text: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, _) = text.as_chunks::<8>();
    let Some(last) = text.last_chunk::<8>() else { return text.is_ascii() };
    // The last word may overlap the one before it.
    let all = words.iter().fold(u64::from_le_bytes(*last), |all, word| all | u64::from_le_bytes(*word));
    all & HIGH == 0
}

/// A block that is compared.
#[derive(Clone, Copy, Debug)]
pub struct Masks(vectors::Block);

impl Masks {
    /// Looks at this block.
    #[inline]
    #[must_use]
    pub fn of(block: &[u8; BLOCK]) -> Self {
        Self(vectors::load(block))
    }

    /// The bytes that equal this one.
    #[inline]
    #[must_use]
    pub fn equal(self, byte: u8) -> u64 {
        vectors::equal(self.0, byte)
    }

    /// The bytes that end a string, begin an escape, or are not allowed in a string.
    #[inline]
    #[must_use]
    pub fn ends_text(self) -> u64 {
        vectors::equal_or_below(self.0, [b'"', b'\\'], FIRST_PRINTED)
    }

    /// The control characters, which are not allowed in a string.
    #[inline]
    #[must_use]
    pub fn control(self) -> u64 {
        vectors::below(self.0, FIRST_PRINTED)
    }

    /// The opening brackets of objects and lists, and the closing ones.
    #[inline]
    #[must_use]
    pub fn brackets(self) -> (u64, u64) {
        let folded = vectors::with_bits(self.0, CASE);
        (vectors::equal(folded, b'{'), vectors::equal(folded, b'}'))
    }
}

/// Every x86-64 processor has SSE2, with an instruction that gathers one bit of each byte.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
    };

    use super::BLOCK;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Block([__m128i; 4]);

    #[inline]
    pub(super) fn load(block: &[u8; BLOCK]) -> Block {
        let (words, _) = block.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]).cast_signed();
        // SAFETY: SSE2 is a part of this architecture.
        Block([0, 2, 4, 6].map(|at| unsafe { _mm_set_epi64x(word(at + 1), word(at)) }))
    }

    /// Each byte of the vectors is all ones or all zeros.
    #[inline]
    fn gather(vectors: [__m128i; 4]) -> u64 {
        // SAFETY: SSE2 is a part of this architecture.
        let [a, b, c, d] = vectors.map(|bytes| u64::from(unsafe { _mm_movemask_epi8(bytes) }.cast_unsigned()));
        a | b << 16 | c << 32 | d << 48
    }

    #[inline]
    fn is(bytes: __m128i, byte: u8) -> __m128i {
        // SAFETY: SSE2 is a part of this architecture.
        unsafe { _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed())) }
    }

    /// `limit` is not zero.
    #[inline]
    fn is_below(bytes: __m128i, limit: u8) -> __m128i {
        // SAFETY: SSE2 is a part of this architecture.
        unsafe { _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8((limit - 1).cast_signed())), bytes) }
    }

    #[inline]
    fn either(one: __m128i, other: __m128i) -> __m128i {
        // SAFETY: SSE2 is a part of this architecture.
        unsafe { _mm_or_si128(one, other) }
    }

    #[inline]
    pub(super) fn equal(Block(block): Block, byte: u8) -> u64 {
        gather(block.map(|bytes| is(bytes, byte)))
    }

    #[inline]
    pub(super) fn below(Block(block): Block, limit: u8) -> u64 {
        gather(block.map(|bytes| is_below(bytes, limit)))
    }

    #[inline]
    pub(super) fn equal_or_below(Block(block): Block, [one, other]: [u8; 2], limit: u8) -> u64 {
        gather(block.map(|bytes| either(either(is(bytes, one), is(bytes, other)), is_below(bytes, limit))))
    }

    #[inline]
    pub(super) fn with_bits(Block(block): Block, bits: u8) -> Block {
        // SAFETY: SSE2 is a part of this architecture.
        Block(block.map(|bytes| either(bytes, unsafe { _mm_set1_epi8(bits.cast_signed()) })))
    }
}

/// Elsewhere the compiler turns the comparisons into the vector instructions that there are. A multiplication gathers the resulting
/// bytes, zeros and ones, eight at a time.
#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    use super::BLOCK;

    pub(super) type Block = [u8; BLOCK];

    #[inline]
    pub(super) fn load(block: &[u8; BLOCK]) -> Block {
        *block
    }

    #[inline]
    fn gather(block: Block, is_one: impl Fn(u8) -> bool) -> u64 {
        let bytes = block.map(|byte| u8::from(is_one(byte)));
        let (words, _) = bytes.as_chunks::<8>();
        let mut bits = 0;
        for (index, word) in words.iter().enumerate() {
            bits |= (u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (index * 8);
        }
        bits
    }

    #[inline]
    pub(super) fn equal(block: Block, byte: u8) -> u64 {
        gather(block, |other| other == byte)
    }

    #[inline]
    pub(super) fn below(block: Block, limit: u8) -> u64 {
        gather(block, |byte| byte < limit)
    }

    #[inline]
    pub(super) fn equal_or_below(block: Block, [one, other]: [u8; 2], limit: u8) -> u64 {
        gather(block, |byte| byte == one || byte == other || byte < limit)
    }

    #[inline]
    pub(super) fn with_bits(block: Block, bits: u8) -> Block {
        block.map(|byte| byte | bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn one_byte_that_is_not_ascii_is_seen_wherever_it_is() {
        for length in 0..140 {
            let mut text = vec![b'x'; length];
            assert!(is_ascii(&text));
            for at in 0..length {
                text[at] = 0x80;
                assert!(!is_ascii(&text), "{at} of {length}");
                text[at] = 0x7f;
            }
        }
    }

    #[test]
    fn every_byte_has_its_bit_and_no_other() {
        let mut random = Random::new(5);
        for round in 0..2_000 {
            let mut block = [0; BLOCK];
            for byte in &mut block {
                let any = u8::try_from(random.index(256)).expect("a byte");
                *byte = if round % 2 == 0 { any } else { b"\"\\{}[]\n \x1f\x20a\x80\xff"[random.index(13)] };
            }
            let masks = Masks::of(&block);
            let (open, close) = masks.brackets();
            for (at, byte) in block.into_iter().enumerate() {
                let bit = |mask: u64| mask >> at & 1 == 1;
                assert_eq!(bit(masks.equal(b'"')), byte == b'"');
                assert_eq!(bit(masks.control()), byte < 0x20);
                assert_eq!(bit(masks.ends_text()), byte < 0x20 || byte == b'"' || byte == b'\\');
                assert_eq!((bit(open), bit(close)), (matches!(byte, b'{' | b'['), matches!(byte, b'}' | b']')));
            }
        }
    }
}
