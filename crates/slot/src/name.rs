//! What a slot is called.

use std::fmt;
use std::str::FromStr;

/// The longest name.
const MAX_NAME: usize = 64;

/// The name of a slot: what a file can be called, so that no two names are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let wrong = if text.is_empty() {
            "it is empty"
        } else if text.len() > MAX_NAME {
            "it is longer than 64 letters"
        } else if !text.chars().all(is_fine) {
            "it may have letters, digits, '.', '_' and '-'"
        } else if text.starts_with(['.', '-']) {
            "it may not begin with '.' or '-'"
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(format!("{wrong}; a name is like memory or db.main"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_the_name_of_a_file() {
        for fine in ["memory", "db.main", "a", "A-1_b", &"x".repeat(64)] {
            assert!(fine.parse::<Name>().is_ok(), "{fine}");
        }
        for wrong in ["", ".", "..", "a/b", "a b", "-x", ".x", "ä", "a\n", &"x".repeat(65)] {
            assert!(wrong.parse::<Name>().is_err_and(|why| why.contains("memory")), "{wrong}");
        }
    }
}
