//! Traffic as a busy host makes it: always so many requests on the way, and never a write that waits for a read.

use std::io::Write;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::patience::{Limits, Patience};
use super::request::{Answers, Filling, Request};
use super::session::Session;
use crate::Failure;

/// Short requests are written together up to this, as a client with several to send does.
const TOGETHER: usize = 64 * 1024;

/// A kind of traffic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Bytes of a request.
    pub(crate) size: usize,
    pub(crate) filling: Filling,
    pub(crate) in_flight: usize,
    /// In one turn.
    pub(crate) messages: usize,
    /// Host, server and all processes between them.
    pub(crate) on_one_processor: bool,
}

impl Load {
    /// Like `64 KiB`.
    pub(crate) fn size(&self) -> String {
        let size = match self.size {
            small if small < 1 << 10 => format!("{small} B"),
            medium if medium < 1 << 20 => format!("{} KiB", medium >> 10),
            large => format!("{} MiB", large >> 20),
        };
        if self.filling == Filling::Dense { size + ", dense" } else { size }
    }
}

/// What one turn came to.
pub(crate) struct Turn {
    /// Of each round trip, in microseconds.
    pub(crate) times: Vec<f64>,
    pub(crate) messages_a_second: f64,
    /// How many were given up, and the session with them.
    pub(crate) given_up: usize,
}

/// A run of requests, and what is known of their answers.
struct Run<'a> {
    load: &'a Load,
    first: u64,
    /// When nothing more is sent, however much there is.
    until: Option<Instant>,
    patience: Option<&'a Patience>,
    answers: Answers,
    /// Of the requests that were answered.
    times: Vec<f64>,
    sent: usize,
}

impl Run<'_> {
    fn is_time_up(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn take(&mut self, line: &[u8], time: impl FnOnce(usize) -> f64) -> Result<bool, Failure> {
        let Some(at) = self.answers.take(line)? else { return Ok(false) };
        self.times.push(time(at));
        if let Some(patience) = self.patience {
            patience.sees_an_answer();
        }
        Ok(true)
    }
}

impl Session {
    /// Sends all of it, or as much as there is time for, and sees every answer.
    pub(crate) fn bear(&mut self, load: &Load, limits: Option<Limits>) -> Result<Turn, Failure> {
        let Some(limits) = limits else {
            return self.bear_unexplained(load, None).map_err(|error| self.explain(&error));
        };
        let processes = self.all_processes();
        let patience = Patience::new(limits);
        let turn = std::thread::scope(|scope| {
            scope.spawn(|| patience.keep(|| Self::kill(&processes)));
            let turn = self.bear_unexplained(load, Some(&patience));
            patience.ends();
            turn
        });
        turn.map_err(|error| self.explain(&patience.why_it_ended().map_or(error, Failure::from)))
    }

    fn bear_unexplained(&mut self, load: &Load, patience: Option<&Patience>) -> Result<Turn, Failure> {
        let mut request = Request::new(load.size, load.filling);
        // Its answer is looked at in whole, and the others have to be the same.
        let (_, model) = self.call_unexplained(&mut request)?;
        let start = Instant::now();
        let mut run = Run {
            load,
            first: self.next,
            until: patience.map(|patience| start + patience.limits.sending),
            patience,
            answers: Answers::to(self.next, load.messages, &model)?,
            times: Vec::with_capacity(load.messages),
            sent: 0,
        };
        let done = if load.in_flight == 1 {
            self.one_by_one(&mut request, &mut run)
        } else {
            self.many_at_once(&mut request, &mut run)
        };
        let seconds = start.elapsed().as_secs_f64();
        self.next += load.messages as u64;
        let given_up = run.sent - run.times.len();
        let is_slow = patience.is_some_and(Patience::has_taken_too_long) && !run.times.is_empty();
        if !is_slow {
            done?;
        }
        let messages_a_second = run.times.len() as f64 / seconds;
        Ok(Turn { times: run.times, messages_a_second, given_up })
    }

