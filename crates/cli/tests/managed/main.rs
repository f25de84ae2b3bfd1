//! `nostray run` with a managed child: a child that is respawned, hibernates, starts lazily and survives the death of
//! its guards.

mod agent_errors;
mod containment;
mod exit;
mod garbage;
mod hibernate;
mod inherited;
mod killed;
mod lazy;
mod limits;
mod operators;
mod pressure;
mod respawn;
mod signals;
mod storm;
mod terminal;
mod trip;
mod usage;
