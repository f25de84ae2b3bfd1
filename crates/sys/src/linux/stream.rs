//! Reading and writing without ever waiting, on descriptors that are shared with others: the mode of a pipe or a terminal is
//! its open file's, so what the host handed down must not be set to non-blocking, or the host itself would be.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_setfl, fstat};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketType, sockopt};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};

/// What a socket takes that can be written to: it says so while three quarters of its buffer are free.
const MOVED_AT_ONCE: usize = 32 << 10;

/// A pipe for a child: its end, and ours, which does not wait.
#[derive(Debug)]
pub struct Pipe {
    /// For reading.
    pub reader: OwnedFd,
    /// For writing.
    pub writer: OwnedFd,
}

impl Pipe {
    /// A new one, not passed on to programs.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { reader, writer })
    }
}

/// Sets our own end of a pipe to non-blocking. The other end is another open file, and is not changed.
pub fn do_not_wait(fd: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfl(fd, OFlags::NONBLOCK)?)
}

/// Two pipes between two processes of ours: the ends of one of them, and those of the other. None of them waits.
pub fn two_ways() -> io::Result<[Ends; 2]> {
    let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
    let ((there, from_here), (here, from_there)) = (pipe_with(flags)?, pipe_with(flags)?);
    Ok([Ends { writer: from_here, reader: here }, Ends { writer: from_there, reader: there }])
}

/// What one of two processes has of the two pipes between them.
#[derive(Debug)]
pub struct Ends {
    /// Where it says something.
    pub writer: OwnedFd,
    /// Where it hears the other.
    pub reader: OwnedFd,
}

/// Enlarges the buffer of a pipe. Best effort, since each user has a limit.
pub fn widen(fd: BorrowedFd<'_>, bytes: usize) {
    fcntl_setpipe_size(fd, bytes).ok();
}

/// Something to write to, as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// A socket.
    Socket,
    /// A pipe.
    Pipe,
    /// A pipe of our own, which does not wait.
    OwnPipe,
    /// A file or a terminal, which takes what it is given.
    Other,
}

impl Sink {
    /// What a descriptor is.
    #[must_use]
    pub fn of(fd: BorrowedFd<'_>) -> Self {
        match fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Socket) => Self::Socket,
            Ok(FileType::Fifo) => Self::Pipe,
            _ => Self::Other,
        }
    }

    /// Writes as much as can be written at once; 0 if that is nothing.
    pub fn write(self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket => outcome(rustix::net::send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)),
            Self::OwnPipe => outcome(rustix::io::write(fd, bytes)),
            Self::Pipe | Self::Other => self.write_pieces(fd, &[IoSlice::new(bytes)]),
        }
    }

    /// The same for several pieces, one behind the other, as if they were one: the reader is not woken up for the first alone.
    pub fn write_pieces(self, fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let in_small_steps = || match pieces.iter().find(|piece| !piece.is_empty()) {
            Some(piece) => in_small_steps(fd, piece),
            None => Ok(0),
        };
        outcome(match self {
            Self::Socket => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::sendmsg(fd, pieces, &mut SendAncillaryBuffer::default(), flags)
            }
            Self::Pipe => {
                /// Where the file stands, as for `write`.
                const HERE: u64 = u64::MAX;
                match rustix::io::pwritev2(fd, pieces, HERE, ReadWriteFlags::NOWAIT) {
                    Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::SPIPE) => in_small_steps(),
                    written => written,
                }
            }
            Self::OwnPipe => rustix::io::writev(fd, pieces),
            Self::Other => in_small_steps(),
        })
    }
}

/// What cannot be written now is no error.
fn outcome(written: rustix::io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        written => Ok(written?),
    }
}

/// A pipe that can be written to takes one page without waiting.
fn in_small_steps(fd: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let ready = poll(&mut fds, Some(&Timespec::default()))? > 0;
    if !ready {
        return Ok(0);
    }
    rustix::io::write(fd, &bytes[..bytes.len().min(libc::PIPE_BUF)])
}

