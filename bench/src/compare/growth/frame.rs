//! How long `nostray top` takes until its first frame is on the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use badchild::{open_terminal, resize_terminal};

use crate::Failure;

/// The last line of a frame begins with it.
const LAST: &[u8] = b"q quit";

/// Of this command, which shows it until a key is pressed.
pub(super) fn first(command: &mut Command) -> Result<f64, Failure> {
    let (master, path) = open_terminal()?;
    resize_terminal(&master, 120, 40)?;
    let terminal = File::options().read(true).write(true).open(path)?;
    command.env("TERM", "xterm-256color").process_group(0);
    command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    let start = Instant::now();
    let mut top = command.spawn()?;
    // These hold this side of the terminal, too.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut screen = File::from(master);
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    while !shown.windows(LAST.len()).any(|part| part == LAST) {
        match screen.read(&mut buffer)? {
            0 => return Err("`nostray top` has ended before its first frame".into()),
            count => shown.extend_from_slice(&buffer[..count]),
        }
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    screen.write_all(b"q")?;
    // What it still writes has to be read, or it waits. The end of its side is an error here.
    while screen.read(&mut buffer).is_ok_and(|count| count > 0) {}
    top.wait()?;
    Ok(took)
}
