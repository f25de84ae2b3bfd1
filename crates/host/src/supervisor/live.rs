//! The child that there is: its streams, what it says, and how far it has come in its end.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nostray_rpc::{Id, Line, LineSummary, Lines};
use nostray_supervise::{Generation as Number, Lifecycle, SentLines};
use nostray_sys::{Pidfd, stream};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use super::Notification;
use super::tree_lock::TreeLockGuard;
use super::wire::{self, Message};
use crate::{CallError, Cause, Error, Exit, Handshake, LeaseSpec, Pen, Stdio};

/// A child whose output has ended may take so long to end itself.
const AFTER_ITS_OUTPUT: Duration = Duration::from_secs(2);
/// Its exit says more than the end of its output, and comes a moment later. No longer than this, if it lives on.
const FOR_ITS_EXIT: Duration = Duration::from_millis(100);
/// If it is ending, or has ended, its guard is about to say how, but may come late on a busy machine. No longer than this.
const FOR_ITS_GUARD: Duration = Duration::from_secs(5);
/// Its output ends with its tree, unless another process holds the pipe, too. No longer than this.
const FOR_ITS_OUTPUT: Duration = Duration::from_millis(200);
/// How much longer than it was promised a child may take after its input was closed, before its guard is asked to end it: another process may have a hold
/// of its input, like a process that another thread of the host has forked.
const MARGIN: Duration = Duration::from_millis(100);
/// No pipe holds more, unless an administrator has said so.
const MAX_PIPE: usize = 1 << 20;
/// A queue that was long, and is empty, keeps so much memory.
const MIN_QUEUE_CAPACITY: usize = 64 << 10;

/// The child that there is.
pub(super) struct Live {
    pub(super) number: Number,
    pub(super) pen: Pen,
    /// Until nothing is left of it, no other one is started.
    pub(super) tree_guard: TreeLockGuard,
    /// Readable when its front has ended.
    front: AsyncFd<OwnedFd>,
    pub(super) front_ended: bool,
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
    pub(super) lines: Lines,
    /// What is on its way to it.
    pub(super) out: VecDeque<u8>,
    /// Where the lines end that were said to it.
    said: SentLines,
    /// What was said to it that it has not read, since its input has ended.
    unread: Vec<u8>,
    /// How much of answers was added to that since it was last empty.
    pub(super) answers: usize,
    pub(super) handshake: VecDeque<(String, Value)>,
    /// The request of the handshake that it has not answered.
    pub(super) handshake_request: Option<u64>,
    pub(super) is_handshake_done: bool,
    /// A call was said to it, or waits in its input.
    pub(super) was_called: bool,
    /// Its input ends when all is written, or then.
    pub(super) close_stdin_at: Option<Instant>,
    /// It is asked to end then.
    stop_at: Option<Instant>,
    pub(super) was_asked_to_stop: bool,
    /// Its output has ended, and it is not taken for dead yet.
    closed_output: Option<ClosedOutput>,
    /// Nothing is left of it; its output is read to the end, or until then.
    gone: Option<(Exit, Instant)>,
}

/// Its output has ended.
struct ClosedOutput {
    /// When to look at the child again.
    look_at: Instant,
    /// When to take the child for dead, also if its end is not known.
    until: Instant,
    /// It did not end with its output.
    lived_on: bool,
}

/// Something that it does.
pub(super) enum ChildEvent {
    /// So many bytes were read.
    Output(usize),
    OutputEnded,
    Errors,
    Written,
    FrontEnded,
    /// Nothing is left of it.
    Gone(Exit),
}

/// What has come of its end.
pub(super) enum Due {
    /// Nothing is left of it, and all its output was read.
    Gone(Exit),
    /// Its output has ended, and something of it is left. How it has ended itself, if that is why.
    Dead(Option<Exit>),
}

/// What the child has said.
pub(super) enum Incoming {
    Answer {
        id: u64,
        result: Result<Box<RawValue>, CallError>,
    },
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// With the size of its line.
    Notification(Notification, usize),
    /// A request that was not kept.
    TooLong(Value),
}

impl Incoming {
    /// What is no message is no reason to stop listening: real servers print log lines.
    fn of(line: &Line<'_>) -> Option<Self> {
        match line {
            Line::Whole { text, .. } => Some(match wire::parse(text)? {
                Message::Answer { id, result } => Self::Answer {
                    id,
                    result: result.map_err(|error| CallError::Answered {
                        code: error.code,
                        message: error.message,
                        data: error.data,
                    }),
                },
                Message::Request { id, method, params } => Self::Request { id, method, params },
                Message::Notification(notification) => Self::Notification(notification, text.len()),
            }),
            Line::TooLong { length, summary: LineSummary { id: Some(id), method, is_response } } => match id {
                Id::Int(id) if *is_response => {
                    let result = Err(CallError::TooLong { length: *length });
                    Some(Self::Answer { id: u64::try_from(*id).ok()?, result })
                }
                id if method.is_some() => Some(Self::TooLong(serde_json::from_str(&id.to_json()).ok()?)),
                _ => None,
            },
            Line::TooLong { .. } => None,
        }
    }
}

