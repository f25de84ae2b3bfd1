//! `nostray run --slot`: at most one child of a name at a time, whichever contender is killed, stopped or slow.

mod container;
mod contention;
mod crashed;
mod frozen;
mod hold;
mod operators;
mod policies;
mod progress;
mod refused;
mod replacing;
mod share;
mod slow;
