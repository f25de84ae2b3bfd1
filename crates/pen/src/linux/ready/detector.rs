//! The resources for detecting that a child is ready. The front makes them before it forks, so that spare and guard inherit them.

use std::cell::RefCell;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nostray_sys::descriptors;
use nostray_sys::exec::Program;
use nostray_sys::mailbox::Mailbox;
use nostray_sys::process;
use nostray_sys::stream::{Pipe, do_not_wait};

use super::file::Stamp;
use super::{Pattern, Port, Ready, command};
use crate::mark::PenId;
use crate::{During, Error};

/// Where a service finds the socket of its service manager.
pub(crate) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// One kind of detection, with its resources.
#[derive(Debug)]
pub(crate) enum Detector {
    /// The child's standard error is a pipe of ours.
    Line {
        pattern: Pattern,
        reader: OwnedFd,
        /// Until the next process of the pen has been forked.
        writer: RefCell<Option<OwnedFd>>,
    },
    Port(Port),
    File {
        path: PathBuf,
        /// What was there before the start.
        before: Option<Stamp>,
    },
    Command {
        program: Program,
        /// The child's directory, which the guard leaves.
        directory: OwnedFd,
    },
    Notify {
        mailbox: Mailbox,
        /// The name of the socket, as it is written in a child's environment.
        name: OsString,
    },
}

impl Detector {
    /// `None` if a started child is a ready one.
    pub(crate) fn prepare(ready: &Ready, id: &PenId) -> Result<Option<Self>, Error> {
        Ok(Some(match ready {
            Ready::Started => return Ok(None),
            Ready::Line(pattern) => {
                let Pipe { reader, writer } = Pipe::new().during("make a pipe for --ready-line")?;
                do_not_wait(&reader).during("set up a pipe")?;
                Self::Line { pattern: pattern.clone(), reader, writer: RefCell::new(Some(writer)) }
            }
            Ready::Port(port) => Self::Port(*port),
            Ready::File(path) => {
                let path = std::env::current_dir().unwrap_or_default().join(path);
                Self::File { path, before: None }
            }
            Ready::Command(words) => Self::Command {
                program: command::program(words).map_err(Error::Command)?,
                directory: process::directory().during("open the directory for --ready-cmd")?,
            },
            Ready::Notify => {
                let name = format!("nostray-notify-{id}");
                let mailbox = Mailbox::open(&name).during("make a socket for --ready-notify")?;
                Self::Notify { mailbox, name: format!("@{name}").into() }
            }
        }))
    }

    /// Notes the file that is there before the start. As late as possible: a predecessor may have left it only now.
    pub(crate) fn take_stock(&mut self) {
        if let Self::File { path, before } = self {
            *before = Stamp::of(path);
        }
    }

    /// In the child, just before it becomes its program.
    pub(crate) fn furnish(&self) -> std::io::Result<()> {
        match self {
            Self::Line { writer, .. } => writer.borrow().as_ref().map_or(Ok(()), descriptors::become_stderr),
            _ => Ok(()),
        }
    }

    /// What the child is told by its environment.
    pub(crate) fn variable(&self) -> Option<(&str, &OsString)> {
        match self {
            Self::Notify { name, .. } => Some((NOTIFY_SOCKET, name)),
            _ => None,
        }
    }

    /// In front, spare and guard, each when it has forked the next process: a process that keeps the child's end of the pipe open would
    /// never see the end of the pipe.
    pub(crate) fn let_go(&self) {
        if let Self::Line { writer, .. } = self {
            writer.take();
        }
    }

    pub(super) fn reader(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Line { reader, .. } => Some(reader.as_fd()),
            _ => None,
        }
    }

    pub(super) fn mailbox(&self) -> Option<&Mailbox> {
        match self {
            Self::Notify { mailbox, .. } => Some(mailbox),
            _ => None,
        }
    }
}
