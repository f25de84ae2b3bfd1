//! Reaping children whose `Pen` or `Lease` was dropped. One thread does it, which exists only while there is such a child or a timer. It
//! needs no runtime, since the runtime may be gone.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_sys::poll::{Until, wait};
use nostray_sys::stream::Pipe;

use crate::spawn::Started;

/// How often to look for what has no event.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How much longer than its eof grace an abandoned child may take before its guard is asked to end it.
const MARGIN: Duration = Duration::from_millis(100);

/// A child that was let go of.
#[derive(Debug)]
struct Abandoned {
    started: Started,
    /// Its input has been closed. If another process holds the pipe, too, that does not reach it, and its guard is asked at this time.
    ask_at: Option<Instant>,
    sweep_at: Option<Instant>,
    then: Option<Task>,
}

/// Something to be done, at its time or after a child has ended.
type Work = Box<dyn FnOnce() + Send>;
struct Task(Work);

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Task")
    }
}

#[derive(Debug, Default)]
struct Shared {
    abandoned: Vec<Abandoned>,
    timers: Vec<(Instant, Task)>,
    /// Wakes the thread, while it is there.
    waker: Option<OwnedFd>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { abandoned: Vec::new(), timers: Vec::new(), waker: None });

/// Sees a child to its end whose input has been closed, and does something then.
pub(crate) fn end_in_background(started: Started, then: Option<Work>) {
    if !started.is_ours() {
        return;
    }
    // The end of its input is how it is asked first, if that is ours to say.
    let patience = if started.is_piped { started.graces.eof() + MARGIN } else { Duration::ZERO };
    let ask_at = Some(Instant::now() + patience);
    let abandoned = Abandoned { started, ask_at, sweep_at: None, then: then.map(Task) };
    add(|shared| shared.abandoned.push(abandoned));
}

/// Does something at its time.
pub(crate) fn at(when: Instant, work: Work) {
    add(|shared| shared.timers.push((when, Task(work))));
}

fn add(what: impl FnOnce(&mut Shared)) {
    let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    what(&mut shared);
    if let Some(waker) = &shared.waker {
        nostray_sys::stream::Sink::OwnPipe.write(waker.as_fd(), &[0]).ok();
        return;
    }
    let Ok(pipe) = Pipe::new() else { return };
    if nostray_sys::stream::do_not_wait(&pipe.writer).is_err()
        || nostray_sys::stream::do_not_wait(&pipe.reader).is_err()
    {
        return;
    }
    let reader = pipe.reader;
    // Without a thread the next one who lets go of something tries again; the guard ends the tree all the same.
    let named = std::thread::Builder::new().name("nostray-reaper".to_owned()).stack_size(128 << 10);
    if named.spawn(move || work(&reader)).is_ok() {
        shared.waker = Some(pipe.writer);
    }
}

fn work(wakes: &OwnedFd) {
    loop {
        let (mut abandoned, timers) = {
            let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let now = Instant::now();
            let (due, later) = std::mem::take(&mut shared.timers).into_iter().partition(|(at, _)| *at <= now);
            shared.timers = later;
            let due: Vec<(Instant, Task)> = due;
            if shared.abandoned.is_empty() && shared.timers.is_empty() && due.is_empty() {
                shared.waker = None;
                return;
            }
            (std::mem::take(&mut shared.abandoned), due)
        };
        timers.into_iter().for_each(|(_, Task(work))| work());
        let mut over = Vec::new();
        abandoned.retain_mut(|abandoned| {
            let is_over = abandoned.look();
            if is_over {
                abandoned.started.exit(); // which traces it
            }
            over.extend(abandoned.then.take_if(|_| is_over));
            !is_over
        });
        // What is done then may let go of something else.
        over.into_iter().for_each(|Task(work)| work());
        let next = abandoned.iter().filter_map(Abandoned::next).min();
        let handles: Vec<_> =
            abandoned.iter().map(|abandoned| (abandoned.started.handle.as_fd(), Until::Readable)).collect();
        let (timer, is_idle) = {
            let shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            (shared.timers.iter().map(|(at, _)| *at).min(), shared.timers.is_empty() && shared.abandoned.is_empty())
        };
        let timeout = [next, timer].into_iter().flatten().min();
        if !(abandoned.is_empty() && is_idle) {
            let mut events = vec![(wakes.as_fd(), Until::Readable)];
            // The pidfd of a process that has ended stays readable; `look` sees to it in a moment.
            events.extend(handles.iter().filter(|(fd, _)| !has_ended(fd)));
            wait(&events, timeout.map(|at| at.saturating_duration_since(Instant::now()))).ok();
        }
        drop(handles);
        let mut crumbs = [0; 64];
        while matches!(nostray_sys::stream::read(wakes, &mut crumbs), Ok(Some(count)) if count > 0) {}
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.abandoned.append(&mut abandoned);
    }
}

fn has_ended(fd: &std::os::fd::BorrowedFd<'_>) -> bool {
    wait(&[(*fd, Until::Readable)], Some(Duration::ZERO)).is_ok_and(|came| came.contains(&true))
}

impl Abandoned {
    /// Does what is due. True once nothing is left of it.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        if self.started.reap() {
            if self.started.is_gone() {
                return true;
            }
            // Its front was killed. Its spare or guard ends the tree; if those were killed, too, a sweep does.
            if self.sweep_at.is_none_or(|at| at <= now) {
                if self.sweep_at.is_some() {
                    self.started.sweeper()();
                }
                self.sweep_at = Some(now + POLL_INTERVAL);
            }
            return self.started.is_gone();
        }
        if self.ask_at.take_if(|at| *at <= now).is_some() {
            self.started.ask(Ask::Stop);
        }
        false
    }

    fn next(&self) -> Option<Instant> {
        [self.ask_at, self.sweep_at].into_iter().flatten().min()
    }
}
