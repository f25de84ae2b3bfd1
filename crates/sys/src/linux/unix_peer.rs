//! Which socket is at the other end of a unix socket: asked from the kernel's socket diagnosis, since there
//! is no call for it. Needed to find a leaked peer of standard input, which shares no number with it.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
const AF_UNIX: u8 = 1;
const NO_COOKIE: u32 = u32::MAX;

/// What a unix socket is connected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A socket with this inode, which some process holds open.
    Open(u32),
    /// A socket that every holder has closed.
    Closed,
}

/// The inode of the peer of the unix socket with this inode; `None` if it has none or the kernel does not
/// tell.
#[must_use]
pub fn peer_inode(inode: u64) -> Option<u32> {
    match peer(inode)? {
        Peer::Open(inode) => Some(inode),
        Peer::Closed => None,
    }
}

/// The peer of the unix socket with this inode; `None` if it never had one or the kernel does not tell.
#[must_use]
pub fn peer(inode: u64) -> Option<Peer> {
    let inode = u32::try_from(inode).ok()?;
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )
    .ok()?;
    send(&socket, &request(inode), SendFlags::empty()).ok()?;
    let mut buffer = [0u8; 512];
    // The kernel answers while it handles the request, so the answer is already there.
    let (_, n) = recv(&socket, &mut buffer[..], RecvFlags::empty()).ok()?;
    peer_from(buffer.get(..n)?)
}

fn request(inode: u32) -> Vec<u8> {
    // struct nlmsghdr, then struct unix_diag_req
    let mut message = Vec::with_capacity(40);
    message.extend(40u32.to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([AF_UNIX, 0, 0, 0]);
    message.extend(u32::MAX.to_ne_bytes());
    message.extend(inode.to_ne_bytes());
    message.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    message.extend(NO_COOKIE.to_ne_bytes());
    message.extend(NO_COOKIE.to_ne_bytes());
    message
}

fn peer_from(answer: &[u8]) -> Option<Peer> {
    let short = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    if short(4)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    // Behind struct nlmsghdr (16 bytes) and struct unix_diag_msg (16 bytes) come the attributes.
    let mut at = 32;
    loop {
        let length = usize::from(short(at)?);
        if length < 4 {
            return None;
        }
        if short(at + 2)? == UNIX_DIAG_PEER {
            let peer = u32::from_ne_bytes(answer.get(at + 4..at + 8)?.try_into().ok()?);
            return Some(if peer == 0 { Peer::Closed } else { Peer::Open(peer) });
        }
        at += length.next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_two_ends_of_a_socket_pair_know_each_other() {
        let (a, b) = UnixStream::pair().expect("socket pair");
        let inode = |s: &UnixStream| rustix::fs::fstat(s).expect("fstat").st_ino;
        assert_eq!(peer_inode(inode(&a)).map(u64::from), Some(inode(&b)));
        assert_eq!(peer_inode(inode(&b)).map(u64::from), Some(inode(&a)));
        let before = inode(&a);
        drop(b);
        // A process that another test has just forked may hold it for a moment, too.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while peer(before) != Some(Peer::Closed) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!((peer_inode(before), peer(before)), (None, Some(Peer::Closed)));
        assert_eq!(peer(u64::from(u32::MAX)), None);
    }

    #[test]
    fn a_cut_answer_is_no_answer() {
        for n in 0..40 {
            assert_eq!(peer_from(&vec![0; n]), None);
        }
    }
}
