//! The floor of nostray: every system call that the rest stands on, behind signatures that cannot be
//! misused. **The only crate with unsafe code.** Nothing here knows what a pen or a host is.
//!
//! Linux only. What another platform would have to offer is what `nostray-pen` calls from here.

#[cfg(not(target_os = "linux"))]
compile_error!("nostray contains process trees on Linux only, so far");

pub mod allocator;
pub mod cgroup;
pub mod clock;
pub mod descriptors;
pub mod escalation;
pub mod events;
pub mod exec;
pub mod fifo;
pub mod folder_watch;
pub mod identity;
pub mod listeners;
pub mod local;
pub mod mailbox;
pub mod memory;
pub mod namespace;
pub mod other_end;
pub mod pidfd;
pub mod poll;
pub mod proc;
pub mod process;
pub mod random;
pub mod replace;
pub mod secrets;
pub mod shared_words;
pub mod signal;
pub mod standstill;
pub mod startup;
pub mod stream;
pub mod terminal_settings;
pub mod text;
pub mod unix_peer;

pub use pidfd::Pidfd;
pub use process::Pid;
pub use signal::Signal;
