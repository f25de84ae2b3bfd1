//! The ways from a host to a server that are compared.

use std::ffi::OsString;

use crate::Failure;
use crate::mux::Mux;
use crate::programs::Programs;
use crate::traffic::Way;
use crate::variants::{Variant, nostray};

/// What makes sessions share a server. Nothing is to be there any more when the last one has gone.
pub(crate) const SHARE: &[&str] = &["share", "--linger", "0s", "--require-share"];

/// A place in [`all`], and in everything that is measured of all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Direct,
    /// Two processes on the way that do nothing else.
    Relays,
    /// nostray's front and steward on the way.
    Share,
    /// rmcp-mux and its proxy on the way; the last, since it may be missing.
    Mux,
}

/// All of them, in the order of [`Place`].
pub(super) fn all(programs: &Programs, mux: Option<&Mux>) -> Result<Vec<Way>, Failure> {
    let direct = Variant::other("direct", [""; 0]);
    // Each session's environment differs, so no session shares a child.
    let ways = [direct, relays()?, share(programs, &[])].map(Way::through);
    Ok(ways.into_iter().chain(mux.cloned().map(Mux::way)).collect())
}

pub(crate) fn relays() -> Result<Variant, Failure> {
    let me = || std::env::current_exe().map(OsString::from);
    Ok(Variant::other("two relays", [me()?, "relay".into(), me()?, "relay".into()]))
}

pub(crate) fn share(programs: &Programs, options: &[&str]) -> Variant {
    nostray(programs, "share", &[SHARE, options].concat())
}
