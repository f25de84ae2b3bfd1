//! What `doctor` sees on Windows.

pub(crate) mod checks;
pub(crate) mod evidence;
pub(crate) mod folders;
pub(crate) mod packages;
pub(crate) mod streams;
