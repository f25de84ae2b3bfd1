//! One child for many owners: calls, handlers, the lives of the child, and what is left after thousands of leases.

#![cfg(feature = "supervisor")]

#[path = "../apart/mod.rs"]
mod apart;
mod calls;
mod cancel;
mod children;
mod cut_off;
mod garbage;
mod handlers;
mod leak;
mod lives;
mod races;
#[cfg(feature = "tracing")]
mod tracing;
