//! `nostray web`: what `nostray ps` and the journal say, on a page, for a person who would rather look.
//!
//! One thread looks once a second while a viewer is connected, and not at all otherwise (`feed`). One tokio runtime with one thread serves
//! the page, a stream of events, two actions and `/metrics` (`routes`). Every request passes the `gate` first. **A page of another
//! origin, another user of the machine and a name that leads to a loopback address get nothing but 403.**

mod actions;
mod args;
mod ending;
mod feed;
mod gate;
mod journal;
mod page;
mod routes;
mod row;
mod server;
mod token;

pub use args::Args;
pub use server::run;
