//! The last steps of a forked process before it becomes the child: everything is put back as the host gave it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nostray_sys::descriptors;
use nostray_sys::exec::Laid;
use nostray_sys::process::{self, Pid, getpid, getppid, session_of};
use nostray_sys::signal::{Disposition, Signal, SignalSet, set_disposition};

use crate::mark::PenId;
use crate::ready::Detector;

/// The exit codes of a shell for a command that is not found, and for a command that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Where the child stands among groups and sessions: as the front does, since that is how the host wanted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the front's group. On a terminal always: keys like Ctrl-C and Ctrl-Z go to the foreground group, and
    /// only a member of it may read what is typed.
    WithFront,
    /// At the head of a group, as the front. A host that signals that group reaches the front alone, and the
    /// tree gets the graces that were promised to it.
    OwnGroup,
    /// At the head of a session, as the front.
    OwnSession,
}

impl Place {
    /// In the front: where its child belongs.
    pub(crate) fn mirrored() -> Self {
        if !process::leads_a_group() || process::has_terminal() {
            Self::WithFront
        } else if session_of(None).is_ok_and(|session| session == Some(getpid())) {
            Self::OwnSession
        } else {
            Self::OwnGroup
        }
    }
}

/// All that a child needs to become the program.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) program: Laid,
    pub(crate) place: Place,
    /// The signal mask that the host gave.
    pub(crate) mask: SignalSet,
    /// Whether the host had SIGCHLD ignored, which front and guard cannot afford.
    pub(crate) sigchld_ignored: bool,
    /// The limit that marks it, where there is room for one.
    pub(crate) limit: Option<u64>,
    pub(crate) id: PenId,
}

impl Plan {
    /// Waits at the gate until the guard is ready, then becomes the program.
    pub(crate) fn become_child(&self, guard: Pid, gate: UnixStream, ready: Option<&Detector>) -> ! {
        let mut gate = File::from(OwnedFd::from(gate));
        if let Err(error) = self.prepare(ready) {
            gate.write_all(&error.raw_os_error().unwrap_or(0).saturating_neg().to_ne_bytes()).ok();
            process::exit_now(crate::OWN_FAILURE);
        }
        if gate.read_exact(&mut [0]).is_err() || getppid() != Some(guard) {
            process::exit_now(crate::OWN_FAILURE);
        }
        let error = match self.mask.set_as_mask() {
            Ok(_) => self.program.exec(),
            Err(error) => error,
        };
        let errno = error.raw_os_error().unwrap_or(0);
        gate.write_all(&errno.to_ne_bytes()).ok();
        process::exit_now(exit_code_for(&error));
    }

    fn prepare(&self, ready: Option<&Detector>) -> io::Result<()> {
        match self.place {
            Place::WithFront => {}
            Place::OwnGroup => process::lead_own_group()?,
            Place::OwnSession => drop(process::setsid()?),
        }
        if self.sigchld_ignored {
            set_disposition(Signal::CHLD, Disposition::Ignored)?;
        }
        self.limit.map_or(Ok(()), process::lower_real_time_limit)?;
        descriptors::close_what_was_closed();
        ready.map_or(Ok(()), Detector::furnish)?;
        // Tied to the guard's only thread. SIGTERM, not SIGKILL: it is the first step of the tear-down that the
        // spare then carries on, and a database is flushed and not shot because our guard was.
        process::ask_for_term_when_parent_ends()
    }
}

fn exit_code_for(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// What to tell a person whose command could not be executed. A number below zero is of what comes before `execve`.
pub(crate) fn explain(command: &OsStr, errno: i32) -> String {
    let error = io::Error::from_raw_os_error(errno.saturating_abs());
    let command = command.display();
    match error.kind() {
        _ if errno < 0 => format!("cannot prepare the start of '{command}': {error}"),
        io::ErrorKind::NotFound if command.to_string().contains(' ') => {
            let words: Vec<_> = command.to_string().split_whitespace().map(str::to_owned).collect();
            format!(
                "cannot run '{command}': there is no program of that name, which has spaces in it. If it is a command with its \
                 arguments, give each as a word of its own: nostray run -- {}",
                words.join(" ")
            )
        }
        io::ErrorKind::NotFound => format!(
            "cannot run '{command}': not found; check its spelling, and that it is in the PATH that the host gives \
             to its children (or name it with its full path)"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("cannot run '{command}': permission denied; make it executable with chmod +x")
        }
        _ => format!("cannot run '{command}': {error}"),
    }
}
