//! The bare relay that the managed path is measured against: one process between host and child, a pipe to each side, and
//! for each direction a thread that reads and writes.
//!
//! Nothing that has the bytes in its own memory can do with less. For every piece it makes one `read` and one `write`,
//! which are the two copies that cannot be avoided, and is woken up once. It does not ask whether there is something to
//! read (a blocking `read` is told by the kernel itself), it looks at no byte, it keeps nothing, it allocates nothing
//! after the start, it knows of no line, and the two directions never wait for each other. `splice` would save a copy,
//! but then nobody has seen the bytes.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};

use crate::Failure;

/// As much as a pipe holds.
const CHUNK: usize = 64 * 1024;

/// Runs a command behind it.
pub(crate) fn run(command: &[String]) -> Result<ExitCode, Failure> {
    let (program, words) = command.split_first().ok_or("relay needs a command")?;
    // Without the buffers of the standard library's own handles.
    let host_says = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let to_host = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut child = Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let to_child = child.stdin.take().ok_or("no pipe")?;
    let child_says = child.stdout.take().ok_or("no pipe")?;
    // When the host has nothing more to say, the pipe to the child is closed with the thread.
    std::thread::spawn(move || copy(host_says, to_child).ok());
    copy(child_says, to_host)?;
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&bytes[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
