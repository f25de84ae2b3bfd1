//! The names of pens, and the variable by which every process of a pen knows it.

use std::fmt;
use std::str::FromStr;

/// The name of the variable.
pub const MARK: &str = "NOSTRAY_PEN";

/// What the names of control groups begin with.
const GROUP_PREFIX: &str = "nostray-";

pub(crate) const ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Names one pen: short, typeable, without letters that are taken for digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PenId(String);

impl PenId {
    /// A new name. Forty random bits: two pens of one machine do not meet.
    #[must_use]
    pub fn new() -> Self {
        let random = nostray_sys::process::random();
        Self((0..8).map(|i| char::from(ID_ALPHABET[(random >> (5 * i)) as usize % 32])).collect())
    }
}

impl PenId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a pen that is one of a series: `k7f39q2x.3`.
    #[must_use]
    pub fn in_series(&self, number: u64) -> Self {
        Self(format!("{self}.{number}"))
    }

    /// The name of its control group.
    #[cfg(target_os = "linux")]
    pub(crate) fn group(&self) -> String {
        format!("{GROUP_PREFIX}{self}")
    }

    /// The name of the pen whose control group has this name, if the name has our form.
    #[must_use]
    pub fn of_group(name: &str) -> Option<&str> {
        let id = name.strip_prefix(GROUP_PREFIX)?;
        let (first, number) = id.split_once('.').unwrap_or((id, "0"));
        (first.parse::<Self>().is_ok() && number.parse::<u64>().is_ok()).then_some(id)
    }

    /// The name of the series that a pen belongs to, if it does.
    #[must_use]
    pub fn series_of(id: &str) -> Option<&str> {
        id.split_once('.').map(|(series, _)| series)
    }
}

impl Default for PenId {
    fn default() -> Self {
        Self::new()
    }
}

impl FromStr for PenId {
    type Err = String;

    /// A name as [`PenId::new`] makes them.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_one = text.len() == 8 && text.bytes().all(|byte| ID_ALPHABET.contains(&byte));
        if is_one { Ok(Self(text.to_owned())) } else { Err(format!("'{text}' is not the name of a pen")) }
    }
}

impl fmt::Display for PenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_eight_letters_that_differ() {
        let (a, b) = (PenId::new(), PenId::new());
        assert_eq!(a.to_string().len(), 8);
        assert_ne!(a, b);
    }
}
