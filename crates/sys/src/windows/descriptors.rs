//! The standard handles of this process, and what is written to them.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::path::Path;

use windows_sys::Win32::Foundation::{CloseHandle, INVALID_HANDLE_VALUE};
use windows_sys::Win32::Storage::FileSystem::{FILE_TYPE_PIPE, GetFileType};
use windows_sys::Win32::System::Console::{
    CONSOLE_SCREEN_BUFFER_INFO, GetConsoleScreenBufferInfo, GetConsoleWindow, GetStdHandle, STD_INPUT_HANDLE,
    STD_OUTPUT_HANDLE, SetStdHandle,
};

/// What this process's standard input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinKind {
    /// A pipe. (A socket is one, too, as Windows has it.)
    Pipe,
    /// A console, with a person in front of it.
    Terminal,
    /// Something that does not end: a file, nothing at all.
    Mute,
}

/// Looks at standard input.
#[must_use]
pub fn stdin_kind() -> StdinKind {
    if io::stdin().is_terminal() {
        return StdinKind::Terminal;
    }
    // SAFETY: on a handle that is invalid, the call says that it does not know.
    match unsafe { GetFileType(GetStdHandle(STD_INPUT_HANDLE)) } {
        FILE_TYPE_PIPE => StdinKind::Pipe,
        _ => StdinKind::Mute,
    }
}

/// Closes standard input and output, which are the child's alone from now on: as long as this process had them open, neither side would
/// learn that the other one has closed its end.
pub fn close_stdin_and_stdout() {
    for which in [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE] {
        // SAFETY: no other code of this process has the handle: the standard library asks for it each time, and then gets none.
        unsafe {
            let handle = GetStdHandle(which);
            if !handle.is_null() && handle != INVALID_HANDLE_VALUE {
                SetStdHandle(which, std::ptr::null_mut());
                CloseHandle(handle);
            }
        }
    }
}

/// Whether this process has a console, seen or unseen, so that a Ctrl-Break can be sent over it.
#[must_use]
pub fn has_console() -> bool {
    use windows_sys::Win32::System::Console::GetConsoleCP;
    // SAFETY: both return numbers. An unseen console has a code page and no window.
    unsafe { !GetConsoleWindow().is_null() || GetConsoleCP() != 0 }
}

/// Writes one line to standard error. It is escaped, so that it stays one line: it may quote a child.
pub fn write_to_stderr_at_once(line: &str) {
    let line = format!("{}\n", crate::text::escaped(line.trim_end_matches('\n')));
    // Without a reader, or without standard error at all, there is no one to tell.
    io::stderr().write_all(line.as_bytes()).ok();
}

/// Writes over the line at which the cursor stands, on the console that standard error is. An empty text clears the line.
pub fn overwrite_line_on_stderr(text: &str) {
    let width = terminal_width(io::stderr()).unwrap_or(80).saturating_sub(1);
    let text: String = crate::text::escaped(text).chars().take(width).collect();
    io::stderr().write_all(format!("\r{text:width$}\r{text}").as_bytes()).ok();
}

/// A log file, to be added to, made if it is missing.
pub fn open_log(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Its width.
    pub columns: usize,
    /// Its height.
    pub rows: usize,
}

/// The size of a terminal, if it is one.
#[must_use]
pub fn terminal_size(terminal: impl AsHandle) -> Option<TerminalSize> {
    // SAFETY: all-zero is valid; on a handle that is no console, the call fails.
    let found = unsafe {
        let mut found: CONSOLE_SCREEN_BUFFER_INFO = std::mem::zeroed();
        super::done(GetConsoleScreenBufferInfo(terminal.as_handle().as_raw_handle(), &raw mut found)).ok()?;
        found.srWindow
    };
    let span = |from: i16, to: i16| usize::try_from(i32::from(to) - i32::from(from) + 1).unwrap_or(0);
    Some(TerminalSize { columns: span(found.Left, found.Right), rows: span(found.Top, found.Bottom) })
}

/// The number of columns of a terminal, if it is one and knows that.
#[must_use]
pub fn terminal_width(terminal: impl AsHandle) -> Option<usize> {
    terminal_size(terminal).map(|size| size.columns).filter(|columns| *columns > 0)
}
