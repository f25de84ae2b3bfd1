//! What `doctor` sees on Linux.

pub(crate) mod checks;
mod doubts;
pub(crate) mod evidence;
pub(crate) mod folders;
pub(crate) mod packages;
mod spared;
pub(crate) mod streams;
