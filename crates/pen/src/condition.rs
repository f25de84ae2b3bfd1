//! What a user defines as *ready*. Each value is checked when it is made, so that nothing can be wrong with it later.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use regex_lite::Regex;

/// When a child is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ready {
    /// As soon as it is started.
    #[default]
    Started,
    /// A line on its standard error matches.
    Line(Pattern),
    /// A process of its tree listens on a TCP port.
    Port(Port),
    /// A file is there that was not there before the start. A relative path is relative to the child's directory.
    File(PathBuf),
    /// A command, run by the shell again and again, has succeeded.
    Command(OsString),
    /// It says so itself, as a service says so to systemd (`sd_notify`).
    Notify,
}

impl fmt::Display for Ready {
    /// What has not come true yet, for a person who waits for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => write!(f, "it was not started"),
            Self::Line(pattern) => write!(f, "no line on its stderr matched '{pattern}'"),
            Self::Port(port) => write!(f, "nobody of its tree listened on {port}"),
            Self::File(path) => write!(f, "there was no new file {}", path.display()),
            Self::Command(command) => write!(f, "the command '{}' did not succeed", command.display()),
            Self::Notify => write!(f, "it did not send READY=1 to its NOTIFY_SOCKET"),
        }
    }
}

/// A regular expression for a line.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Whether it matches somewhere in this text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Regex::new(text).map(Self).map_err(|error| {
            format!("not a regular expression: {error}; put a backslash before a character like ( or [")
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

/// A TCP port, on any address or on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    host: Option<Host>,
    number: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    /// Either loopback address.
    Local,
    Address(IpAddr),
}

impl Port {
    /// Whether a listener on this address and port can be reached at this one.
    #[must_use]
    pub fn is_served_by(&self, address: IpAddr, port: u16) -> bool {
        // An IPv6 socket that listens on every address takes what comes by IPv4 as well, unless it was told not to, which cannot
        // be seen from outside.
        let everywhere = |wanted: Option<IpAddr>| match address {
            IpAddr::V4(all) => all.is_unspecified() && wanted.is_none_or(|wanted| wanted.is_ipv4()),
            IpAddr::V6(all) => all.is_unspecified(),
        };
        port == self.number
            && match self.host {
                None => true,
                Some(Host::Local) => address.is_loopback() || everywhere(None),
                Some(Host::Address(wanted)) => address == wanted || everywhere(Some(wanted)),
            }
    }
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HOW: &str = "write it like 8080, localhost:8080, 127.0.0.1:8080 or [::1]:8080";
        let (host, number) = match text.rsplit_once(':') {
            Some((host, number)) => (Some(host), number),
            None => (None, text),
        };
        let number = match number.parse() {
            Ok(0) | Err(_) => return Err(format!("'{number}' is not a port from 1 to 65535; {HOW}")),
            Ok(number) => number,
        };
        let host = match host {
            None => None,
            Some("localhost") => Some(Host::Local),
            Some(host) => {
                let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                let address = match v6 {
                    Some(v6) => v6.parse().map(IpAddr::V6).ok(),
                    None => host.parse().map(IpAddr::V4).ok(),
                };
                let wrong = || format!("'{host}' is not an address, and names are not looked up; {HOW}");
                Some(Host::Address(address.ok_or_else(wrong)?.to_canonical()))
            }
        };
        Ok(Self { host, number })
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            None => write!(f, "port {}", self.number),
            Some(Host::Local) => write!(f, "localhost:{}", self.number),
            Some(Host::Address(IpAddr::V4(host))) => write!(f, "{host}:{}", self.number),
            Some(Host::Address(IpAddr::V6(host))) => write!(f, "[{host}]:{}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serves(listener: &str, port: &str) -> bool {
        let address: std::net::SocketAddr = listener.parse().expect("an address");
        port.parse::<Port>().expect("a port").is_served_by(address.ip(), address.port())
    }

    #[test]
    fn an_address_restricts_who_is_meant_and_all_addresses_include_it() {
        for (listener, port, is_meant) in [
            ("127.0.0.1:80", "80", true),
            ("[::1]:80", "80", true),
            ("127.0.0.1:81", "80", false),
            ("127.0.0.1:80", "localhost:80", true),
            ("[::1]:80", "localhost:80", true),
            ("10.0.0.1:80", "localhost:80", false),
            ("0.0.0.0:80", "localhost:80", true),
            ("0.0.0.0:80", "10.0.0.1:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("[::]:80", "10.0.0.1:80", true),
            ("127.0.0.1:80", "10.0.0.1:80", false),
            ("[::1]:80", "[::1]:80", true),
        ] {
            assert_eq!(serves(listener, port), is_meant, "{listener} {port}");
        }
    }

    #[test]
    fn what_is_no_port_is_refused_with_a_word_about_how_to_write_it() {
        for wrong in [
            "",
            "0",
            "70000",
            "x",
            "-1",
            "80:",
            ":80",
            "::1:80",
            "[::1]",
            "example.org:80",
            "1.2.3:80",
            "[1.2.3.4]:80",
        ] {
            assert!(wrong.parse::<Port>().is_err_and(|why| why.contains("8080")), "{wrong}");
        }
        for right in ["8080", "localhost:1", "127.0.0.1:65535", "[::1]:8080"] {
            let port: Port = right.parse().expect("a port");
            assert_eq!(port.to_string().trim_start_matches("port "), right);
        }
    }

    #[test]
    fn a_pattern_is_checked_when_it_is_made() {
        assert!("listening on (".parse::<Pattern>().is_err_and(|why| why.contains("backslash")));
        let pattern: Pattern = r"^ready\b".parse().expect("is right");
        assert!(pattern.matches("ready now") && !pattern.matches("not ready"));
    }
}
