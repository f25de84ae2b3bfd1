//! The ways from a host to a server that are compared.

use std::ffi::OsString;
use std::path::Path;

use crate::Failure;
use crate::programs::Programs;
use crate::variants::{Variant, control};

/// What makes `nostray run` read the messages.
pub(super) const MANAGED: &[&str] = &["run", "--respawn"];
/// The same, and have the server end when nobody calls it for so long.
pub(super) const HIBERNATE: &[&str] = &["run", "--hibernate", "300ms"];

/// A place in [`all`], and in everything that is measured of all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
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

pub(super) const COUNT: usize = 5;

/// All of them, in the order of [`Way`].
pub(super) fn all(programs: &Programs) -> Result<[Variant; COUNT], Failure> {
    let me = std::env::current_exe()?.into_os_string();
    let relay = Variant::other("bare relay", [me, "relay".into()]);
    let run = nostray(programs, "nostray run", &["run"]);
    Ok([direct(), control(), run, relay, managed(programs)])
}

pub(super) fn direct() -> Variant {
    Variant::other("direct", [""; 0])
}

pub(super) fn managed(programs: &Programs) -> Variant {
    nostray(programs, "managed", MANAGED)
}

pub(super) fn hibernating(programs: &Programs) -> Variant {
    nostray(programs, "hibernating", HIBERNATE)
}

fn nostray(programs: &Programs, name: &'static str, words: &[&str]) -> Variant {
    let program: &Path = &programs.nostray;
    let words = words.iter().map(OsString::from);
    Variant::other(name, std::iter::once(program.into()).chain(words).chain(["--".into()]))
}
