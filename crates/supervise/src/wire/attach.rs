//! What a connection to the broker begins with: one [`Request`] as a line of JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use nostray_registry::Process;
use serde::{Deserialize, Serialize};

use super::{ChildSettings, OsText};

/// What a connection is for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// A session attaches to a child. Answered with control lines, up to [`Welcome`](super::ToFront::Welcome).
    Attach(Box<Attach>),
    /// Answered with a [`Status`].
    Status,
    /// End all children, and then the broker. Answered with a [`Status`].
    Stop {
        /// Sessions are to attach anew at once, not with their next call.
        again: bool,
    },
}

/// What a broker says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its process id.
    pub pid: i32,
    /// The version of the program.
    pub version: String,
    /// How long it has run, in milliseconds.
    pub age: u64,
    /// The ids of its children's records.
    pub children: Vec<String>,
    /// It is about to leave.
    pub stopping: bool,
}

/// The prefix of the key of a child that is shared because it holds a slot.
pub const SLOT_KEY: &str = "slot:";

/// Which child a session attaches to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attach {
    /// The command and its arguments.
    pub command: Vec<OsText>,
    /// The directory that the child runs in.
    pub cwd: OsText,
    /// Sessions of other directories share the child.
    pub any_dir: bool,
    /// The child's environment.
    pub environment: Vec<(OsText, OsText)>,
    /// The name under which the child is shared, in place of all of the above.
    pub key: Option<String>,
    /// The variables that make two children different, if the user has chosen them.
    pub counted: Option<Vec<String>>,
    /// What the child must have been told, if the session cannot use the child that the others share.
    pub variant: Option<String>,
    /// Why the session cannot use that child, for the journal.
    pub because: Option<String>,
    /// The session's host, if the front can see it. The session detaches when its host ends, even if the front is stopped.
    pub host: Option<Process>,
    /// The session's name, from the user.
    pub session: Option<String>,
    /// The session's labels, from the user.
    pub labels: BTreeMap<String, String>,
    /// How long the child is kept after this session, if it was the last one.
    pub linger: Duration,
    /// How the child is run.
    pub settings: ChildSettings,
}
