//! Terminals.

use std::io;

use crate::Pid;

/// The group that has the terminal of this master.
#[must_use]
pub fn foreground_group(master: impl std::os::fd::AsFd) -> Option<Pid> {
    rustix::termios::tcgetpgrp(master).ok()
}

/// A new terminal: its master, and the path of the terminal itself.
pub fn open_terminal() -> io::Result<(std::os::fd::OwnedFd, String)> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    Ok((master, name.to_string_lossy().into_owned()))
}

/// Gives the terminal of this master a size. Its foreground group gets SIGWINCH.
pub fn resize_terminal(master: impl std::os::fd::AsFd, columns: u16, rows: u16) -> io::Result<()> {
    let size = rustix::termios::Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}
