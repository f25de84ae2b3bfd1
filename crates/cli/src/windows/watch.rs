//! `nostray ps --watch`: the same again and again. Ctrl-C ends it.

use std::io;
use std::time::Duration;

use nostray_terminal::{self as terminal, ExitCode};

/// Draws again and again, until the reader is gone.
pub(crate) fn watch(interval: Duration, in_place: bool, draw: &mut dyn FnMut() -> String) -> ExitCode {
    let is_live = in_place && terminal::is_live();
    let mut gap = "";
    loop {
        let text = draw();
        // A console of Windows 10 and later knows these, once they are turned on; clearing by hand would flicker.
        let text = if is_live { format!("\x1b[2J\x1b[H{text}") } else { format!("{gap}{text}") };
        gap = "\n";
        match terminal::write(text.as_bytes()) {
            Ok(()) => std::thread::sleep(interval),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Err(error) => {
                terminal::complain(&format_args!("cannot write to standard output: {error}"));
                return ExitCode::from(2);
            }
        }
    }
}
