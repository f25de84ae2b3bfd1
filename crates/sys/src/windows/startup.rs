//! The first steps of a program. On Windows the standard library's own are taken, which change nothing that a child would see.

use std::ffi::OsString;

use crate::process::Code;

/// Declares the function that is the program. It gets the arguments and returns the exit code.
#[macro_export]
macro_rules! program {
    ($function:path) => {
        fn main() {
            $crate::startup::run($function)
        }
    };
}

/// For [`crate::program!`].
pub fn run(program: fn(Vec<OsString>) -> Code) -> ! {
    // All 32 bits, which the standard library's own type for it does not take.
    std::process::exit(program(std::env::args_os().collect()).cast_signed())
}
