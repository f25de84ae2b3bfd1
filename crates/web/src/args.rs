//! The options.

use std::net::IpAddr;
use std::path::PathBuf;

/// The port, unless another program has it.
pub(crate) const USUAL_PORT: u16 = 7575;

/// Show all children on a page in your browser, live
///
/// Prints an address with a token in it; open that. The page shows what `nostray ps` and `nostray log` show: a list, the tree of each
/// child, memory and traffic over time, the journal. It can restart and stop children, and asks before. /metrics is for Prometheus.
///
/// It listens on a loopback address only, and serves no request without the token. It ends with its terminal, or with Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray web
  nostray web --port 8080
  nostray web --port 7575 --token-file ~/.config/nostray-web-token
      The same address each time, for a bookmark or for Prometheus. The file is
      made if it is missing.

On another machine: ssh -L 7575:127.0.0.1:7575 HOST nostray web --port 7575")]
pub struct Args {
    /// The port [default: 7575, or any that is free]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// The loopback address: 127.0.0.1 or ::1
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = loopback)]
    pub(crate) address: IpAddr,

    /// Read the token from this file, which is made if it is missing
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

fn loopback(text: &str) -> Result<IpAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => Ok(address),
        Ok(_) => {
            Err("only a loopback address, 127.0.0.1 or ::1: the page can stop children, and HTTP is not encrypted; \
                      from another machine, use ssh -L"
                .to_owned())
        }
        Err(_) => Err("write 127.0.0.1 or ::1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::loopback;

    #[test]
    fn only_a_loopback_address_is_listened_on() {
        for good in ["127.0.0.1", "127.1.2.3", "::1"] {
            assert!(loopback(good).is_ok(), "{good}");
        }
        for bad in ["0.0.0.0", "::", "192.168.1.1", "::ffff:127.0.0.1", "localhost", "", "127.0.0.1:80"] {
            assert!(loopback(bad).is_err(), "{bad}");
        }
    }
}
