//! What to start, and how it is kept.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nostray_pen::Graces;
use nostray_supervise::{Backoff, MAX_FAILURES, Rate};
use serde_json::{Value, json};

use crate::Error;

/// Where one of the child's streams goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Stdio {
    /// To a pipe of the host's.
    #[default]
    Piped,
    /// Where the host's own goes.
    Inherited,
    /// Nowhere.
    Null,
}

/// What to do if somebody else holds the slot of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IfTaken {
    /// Wait until it is free: first come, first served.
    #[default]
    Wait,
    /// Give up.
    Fail,
    /// Ask the holder to end, and start when nothing is left of it.
    Replace,
}

impl From<IfTaken> for nostray_slot::IfTaken {
    fn from(if_taken: IfTaken) -> Self {
        match if_taken {
            IfTaken::Wait => Self::Wait,
            IfTaken::Fail => Self::Fail,
            IfTaken::Replace => Self::Replace,
        }
    }
}

/// What every new child of a [`crate::Lease`] is told before anything else.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Handshake {
    /// Nothing: it is ready with its first answer.
    #[default]
    None,
    /// These requests, one after the other, each when the one before was answered; then these notifications.
    Messages {
        /// Methods with their parameters.
        requests: Vec<(String, Value)>,
        /// Methods with their parameters.
        notifications: Vec<(String, Value)>,
    },
}

impl Handshake {
    /// That of MCP up to 2025-11-25. Later versions need none.
    #[must_use]
    pub fn mcp(protocol_version: &str, client_name: &str, client_version: &str) -> Self {
        let client = json!({ "name": client_name, "version": client_version });
        let params = json!({ "protocolVersion": protocol_version, "capabilities": {}, "clientInfo": client });
        Self::Messages {
            requests: vec![("initialize".to_owned(), params)],
            notifications: vec![("notifications/initialized".to_owned(), json!({}))],
        }
    }
}

/// What to start, and how it is kept. Made by [`Spec::builder`], which checks it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Spec {
    pub(crate) command: Vec<OsString>,
    pub(crate) environment: BTreeMap<OsString, Option<OsString>>,
    pub(crate) without_environment: bool,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) graces: Graces,
    pub(crate) isolate_pids: bool,
    pub(crate) session: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) streams: [Stdio; 3],
    pub(crate) slot: Option<(nostray_slot::Name, IfTaken, Option<Duration>)>,
    pub(crate) key: Option<String>,
    pub(crate) keeping: Keeping,
}

/// How the child of a lease is kept.
#[derive(Debug, Clone)]
pub(crate) struct Keeping {
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

impl Spec {
    /// For this program, which is looked for in `PATH` if it has no slash.
    pub fn builder(program: impl AsRef<OsStr>) -> SpecBuilder {
        SpecBuilder {
            spec: Self {
                command: vec![program.as_ref().to_owned()],
                environment: BTreeMap::new(),
                without_environment: false,
                directory: None,
                graces: Graces::default(),
                isolate_pids: false,
                session: None,
                labels: BTreeMap::new(),
                streams: [Stdio::Piped; 3],
                slot: None,
                key: None,
                keeping: Keeping {
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
            },
            eof_grace: Graces::default().eof(),
            term_grace: Graces::default().term(),
            slot: None,
        }
    }

    /// What makes two leases share a child: the name that was given, or all that the child would notice.
    pub(crate) fn key(&self) -> String {
        match &self.key {
            Some(key) => format!("named {key}"),
            None => format!(
                "{:?} {:?} {:?} {:?}",
                self.command, self.directory, self.without_environment, self.environment
            ),
        }
    }
}

/// Makes a [`Spec`].
#[derive(Debug, Clone)]
#[must_use]
pub struct SpecBuilder {
    spec: Spec,
    eof_grace: Duration,
    term_grace: Duration,
    slot: Option<(String, IfTaken, Option<Duration>)>,
}

impl SpecBuilder {
    /// One more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.spec.command.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.spec.command.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment, which is otherwise the host's.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.spec.environment.insert(name.as_ref().to_owned(), Some(value.as_ref().to_owned()));
        self
    }

