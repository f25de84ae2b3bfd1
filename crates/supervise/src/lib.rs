//! A child that stays: started when it is needed, started again when it crashes, put to sleep when it is idle, recycled when it
//! grows too large, and given up when it keeps failing, while the host's session goes on as if it were one process.
//!
//! The core, [`Machine`] and [`Lifecycle`], is the same on every platform. The rest is for Linux, so far.
//!
//! [`Lifecycle`] decides when a child is started and ended, and [`Session`] what is said to whom; neither knows of a clock, a
//! process or a file. `front` is the thin loop around them that performs what they say. [`wire`] is what front, broker and steward
//! say to each other.
#![doc = include_str!("../DESIGN.md")]

mod as_text;
mod backoff;
pub mod error_text;
pub mod lifecycle;
mod machine;
mod stderr_tail;
mod timers;

#[cfg(target_os = "linux")]
mod cache;
#[cfg(target_os = "linux")]
mod child_keeper;
#[cfg(target_os = "linux")]
mod flights;
#[cfg(target_os = "linux")]
mod front;
#[cfg(target_os = "linux")]
mod line_channel;
#[cfg(target_os = "linux")]
pub mod link;
#[cfg(target_os = "linux")]
mod lists;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod outbox;
#[cfg(target_os = "linux")]
mod queue;
#[cfg(target_os = "linux")]
mod replays;
#[cfg(target_os = "linux")]
mod reverse;
#[cfg(target_os = "linux")]
mod sent_lines;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod shortcut;
#[cfg(target_os = "linux")]
pub mod wire;

pub use backoff::{Backoff, MAX_FAILURES};
pub use lifecycle::Lifecycle;
pub use machine::{Action, Cause, Event as MachineEvent, Generation, Machine, Moment, Policy, State, Timer, Why};
pub use nostray_sys::rate::Rate;

#[cfg(target_os = "linux")]
pub use {
    cache::Cache,
    child_keeper::{Child, ChildConfig, ChildEnd, ChildKeeper, ChildLoss, Event as ChildEvent},
    front::{Error, Options, run},
    line_channel::LineChannel,
    outbox::Outbox,
    replays::Replay,
    sent_lines::SentLines,
    session::{Effect as SessionEffect, Protocol, Session, Settings, Verdict},
    shortcut::{StewardEnd, Unusual},
};
