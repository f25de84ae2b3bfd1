//! What can go wrong.

use std::io;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{what}: {why}")]
    Spec {
        /// Which part of it.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// There is no program that could guard a child.
    #[error(
        "no guard for the child: call nostray::guard::init() as the first line of main, or install the program `nostray` \
         where PATH finds it"
    )]
    NoGuard,
    /// This program cannot guard its own children, since it had threads already, and there is no other that could.
    #[error("no guard for the child: {}", crate::guard::TOO_LATE)]
    LateGuard,
    /// The guard could not be started. Nothing was.
    #[error("cannot start a guard ({program}): {error}")]
    Start {
        /// What was to be the guard.
        program: String,
        /// What the system said.
        error: io::Error,
    },
    /// This must be called in a tokio runtime with I/O and time enabled.
    #[error("there is no tokio runtime here; call it inside of one, or use nostray::blocking")]
    NoRuntime,
    /// The system refused.
    #[error("cannot {action}: {error}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What it said.
        error: io::Error,
    },
    /// The registry cannot be read or written.
    #[error(transparent)]
    Registry(#[from] nostray_registry::Error),
    /// A slot cannot be kept.
    #[error(transparent)]
    Slot(#[from] nostray_slot::Error),
    /// Somebody else has it.
    #[error("{0}")]
    Taken(String),
}

impl Error {
    pub(crate) fn during(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { action, error }
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The child has answered with an error.
    #[error("the child answered with error {code}: {message}")]
    Answered {
        /// Its code.
        code: i64,
        /// What it says.
        message: String,
        /// What it adds.
        data: Option<serde_json::Value>,
    },
    /// The child ended while the call was in flight. It was made, and is not made again by itself.
    #[error("the child is gone: {0}; the call was cut off, and is not made again by itself")]
    CutOff(String),
    /// There is no child for it, and will not be soon. The call was not made.
    #[error("there is no child: {0}; the call was not made")]
    Refused(String),
    /// It took too long. The child was told that nobody waits any more.
    #[error("no answer within {0:?}")]
    TimedOut(std::time::Duration),
    /// What the child answered is not what was expected, or what it was asked cannot be written as JSON.
    #[error("not the right JSON: {0}")]
    Json(String),
    /// The child does not read what it is told: too much is on its way to it already. Nothing was added.
    #[error("the child does not read what it is told; too much is on its way to it already")]
    Full,
    /// The runtime that the child was kept by has ended, or the supervisor was shut down.
    #[error("whoever kept the child is gone: its runtime has ended, or its supervisor was shut down")]
    Closed,
}