/// The handle on the front, and the host's ends of stdin, stdout and stderr.
type Ends = (AsyncFd<OwnedFd>, Option<pipe::Sender>, Option<pipe::Receiver>, Option<pipe::Receiver>);

impl Live {
    /// Registers all that is waited for with the runtime.
    fn in_runtime(pen: &mut Pen) -> Result<Ends, Error> {
        let front = watched(pen.front().ok_or(Error::NoGuard)?).map_err(Error::during("watch the child"))?;
        let ends = || {
            let stdin = pen.stdin.take().map(crate::Stdin::into_tokio).transpose()?;
            let stdout = pen.stdout.take().map(crate::Stdout::into_tokio).transpose()?;
            Ok((front, stdin, stdout, pen.stderr.take().map(crate::Stderr::into_tokio).transpose()?))
        };
        ends().map_err(Error::during("set up the child's streams"))
    }

    pub(super) fn start(number: Number, tree_guard: TreeLockGuard, spec: &LeaseSpec) -> Result<Self, Error> {
        let mut pen = Pen::start(&spec.child, [Stdio::Piped, Stdio::Piped, spec.stderr])?;
        let (front, stdin, stdout, stderr) = match Self::in_runtime(&mut pen) {
            Ok(ends) => ends,
            Err(error) => {
                pen.end_in_background(Box::new(move || drop(tree_guard)));
                return Err(error);
            }
        };
        let handshake = match &spec.keeping.handshake {
            Handshake::None => VecDeque::new(),
            Handshake::Messages { requests, .. } => requests.iter().cloned().collect(),
        };
        Ok(Self {
            number,
            tree_guard,
            front,
            front_ended: false,
            stdin,
            stdout,
            stderr,
            pen,
            lines: Lines::new(spec.keeping.max_line),
            out: VecDeque::new(),
            said: SentLines::default(),
            unread: Vec::new(),
            answers: 0,
            handshake,
            handshake_request: None,
            is_handshake_done: false,
            was_called: false,
            close_stdin_at: None,
            stop_at: None,
            was_asked_to_stop: false,
            closed_output: None,
            gone: None,
        })
    }

