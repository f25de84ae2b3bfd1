//! Tells whether any process still holds the other end of a process's standard input or output.
//!
//! Ask the kernel, and not `/proc/*/fd`: that hides the descriptors of other users and of programs like sshd, and does
//! not show those in flight through a socket. A holder that is missing there may be alive.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fstat, open};

use crate::Pid;
use crate::unix_peer::{self, Peer};

/// One of the two streams by which a host talks with its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
}

/// By what the two are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A pipe without a name.
    Pipe,
    /// A unix socket, as Node gives its children.
    Socket,
}

/// What is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEnd {
    /// Some process holds it.
    Held(Link),
    /// No process holds it, and none ever will.
    Gone(Link),
    /// It is no pipe and no socket between two (but a terminal, a file, a pipe with a name), or it is not ours to look at.
    Unknown,
}

impl OtherEnd {
    /// Looks at a stream of a process. The caller makes sure that the pid still belongs to the process that it means.
    #[must_use]
    pub fn of(pid: Pid, stream: Stream) -> Self {
        let path = format!("/proc/{pid}/fd/{}", if stream == Stream::Input { 0 } else { 1 });
        let Ok(target) = std::fs::read_link(&path) else { return Self::Unknown };
        let target = target.to_string_lossy();
        let inode = |kind: &str| -> Option<u64> { target.strip_prefix(kind)?.strip_suffix(']')?.parse().ok() };
        if let Some(inode) = inode("pipe:[") {
            return match is_pipe_alone(&path, inode, stream) {
                Ok(Some(true)) => Self::Gone(Link::Pipe),
                Ok(Some(false)) => Self::Held(Link::Pipe),
                Ok(None) | Err(_) => Self::Unknown,
            };
        }
        match inode("socket:[").and_then(unix_peer::peer) {
            Some(Peer::Closed) => Self::Gone(Link::Socket),
            Some(Peer::Open(_)) => Self::Held(Link::Socket),
            None => Self::Unknown,
        }
    }
}

/// Opens the same end once more and asks for a hang-up. Nothing is read or written, and an end of this kind is there
/// already, so that the other side does not notice. `None` if it is not that pipe any more.
fn is_pipe_alone(path: &str, inode: u64, stream: Stream) -> io::Result<Option<bool>> {
    let (access, alone) = match stream {
        Stream::Input => (OFlags::RDONLY, PollFlags::HUP),
        Stream::Output => (OFlags::WRONLY, PollFlags::ERR),
    };
    let end = open(path, access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    if fstat(&end)?.st_ino != inode {
        return Ok(None);
    }
    let mut fds = [PollFd::new(&end, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default()))?;
    Ok(Some(fds[0].revents().contains(alone)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};

    fn both(child: &Child) -> (OtherEnd, OtherEnd) {
        let pid = Pid::from_child(child);
        (OtherEnd::of(pid, Stream::Input), OtherEnd::of(pid, Stream::Output))
    }

    /// In time: a process that another test forks holds everything until it has become its program.
    #[track_caller]
    fn expect(child: &Child, ends: (OtherEnd, OtherEnd)) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while both(child) != ends && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(both(child), ends);
    }

    fn end(mut child: Child) {
        child.kill().expect("kill");
        child.wait().expect("reap");
    }

    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command.arg("1000");
        command
    }

    #[test]
    fn the_ends_of_pipes_are_seen_to_go() {
        let mut child = sleep().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sleep");
        let (held, gone) = (OtherEnd::Held(Link::Pipe), OtherEnd::Gone(Link::Pipe));
        expect(&child, (held, held));
        drop(child.stdin.take());
        expect(&child, (gone, held));
        drop(child.stdout.take());
        expect(&child, (gone, gone));
        end(child);
    }

    #[test]
    fn unread_data_does_not_hide_that_the_writer_is_gone() {
        let mut child = sleep().stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("sleep");
        io::Write::write_all(child.stdin.as_mut().expect("piped"), b"unread").expect("write");
        drop(child.stdin.take());
        expect(&child, (OtherEnd::Gone(Link::Pipe), OtherEnd::Unknown));
        end(child);
    }

    #[test]
    fn the_peers_of_sockets_are_seen_to_go() {
        let (ours, theirs) = UnixStream::pair().expect("socket pair");
        let stdio = |socket: &UnixStream| Stdio::from(OwnedFd::from(socket.try_clone().expect("clone")));
        let child = sleep().stdin(stdio(&theirs)).stdout(stdio(&theirs)).spawn().expect("sleep");
        drop(theirs);
        expect(&child, (OtherEnd::Held(Link::Socket), OtherEnd::Held(Link::Socket)));
        drop(ours);
        expect(&child, (OtherEnd::Gone(Link::Socket), OtherEnd::Gone(Link::Socket)));
        end(child);
    }
}