/// A terminal as an open file of our own, which does not wait while the terminal is held (Ctrl-S): whether it can be written to says
/// nothing about how much it takes. None if it is no terminal, or cannot be opened.
#[must_use]
pub fn own_terminal(fd: BorrowedFd<'_>) -> Option<OwnedFd> {
    if !rustix::termios::isatty(fd) {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(place_of(fd), flags, rustix::fs::Mode::empty()).ok()
}

/// How many bytes of what was written to a pipe have not been read, as far as that can be told.
#[must_use]
pub fn unread(pipe: BorrowedFd<'_>) -> Option<u64> {
    rustix::io::ioctl_fionread(pipe).ok()
}

/// Takes back, from its writing end, what was written to a pipe and has not been read. Each byte of a pipe is read once: so what this
/// returns was read by no other process, and will not be; and what it does not return has been read.
#[must_use]
pub fn take_back(pipe: BorrowedFd<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    // Another open file, so that the one of the other readers still waits.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(reader) = rustix::fs::open(place_of(pipe), flags, rustix::fs::Mode::empty()) else { return all };
    let size = fcntl_getpipe_size(pipe).unwrap_or(0);
    let mut buffer = vec![0; size];
    // No more than it holds: a process that reads it may have opened it to write as well.
    while all.len() < size
        && let Ok(Some(count @ 1..)) = read(&reader, &mut buffer[..size - all.len()])
    {
        all.extend_from_slice(&buffer[..count]);
    }
    all
}

/// How much a pipe holds.
#[must_use]
pub fn capacity(pipe: BorrowedFd<'_>) -> usize {
    fcntl_getpipe_size(pipe).unwrap_or(0)
}

/// Whether [`move_on`] can move bytes there without waiting: to pipes, and to sockets of this machine with room for more than is moved at once.
#[must_use]
pub fn can_be_moved_to(fd: BorrowedFd<'_>) -> bool {
    match Sink::of(fd) {
        Sink::Pipe => true,
        Sink::Socket => {
            sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX)
                && sockopt::socket_type(fd) == Ok(SocketType::STREAM)
                && sockopt::socket_send_buffer_size(fd).is_ok_and(|size| size >= 4 * MOVED_AT_ONCE)
        }
        Sink::OwnPipe | Sink::Other => false,
    }
}

/// Moves bytes from a pipe to another pipe or a socket, as many of these as can be moved at once; 0 if that is none. Each byte is in one of
/// the two, whichever moment this process is killed at.
pub fn move_on(pipe: &OwnedFd, to: BorrowedFd<'_>, kind: Sink, count: usize) -> io::Result<usize> {
    // Whether a socket is waited for is a matter of its mode, which is the host's. One that can be written to takes a page.
    let count = if kind == Sink::Socket {
        let mut fds = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
        if poll(&mut fds, Some(&Timespec::default()))? == 0 {
            return Ok(0);
        }
        count.min(MOVED_AT_ONCE)
    } else {
        count
    };
    outcome(splice(pipe, None, to, None, count, SpliceFlags::NONBLOCK))
}

/// By which an open file can be opened anew.
fn place_of(fd: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Reads what is there: `None` if that is nothing, 0 at the end. On a descriptor that may wait, only after `poll` has said that
/// there is something.
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::read(fd, buffer) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_of_a_pipe_is_taken_back_also_when_all_readers_are_gone() {
        for is_closed in [false, true] {
            let Pipe { reader, writer } = Pipe::new().expect("a pipe");
            let text = b"0123456789".repeat(5000);
            assert_eq!(Sink::OwnPipe.write(writer.as_fd(), &text).expect("there is room"), text.len());
            let mut some = [0; 7];
            assert_eq!(read(&reader, &mut some).expect("read"), Some(7));
            let reader = (!is_closed).then_some(reader);
            assert_eq!(unread(writer.as_fd()), Some(text.len() as u64 - 7));
            assert!(take_back(writer.as_fd()) == text[7..]);
            assert_eq!(take_back(writer.as_fd()), b"");
            // The child's own end waits as it did.
            let flags = reader.map(|reader| rustix::fs::fcntl_getfl(reader).expect("flags"));
            assert!(flags.is_none_or(|flags| !flags.contains(OFlags::NONBLOCK)));
        }
    }
}
