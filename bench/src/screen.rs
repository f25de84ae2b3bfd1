//! The one place that prints.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// A line of the result.
pub(crate) fn print(text: impl Display) {
    println!("{text}");
}

/// Something that went wrong.
pub(crate) fn complain(text: impl Display) {
    clear();
    eprintln!("nostray-bench: {text}");
}

/// What is being done, in one line that the next one replaces. Only for a person who waits: not in a log.
pub(crate) fn progress(text: impl Display) {
    if std::io::stderr().is_terminal() {
        clear();
        eprint!("{text}");
        std::io::stderr().flush().ok();
    }
}

/// Removes that line.
pub(crate) fn clear() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
