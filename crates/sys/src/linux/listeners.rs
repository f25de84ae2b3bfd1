//! Who listens for TCP connections. Read from `/proc`: a connection would disturb some servers, and would not tell whose it is.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Pid;

/// A listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// The address; unspecified for all of them. One of IPv4 that is written as one of IPv6 is given as one of IPv4.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    inode: u64,
}

/// The sockets on which one of these processes listens, as far as their files are ours to look at.
#[must_use]
pub fn listeners_of(processes: impl IntoIterator<Item = Pid>) -> Vec<Listener> {
    let mut found = Vec::new();
    // A process may be in a network of its own, which has its own list.
    let mut networks: HashMap<OsString, Vec<Listener>> = HashMap::new();
    for pid in processes {
        let sockets = sockets_of(pid);
        if sockets.is_empty() {
            continue;
        }
        let network = std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap_or_default().into_os_string();
        let listeners = networks.entry(network).or_insert_with(|| listeners_seen_by(pid));
        found.extend(listeners.iter().filter(|listener| sockets.contains(&listener.inode)));
    }
    found
}

/// The sockets that a process has open, by their numbers.
fn sockets_of(pid: Pid) -> HashSet<u64> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let number =
        |target: std::path::PathBuf| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    files.filter_map(|file| std::fs::read_link(file.path()).ok().and_then(number)).collect()
}

fn listeners_seen_by(pid: Pid) -> Vec<Listener> {
    let mut listeners = Vec::new();
    for table in ["tcp", "tcp6"] {
        // Without IPv6 there is no second one.
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        listeners.extend(text.lines().filter_map(parse));
    }
    listeners
}

/// One line of such a table, if it is of a listening socket.
fn parse(line: &str) -> Option<Listener> {
    const LISTENS: &str = "0A";
    let mut fields = line.split_ascii_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    if fields.nth(1)? != LISTENS {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    Some(Listener { address: parse_address(address)?, port: u16::from_str_radix(port, 16).ok()?, inode })
}

/// Words of four bytes, each as the machine would print the number that they are to it.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn this_process_and_no_other_is_found_by_the_port_on_which_it_listens() {
        for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let at = listener.local_addr().expect("is bound");
            let is_found =
                |pid| listeners_of([pid]).iter().any(|found| (found.address, found.port) == (at.ip(), at.port()));
            assert!(is_found(crate::process::getpid()), "{at}");
            assert!(!is_found(Pid::INIT), "{at}");
            drop(listener);
            assert!(!is_found(crate::process::getpid()), "{at}");
        }
    }

    #[test]
    fn only_listening_sockets_are_listed() {
        let line = |state| {
            format!(
                "   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0"
            )
        };
        #[cfg(target_endian = "little")]
        assert_eq!(
            parse(&line("0A")),
            Some(Listener { address: "127.0.0.1".parse().expect("an address"), port: 8080, inode: 4242 })
        );
        assert_eq!(parse(&line("01")), None);
        let line = line("0A");
        for end in 0..line.len() - "4242 1 0".len() {
            assert_eq!(parse(&line[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn an_address_of_the_older_kind_in_the_newer_form_is_one_of_the_older_kind() {
        #[cfg(target_endian = "little")]
        assert_eq!(parse_address("0000000000000000FFFF00000100007F"), "127.0.0.1".parse().ok());
        assert_eq!(parse_address("00000000000000000000000000000000"), "::".parse().ok());
        assert_eq!(parse_address("xyz"), None);
    }
}
