//! Sockets between our own processes of one user: connections by a path, messages that carry a descriptor, and the
//! process at the other end. None of them waits, and none is passed on to programs.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with, sockopt,
};

use crate::process::Pid;

/// What every system takes for the path of a socket, with its end: macOS has room for 104 bytes, Linux for 108.
pub const LONGEST_PATH: usize = 103;

/// How many connections may wait to be accepted; more are told to come again.
const BACKLOG: i32 = 1024;

/// The process at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The process that made the connection; none if it is in a pid namespace that cannot be seen from here.
    pub pid: Option<Pid>,
    /// Its user.
    pub user: u32,
}

fn stream() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Listens at a path at which there is nothing.
pub fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = stream()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to the listener at a path. A full backlog is an error, like no listener.
pub fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = stream()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Accepts the next connection; `None` if there is none.
pub fn let_in(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The process at the other end, as the kernel noted it when the connection was made.
pub fn caller(socket: BorrowedFd<'_>) -> io::Result<Caller> {
    let credentials = sockopt::socket_peercred(socket)?;
    let pid = Some(credentials.pid).filter(|pid| pid.as_raw_nonzero().get() > 0);
    Ok(Caller { pid, user: credentials.uid.as_raw() })
}

/// Enlarges the send buffer: whenever it is full, sender and receiver have to take turns. Best effort, since the machine has a limit.
pub fn make_room(socket: BorrowedFd<'_>) {
    sockopt::set_socket_send_buffer_size(socket, 256 << 10).ok();
}

/// How many descriptors a message carries at most.
const MAX_HANDED: usize = 5;

/// Sends one message over a socket that keeps messages apart, with a descriptor or without.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], with: Option<BorrowedFd<'_>>) -> io::Result<()> {
    send_with(socket, bytes, with.as_slice())
}

/// Sends a few bytes, with these descriptors. Over a stream they come with the first of the bytes.
pub fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() && !control.push(SendAncillaryMessage::ScmRights(with)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Receives one such message: how long it is, and the descriptor that came with it. No length: there is none now. Zero: the
/// other side has closed.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let mut handed = Vec::new();
    let length = receive_with(socket, buffer, &mut handed)?;
    Ok(length.map(|length| (length, handed.pop())))
}

/// Reads what is there, as [`stream::read`](crate::stream::read) does, and adds the descriptors that came with it to `handed`.
pub fn receive_with(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    handed: &mut Vec<OwnedFd>,
) -> io::Result<Option<usize>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
        Ok(received) => received,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            handed.extend(fds);
        }
    }
    Ok(Some(received.bytes))
}

/// Another descriptor for the same.
pub fn again(socket: impl AsFd) -> io::Result<OwnedFd> {
    socket.as_fd().try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::message_pair;

    #[test]
    fn a_connection_is_handed_on_and_who_made_it_is_known() {
        let folder = std::env::temp_dir().join(format!("nostray-local-{}", crate::process::random()));
        std::fs::create_dir(&folder).expect("folder");
        let path = folder.join("s");
        assert!(connect_to(&path).is_err());
        let listener = listen_at(&path).expect("listen");
        assert!(let_in(listener.as_fd()).expect("accept").is_none());
        let ours = connect_to(&path).expect("connect");
        let theirs = let_in(listener.as_fd()).expect("accept").expect("one");
        let caller = caller(theirs.as_fd()).expect("credentials");
        assert_eq!(caller, Caller { pid: Some(crate::process::getpid()), user: crate::process::user() });

        let (a, b) = message_pair().expect("pair");
        let mut buffer = [0; 16];
        assert!(receive(b.as_fd(), &mut buffer).expect("receive").is_none());
        send(a.as_fd(), b"here", Some(theirs.as_fd())).expect("send");
        send(a.as_fd(), b"none", None).expect("send");
        drop(theirs);
        let (length, handed) = receive(b.as_fd(), &mut buffer).expect("receive").expect("a message");
        assert_eq!(&buffer[..length], b"here");
        rustix::io::write(handed.expect("a descriptor"), b"x").expect("write");
        assert_eq!(rustix::io::read(&ours, &mut buffer), Ok(1));
        assert!(matches!(receive(b.as_fd(), &mut buffer), Ok(Some((4, None)))));
        drop(a);
        // A process that another test has just forked may hold it for a moment, too.
        crate::poll::wait(&[(b.as_fd(), crate::poll::Until::Readable)], Some(std::time::Duration::from_secs(10)))
            .expect("wait");
        assert!(matches!(receive(b.as_fd(), &mut buffer), Ok(Some((0, None)))));
        std::fs::remove_dir_all(folder).expect("remove");
    }

    #[test]
    fn two_pipes_come_with_a_line_of_a_stream_and_carry_what_follows_both_ways() {
        let [ours, theirs] = crate::stream::two_ways().expect("pipes");
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("a pair of sockets");
        rustix::io::write(&a, b"first\n").expect("write");
        send_with(a.as_fd(), b"second\n", &[theirs.writer.as_fd(), theirs.reader.as_fd()]).expect("send");
        drop((a, theirs));
        let (mut said, mut handed, mut buffer) = (Vec::new(), Vec::new(), [0; 64]);
        while let Ok(Some(count @ 1..)) = receive_with(b.as_fd(), &mut buffer, &mut handed) {
            said.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(said, b"first\nsecond\n");
        let [writer, reader] = <[OwnedFd; 2]>::try_from(handed).expect("both ends");
        rustix::io::write(&writer, b"there").expect("write");
        rustix::io::write(&ours.writer, b"here").expect("write");
        assert_eq!(crate::stream::read(&ours.reader, &mut buffer).expect("read"), Some(5));
        assert_eq!(crate::stream::read(&reader, &mut buffer).expect("read"), Some(4));
        assert_eq!(crate::stream::read(&reader, &mut buffer).expect("read"), None, "none of them waits");
    }
}