    /// With a single thread, so that no hand-over between threads is measured.
    fn one_by_one(&mut self, request: &mut Request, run: &mut Run<'_>) -> Result<(), Failure> {
        let input = self.started.input.as_mut().ok_or("no input")?;
        while run.sent < run.load.messages && !run.is_time_up() {
            let start = Instant::now();
            run.sent += 1;
            input.write_all(request.numbered(run.first + run.sent as u64 - 1))?;
            let mut answered = false;
            while !answered {
                if let Some(line) = self.lines.next() {
                    let time = start.elapsed().as_secs_f64() * 1e6;
                    answered = run.take(line, |_| time)?;
                } else if !self.lines.read(&mut self.started.output)? {
                    return Err("it ended".into());
                }
            }
        }
        Ok(())
    }

    /// One thread writes and one reads: pipes hold far less than what may be on the way.
    fn many_at_once(&mut self, request: &mut Request, run: &mut Run<'_>) -> Result<(), Failure> {
        let mut input = self.started.input.take().ok_or("no input")?;
        let messages = run.load.messages;
        let clock = Clock { start: Instant::now(), sent: (0..messages).map(|_| AtomicU64::new(0)).collect() };
        let window = Window::new(run.load.in_flight);
        let first = run.first;
        let (read, written) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let written = write_all(&mut input, request, first, &clock, &window);
                (input, written)
            });
            let mut wanted = messages;
            let mut read = || -> Result<(), Failure> {
                while run.times.len() < wanted {
                    let before = run.times.len();
                    while let Some(line) = self.lines.next() {
                        run.take(line, |at| clock.since_sent(at))?;
                    }
                    if run.is_time_up() {
                        wanted = window.close();
                    }
                    window.open(run.times.len() - before);
                    if run.times.len() < wanted && !self.lines.read(&mut self.started.output)? {
                        return Err("it ended".into());
                    }
                }
                Ok(())
            };
            let read = read();
            run.sent = window.close();
            if read.is_err() {
                Session::kill(&self.started.scene.processes());
            }
            (read, writer.join())
        });
        let (input, written) = written.map_err(|_| "the writer failed")?;
        self.started.input = Some(input);
        read?;
        written
    }
}

fn write_all(
    input: &mut ChildStdin,
    request: &mut Request,
    first: u64,
    clock: &Clock,
    window: &Window,
) -> Result<(), Failure> {
    let together = (TOGETHER / request.len()).max(1);
    let mut lines = Vec::new();
    let mut at = 0;
    while at < clock.sent.len() {
        let Some(count) = window.enter(clock.sent.len() - at) else { return Ok(()) };
        // From here on they are on the way: what a pipe does not take at once waits for it, as it does in a host.
        clock.sends(at..at + count);
        let end = at + count;
        while at < end {
            let next = end.min(at + together);
            lines.clear();
            // One alone is not worth a copy.
            let bytes = if next == at + 1 {
                request.numbered(first + at as u64)
            } else {
                (at..next).for_each(|at| lines.extend_from_slice(request.numbered(first + at as u64)));
                &lines
            };
            input.write_all(bytes)?;
            at = next;
        }
    }
    Ok(())
}

/// When each message was sent.
struct Clock {
    start: Instant,
    /// Nanoseconds after the start.
    sent: Vec<AtomicU64>,
}

impl Clock {
    fn sends(&self, those: std::ops::Range<usize>) {
        let now = self.now();
        self.sent[those].iter().for_each(|sent| sent.store(now, Ordering::Release));
    }

    /// In microseconds.
    fn since_sent(&self, at: usize) -> f64 {
        (self.now() - self.sent[at].load(Ordering::Acquire)) as f64 / 1e3
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// How many more may be sent.
struct Window {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// None when all is over.
    free: Option<usize>,
    /// How many have been sent, or are being sent.
    entered: usize,
}

impl Window {
    fn new(free: usize) -> Self {
        Self { state: Mutex::new(State { free: Some(free), entered: 0 }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may be sent, and takes as much as is wanted of it. None when all is over.
    fn enter(&self, wanted: usize) -> Option<usize> {
        let waiting = self.changed.wait_while(self.state(), |state| state.free == Some(0));
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
        let taken = state.free?.min(wanted);
        state.free = state.free.map(|free| free - taken);
        state.entered += taken;
        Some(taken)
    }

    fn open(&self, more: usize) {
        if more > 0 {
            let mut state = self.state();
            state.free = state.free.map(|free| free + more);
            self.changed.notify_one();
        }
    }

    /// Lets nothing more through, and says how many have come through.
    fn close(&self) -> usize {
        let mut state = self.state();
        state.free = None;
        self.changed.notify_one();
        state.entered
    }
}
