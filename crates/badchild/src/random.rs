//! Random numbers that can be had again.

/// A small xorshift generator: nothing here has to be unpredictable, only varied and repeatable.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The row that belongs to this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Seeds of neighbouring rounds differ little; this spreads the difference over all bits (splitmix64).
        let mut mixed = seed.wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ (mixed >> 31)).max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Any number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end.max(1)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)]
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The seed of one round. That of the first is the seed of the whole run, so that any round can be played alone.
#[must_use]
pub fn seed_of_round(seed: u64, round: u64) -> u64 {
    seed.wrapping_add(round.wrapping_mul(STEP))
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
}
