//! Any line: read, summarized, and given another id. What must hold is said in `crates/rpc/tests/checks`.
#![no_main]

#[path = "../../crates/rpc/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|line: &[u8]| checks::envelope(line));
