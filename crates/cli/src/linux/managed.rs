//! The options of `nostray run` that put nostray between host and child.

use std::time::Duration;

use clap::{Args, ValueEnum};
use nostray_pen::{Ready, Spec};
use nostray_registry::RecordDetails;
use nostray_supervise::{Backoff, ChildConfig, MAX_FAILURES, Options, Policy, Rate, Replay, Settings};

use crate::args::positive_duration;

/// The heading of these options.
pub(crate) const KEPT: &str = "How it is kept (a server that speaks JSON-RPC lines)";

/// The default of --max-line.
const MAX_LINE: u64 = 64 << 20;

/// With any of these, nostray reads and writes the JSON-RPC lines between host and child.
#[derive(Debug, Args)]
#[command(next_help_heading = KEPT)]
pub(crate) struct ManagedArgs {
    /// Restart it when it crashes; the session goes on
    ///
    /// A new child gets the host's handshake, log level and subscriptions before anything else, and the host is told if the
    /// tools, prompts or resources have changed. In-flight calls are answered with an error that says how the child died; no
    /// call is ever made twice. Later calls wait for the new child. --backoff and --max-failures imply --respawn, and so does
    /// `nostray share` for MCP servers.
    ///
    /// With --protocol jsonrpc, leave it out for a host that reconnects and retries when its child is gone. With --respawn the host
    /// never learns of the crash, so it does not repeat the work that the child had in memory and lost.
    #[arg(long)]
    pub(crate) respawn: bool,

    /// The first pause before a start after a crash, and the longest one [default: 250ms..30s]
    #[arg(long, value_name = "TIME..TIME", hide_short_help = true)]
    pub(crate) backoff: Option<Backoff>,

    /// After so many crashes in so long, answer calls with the cause [default: 5/1m]
    ///
    /// After as long again, the next call starts the child once more. Crashes are forgotten when a child has run well for 30 seconds.
    #[arg(long, value_name = "N/TIME", hide_short_help = true)]
    pub(crate) max_failures: Option<Rate>,

    /// End it after so long without calls; the next starts it
    ///
    /// Safe for a server that keeps nothing in memory which a later call needs: most servers that look something up, and by
    /// design all servers that speak MCP of 2026-07-28 or later. Not safe for a server that holds a browser, a login, a shell, or an
    /// unsaved document; nor for a server that sends notifications by itself, since none are sent while it sleeps. The new child
    /// gets the handshake, log level and subscriptions. The child is ended only when no call is in flight and no request of the child
    /// to the host is unanswered. Pings and log levels are no calls, and neither are lists that --lazy knows.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) hibernate: Option<Duration>,

    /// Answer the handshake and the lists from the answers of an earlier run, and start the child for the first call
    ///
    /// The answers of an earlier run of the very same command (program, arguments, directory) are kept in ~/.cache/nostray. They are
    /// checked at each real start, and the host is told if something has changed. Without an earlier run, or for a host that
    /// speaks another version, the child is started as usual.
    #[arg(long, hide_short_help = true)]
    pub(crate) lazy: bool,

    /// Ask the child now for what --lazy needs to know, and exit
    ///
    /// Starts the command once for each version of the protocol that hosts speak, asks for its lists, and ends it.
    #[arg(long, hide_short_help = true)]
    pub(crate) warm: bool,

    /// Restart the child when its tree uses more memory than this: with nothing in flight, or at once at twice as much
    ///
    /// Measured once a second: by the tree's control group if it has a memory controller, otherwise as the sum of the proportional
    /// shares (PSS) of its processes. Safe for the same servers as --hibernate.
    #[arg(long, value_name = "SIZE", value_parser = size, hide_short_help = true)]
    pub(crate) max_memory: Option<u64>,

    /// Restart the child when it is older than this and nothing is in flight
    #[arg(long, value_name = "TIME", value_parser = positive_duration, hide_short_help = true)]
    pub(crate) max_age: Option<Duration>,

    /// A start that takes longer is a crash [default: never]
    ///
    /// A start ends with the child's first answer. There is no limit unless you set one: a slow start is not a crash.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, hide_short_help = true)]
    pub(crate) start_timeout: Option<Duration>,

    /// Answer a call that takes longer with an error, and cancel it [default: never]
    ///
    /// The child lives on; an answer that comes later is dropped. The time counts from when the host makes the call, also
    /// while the child is starting. The handshake itself is not limited: see --start-timeout.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, hide_short_help = true)]
    pub(crate) call_timeout: Option<Duration>,

    /// The protocol between host and child [default: mcp]
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    pub(crate) protocol: Option<Protocol>,

