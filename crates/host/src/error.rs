//! What can go wrong. A message says what failed; [`std::error::Error::source`] has the cause.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option of a spec is invalid.
    #[error("{what}: {why}")]
    Spec {
        /// Which option.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The program is not there, or may not be executed. Nothing was started.
    #[error("cannot run `{}`", program.display())]
    Program {
        /// The program, as the spec names it.
        program: PathBuf,
        /// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::PermissionDenied`].
        source: io::Error,
    },
    /// The child's working directory cannot be entered. Nothing was started.
    #[error("cannot enter the directory `{}`", path.display())]
    Directory {
        /// The directory, as the spec names it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no program that could guard a child.
    #[error(
        "no guard for the child: put nostray::guard!() beside main, call nostray::guard::init() as the first line of main, or \
         install the program `nostray` where PATH finds it"
    )]
    NoGuard,
    /// This program cannot guard its own children, since it had threads already, and there is no other program that could.
    #[error("no guard for the child: {}", crate::guard::TOO_LATE)]
    LateGuard,
    /// The guard could not be started. Nothing was.
    #[error("cannot start a guard ({})", program.display())]
    Start {
        /// The program that was to be the guard.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// [`crate::Supervisor::lease`] was called outside of a tokio runtime.
    #[error("there is no tokio runtime here; call it inside of one, or use nostray::Pen or nostray::blocking")]
    NoRuntime,
    /// The system refused.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The records of children cannot be read or written.
    #[error("the registry cannot be used")]
    Registry(#[source] Box<dyn StdError + Send + Sync>),
    /// The slot cannot be locked.
    #[error("the slot cannot be used")]
    Slot(#[source] Box<dyn StdError + Send + Sync>),
    /// Another process holds the name. The text says which.
    #[error("{0}")]
    Taken(String),
}

impl Error {
    pub(crate) fn during(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    pub(crate) fn spec(what: &'static str, why: impl Into<String>) -> Self {
        Self::Spec { what, why: why.into() }
    }
}

impl From<nostray_registry::Error> for Error {
    fn from(error: nostray_registry::Error) -> Self {
        Self::Registry(error.into())
    }
}

impl From<nostray_slot::Error> for Error {
    fn from(error: nostray_slot::Error) -> Self {
        Self::Slot(error.into())
    }
}

#[cfg(feature = "supervisor")]
pub use call::{CallError, JsonError};

#[cfg(feature = "supervisor")]
mod call {
    use std::sync::Arc;

    /// Why a call has no result.
    #[derive(Debug, Clone, PartialEq, thiserror::Error)]
    #[non_exhaustive]
    pub enum CallError {
        /// The child has answered with an error.
        #[error("the child answered with error {code}: {message}")]
        Answered {
            /// The error's code.
            code: i64,
            /// The error's message.
            message: String,
            /// The error's data.
            data: Option<serde_json::Value>,
        },
        /// The child ended during the call, after it had read it. The call is not made again by itself. The text names the child, says
        /// what became of it, and quotes its last words.
        #[error("{0}; the call was not retried")]
        CutOff(String),
        /// There is no child for it, and will not be soon. The call was not made. The text says why, as in [`CallError::CutOff`].
        #[error("{0}; the call was not made")]
        Refused(String),
        /// It took too long. The call was cancelled.
        #[error("no answer within {0:?}")]
        TimedOut(std::time::Duration),
        /// The parameters cannot be written as JSON. The call was not made.
        #[error("the parameters cannot be written as JSON")]
        Params(#[source] JsonError),
        /// The child's answer is not of the type that the caller expects.
        #[error("the answer is not of the expected type")]
        Json(#[source] JsonError),
        /// The child's answer is longer than [`crate::LeaseSpecBuilder::max_line`] allows, and was skipped.
        #[error("the answer has {length} bytes, and max_line does not allow so many")]
        TooLong {
            /// The length of its line.
            length: u64,
        },
        /// The child does not read what it is sent: too much is on its way to it already. Nothing was added.
        #[error("the child does not read what it is sent; too much is on its way to it already")]
        Full,
        /// The runtime that drove the child has ended, or the supervisor was shut down.
        #[error("the driver of the child is gone: its runtime has ended, or its supervisor was shut down")]
        Closed,
    }

    /// What is wrong with a piece of JSON. Two of them are equal if they say the same.
    #[derive(Debug, Clone, thiserror::Error)]
    #[error(transparent)]
    pub struct JsonError(Arc<serde_json::Error>);

    impl From<serde_json::Error> for JsonError {
        fn from(error: serde_json::Error) -> Self {
            Self(Arc::new(error))
        }
    }

    impl PartialEq for JsonError {
        fn eq(&self, other: &Self) -> bool {
            self.0.to_string() == other.0.to_string()
        }
    }
}

/// A message and all its causes in one line.
#[cfg(feature = "supervisor")]
pub(crate) fn with_causes(error: &dyn StdError) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_cause_as_its_source_and_not_in_its_message() {
        let error = Error::during("watch the parent")(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.to_string(), "cannot watch the parent");
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound));
    }

    #[cfg(feature = "supervisor")]
    #[test]
    fn a_line_for_people_has_all_causes() {
        let program = PathBuf::from("some-server");
        let error = Error::Program { program, source: io::Error::from_raw_os_error(2) };
        assert_eq!(with_causes(&error), "cannot run `some-server`: No such file or directory (os error 2)");
    }
}
