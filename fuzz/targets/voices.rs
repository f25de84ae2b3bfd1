//! Any bytes, said by one of two sessions or by the child that they share. What must hold is said in `crates/broker/tests/voices`.
#![no_main]

#[path = "../../crates/broker/tests/voices/checks.rs"]
mod checks;
#[path = "../../crates/broker/tests/voices/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::voices(input));
