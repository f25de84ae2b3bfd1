//! Status lines: a host that starts nostray with `--status-fd` is told what becomes of its child, one JSON object a line.
//!
//! Front, spare and guard all hold the descriptor, and no process of the tree does. So its end of file tells the host that none of them is
//! left, and that is after the tree is empty.

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::rc::Rc;

use nostray_pen::{Event, Objection, Opening, Ready, Witness};
use nostray_sys::descriptors::own_inherited_writer;
use nostray_sys::process::Ended;
use nostray_sys::stream::Sink;
use serde::Serialize;

/// One line.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum StatusEvent<'a> {
    /// The child waits for its slot.
    Waiting {
        /// Which.
        slot: &'a str,
        /// The holder, for a person.
        text: &'a str,
    },
    /// The slot was not to be had, and nothing was started.
    Refused {
        /// For a person.
        text: &'a str,
    },
    /// nostray itself failed.
    Failed {
        /// For a person.
        text: &'a str,
    },
    /// The child is about to become its program.
    Started {
        /// The id of its record.
        id: &'a str,
        /// Its number; not known in a pid namespace of its own.
        pid: Option<i32>,
    },
    /// The child has become its program.
    Executed,
    /// The child could not become its program.
    NotExecuted {
        /// The system's number for the reason.
        errno: i32,
        /// For a person.
        text: &'a str,
    },
    /// The child is ready.
    Ready,
    /// The tear-down has begun.
    Stopping {
        /// Why, in one word.
        reason: &'a str,
        /// For a person.
        text: String,
    },
    /// The child has ended.
    Exited {
        /// Its exit code.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<u8>,
        /// The signal that ended it.
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// Nothing is left of the tree.
    Empty,
    /// The session holds a shared child.
    Attached {
        /// The id of the child's record.
        id: &'a str,
        /// What people call the child.
        name: &'a str,
    },
    /// The session has a child of its own, since none can be shared.
    Alone {
        /// Why.
        text: &'a str,
    },
    /// A supervised or shared child is there.
    Up {
        /// Counts the children of this session.
        generation: u64,
    },
    /// That child is gone, or asleep.
    Down {
        /// Which one.
        generation: u64,
        /// What became of it.
        text: &'a str,
    },
    /// No child follows, and the session ends.
    Over {
        /// Why.
        text: &'a str,
    },
}

/// Where the lines go. Clones write to the same descriptor.
#[derive(Debug, Clone)]
pub struct StatusLines {
    to: Rc<OwnedFd>,
    sink: Sink,
}

impl StatusLines {
    /// Takes over this descriptor of the host's. To be called before anything else is opened.
    pub fn take_over(number: RawFd) -> io::Result<Self> {
        let to = own_inherited_writer(number)?;
        let sink = Sink::of(to.as_fd());
        Ok(Self { to: Rc::new(to), sink })
    }

    /// Writes one line. A host that does not read loses lines: a guard must not wait for it.
    pub fn say(&self, event: &StatusEvent<'_>) {
        if let Ok(mut line) = serde_json::to_vec(event) {
            line.push(b'\n');
            self.sink.write(self.to.as_fd(), &line).ok();
        }
    }
}

/// A witness that writes status lines, beside another witness.
#[derive(Debug)]
pub struct StatusWitness {
    inner: Box<dyn Witness>,
    lines: StatusLines,
    id: String,
    ready_at_start: bool,
}

impl StatusWitness {
    /// For a pen that is about to be opened.
    #[must_use]
    pub fn new(inner: Box<dyn Witness>, lines: StatusLines) -> Self {
        Self { inner, lines, id: String::new(), ready_at_start: true }
    }
}

impl Witness for StatusWitness {
    fn opens(&mut self, opening: &Opening<'_>) -> Result<(), Objection> {
        self.id = opening.id.to_string();
        self.ready_at_start = matches!(opening.spec.ready, Ready::Started);
        self.inner.opens(opening)
    }

    fn settled(&mut self) {
        self.inner.settled();
    }

    fn sees(&mut self, event: &Event) {
        // The host may look for the record as soon as it reads the line.
        self.inner.sees(event);
        let line = match event {
            Event::Started { child, .. } => {
                let pid = child.map(|child| child.pid.as_raw_nonzero().get());
                StatusEvent::Started { id: &self.id, pid }
            }
            Event::Executed => StatusEvent::Executed,
            Event::NotExecuted { why, errno } => StatusEvent::NotExecuted { errno: *errno, text: why },
            Event::Ready => StatusEvent::Ready,
            Event::Stopping(reason) => StatusEvent::Stopping { reason: reason.word(), text: reason.to_string() },
            Event::ChildEnded(Ended::Exited(code)) => StatusEvent::Exited { code: Some(*code), signal: None },
            Event::ChildEnded(Ended::Killed(signal)) => {
                StatusEvent::Exited { code: None, signal: Some(signal.as_raw()) }
            }
            Event::Empty => StatusEvent::Empty,
            _ => return,
        };
        self.lines.say(&line);
        if matches!(event, Event::Executed) && self.ready_at_start {
            self.lines.say(&StatusEvent::Ready);
        }
    }
}
