//! A child that stays: started when it is needed, started again when it crashes, put to sleep when it is idle, recycled when it
//! grows too large, and given up when it keeps failing, while the host's session goes on as if it were one process.
//!
//! [`Lifecycle`] decides when a child is started and ended, and [`Session`] what is said to whom; neither knows of a clock, a
//! process or a file. `front` is the thin loop around them that performs what they say. [`wire`] is what front, broker and steward
//! say to each other.
#![doc = include_str!("../DESIGN.md")]

mod backoff;
mod cache;
mod child_keeper;
pub mod error_text;
mod flights;
mod front;
pub mod lifecycle;
mod line_channel;
pub mod link;
mod lists;
mod machine;
mod memory;
mod outbox;
mod queue;
mod replays;
mod reverse;
mod sent_lines;
mod session;
mod shortcut;
mod stderr_tail;
mod timers;
pub mod wire;

pub use backoff::{Backoff, MAX_FAILURES};
pub use cache::Cache;
pub use child_keeper::{Child, ChildConfig, ChildEnd, ChildKeeper, ChildLoss, Event as ChildEvent};
pub use front::{Error, Options, run};
pub use lifecycle::Lifecycle;
pub use line_channel::LineChannel;
pub use machine::{Action, Cause, Event as MachineEvent, Generation, Machine, Moment, Policy, State, Timer, Why};
pub use nostray_pen::Rate;
pub use outbox::Outbox;
pub use replays::Replay;
pub use sent_lines::SentLines;
pub use session::{Effect as SessionEffect, Protocol, Session, Settings, Verdict};
pub use shortcut::{StewardEnd, Unusual};
