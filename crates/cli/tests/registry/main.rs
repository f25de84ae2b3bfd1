//! What is on record of every pen, the commands with which a person reads it and acts on it, and the sweep of what dead owners left.

mod operators;
mod ps_view;
mod ps_watch;
mod records;
mod sweep;
mod sweep_apart;
