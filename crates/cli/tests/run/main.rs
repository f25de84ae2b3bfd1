//! `nostray run` with one child that is not managed: what the host sees of the child, and that no process is left,
//! whichever process ends first.

mod completions;
mod containment;
mod demo;
mod die_with;
mod docs;
mod exit_codes;
mod fidelity;
mod first_command;
mod frozen;
mod graces;
mod groups;
mod host_gone;
mod idle;
mod impatience;
mod isolate;
mod launchers;
mod quiet;
mod race;
mod refused;
mod signals;
mod status;
mod stdin;
mod stopped;
mod streams;
mod terminal;
mod usage;
mod wait;
