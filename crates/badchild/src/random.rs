//! Random numbers that can be had again.

pub use nostray_sys::random::Random;

/// The seed of one round. That of the first is the seed of the whole run, so that any round can be played alone.
#[must_use]
pub fn seed_of_round(seed: u64, round: u64) -> u64 {
    seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
