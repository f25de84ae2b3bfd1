//! The observer of a pen. The registry and slots implement it to keep records; the pen itself knows nothing of files.

use std::fmt;

use nostray_sys::identity::Identity;
use nostray_sys::process::Ended;

use crate::{PenId, Reason, Spec};

/// Told what happens, in the process in which it happens. Front, spare and guard are forked from each other, so each has its own copy of
/// the witness; open files are shared.
pub trait Witness: fmt::Debug {
    /// In the front, before anything is started.
    fn opens(&mut self, opening: &Opening<'_>) -> Result<(), Objection>;

    /// In the front, a moment after the start, when there is time for what can wait. What it starts is the front's child
    /// and not of the tree.
    fn settled(&mut self) {}

    /// In the process that keeps the tree: the guard, or the spare or front that has taken over.
    fn sees(&mut self, event: &Event);
}

/// What is wrong with a pen that is about to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// The user is told, and it is opened all the same.
    Warning(String),
    /// It must not be opened.
    Refusal(String),
}

/// A pen that is about to be.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opening<'a> {
    /// Its name.
    pub id: &'a PenId,
    /// What it is for.
    pub spec: &'a Spec,
    /// What holds the tree together.
    pub tier: &'static str,
    /// The control group, where there is one.
    pub cgroup: Option<&'a std::path::Path>,
}

/// What happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Spare and guard are there, and the child is about to become its program.
    Started {
        /// The process that started the front, if that can be seen.
        host: Option<Identity>,
        /// The process that steps in for the guard.
        spare: Option<Identity>,
        /// The process that keeps the tree.
        guard: Option<Identity>,
        /// The child; not known in a pid namespace of its own, where numbers mean something else.
        child: Option<Identity>,
    },
    /// The child has become its program. Where the user has not defined what ready means, it is ready.
    Executed,
    /// The child is ready, as the user has defined it. Not told where it is ready as soon as it runs.
    Ready,
    /// The child says that it is stopping.
    SaysStopping,
    /// The child says how it is doing.
    Status(String),
    /// The tear-down has begun.
    Stopping(Reason),
    /// The tear-down has begun a moment ago, and the tree has not ended yet. Most trees end before this.
    Lingering,
    /// The child has ended.
    ChildEnded(Ended),
    /// The child, a daemon, has forked into the background and exited with 0.
    Forked {
        /// The process that is the child from now on; not known in a pid namespace of its own.
        child: Option<Identity>,
    },
    /// The child could not become its program. Comes before its end.
    NotExecuted {
        /// For a person.
        why: String,
        /// The system's number for it.
        errno: i32,
    },
    /// So many processes did not end when they were asked to, and are killed.
    Killing(usize),
    /// These may not be signalled, and were left running.
    Refused(Vec<Identity>),
    /// The tree is empty.
    Empty,
}
