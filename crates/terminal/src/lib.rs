//! What the commands print for people: errors, tables, JSON, and colours where there is a terminal; and the code that they exit
//! with. Only the command line and the commands beside it use this; the engine does not.

mod exit;
pub mod fit;
pub mod fitted;
mod ink;
mod interval;
mod moment;
mod progress;
pub mod table;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use nostray_sys::text::{escaped, escaped_json};

pub use exit::ExitCode;
pub use ink::Ink;
pub use interval::interval;
pub use moment::{Zone, read_moment};
pub use progress::Progress;

/// Says what went wrong, on standard error, in one line.
pub fn complain(error: &dyn Display) {
    // If standard error is closed, the exit code still tells.
    writeln!(io::stderr(), "nostray: {}", escaped(&error.to_string())).ok();
}

/// A line that may quote what a child, a host or a user has said.
pub fn line(text: &dyn Display) -> String {
    escaped(&text.to_string()).into_owned() + "\n"
}

/// Prints an object for scripts. A user may still print it on a terminal, so terminal sequences in it are escaped.
pub fn print_json(object: &serde_json::Value) -> ExitCode {
    print(escaped_json(&format!("{object:#}\n")).as_bytes())
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard output is a terminal on which what was written can be written over.
pub fn is_live() -> bool {
    is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether to use colours on standard output.
pub fn colours() -> bool {
    is_live() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether a terminal in this environment shows more than ASCII.
pub fn shows_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
    let locale = locale.filter(|value| !value.is_empty()).map(|value| value.to_ascii_lowercase()).next();
    locale.is_some_and(|value| value.contains("utf-8") || value.contains("utf8"))
}

/// Writes to standard output, at once.
pub fn write(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()
}

/// Prints to standard output; the end of a program is not the place to complain about a closed pipe.
pub fn print(text: &[u8]) -> ExitCode {
    match write(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format_args!("cannot write to standard output: {error}"));
            ExitCode::from(2)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The width of the terminal that standard output is, if it is one.
pub fn width() -> Option<usize> {
    nostray_sys::descriptors::terminal_width(io::stdout())
}

/// How many columns a line may take: as many as the terminal has that standard output is, otherwise as many as the variable COLUMNS says.
/// `None` if lines are not to be cut.
pub fn line_width() -> Option<usize> {
    let asked = || std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0);
    let usual = || is_terminal().then_some(USUAL_COLUMNS);
    width().or_else(asked).or_else(usual)
}

/// The width of a terminal that does not know its own.
const USUAL_COLUMNS: usize = 80;

/// How many lines the terminal shows that standard output is, if it is one and knows that.
pub fn height() -> Option<usize> {
    nostray_sys::descriptors::terminal_size(io::stdout()).map(|size| size.rows).filter(|rows| *rows > 0)
}
