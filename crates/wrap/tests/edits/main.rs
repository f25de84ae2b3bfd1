//! Edits of configurations: wrapped and unwrapped, every document is the same bytes.

mod checks;
mod corpus;
mod properties;
