//! `nostray doctor`: the strays that it finds on the machine, and the configurations that it reads.
//!
//! A test program of its own: `doctor` looks at every process of the machine, so a test that leaves strays on purpose
//! must not run beside tests of other commands.

mod configs;
mod program;
mod strays;
mod wrap;
