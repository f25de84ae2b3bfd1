//! The one variable that nostray adds to a child's environment. It says which pens a process was started in:
//! evidence for whoever looks for survivors, never proof, since a program may change its environment.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::str::FromStr;

use nostray_sys::process::{Pid, getpid};

/// The name of the variable.
pub const MARK: &str = "NOSTRAY_PEN";

const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Names one pen: short, typeable, without letters that are taken for digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PenId(String);

impl PenId {
    /// A new name. Forty random bits: two pens of one machine do not meet.
    #[must_use]
    pub fn new() -> Self {
        let random = nostray_sys::process::random();
        Self((0..8).map(|i| char::from(LETTERS[(random >> (5 * i)) as usize % 32])).collect())
    }
}

impl PenId {
    /// The name of a pen that is one of a series: `k7f39q2x.3`.
    #[must_use]
    pub fn in_series(&self, number: u64) -> Self {
        Self(format!("{self}.{number}"))
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
        let is_one = text.len() == 8 && text.bytes().all(|byte| LETTERS.contains(&byte));
        if is_one { Ok(Self(text.to_owned())) } else { Err(format!("'{text}' is not the name of a pen")) }
    }
}

impl fmt::Display for PenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// In the child: what its mark is to be. A pen inside a pen bears both names, the outer one first, each with
/// the number of its child.
pub(crate) fn for_child(id: &PenId) -> OsString {
    let mut mark = std::env::var_os(MARK).unwrap_or_default();
    if !mark.is_empty() {
        mark.push("/");
    }
    mark.push(format!("{id}@{}", getpid()));
    mark
}

/// Whether a process bears the mark of a pen, as far as its environment can be read.
#[must_use]
pub fn is_marked(pid: Pid, id: &str) -> bool {
    nostray_sys::proc::environment(pid).is_ok_and(|environment| is_marked_in(&environment, id))
}

/// The same for an environment that was read.
pub(crate) fn is_marked_in(environment: &[u8], id: &str) -> bool {
    let mark = nostray_sys::proc::variable_in(environment, MARK).unwrap_or_default();
    mark.split(|&b| b == b'/').any(|part| part.split(|&b| b == b'@').next() == Some(id.as_bytes()))
}

/// Whether this process is the child of the pen around it, and not some process further down that may have been handed
/// to that pen's guard when its own parent died. `None` if there is no pen around it.
pub(crate) fn is_child_of_enclosing_pen() -> Option<bool> {
    std::env::var_os(MARK).map(|mark| names_as_child(&mark, getpid()))
}

fn names_as_child(mark: &OsStr, pid: Pid) -> bool {
    mark.to_str().and_then(|mark| mark.rsplit('@').next()).is_some_and(|number| number == pid.to_string())
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

    #[test]
    fn only_the_innermost_pens_child_is_its_child() {
        let pid = |n| Pid::from_raw(n).expect("positive");
        assert!(names_as_child(OsStr::new("abc@12"), pid(12)));
        assert!(names_as_child(OsStr::new("abc@12/def@345"), pid(345)));
        assert!(!names_as_child(OsStr::new("abc@12/def@345"), pid(12)));
        assert!(!names_as_child(OsStr::new(""), pid(12)));
    }
}
