//! Any bytes as a configuration: an edit is refused, or it changes one entry and comes back to the same bytes. What must hold is said in
//! `crates/wrap/tests/edits/checks.rs`.
//!
//! The first byte says in which format the rest is read, and what is put in front of commands.
#![no_main]

#[path = "../../crates/wrap/tests/edits/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let (choice, prefixes) = (usize::from(*choice), checks::prefixes());
    let format = checks::FORMATS[choice % checks::FORMATS.len()];
    checks::there_and_back(rest, format, choice & 4 != 0, &prefixes[choice / 8 % prefixes.len()]);
});
