//! The mark by which a process is known to be of a pen when front, spare and guard were all killed: one variable in its environment, and
//! one limit.
//!
//! The variable says which pens a process was started in. A program may change or clear its environment, so there is a limit, too: that
//! on the time of real-time threads, lowered from *unlimited* to a number of some hundred thousand years, whose lower bits are the pen's
//! name. The kernel hands it down over fork and execve, and a process without privileges cannot raise it. So a process that bears it was
//! started in the pen, also if it has cleared its environment, and a process without such a limit was not. It is
//! evidence, like the variable: a limit can be copied.

use std::ffi::{OsStr, OsString};

use nostray_sys::exec::{Laid, Program};
use nostray_sys::proc::real_time_limit_of;
use nostray_sys::process::{self, Pid};

use crate::pen_id::ID_ALPHABET;
pub(crate) use crate::pen_id::{MARK, PenId};

/// What the value of a child's mark begins with; the child's pid follows. A pen inside a pen bears both names, the outer one first, each
/// with the pid of its child.
fn for_child(id: &PenId) -> OsString {
    let mut mark = std::env::var_os(MARK).unwrap_or_default();
    if !mark.is_empty() {
        mark.push("/");
    }
    mark.push(format!("{id}@"));
    mark
}

/// The program with the mark of a pen, and one variable more, in its environment.
pub(crate) fn marked(program: Program, id: &PenId, told: Option<(&str, &OsString)>) -> Laid {
    let told: Vec<(&OsStr, &OsStr)> =
        told.into_iter().map(|(name, value)| (name.as_ref(), value.as_os_str())).collect();
    program.laid_out((MARK.as_ref(), &for_child(id)), &told)
}

/// Whether a process bears the mark of a pen: in its environment, as far as that can be read, or by its limit.
#[must_use]
pub fn is_marked(pid: Pid, id: &str) -> bool {
    nostray_sys::proc::environment(pid).is_ok_and(|environment| is_marked_in(&environment, id))
        || real_time_limit_of(pid).is_some_and(|limit| Limit::of(limit) == Limit::Of(name_bits(id)))
}

/// Whether a process was certainly not started in a pen whose child [bears a limit](bears_limit).
#[must_use]
pub fn is_certainly_of_no_such_pen(pid: Pid, id: &str) -> bool {
    match real_time_limit_of(pid).map(Limit::of) {
        Some(Limit::None) => true,
        Some(Limit::Of(name)) => name != name_bits(id),
        // It was lowered once more.
        Some(Limit::Lower) | None => false,
    }
}

/// Whether children of this process bear a limit with the name of their pen. Where it is lower already, there is no room for one.
#[must_use]
pub fn bears_limit() -> bool {
    limit_for(0, process::real_time_limit()).is_some()
}

/// The limit that a child of this process takes on. Where there is no room for it, the variable has to do.
pub(crate) fn limit_of(id: &PenId) -> Option<u64> {
    limit_for(name_bits(id.as_str()), process::real_time_limit())
}

/// Numbers in this range are limits of ours. A pen inside a pen has a lower one, by a step.
const MARK_LIMITS: std::ops::Range<u64> = 1 << 62..1 << 63;
const NESTING_STEP: u64 = 1 << 52;

/// What a limit says.
#[derive(Debug, PartialEq, Eq)]
enum Limit {
    /// That of a process outside of all pens.
    None,
    /// That of the pen whose name has these bits.
    Of(u64),
    /// It is lower than ours are.
    Lower,
}

impl Limit {
    fn of(limit: u64) -> Self {
        match limit {
            limit if MARK_LIMITS.contains(&limit) => Self::Of(limit % NESTING_STEP),
            limit if limit < MARK_LIMITS.start => Self::Lower,
            _ => Self::None,
        }
    }
}

fn limit_for(name: u64, current: u64) -> Option<u64> {
    let limit = (current.min(MARK_LIMITS.end) / NESTING_STEP).checked_sub(1)? * NESTING_STEP + name;
    MARK_LIMITS.contains(&limit).then_some(limit)
}

/// The forty bits of a name, and twelve of the number in its series.
fn name_bits(id: &str) -> u64 {
    let (first, number) = id.split_once('.').unwrap_or((id, "0"));
    let letter = |byte: u8| ID_ALPHABET.iter().position(|letter| *letter == byte).unwrap_or(0) as u64;
    let name = first.bytes().take(8).fold(0, |bits, byte| bits << 5 | letter(byte));
    (number.parse::<u64>().unwrap_or(0) % (1 << 12)) << 40 | name
}

/// The same for an environment that was read.
pub(crate) fn is_marked_in(environment: &[u8], id: &str) -> bool {
    let mark = nostray_sys::proc::variable_in(environment, MARK).unwrap_or_default();
    mark.split(|&b| b == b'/').any(|part| part.split(|&b| b == b'@').next() == Some(id.as_bytes()))
}

/// Whether `process` (this one, or a launcher above it) is the child of the enclosing pen, and not a descendant that may have been handed
/// to that pen's guard when its own parent died. `None` without an enclosing pen.
pub(crate) fn is_child_of_enclosing_pen(process: Pid) -> Option<bool> {
    std::env::var_os(MARK).map(|mark| names_as_child(&mark, process))
}

fn names_as_child(mark: &OsStr, pid: Pid) -> bool {
    mark.to_str().and_then(|mark| mark.rsplit('@').next()).is_some_and(|number| number == pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_says_which_pen_it_is_of_also_inside_of_others() {
        let ids = ["00000000", "zzzzzzzz", "k7f39q2x", "k7f39q2x.1", "k7f39q2x.4095"];
        for (at, id) in ids.iter().enumerate() {
            assert!(ids[at + 1..].iter().all(|other| name_bits(other) != name_bits(id)), "{id}");
            let mut limit = u64::MAX;
            for depth in 0..1000 {
                let inner = limit_for(name_bits(id), limit).expect("there is room");
                assert!(inner < limit, "{depth}");
                assert_eq!(Limit::of(inner), Limit::Of(name_bits(id)));
                limit = inner;
            }
        }
        for (limit, expected) in
            [(u64::MAX, Limit::None), (1 << 63, Limit::None), (200_000, Limit::Lower), (0, Limit::Lower)]
        {
            assert_eq!(Limit::of(limit), expected);
        }
        assert_eq!(limit_for(1, 200_000), None);
        assert_eq!(limit_for(1, 0), None);
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
