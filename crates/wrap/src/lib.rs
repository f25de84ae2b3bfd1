#![doc = include_str!("../DESIGN.md")]

mod choice;
mod document;
mod edit;
mod entries;
pub mod file;
pub mod hosts;
mod invocation;
pub mod plan;
mod splices;
pub mod survey;

pub use choice::{Choice, Wishes, choose, is_named, package_of};
pub use document::Format;
pub use edit::{Edit, Error, Prefix, Target, Then, lines_to_paste, make_all, read, unwrap, wrap};
pub use entries::{Entry, State};
pub use invocation::{Grammar, Invocation, Way, Wrapping, recognise, written_by_wrap};
