//! The secret in the address. Every program on the machine can connect to a loopback address, so being there proves nothing.

use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nostray_sys::process::random_numbers;

/// In a file of the user's own choice, not less than this.
const SHORTEST: usize = 32;
/// A larger file holds something else.
const LONGEST: u64 = 256;

/// A token: letters, digits, `-` and `_`, so that it can stand in an address, a cookie and a header.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// 256 random bits.
    pub(crate) fn new() -> Self {
        let mut random = random_numbers();
        Self((0..4).map(|_| format!("{:016x}", random())).collect())
    }

    /// The one in this file; a new one, if there is no such file.
    pub(crate) fn in_file(path: &Path) -> Result<Self, String> {
        let told = |error: io::Error| format!("cannot use the token file {}: {error}", path.display());
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => write_new(path).map_err(told),
            other => other.map_err(told),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes as long for a text that is nearly right as for one that is not.
    pub(crate) fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        let pairs = ours.iter().zip(theirs.iter().chain(std::iter::repeat(&0)));
        let differences = pairs.fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
        (ours.len() == theirs.len()) & (black_box(differences) == 0)
    }
}

/// So that no message ever shows it.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn read(path: &Path) -> io::Result<Token> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        return Err(wrong("it is not a file"));
    }
    // A group may read it: Prometheus often runs as another user.
    if found.mode() & 0o027 != 0 {
        return Err(wrong("other users can read or change it; make it private with chmod 600"));
    }
    if found.len() > LONGEST {
        return Err(wrong("it is too long for a token"));
    }
    let text = std::fs::read_to_string(path)?;
    let token = text.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if token.len() < SHORTEST || !token.chars().all(is_plain) {
        return Err(wrong("a token has 32 characters or more, each a letter, a digit, '-' or '_'"));
    }
    Ok(Token(token.to_owned()))
}

fn write_new(path: &Path) -> io::Result<Token> {
    let token = Token::new();
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{}\n", token.as_str()).as_bytes())?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_same_text_is_the_token() {
        let token = Token::new();
        let text = token.as_str().to_owned();
        assert!(text.len() == 64 && token.is(&text));
        let almost = format!("{}x", &text[..63]);
        for other in ["", &text[..63], &format!("{text}0"), &almost, &format!("{text}\0"), Token::new().as_str()] {
            assert!(!token.is(other), "{other:?}");
        }
        assert!(!format!("{token:?}").contains(&text));
    }

    #[test]
    fn a_file_is_made_once_and_must_be_private() {
        let path = std::env::temp_dir().join(format!("nostray-token-{}", nostray_sys::process::random()));
        let token = Token::in_file(&path).expect("made");
        assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert!(Token::in_file(&path).expect("read").is(token.as_str()));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("chmod");
        assert!(Token::in_file(&path).is_err_and(|why| why.contains("chmod 600")));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("chmod");
        assert!(Token::in_file(&path).is_ok());
        for text in ["short", "", &"a b".repeat(20), &"x".repeat(300)] {
            std::fs::write(&path, text).expect("write");
            assert!(Token::in_file(&path).is_err(), "{text}");
        }
        std::fs::remove_file(&path).expect("remove");
    }
}
