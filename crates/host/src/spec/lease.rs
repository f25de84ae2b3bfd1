//! What the child of a [`crate::Lease`] is started from, and how it is kept.

use std::ffi::OsStr;
use std::time::Duration;

use nostray_supervise::{Backoff, MAX_FAILURES, Rate};

use super::{ChildOptions, ChildSpec, Handshake, Protocol, Stdio};
use crate::Error;

/// What [`crate::Supervisor::lease`] starts, and how it is kept. Made by [`LeaseSpec::builder`], which checks it.
#[derive(Debug, Clone)]
pub struct LeaseSpec {
    pub(crate) child: ChildSpec,
    pub(crate) stderr: Stdio,
    pub(crate) key: Option<String>,
    pub(crate) keeping: Keeping,
}

/// How the child of a lease is kept.
#[derive(Debug, Clone)]
pub(crate) struct Keeping {
    pub(crate) protocol: Protocol,
    pub(crate) handshake: Handshake,
    pub(crate) respawn: bool,
    pub(crate) backoff: Backoff,
    pub(crate) max_failures: Rate,
    pub(crate) hibernate: Option<Duration>,
    pub(crate) max_age: Option<Duration>,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) linger: Duration,
    pub(crate) max_line: usize,
}

impl LeaseSpec {
    /// A spec for this program. Without a slash in it, it is looked up in the child's `PATH`.
    pub fn builder(program: impl AsRef<OsStr>) -> LeaseSpecBuilder {
        LeaseSpecBuilder {
            child: ChildOptions::new(program.as_ref()),
            stderr: Stdio::Piped,
            key: None,
            keeping: Keeping {
                protocol: Protocol::Mcp,
                handshake: Handshake::None,
                respawn: true,
                backoff: Backoff::default(),
                max_failures: MAX_FAILURES,
                hibernate: None,
                max_age: None,
                start_timeout: None,
                call_timeout: None,
                linger: Duration::ZERO,
                max_line: 64 << 20,
            },
        }
    }

    /// What makes two leases share a child: the name that was given, or all that the child would notice.
    pub(crate) fn key(&self) -> String {
        let ChildSpec { command, directory, without_environment, environment, .. } = &self.child;
        match &self.key {
            Some(key) => format!("named {key}"),
            None => format!("{command:?} {directory:?} {without_environment:?} {environment:?}"),
        }
    }
}

/// Builds a [`LeaseSpec`]. The order of its options does not matter, but for arguments, and for an option that is given twice: the
/// last one counts.
#[derive(Debug, Clone)]
#[must_use]
pub struct LeaseSpecBuilder {
    pub(super) child: ChildOptions,
    stderr: Stdio,
    key: Option<String>,
    keeping: Keeping,
}

impl LeaseSpecBuilder {
    /// Where the child's stderr goes [default: a pipe, whose last line is quoted where its end is reported].
    pub fn stderr(mut self, stdio: Stdio) -> Self {
        self.stderr = stdio;
        self
    }

    /// Leases share a child by this name, and not by command, directory and environment.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What the child speaks [default: MCP].
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.keeping.protocol = protocol;
        self
    }

    /// What every new child is told first [default: nothing]: a [`Handshake`], or an [`McpClient`](crate::McpClient).
    pub fn handshake(mut self, handshake: impl Into<Handshake>) -> Self {
        self.keeping.handshake = handshake.into();
        self
    }

    /// Whether a child that ended by itself is started again [default: yes].
    pub fn respawn(mut self, respawn: bool) -> Self {
        self.keeping.respawn = respawn;
        self
    }

    /// How long to wait before that [default: 250ms..30s].
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.keeping.backoff = backoff;
        self
    }

    /// After so many failures in so long, calls are refused for a while [default: 5/1m].
    pub fn max_failures(mut self, rate: Rate) -> Self {
        self.keeping.max_failures = rate;
        self
    }

    /// The child is ended after this time without a call in flight, and started again for the next call [default: never].
    pub fn hibernate(mut self, time: Duration) -> Self {
        self.keeping.hibernate = Some(time);
        self
    }

    /// A child that is older than this is replaced at a quiet moment [default: never].
    pub fn max_age(mut self, time: Duration) -> Self {
        self.keeping.max_age = Some(time);
        self
    }

    /// A start that takes longer has failed [default: never].
    pub fn start_timeout(mut self, time: Duration) -> Self {
        self.keeping.start_timeout = Some(time);
        self
    }

    /// A call that takes longer has failed [default: never].
    pub fn call_timeout(mut self, time: Duration) -> Self {
        self.keeping.call_timeout = Some(time);
        self
    }

    /// How long the child is kept after the last lease was dropped [default: not at all]. A child that has not answered yet is kept
    /// until it has, and from then on for this time; at most for its start timeout, or two minutes.
    pub fn linger(mut self, time: Duration) -> Self {
        self.keeping.linger = time;
        self
    }

    /// The longest line that the child may write, in bytes [default: 64 MiB].
    pub fn max_line(mut self, bytes: usize) -> Self {
        self.keeping.max_line = bytes;
        self
    }

    /// Checks the options.
    pub fn build(self) -> Result<LeaseSpec, Error> {
        let Self { child, stderr, key, keeping } = self;
        if keeping.max_line == 0 {
            return Err(Error::spec("max_line", "it must be more than zero"));
        }
        for (option, time) in [
            ("hibernate", keeping.hibernate),
            ("max_age", keeping.max_age),
            ("start_timeout", keeping.start_timeout),
            ("call_timeout", keeping.call_timeout),
        ] {
            if time.is_some_and(|time| time.is_zero()) {
                return Err(Error::spec(option, "it must be more than zero; leave it out for never"));
            }
        }
        Ok(LeaseSpec { child: child.build()?, stderr, key, keeping })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_option_is_refused_by_its_name() {
        let fails = |builder: LeaseSpecBuilder| builder.build().expect_err("wrong").to_string();
        assert!(fails(LeaseSpec::builder("")).contains("program"));
        let why = fails(LeaseSpec::builder("x").call_timeout(Duration::ZERO));
        assert!(why.contains("call_timeout") && why.contains("never"), "{why}");
        assert!(fails(LeaseSpec::builder("x").max_line(0)).contains("max_line"));
    }

    #[test]
    fn what_the_child_would_notice_makes_another_key() {
        let key = |builder: LeaseSpecBuilder| builder.build().expect("right").key();
        let base = || LeaseSpec::builder("x").arg("a");
        assert_eq!(key(base()), key(base().session("s").label("a", "b")));
        for other in [base().arg("b"), base().env("A", "1"), base().current_dir("/"), base().env_clear()] {
            assert_ne!(key(base()), key(other));
        }
        assert_eq!(key(base().key("k")), key(LeaseSpec::builder("y").key("k")));
    }
}
