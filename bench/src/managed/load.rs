//! Traffic as a busy host makes it: always so many requests on the way, and never a write that waits for a read.

use std::io::Write;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::request::{Answers, Filling, Request};
use super::session::Session;
use crate::Failure;

/// Short requests are written together up to this, as whoever has several to send does.
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
}

impl Session {
    /// Sends all of it, and sees every answer.
    pub(crate) fn bear(&mut self, load: &Load) -> Result<Turn, Failure> {
        let mut request = Request::new(load.size, load.filling);
        // Its answer is looked at in whole, and the others have to be as long.
        let (_, length) = self.call(&mut request)?;
        let answers = Answers::to(self.next, load.messages, length);
        let start = Instant::now();
        let times = if load.in_flight == 1 {
            self.one_by_one(load, &mut request, answers)
        } else {
            self.many_at_once(load, &mut request, answers)
        };
        let seconds = start.elapsed().as_secs_f64();
        self.next += load.messages as u64;
        let times = times.map_err(|error| self.explain(&error))?;
        Ok(Turn { times, messages_a_second: load.messages as f64 / seconds })
    }

    /// With a single thread, so that no hand-over between threads is measured.
    fn one_by_one(&mut self, load: &Load, request: &mut Request, mut answers: Answers) -> Result<Vec<f64>, Failure> {
        let input = self.started.input.as_mut().ok_or("no input")?;
        let mut times = Vec::with_capacity(load.messages);
        for number in self.next..self.next + load.messages as u64 {
            let start = Instant::now();
            input.write_all(request.numbered(number))?;
            let mut answered = false;
            while !answered {
                if let Some(line) = self.lines.next() {
                    answered = answers.take(line)?.is_some();
                } else if !self.lines.read(&mut self.started.output)? {
                    return Err("it ended".into());
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(times)
    }

    /// One thread writes and one reads: pipes hold far less than what may be on the way.
    fn many_at_once(
        &mut self,
        load: &Load,
        request: &mut Request,
        mut answers: Answers,
    ) -> Result<Vec<f64>, Failure> {
        let mut input = self.started.input.take().ok_or("no input")?;
        let clock = Clock { start: Instant::now(), sent: (0..load.messages).map(|_| AtomicU64::new(0)).collect() };
        let window = Window::new(load.in_flight);
        let first = self.next;
        let (read, written) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let written = write_all(&mut input, request, first, &clock, &window);
                (input, written)
            });
            let mut times = Vec::with_capacity(load.messages);
            let mut read = || -> Result<(), Failure> {
                while times.len() < load.messages {
                    let before = times.len();
                    while let Some(line) = self.lines.next() {
                        times.extend(answers.take(line)?.map(|at| clock.since_sent(at)));
                    }
                    window.open(times.len() - before);
                    if times.len() < load.messages && !self.lines.read(&mut self.started.output)? {
                        return Err("it ended".into());
                    }
                }
                Ok(())
            };
            let read = read();
            if read.is_err() {
                window.close();
                Session::kill(&self.started);
            }
            (read.map(|()| times), writer.join())
        });
        let (input, written) = written.map_err(|_| "the writer failed")?;
        self.started.input = Some(input);
        let times = read?;
        written?;
        Ok(times)
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
    /// None when all is over.
    free: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Window {
    fn new(free: usize) -> Self {
        Self { free: Mutex::new(Some(free)), changed: Condvar::new() }
    }

    /// Waits until something may be sent, and takes as much as is wanted of it. None when all is over.
    fn enter(&self, wanted: usize) -> Option<usize> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.changed.wait_while(free, |free| *free == Some(0)).unwrap_or_else(PoisonError::into_inner);
        let taken = free.as_ref()?.min(&wanted).to_owned();
        *free = free.map(|free| free - taken);
        Some(taken)
    }

    fn open(&self, more: usize) {
        if more > 0 {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            *free = free.map(|free| free + more);
            self.changed.notify_one();
        }
    }

    fn close(&self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changed.notify_one();
    }
}
