//! The floor of nostray: every system call that the rest stands on, behind signatures that cannot be
//! misused. **The only crate with unsafe code.** Nothing here knows what a pen or a host is.
//!
//! What is per platform is in a folder of its own, `linux` and `windows`, under the same names; what has no folder is the same everywhere.
//! Elsewhere only the latter is there, so that what needs no process (`nostray-rpc`) can be built.

pub mod escalation;
#[cfg(any(target_os = "linux", windows))]
pub mod identity;
pub mod masks;
pub mod random;
pub mod rate;
pub mod secrets;
pub mod text;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(windows)]
pub use windows::*;
#[cfg(any(target_os = "linux", windows))]
pub use {pidfd::Pidfd, process::Pid, signal::Signal};
