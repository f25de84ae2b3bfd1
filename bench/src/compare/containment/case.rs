//! What is tried: a tree, and a way in which its time is over.

use nostray_sys::Signal;

/// How the server takes to being asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// It ends when its input does, and by SIGTERM.
    Cooperative,
    /// It does neither.
    Stubborn,
}

impl Manner {
    pub(super) const ALL: [Self; 2] = [Self::Cooperative, Self::Stubborn];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cooperative => "cooperative",
            Self::Stubborn => "stubborn",
        }
    }
}

/// What the server has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Descendant {
    Plain,
    TermIgnoring,
    Setsid,
    Daemon,
}

impl Descendant {
    pub(super) const ALL: [Self; 4] = [Self::Plain, Self::TermIgnoring, Self::Setsid, Self::Daemon];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::TermIgnoring => "term-ignoring",
            Self::Setsid => "setsid",
            Self::Daemon => "daemon",
        }
    }
}

/// A server with one descendant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) manner: Manner,
    pub(super) descendant: Descendant,
}

impl Tree {
    pub(super) const COUNT: usize = Manner::ALL.len() * Descendant::ALL.len();

    pub(super) fn all() -> impl Iterator<Item = Self> {
        let with = |manner| Descendant::ALL.map(|descendant| Self { manner, descendant });
        Manner::ALL.into_iter().flat_map(with)
    }
}

/// How its time comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The host lives on, and has closed the pipe.
    StdinClosed,
    Term,
    KillOfWrapper,
    KillOfHost,
    /// The host is killed, but the pipe stays open: another child of the host holds it.
    KillOfHostPipeHeld,
}

impl Ending {
    pub(super) const ALL: [Self; 5] =
        [Self::StdinClosed, Self::Term, Self::KillOfWrapper, Self::KillOfHost, Self::KillOfHostPipeHeld];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::StdinClosed => "stdin closed",
            Self::Term => "SIGTERM to the wrapper",
            Self::KillOfWrapper => "SIGKILL of the wrapper",
            Self::KillOfHost => "SIGKILL of the host",
            Self::KillOfHostPipeHeld => "SIGKILL of the host, pipe held",
        }
    }

    /// What `badchild host` is told.
    pub(super) fn options(self) -> &'static [&'static str] {
        if self == Self::KillOfHostPipeHeld { &["--hold"] } else { &[] }
    }

    /// What the wrapper is sent.
    pub(super) fn signal(self) -> Option<Signal> {
        match self {
            Self::Term => Some(Signal::TERM),
            Self::KillOfWrapper => Some(Signal::KILL),
            Self::StdinClosed | Self::KillOfHost | Self::KillOfHostPipeHeld => None,
        }
    }
}

/// One contender with one tree and one ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    /// A place in the list of contenders.
    pub(super) who: usize,
    pub(super) tree: Tree,
    pub(super) ending: Ending,
}
