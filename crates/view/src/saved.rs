//! What sharing and sleeping save.

use std::iter::Sum;
use std::ops::Add;

use nostray_terminal::table::bytes;

/// Bytes of memory that would be in use otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// Since sessions share a child, where each would have one of its own of the same size.
    pub sharing: u64,
    /// Since a child that no session needs now is asleep, where it would keep what it had.
    pub sleeping: u64,
}

impl Saved {
    /// `sessions` share a child that uses `memory`, or that used so much before it fell asleep.
    pub(crate) fn by(sessions: usize, memory: u64, is_asleep: bool) -> Self {
        let others = u64::try_from(sessions.saturating_sub(1)).unwrap_or(0);
        Self { sharing: memory.saturating_mul(others), sleeping: if is_asleep { memory } else { 0 } }
    }

    /// Both.
    #[must_use]
    pub fn total(self) -> u64 {
        self.sharing.saturating_add(self.sleeping)
    }

    /// `176M saved by sharing, 88M by sleeping`; empty if nothing is.
    #[must_use]
    pub fn in_words(self) -> String {
        match (self.sharing, self.sleeping) {
            (0, 0) => String::new(),
            (sharing, 0) => format!("{} saved by sharing", bytes(sharing)),
            (0, sleeping) => format!("{} saved by sleeping", bytes(sleeping)),
            (sharing, sleeping) => format!("{} saved by sharing, {} by sleeping", bytes(sharing), bytes(sleeping)),
        }
    }
}

impl Add for Saved {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sharing: self.sharing.saturating_add(other.sharing),
            sleeping: self.sleeping.saturating_add(other.sleeping),
        }
    }
}

impl Sum for Saved {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::Saved;

    #[test]
    fn each_session_beyond_the_first_saves_a_child_and_sleep_saves_the_first() {
        let mebibyte = 1 << 20;
        assert_eq!(Saved::by(3, 88 * mebibyte, false).in_words(), "176M saved by sharing");
        assert_eq!(Saved::by(1, 88 * mebibyte, false).in_words(), "");
        assert_eq!(Saved::by(0, 88 * mebibyte, false).total(), 0);
        assert_eq!(Saved::by(1, 88 * mebibyte, true).in_words(), "88M saved by sleeping");
        let both = Saved::by(3, 88 * mebibyte, true);
        assert_eq!(both.in_words(), "176M saved by sharing, 88M by sleeping");
        assert_eq!([both, both].into_iter().sum::<Saved>().total(), 2 * 3 * 88 * mebibyte);
    }
}
