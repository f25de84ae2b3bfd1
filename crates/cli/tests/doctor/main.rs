//! `nostray doctor`: the strays that it finds on the machine, and the configurations that it reads.
//!
//! A program of its own also for this reason: `doctor` looks at every process of the machine, and a test that leaves strays on purpose
//! must not run beside another subject.

mod configs;
mod strays;
