//! What nostray runs, for whom, at what cost, and what sharing and sleeping save: the one source of `nostray ps`, `top`, `web` and
//! `metrics`, so that all of them say the same.
//!
//! A [`Looker`] looks at the registry and at the processes, again and again, and gives a [`Listed`] for each child.

mod action;
mod ends;
mod history;
pub mod json;
mod listed;
mod looker;
mod meter;
pub mod metrics;
mod saved;
pub mod story_text;
pub mod tree;
mod troubles;

#[cfg_attr(target_os = "linux", path = "linux/stopped_broker.rs")]
#[cfg_attr(windows, path = "windows/stopped_broker.rs")]
mod stopped_broker;

pub use action::Action;
pub use ends::Ends;
pub use history::{Rates, Sample};
pub use listed::{Condition, Listed, Sort, SortOption, explain};
pub use looker::Looker;
pub use saved::Saved;
pub use troubles::Troubles;
