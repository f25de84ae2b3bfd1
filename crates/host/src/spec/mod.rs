//! What to start, and how it is kept: [`PenSpec`] for a [`crate::Pen`], [`LeaseSpec`](crate::LeaseSpec) for a child that is leased.
//! Each has only the options that it obeys.

#[cfg(feature = "supervisor")]
mod handshake;
#[cfg(feature = "supervisor")]
mod lease;
mod pen;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nostray_pen::Graces;

#[cfg(feature = "supervisor")]
pub use handshake::{Handshake, McpClient, Protocol};
#[cfg(feature = "supervisor")]
pub use lease::{LeaseSpec, LeaseSpecBuilder};
pub use pen::{PenSpec, PenSpecBuilder};

use crate::Error;

/// Where one of the child's streams goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Stdio {
    /// To a pipe whose other end the host has.
    #[default]
    Piped,
    /// Where the host's own stream goes.
    Inherited,
    /// To `/dev/null`.
    Null,
}

/// What to do if another process tree holds the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IfTaken {
    /// Wait until the holder has ended: first come, first served.
    #[default]
    Wait,
    /// Wait, but no longer than this.
    WaitFor(Duration),
    /// Give up at once.
    Fail,
    /// Ask the holder to end, and start when nothing is left of it.
    Replace,
    /// Ask the holder to end, and give up if something is left of it after this time.
    ReplaceWithin(Duration),
}

impl IfTaken {
    /// In the terms of the slot: what to do, and for how long.
    pub(crate) fn policy(self) -> (nostray_slot::IfTaken, Option<Duration>) {
        match self {
            Self::Wait => (nostray_slot::IfTaken::Wait, None),
            Self::WaitFor(time) => (nostray_slot::IfTaken::Wait, Some(time)),
            Self::Fail => (nostray_slot::IfTaken::Fail, None),
            Self::Replace => (nostray_slot::IfTaken::Replace, None),
            Self::ReplaceWithin(time) => (nostray_slot::IfTaken::Replace, Some(time)),
        }
    }
}

/// What both kinds of specs say about the child.
#[derive(Debug, Clone)]
pub(crate) struct ChildSpec {
    pub(crate) command: Vec<OsString>,
    /// Variables that are set, or removed from the host's environment.
    pub(crate) environment: BTreeMap<OsString, Option<OsString>>,
    pub(crate) without_environment: bool,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) graces: Graces,
    pub(crate) isolate_pids: bool,
    pub(crate) session: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) slot: Option<(nostray_slot::Name, IfTaken)>,
}

/// A [`ChildSpec`] that is not checked yet.
#[derive(Debug, Clone)]
pub(crate) struct ChildOptions {
    command: Vec<OsString>,
    environment: BTreeMap<OsString, Option<OsString>>,
    without_environment: bool,
    directory: Option<PathBuf>,
    eof_grace: Duration,
    term_grace: Duration,
    isolate_pids: bool,
    session: Option<String>,
    labels: BTreeMap<String, String>,
    slot: Option<(String, IfTaken)>,
}

impl ChildOptions {
    fn new(program: &OsStr) -> Self {
        Self {
            command: vec![program.to_owned()],
            environment: BTreeMap::new(),
            without_environment: false,
            directory: None,
            eof_grace: Graces::default().eof(),
            term_grace: Graces::default().term(),
            isolate_pids: false,
            session: None,
            labels: BTreeMap::new(),
            slot: None,
        }
    }

    fn build(self) -> Result<ChildSpec, Error> {
        let has_zero = |text: &OsStr| text.as_bytes().contains(&0);
        if self.command[0].is_empty() {
            return Err(Error::spec("program", "it is empty"));
        }
        if self.command.iter().any(|word| has_zero(word)) {
            return Err(Error::spec("command", "an argument contains a zero byte"));
        }
        for (name, value) in &self.environment {
            let is_fine = !name.is_empty() && !name.as_bytes().contains(&b'=') && !has_zero(name);
            if !is_fine || value.as_deref().is_some_and(has_zero) {
                let why = "a variable has an empty name, a '=' in its name, or a zero byte";
                return Err(Error::spec("environment", why));
            }
        }
        if self.directory.as_deref().is_some_and(|path| has_zero(path.as_os_str())) {
            return Err(Error::spec("current_dir", "it contains a zero byte"));
        }
        if self.labels.keys().any(String::is_empty) {
            return Err(Error::spec("label", "its name is empty"));
        }
        let slot = match self.slot {
            None => None,
            Some((name, if_taken)) => Some((name.parse().map_err(|why: String| Error::spec("slot", why))?, if_taken)),
        };
        Ok(ChildSpec {
            command: self.command,
            environment: self.environment,
            without_environment: self.without_environment,
            directory: self.directory,
            graces: Graces::new(self.eof_grace, self.term_grace),
            isolate_pids: self.isolate_pids,
            session: self.session,
            labels: self.labels,
            slot,
        })
    }
}

/// The options that both builders have. Each builder keeps them in its field `child`.
macro_rules! child_options {
    ($builder:ident) => {
        impl $builder {
            /// Adds an argument.
            pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
                self.child.command.push(arg.as_ref().to_owned());
                self
            }

            /// Adds arguments.
            pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
                self.child.command.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
                self
            }

            /// Sets a variable in the child's environment, which is otherwise the host's.
            pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
                self.child.environment.insert(name.as_ref().to_owned(), Some(value.as_ref().to_owned()));
                self
            }

            /// Removes a variable from the child's environment.
            pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
                self.child.environment.insert(name.as_ref().to_owned(), None);
                self
            }

            /// Gives the child nothing of the host's environment. Variables that are set by [`Self::env`] stay, whether they are set
            /// before or after this.
            pub fn env_clear(mut self) -> Self {
                self.child.without_environment = true;
                self
            }

            /// The child's working directory [default: the host's].
            pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
                self.child.directory = Some(directory.as_ref().to_owned());
                self
            }

            /// Time from the end of the child's input to SIGTERM [default: 2 s].
            pub fn eof_grace(mut self, grace: Duration) -> Self {
                self.child.eof_grace = grace;
                self
            }

            /// Time from SIGTERM to SIGKILL [default: 5 s].
            pub fn term_grace(mut self, grace: Duration) -> Self {
                self.child.term_grace = grace;
                self
            }

            /// Puts the child's tree into a pid namespace, so that the kernel itself ends it.
            pub fn isolate_pids(mut self) -> Self {
                self.child.isolate_pids = true;
                self
            }

            /// The session that the child belongs to, by which [`crate::Registry`], [`crate::Session`] and `nostray ps` find it.
            pub fn session(mut self, key: impl Into<String>) -> Self {
                self.child.session = Some(key.into());
                self
            }

            /// A label on the child's record, which [`crate::Registry`] and `nostray ps` show.
            pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
                self.child.labels.insert(name.into(), value.into());
                self
            }

            /// A name that at most one live tree of this user holds, over all hosts; and what to do if another tree holds it.
            pub fn slot(mut self, name: impl Into<String>, if_taken: IfTaken) -> Self {
                self.child.slot = Some((name.into(), if_taken));
                self
            }
        }
    };
}

child_options!(PenSpecBuilder);
#[cfg(feature = "supervisor")]
child_options!(LeaseSpecBuilder);