    /// Leaves a variable out of its environment.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.spec.environment.insert(name.as_ref().to_owned(), None);
        self
    }

    /// Gives it nothing of the host's environment.
    pub fn env_clear(mut self) -> Self {
        self.spec.without_environment = true;
        self
    }

    /// Where it runs.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.spec.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Time from the end of its input to SIGTERM [default: 2 s].
    pub fn eof_grace(mut self, grace: Duration) -> Self {
        self.eof_grace = grace;
        self
    }

    /// Time from SIGTERM to SIGKILL [default: 5 s].
    pub fn term_grace(mut self, grace: Duration) -> Self {
        self.term_grace = grace;
        self
    }

    /// Puts its tree into a pid namespace, so that the kernel itself ends it.
    pub fn isolate_pids(mut self) -> Self {
        self.spec.isolate_pids = true;
        self
    }

    /// The session that it belongs to, by which [`crate::Registry`] and `nostray ps` find it.
    pub fn session(mut self, key: impl Into<String>) -> Self {
        self.spec.session = Some(key.into());
        self
    }

    /// Something to find it by.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.spec.labels.insert(name.into(), value.into());
        self
    }

    /// Where its input comes from. Without a pipe, only the end of the host, of the [`crate::Pen`] or of a stop ends it.
    pub fn stdin(mut self, stdio: Stdio) -> Self {
        self.spec.streams[0] = stdio;
        self
    }

    /// Where its output goes.
    pub fn stdout(mut self, stdio: Stdio) -> Self {
        self.spec.streams[1] = stdio;
        self
    }

    /// Where its errors go. Of the child of a lease, those of a pipe are kept for the causes of errors.
    pub fn stderr(mut self, stdio: Stdio) -> Self {
        self.spec.streams[2] = stdio;
        self
    }

    /// A name that at most one live tree of this user holds, over all hosts; and what to do if somebody has it.
    pub fn slot(mut self, name: impl Into<String>, if_taken: IfTaken) -> Self {
        let timeout = self.slot.take().and_then(|(.., timeout)| timeout);
        self.slot = Some((name.into(), if_taken, timeout));
        self
    }

    /// How long to wait for the slot.
    pub fn slot_timeout(mut self, time: Duration) -> Self {
        if let Some((.., timeout)) = &mut self.slot {
            *timeout = Some(time);
        }
        self
    }

    /// Leases share a child by this name, and not by command, directory and environment.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.spec.key = Some(key.into());
        self
    }

    /// What every new child of a lease is told first.
    pub fn handshake(mut self, handshake: Handshake) -> Self {
        self.spec.keeping.handshake = handshake;
        self
    }

    /// Whether the child of a lease is started again when it ended by itself [default: yes].
    pub fn respawn(mut self, respawn: bool) -> Self {
        self.spec.keeping.respawn = respawn;
        self
    }

    /// How long to wait before that [default: 250ms..30s].
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.spec.keeping.backoff = backoff;
        self
    }

    /// So many failures in so long, and calls are refused for a while [default: 5/1m].
    pub fn max_failures(mut self, rate: Rate) -> Self {
        self.spec.keeping.max_failures = rate;
        self
    }

    /// The child of a lease is ended after so long with nothing in flight, and started again for the next call [default: never].
    pub fn hibernate(mut self, time: Duration) -> Self {
        self.spec.keeping.hibernate = Some(time);
        self
    }

    /// The child of a lease is started anew, at a quiet moment, when it is older than this [default: never].
    pub fn max_age(mut self, time: Duration) -> Self {
        self.spec.keeping.max_age = Some(time);
        self
    }

    /// A start that takes longer has failed [default: never].
    pub fn start_timeout(mut self, time: Duration) -> Self {
        self.spec.keeping.start_timeout = Some(time);
        self
    }

    /// A call that takes longer has failed [default: never].
    pub fn call_timeout(mut self, time: Duration) -> Self {
        self.spec.keeping.call_timeout = Some(time);
        self
    }

    /// How long the child of a lease is kept after the last one was dropped [default: not at all]. A child that has not answered yet is
    /// kept until it has, and from then on for so long; at most for its start timeout, or two minutes.
    pub fn linger(mut self, time: Duration) -> Self {
        self.spec.keeping.linger = time;
        self
    }

    /// The longest line of the child of a lease [default: 64 MiB].
    pub fn max_line(mut self, bytes: usize) -> Self {
        self.spec.keeping.max_line = bytes;
        self
    }

    /// Checks it.
    pub fn build(mut self) -> Result<Spec, Error> {
        let wrong = |what, why: &str| Err(Error::Spec { what, why: why.to_owned() });
        let has_zero = |text: &OsStr| text.as_bytes().contains(&0);
        if self.spec.command[0].is_empty() {
            return wrong("program", "it is empty");
        }
        if self.spec.command.iter().any(|word| has_zero(word)) {
            return wrong("command", "a word of it has a zero byte in it");
        }
        for (name, value) in &self.spec.environment {
            let is_fine = !name.is_empty() && !name.as_bytes().contains(&b'=') && !has_zero(name);
            if !is_fine || value.as_deref().is_some_and(has_zero) {
                return wrong("environment", "a variable has no name, or a '=' or a zero byte where it cannot be");
            }
        }
        if self.spec.directory.as_deref().is_some_and(|path| has_zero(path.as_os_str())) {
            return wrong("current_dir", "it has a zero byte in it");
        }
        if self.spec.labels.keys().any(String::is_empty) {
            return wrong("label", "it has no name");
        }
        if self.spec.keeping.max_line == 0 {
            return wrong("max_line", "nothing could be said");
        }
        let times = [self.spec.keeping.hibernate, self.spec.keeping.max_age, self.spec.keeping.start_timeout];
        if times.into_iter().chain([self.spec.keeping.call_timeout]).flatten().any(|time| time.is_zero()) {
            return wrong("time", "it must be more than zero; leave it out for never");
        }
        self.spec.slot = match self.slot.take() {
            None => None,
            Some((name, if_taken, timeout)) => match name.parse() {
                Ok(name) => Some((name, if_taken, timeout)),
                Err(why) => return Err(Error::Spec { what: "slot", why }),
            },
        };
        self.spec.graces = Graces::new(self.eof_grace, self.term_grace);
        Ok(self.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_with_what_it_is() {
        let fails = |builder: SpecBuilder| builder.build().expect_err("wrong").to_string();
        assert!(fails(Spec::builder("")).contains("program"));
        assert!(fails(Spec::builder("a\0b")).contains("zero byte"));
        assert!(fails(Spec::builder("x").arg("\0")).contains("zero byte"));
        assert!(fails(Spec::builder("x").env("A=B", "1")).contains("environment"));
        assert!(fails(Spec::builder("x").env("", "1")).contains("environment"));
        assert!(fails(Spec::builder("x").label("", "1")).contains("label"));
        assert!(fails(Spec::builder("x").slot("a/b", IfTaken::Wait)).contains("slot"));
        assert!(fails(Spec::builder("x").call_timeout(Duration::ZERO)).contains("never"));
        assert!(Spec::builder("x").args(["a", "b"]).env("A", "=").slot("db", IfTaken::Fail).build().is_ok());
    }

    #[test]
    fn what_the_child_would_notice_makes_another_key() {
        let key = |builder: SpecBuilder| builder.build().expect("right").key();
        let base = || Spec::builder("x").arg("a");
        assert_eq!(key(base()), key(base().session("s").label("a", "b")));
        for other in [base().arg("b"), base().env("A", "1"), base().current_dir("/"), base().env_clear()] {
            assert_ne!(key(base()), key(other));
        }
        assert_eq!(key(base().key("k")), key(Spec::builder("y").key("k")));
    }
}
