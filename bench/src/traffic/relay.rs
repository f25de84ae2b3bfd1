//! The bare relay that nostray is measured against: one process between host and child, a pipe to each side, and
//! for each direction a thread that reads and writes.
//!
//! Nothing that has the bytes in its own memory can do with less. For every piece it makes one `read` and one `write`,
//! which are the two copies that cannot be avoided, and is woken up once. It does not ask whether there is something to
//! read (a blocking `read` is told by the kernel itself), it looks at no byte, it keeps nothing, it allocates nothing
//! after the start, it knows of no line, and the two directions never wait for each other. `splice` would save a copy,
//! but then the relay has not seen the bytes.
//!
//! It can also do harm, so that a measurement can show that it would notice.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};

use super::lines::Lines;
use crate::Failure;

/// As much as a pipe holds.
const CHUNK: usize = 64 * 1024;

/// What it does to one of the lines that it brings to the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    Garble,
    Lose,
    Double,
}

impl Harm {
    pub(crate) const ALL: [Self; 3] = [Self::Garble, Self::Lose, Self::Double];
    /// The line that it does it to.
    const AT: usize = 10;

    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Garble => "--garble",
            Self::Lose => "--lose",
            Self::Double => "--double",
        }
    }
}

/// Runs a command behind it.
pub(crate) fn run(command: &[String]) -> Result<ExitCode, Failure> {
    let (first, rest) = command.split_first().ok_or("relay needs a command")?;
    let harm = Harm::ALL.into_iter().find(|harm| harm.option() == first);
    let (program, words) =
        if harm.is_some() { rest.split_first().ok_or("relay needs a command")? } else { (first, rest) };
    // Without the buffers of the standard library's own handles.
    let host_says = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let to_host = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut child = Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let to_child = child.stdin.take().ok_or("no pipe")?;
    let child_says = child.stdout.take().ok_or("no pipe")?;
    // When the host has nothing more to say, the pipe to the child is closed with the thread.
    std::thread::spawn(move || copy(host_says, to_child).ok());
    match harm {
        None => copy(child_says, to_host)?,
        Some(harm) => copy_badly(child_says, to_host, harm)?,
    }
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

fn copy_badly(mut from: impl Read, mut to: impl Write, harm: Harm) -> io::Result<()> {
    let (mut lines, mut count) = (Lines::new(), 0);
    while lines.read(&mut from)? {
        while let Some(line) = lines.next() {
            count += 1;
            match harm {
                _ if count != Harm::AT => to.write_all(line)?,
                Harm::Garble => {
                    let mut garbled = line.to_vec();
                    // In the payload, so that it is as long as the others, and still JSON.
                    garbled[line.len() * 3 / 4] ^= 1;
                    to.write_all(&garbled)?;
                }
                Harm::Lose => {}
                Harm::Double => to.write_all(&[line, line].concat())?,
            }
        }
    }
    Ok(())
}
