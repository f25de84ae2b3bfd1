//! The child that there is: its streams, what it says, and how far it has come in its end.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nostray_rpc::{Id, Line, Lines, Skimmed};
use nostray_supervise::{Generation as Number, Lifecycle, SentLines};
use nostray_sys::stream;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use super::Notification;
use super::spot::Tenure;
use super::wire::{self, Message};
use crate::watched::watched;
use crate::{CallError, Cause, Exit, Handshake, Pen};

/// A child whose output has ended may take so long to end itself.
const AFTER_ITS_OUTPUT: Duration = Duration::from_secs(2);
/// Its exit says more than the end of its output, and comes a moment later. No longer than this, if it lives on.
const FOR_ITS_EXIT: Duration = Duration::from_millis(100);
/// If it is ending, or has ended, its guard is about to say how, but may come late on a busy machine. No longer than this.
const FOR_ITS_GUARD: Duration = Duration::from_secs(5);
/// Its output ends with its tree, unless somebody else has a hold of it, too. No longer than this.
const FOR_ITS_OUTPUT: Duration = Duration::from_millis(200);
/// How much longer than it was promised a child may take after its input was closed, before it is asked: somebody else may have a hold
/// of its input, like a process that another thread of the host has forked.
const MARGIN: Duration = Duration::from_millis(100);
/// No pipe holds more, unless an administrator has said so.
const LARGEST_PIPE: usize = 1 << 20;
/// A queue that was long, and is empty, keeps so much memory.
const SMALL: usize = 64 << 10;

/// The child that there is.
pub(super) struct Live {
    pub(super) number: Number,
    pub(super) pen: Pen,
    /// Until nothing is left of it, no other one is started.
    pub(super) tenure: Tenure,
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
    pub(super) greeting: Option<u64>,
    pub(super) is_greeted: bool,
    /// A call was said to it, or waits in its input.
    pub(super) was_called: bool,
    /// Its input ends when all is written, or then.
    pub(super) silent_at: Option<Instant>,
    /// It is asked to end then.
    ask_at: Option<Instant>,
    pub(super) has_asked: bool,
    /// Its output has ended, and it is not taken for dead yet.
    mute: Option<Mute>,
    /// Nothing is left of it; its output is read to the end, or until then.
    gone: Option<(Exit, Instant)>,
}

/// Its output has ended.
struct Mute {
    /// It is looked at again then.
    look_at: Instant,
    /// It is taken for dead then, whatever is known of its end.
    until: Instant,
    /// It did not end with its output.
    lived_on: bool,
}

/// Something that it does.
pub(super) enum Stir {
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
    /// Nothing is left of it, and all that it said was heard.
    Gone(Exit),
    /// Its output has ended, and something of it is left. How it has ended itself, if that is why.
    Dead(Option<Exit>),
}

/// What the child has said.
pub(super) enum Heard {
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

impl Heard {
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
            Line::TooLong { length, skimmed: Skimmed { id: Some(id), method, is_response } } => match id {
                Id::Int(id) if *is_response => {
                    let why = format!("the answer has {length} bytes, and max_line does not allow so many");
                    Some(Self::Answer { id: u64::try_from(*id).ok()?, result: Err(CallError::Json(why)) })
                }
                id if method.is_some() => Some(Self::TooLong(serde_json::from_str(&id.to_json()).ok()?)),
                _ => None,
            },
            Line::TooLong { .. } => None,
        }
    }
}

impl Live {
    pub(super) fn start(number: Number, tenure: Tenure, spec: &crate::Spec) -> Result<Self, crate::Error> {
        let mut pen = Pen::spawn(spec)?;
        let front = pen
            .front()
            .ok_or(crate::Error::NoGuard)
            .and_then(|front| watched(front).map_err(crate::Error::during("watch the child")));
        let front = match front {
            Ok(front) => front,
            Err(error) => {
                pen.see_off(Box::new(move || drop(tenure)));
                return Err(error);
            }
        };
        let handshake = match &spec.keeping.handshake {
            Handshake::None => VecDeque::new(),
            Handshake::Messages { requests, .. } => requests.iter().cloned().collect(),
        };
        Ok(Self {
            number,
            tenure,
            front,
            front_ended: false,
            stdin: pen.stdin.take(),
            stdout: pen.stdout.take(),
            stderr: pen.stderr.take(),
            pen,
            lines: Lines::new(spec.keeping.max_line),
            out: VecDeque::new(),
            said: SentLines::default(),
            unread: Vec::new(),
            answers: 0,
            handshake,
            greeting: None,
            is_greeted: false,
            was_called: false,
            silent_at: None,
            ask_at: None,
            has_asked: false,
            mute: None,
            gone: None,
        })
    }

