//! Text that need not be UTF-8, in JSON: arguments, paths, environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// Text that need not be UTF-8. Each byte travels as one character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsText(pub OsString);

impl Serialize for OsText {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        let bytes = bytes.ok_or_else(|| serde::de::Error::custom("a character that is no byte"))?;
        Ok(Self(OsString::from_vec(bytes)))
    }
}

impl From<&OsStr> for OsText {
    fn from(text: &OsStr) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_text_comes_through() {
        let all = OsText(OsString::from_vec((1..=255).collect()));
        let json = serde_json::to_string(&all).expect("json");
        assert_eq!(serde_json::from_str::<OsText>(&json).expect("back"), all);
        assert!(serde_json::from_str::<OsText>("\"\u{100}\"").is_err());
    }
}
