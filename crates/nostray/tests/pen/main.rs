//! A pen and its host: streams, ends and their causes, sessions, names that one process holds, and what is on record of them.

#[path = "../apart/mod.rs"]
mod apart;
mod ends;
mod host;
mod registry;
mod session;
mod singleton;
