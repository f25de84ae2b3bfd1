//! What is printed for people: errors, and colours where there is a terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Says what went wrong, on standard error.
pub(crate) fn complain(error: &dyn Display) {
    // If nobody listens there, the exit code still tells.
    writeln!(io::stderr(), "nostray: {error}").ok();
}

/// Whether to use colours on standard output.
pub(crate) fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints to standard output; the end of a program is not the place to complain about a closed pipe.
pub(crate) fn print(text: &[u8]) -> std::process::ExitCode {
    match io::stdout().write_all(text).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format_args!("cannot write to standard output: {error}"));
            std::process::ExitCode::from(2)
        }
        _ => std::process::ExitCode::SUCCESS,
    }
}
