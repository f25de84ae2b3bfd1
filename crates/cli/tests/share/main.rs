//! `nostray share` and `nostray hold`: one child for many sessions, its broker and its stewards.

mod agent_errors;
mod bridge;
mod broker_killed;
mod fairness;
mod fallback;
mod hold;
mod isolation;
mod keys;
mod leak;
mod leases;
mod many;
mod operators;
mod quiet;
mod recipe;
mod recovery;
mod respawn;
mod shortcut;
mod start;
mod status;
mod storm;
mod story;
