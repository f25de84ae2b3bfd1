//! Numbers that vary, and come again with the same seed: for jitter, and for tests. What must not be guessed comes from
//! [`process::random`](crate::process::random).

/// A small generator (xorshift64), which says nothing that has to be unpredictable.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Seeds of neighbouring rounds differ little; this spreads the difference over all bits (splitmix64).
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ (mixed >> 31)).max(1))
    }

    /// The next number of 53 bits. The lowest bits of the state are the least random, and a float has room for no more.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Any number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Any index into a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Any number from 0 up to and without 1.
    pub fn fraction(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 53) as f64
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_one_others() {
        let row = |seed| {
            let mut random = Random::new(seed);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(row(7), row(7));
        assert_ne!(row(7), row(8));
        assert_ne!(row(0), vec![0; 8]);
    }

    #[test]
    fn every_choice_is_made_sooner_or_later() {
        let mut random = Random::new(1);
        let mut seen = [false; 3];
        (0..100).for_each(|_| seen[random.pick(&[0usize, 1, 2])] = true);
        assert_eq!(seen, [true; 3]);
    }

    #[test]
    fn fractions_fill_the_range_from_zero_to_one() {
        let mut random = Random::new(1);
        let tenths: std::collections::BTreeSet<_> = (0..1000).map(|_| (random.fraction() * 10.0) as usize).collect();
        assert_eq!(tenths, (0..10).collect());
    }
}
