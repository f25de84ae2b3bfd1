//! The ways from a host to a server that are compared.

use crate::Failure;
use crate::programs::Programs;
use crate::traffic::Way;
use crate::variants::{Variant, control, nostray};

/// What makes `nostray run` read the messages.
pub(super) const MANAGED: &[&str] = &["run", "--respawn"];
/// The same, and end the server after so long without a call.
pub(super) const HIBERNATE: &[&str] = &["run", "--hibernate", "300ms"];

/// A place in [`all`], and in everything that is measured of all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Direct,
    /// Direct once more: how far it is from direct is what chance does on this machine.
    Again,
    /// nostray beside the way: no byte passes through it.
    Run,
    /// One process on the way that does nothing else.
    Relay,
    /// nostray on the way.
    Managed,
}

/// All of them, in the order of [`Place`].
pub(super) fn all(programs: &Programs) -> Result<Vec<Way>, Failure> {
    Ok([direct(), control(), run(programs), relay()?, managed(programs)].map(Way::through).into())
}

pub(crate) fn direct() -> Variant {
    Variant::other("direct", [""; 0])
}

pub(crate) fn run(programs: &Programs) -> Variant {
    nostray(programs, "nostray run", &["run"])
}

pub(crate) fn relay() -> Result<Variant, Failure> {
    let me = std::env::current_exe()?.into_os_string();
    Ok(Variant::other("bare relay", [me, "relay".into()]))
}

pub(crate) fn managed(programs: &Programs) -> Variant {
    nostray(programs, "managed", MANAGED)
}

pub(super) fn hibernating(programs: &Programs) -> Variant {
    nostray(programs, "hibernating", HIBERNATE)
}