    /// When to look at it again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let gone = self.gone.as_ref().map(|(_, at)| *at);
        let mute = self.mute.as_ref().map(|mute| mute.look_at);
        [self.silent_at, self.ask_at, mute, gone].into_iter().flatten().min()
    }

    /// Does what is due. `eof` is how long it may take after the end of its input.
    pub(super) fn do_what_is_due(&mut self, eof: Duration) -> Option<Due> {
        let now = Instant::now();
        if self.silent_at.is_some_and(|at| at <= now || self.out.is_empty()) {
            self.silent_at = None;
            self.end_its_input();
            self.ask_at = Some(now + eof + MARGIN);
        }
        if self.ask_at.take_if(|at| *at <= now).is_some() {
            self.has_asked = true;
            self.pen.ask_to_stop();
        }
        match self.gone.take_if(|(_, at)| *at <= now || self.stdout.is_none()) {
            Some((exit, _)) => Some(Due::Gone(exit)),
            None => self.look_at_its_end(now),
        }
    }

    /// What has become of it since its output ended.
    fn look_at_its_end(&mut self, now: Instant) -> Option<Due> {
        let mute = self.mute.take_if(|mute| mute.look_at <= now)?;
        match self.pen.ended() {
            // It was ended because it said nothing any more, and that is what was wrong with it.
            Some(exit) if mute.lived_on && exit.signal.is_some() && exit.cause != Cause::Itself => {
                Some(Due::Dead(None))
            }
            Some(exit) => Some(Due::Dead(Some(exit))),
            None if now < mute.until && self.pen.is_ending() => {
                self.mute = Some(Mute { look_at: now + FOR_ITS_EXIT, ..mute });
                None
            }
            None => Some(Due::Dead(None)),
        }
    }

    /// So much of its output was read.
    pub(super) fn hear(&mut self, count: usize) -> Vec<Heard> {
        self.lines.filled(count);
        let mut heard = Vec::new();
        while let Some(line) = self.lines.next_line() {
            heard.extend(Heard::of(&line));
        }
        heard
    }

    /// Its output has ended, and with it what it can be asked. It is asked to end, if it has not; what it said last may lack the end of
    /// its line.
    pub(super) fn is_mute(&mut self, eof: Duration) -> Option<Heard> {
        let now = Instant::now();
        self.stdout = None;
        // One that is ending is marked so by the kernel before its files are closed.
        let lived_on = !self.pen.is_ending();
        self.mute = Some(Mute { look_at: now + FOR_ITS_EXIT, until: now + FOR_ITS_GUARD, lived_on });
        self.silent_at.get_or_insert(now + AFTER_ITS_OUTPUT.min(eof));
        self.lines.rest().and_then(|line| Heard::of(&line))
    }

    /// Nothing is left of it, but its output may not have been read to the end.
    pub(super) fn is_gone(&mut self, exit: Exit) {
        self.gone = Some((exit, Instant::now() + FOR_ITS_OUTPUT));
    }

    /// Takes in what it has written to its standard error, so that its last words are not missing where its end is told. No more than a
    /// pipe holds: what is left of its tree may go on writing.
    pub(super) fn hear_last_words(&self, lifecycle: &mut Lifecycle) {
        let Some(stderr) = &self.stderr else { return };
        let (mut errors, mut heard) = ([0; 4096], 0);
        // Not as the runtime reads it: that may not have noticed yet that there is something.
        while heard < LARGEST_PIPE
            && let Ok(Some(count)) = stream::read(stderr, &mut errors)
            && count > 0
        {
            lifecycle.stderr(&errors[..count]);
            heard += count;
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

    /// The next thing that it does. Nothing is lost if nobody waits for it to the end.
    pub(super) async fn next(&mut self, lifecycle: &mut Lifecycle) -> Stir {
        let Self { stdin, stdout, stderr, lines, out, unread, answers, front, front_ended, pen, gone, .. } = self;
        let mut errors = [0; 4096];
        let read = async {
            let Some(stdout) = stdout else { return std::future::pending().await };
            loop {
                if stdout.readable().await.is_err() {
                    return Stir::OutputEnded;
                }
                match stdout.try_read(lines.space()) {
                    Ok(0) => return Stir::OutputEnded,
                    Ok(count) => return Stir::Output(count),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return Stir::OutputEnded,
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
                    Ok(exit) => Stir::Gone(exit),
                    Err(_) => std::future::pending().await,
                }
            } else {
                match front.readable().await {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => std::future::pending().await,
                }
                Stir::FrontEnded
            }
        };
        // It may be waiting for any of these before it does another.
        tokio::select! {
            stir = read => stir,
            count = said => {
                if count == 0 {
                    *stderr = None;
                } else {
                    lifecycle.stderr(&errors[..count]);
                }
                Stir::Errors
            }
            count = written => {
                match count {
                    Some(count) => drop(out.drain(..count)),
                    // All of its tree, and all who kept it, have closed its input.
                    None => {
                        *unread = stdin.take().map(|stdin| stream::take_back(stdin.as_fd())).unwrap_or_default();
                        unread.extend(out.drain(..));
                    }
                }
                if out.is_empty() {
                    *answers = 0;
                    out.shrink_to(SMALL);
                }
                Stir::Written
            }
            stir = ended => stir,
        }
    }
}
