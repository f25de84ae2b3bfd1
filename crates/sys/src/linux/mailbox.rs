//! A socket to which any process may send a message; the kernel names the sender. What a service tells its service manager
//! comes this way.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with, sockopt};

/// Such a socket, with an abstract name: nothing is left of it when the last process has closed it.
#[derive(Debug)]
pub struct Mailbox(OwnedFd);

/// A message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letter {
    /// The sender's user, as the kernel says.
    pub user: Option<u32>,
    /// How much of it was received.
    pub length: usize,
    /// Whether that is all of it.
    pub is_whole: bool,
}

/// As large as what the kernel says of a sender, and not larger: files that are sent along find no room, and are closed.
type Control = [u64; 4];

impl Mailbox {
    /// Opens a socket with this name, which must be free. It never blocks, and is closed on exec.
    pub fn open(name: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        sockopt::set_socket_passcred(&socket, true)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        Ok(Self(socket))
    }

    /// The next message; none if there is none now.
    pub fn next(&self, buffer: &mut [u8]) -> io::Result<Option<Letter>> {
        let mut control: Control = [0; 4];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all-zero is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Control>() as _;
        // SAFETY: the pointers are to places that live until the call returns, each with its true size.
        let length =
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut message, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
        let Ok(length) = usize::try_from(length) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        };
        Ok(Some(Letter { user: user_in(&message), length, is_whole: message.msg_flags & libc::MSG_TRUNC == 0 }))
    }
}

fn user_in(message: &libc::msghdr) -> Option<u32> {
    // SAFETY: the kernel has filled the header's control part, whose length it has set; it is aligned, being made of `u64`.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        let is_credentials = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_CREDENTIALS
            && (*header).cmsg_len as usize >= libc::CMSG_LEN(size_of::<libc::ucred>() as u32) as usize;
        is_credentials.then(|| libc::CMSG_DATA(header).cast::<libc::ucred>().read_unaligned().uid)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, connect, sendmsg};
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;

    fn sender(name: &str) -> OwnedFd {
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).expect("socket");
        connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name")).expect("connect");
        socket
    }

    #[test]
    fn what_is_sent_arrives_with_its_senders_user_and_without_files() {
        let name = format!("nostray-test-{}", crate::process::random());
        let (mailbox, mut buffer) = (Mailbox::open(&name).expect("open"), [0; 16]);
        assert!(Mailbox::open(&name).is_err(), "the name is taken");
        assert_eq!(mailbox.next(&mut buffer).expect("receive"), None);
        let (socket, me) = (sender(&name), Some(crate::process::user()));
        rustix::io::write(&socket, b"READY=1").expect("send");
        rustix::io::write(&socket, &[b'x'; 17]).expect("send");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [socket.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&socket, &[io::IoSlice::new(b"FDSTORE=1")], &mut control, SendFlags::empty()).expect("send");
        for (length, is_whole) in [(7, true), (16, false), (9, true)] {
            assert_eq!(mailbox.next(&mut buffer).expect("receive"), Some(Letter { user: me, length, is_whole }));
        }
        // Its copies: other tests of this program have files, too.
        let link = |fd: &std::path::Path| std::fs::read_link(fd).ok();
        let own = link(format!("/proc/self/fd/{}", socket.as_raw_fd()).as_ref());
        let all = std::fs::read_dir("/proc/self/fd").expect("read").flatten();
        assert_eq!(all.filter(|entry| link(&entry.path()) == own).count(), 1, "a file was taken in");
    }
}
