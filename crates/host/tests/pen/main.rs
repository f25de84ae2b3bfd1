//! A pen and its host: streams, ends and their causes, sessions, names that one process holds, and what is on record of them.

#[path = "../apart/mod.rs"]
mod apart;
#[cfg(feature = "supervisor")]
mod ends;
mod host;
#[cfg(feature = "supervisor")]
mod registry;
mod runtimes;
mod session;
mod singleton;
mod threads;