    /// When to look at it again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let gone = self.gone.as_ref().map(|(_, at)| *at);
        let closed_output = self.closed_output.as_ref().map(|closed_output| closed_output.look_at);
        [self.close_stdin_at, self.stop_at, closed_output, gone].into_iter().flatten().min()
    }

    /// Does what is due. `eof` is how long it may take after the end of its input.
    pub(super) fn do_what_is_due(&mut self, eof: Duration) -> Option<Due> {
        let now = Instant::now();
        if self.close_stdin_at.is_some_and(|at| at <= now || self.out.is_empty()) {
            self.close_stdin_at = None;
            self.end_its_input();
            self.stop_at = Some(now + eof + MARGIN);
        }
        if self.stop_at.take_if(|at| *at <= now).is_some() {
            self.was_asked_to_stop = true;
            self.pen.ask_to_stop();
        }
        match self.gone.take_if(|(_, at)| *at <= now || self.stdout.is_none()) {
            Some((exit, _)) => Some(Due::Gone(exit)),
            None => self.look_at_its_end(now),
        }
    }

    /// What has become of it since its output ended.
    fn look_at_its_end(&mut self, now: Instant) -> Option<Due> {
        let closed_output = self.closed_output.take_if(|closed_output| closed_output.look_at <= now)?;
        match self.pen.ended() {
            // It was ended because it said nothing any more, and that is what was wrong with it.
            Some(exit) if closed_output.lived_on && exit.signal.is_some() && exit.cause != Cause::Itself => {
                Some(Due::Dead(None))
            }
            Some(exit) => Some(Due::Dead(Some(exit))),
            None if now < closed_output.until && self.pen.is_ending() => {
                self.closed_output = Some(ClosedOutput { look_at: now + FOR_ITS_EXIT, ..closed_output });
                None
            }
            None => Some(Due::Dead(None)),
        }
    }

    /// So much of its output was read.
    pub(super) fn read_messages(&mut self, count: usize) -> Vec<Incoming> {
        self.lines.filled(count);
        let mut incoming = Vec::new();
        while let Some(line) = self.lines.next_line() {
            incoming.extend(Incoming::of(&line));
        }
        incoming
    }

    /// Its output has ended, and with it what it can be asked. It is asked to end, if it has not; what it said last may lack the end of
    /// its line.
    pub(super) fn output_closed(&mut self, eof: Duration) -> Option<Incoming> {
        let now = Instant::now();
        self.stdout = None;
        // The kernel marks a process that is ending before it closes its files.
        let lived_on = !self.pen.is_ending();
        self.closed_output = Some(ClosedOutput { look_at: now + FOR_ITS_EXIT, until: now + FOR_ITS_GUARD, lived_on });
        self.close_stdin_at.get_or_insert(now + AFTER_ITS_OUTPUT.min(eof));
        self.lines.rest().and_then(|line| Incoming::of(&line))
    }

    /// Nothing is left of it, but its output may not have been read to the end.
    pub(super) fn is_gone(&mut self, exit: Exit) {
        self.gone = Some((exit, Instant::now() + FOR_ITS_OUTPUT));
    }

    /// Takes in what it has written to its standard error, so that its last words are not missing where its end is told. No more than a
    /// pipe holds: what is left of its tree may go on writing.
    pub(super) fn drain_stderr(&self, lifecycle: &mut Lifecycle) {
        let Some(stderr) = &self.stderr else { return };
        let (mut errors, mut incoming) = ([0; 4096], 0);
        // Not as the runtime reads it: that may not have noticed yet that there is something.
        while incoming < MAX_PIPE
            && let Ok(Some(count)) = stream::read(stderr, &mut errors)
            && count > 0
        {
            lifecycle.stderr(&errors[..count]);
            incoming += count;
        }
    }

    pub(super) fn say(&mut self, line: &[u8]) {
        self.said.add(line);
        let Some(stdin) = &self.stdin else { return self.unread.extend(line) };
        self.out.extend(line);
        if self.said.is_long()
            && let Some(in_pipe) = stream::unread(stdin.as_fd())
        {
            self.said.is_read(in_pipe + self.out.len() as u64);
        }
    }

    /// Nothing more is said to it. What it has been given it may still read, unless it cannot answer any more.
    fn end_its_input(&mut self) {
        let Some(stdin) = self.stdin.take() else { return };
        if self.stdout.is_none() {
            self.unread = stream::take_back(stdin.as_fd());
        }
        self.unread.extend(self.out.drain(..));
    }

    /// Takes from it the lines that it has not read. No process of its tree has read anything of them, and none will.
    pub(super) fn take_unread(&mut self) -> Vec<u8> {
        let mut unread = std::mem::take(&mut self.unread);
        if let Some(stdin) = &self.stdin {
            unread = stream::take_back(stdin.as_fd());
            unread.extend(self.out.drain(..));
        }
        self.said.whole_lines(unread)
    }

    /// The next thing that the child does. Nothing is lost if this future is dropped.
    pub(super) async fn next(&mut self, lifecycle: &mut Lifecycle) -> ChildEvent {
        let Self { stdin, stdout, stderr, lines, out, unread, answers, front, front_ended, pen, gone, .. } = self;
        let mut errors = [0; 4096];
        let read = async {
            let Some(stdout) = stdout else { return std::future::pending().await };
            loop {
                if stdout.readable().await.is_err() {
                    return ChildEvent::OutputEnded;
                }
                match stdout.try_read(lines.space()) {
                    Ok(0) => return ChildEvent::OutputEnded,
                    Ok(count) => return ChildEvent::Output(count),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return ChildEvent::OutputEnded,
                }
            }
        };
        let written = async {
            let Some(stdin) = stdin.as_ref().filter(|_| !out.is_empty()) else { return std::future::pending().await };
            loop {
                if stdin.writable().await.is_err() {
                    return None;
                }
                match stdin.try_write(out.as_slices().0) {
                    Ok(count) => return Some(count),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return None,
                }
            }
        };
        let said = async {
            let Some(stderr) = stderr else { return std::future::pending().await };
            loop {
                if stderr.readable().await.is_err() {
                    return 0;
                }
                match stderr.try_read(&mut errors) {
                    Ok(count) => return count,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return 0,
                }
            }
        };
        let ended = async {
            if gone.is_some() {
                std::future::pending().await
            } else if *front_ended {
                match pen.wait().await {
                    Ok(exit) => ChildEvent::Gone(exit),
                    Err(_) => std::future::pending().await,
                }
            } else {
                match front.readable().await {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => std::future::pending().await,
                }
                ChildEvent::FrontEnded
            }
        };
        // It may be waiting for any of these before it does another.
        tokio::select! {
            event = read => event,
            count = said => {
                if count == 0 {
                    *stderr = None;
                } else {
                    lifecycle.stderr(&errors[..count]);
                }
                ChildEvent::Errors
            }
            count = written => {
                match count {
                    Some(count) => drop(out.drain(..count)),
                    // All processes of its tree, and its keepers, have closed its input.
                    None => {
                        *unread = stdin.take().map(|stdin| stream::take_back(stdin.as_fd())).unwrap_or_default();
                        unread.extend(out.drain(..));
                    }
                }
                if out.is_empty() {
                    *answers = 0;
                    out.shrink_to(MIN_QUEUE_CAPACITY);
                }
                ChildEvent::Written
            }
            event = ended => event,
        }
    }
}

/// Readable when the process has ended.
#[expect(
    deprecated,
    reason = "what is wrong with it concerns values that do not own their descriptor; this one does"
)]
fn watched(process: &Pidfd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(process.duplicate()?, Interest::READABLE)
}