    /// Send every new child again what the host has sent with this method; may be given several times
    ///
    /// With session.open=session.close@params.sessionId, a new child gets one message for each open session: the last session.open with
    /// that value at params.sessionId, unless a session.close with the same value followed. At most 1024 can be open at a time. The
    /// next session.open is answered with an error.
    #[arg(long, value_name = "OPEN[=CLOSE@PATH]", hide_short_help = true)]
    pub(crate) replay: Vec<Replay>,

    /// The longest line that is passed on [default: 64M]
    ///
    /// A longer line is skipped. If it was a request or an answer, the caller gets an error.
    #[arg(long, value_name = "SIZE", value_parser = size, hide_short_help = true)]
    pub(crate) max_line: Option<u64>,

    /// Ask the child itself, and remember what it says
    #[arg(long, hide = true)]
    pub(crate) remember: bool,
}

/// A protocol of JSON-RPC 2.0 lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// The Model Context Protocol, both eras: its handshake, log level and subscriptions are told to every new child
    Mcp,
    /// Any other: a new child gets nothing but what --replay names
    Jsonrpc,
}

impl ManagedArgs {
    /// All options at their defaults.
    pub(crate) fn none() -> Self {
        Self {
            respawn: false,
            backoff: None,
            max_failures: None,
            hibernate: None,
            lazy: false,
            warm: false,
            max_memory: None,
            max_age: None,
            start_timeout: None,
            call_timeout: None,
            protocol: None,
            replay: Vec::new(),
            max_line: None,
            remember: false,
        }
    }

    /// Whether any of these options is given.
    pub(crate) fn is_wanted(&self) -> bool {
        let Self { respawn, lazy, warm, remember, .. } = *self;
        respawn
            || lazy
            || warm
            || remember
            || self.backoff.is_some()
            || self.max_failures.is_some()
            || self.hibernate.is_some()
            || self.max_memory.is_some()
            || self.max_age.is_some()
            || self.start_timeout.is_some()
            || self.call_timeout.is_some()
            || self.protocol.is_some()
            || !self.replay.is_empty()
            || self.max_line.is_some()
    }

    pub(crate) fn options(self, spec: Spec, details: RecordDetails) -> Options {
        // Without another definition, ready is the first answer.
        let first_answer = spec.ready_timeout.filter(|_| spec.ready == Ready::Started);
        let policy = Policy {
            respawn: self.respawn || self.backoff.is_some() || self.max_failures.is_some(),
            backoff: self.backoff.unwrap_or_default(),
            max_failures: self.max_failures.unwrap_or(MAX_FAILURES),
            hibernate: self.hibernate,
            max_age: self.max_age,
            start_timeout: self.start_timeout.into_iter().chain(first_answer).min(),
            on_demand: self.lazy,
            ..Policy::default()
        };
        let protocol = match self.protocol {
            None | Some(Protocol::Mcp) => nostray_supervise::Protocol::Mcp,
            Some(Protocol::Jsonrpc) => nostray_supervise::Protocol::JsonRpc,
        };
        let max_line = usize::try_from(self.max_line.unwrap_or(MAX_LINE)).unwrap_or(usize::MAX);
        Options {
            child: ChildConfig { spec, details, max_memory: self.max_memory, max_line },
            settings: Settings { protocol, policy, replay: self.replay, call_timeout: self.call_timeout },
            lazy: self.lazy,
            remember: self.remember,
            share: None,
            slot: None,
            status: None,
        }
    }
}

/// A size as people write it: 500M, 2G, 1.5GiB, 65536.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || "write it like 500M or 2G".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * factor as f64;
    if !(1.0..=(1u64 << 50) as f64).contains(&bytes) {
        return Err(format!("must be between 1 byte and 1024T; {}", wrong()));
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_people_write_them() {
        for (text, bytes) in
            [("500M", 500 << 20), ("2g", 2 << 30), ("1.5KiB", 1536), ("65536", 65536), ("64 MB", 64 << 20)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "M", "-1M", "5X", "0", "1e9", "9999999T", "1.2.3M", "nan"] {
            assert!(size(wrong).is_err_and(|why| why.contains("500M")), "{wrong}");
        }
    }

    /// The help text names the real defaults.
    #[test]
    fn the_defaults_are_those_of_the_help_text() {
        assert_eq!(Backoff::default().to_string(), "250ms..30s");
        assert_eq!(MAX_FAILURES.to_string(), "5/1m");
        assert_eq!(size("64M"), Ok(MAX_LINE));
        assert!(!ManagedArgs::none().is_wanted());
    }
}
