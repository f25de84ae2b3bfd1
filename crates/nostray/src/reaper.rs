//! What is left to do when somebody has let go of a child: seeing it to its end. One thread, which is there for as long as there is
//! something to do and not longer; it needs no runtime, since that may be gone.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_sys::poll::{Until, wait};
use nostray_sys::stream::Pipe;

use crate::spawn::Started;

/// How often to look for what has no event.
const LOOK: Duration = Duration::from_millis(20);
/// How much longer than it was promised a child that nobody holds may take, before it is asked again.
const MARGIN: Duration = Duration::from_millis(100);

/// A child that was let go of.
#[derive(Debug)]
struct Orphan {
    started: Started,
    /// Its input has been closed; if that does not reach it (somebody else has the pipe), it is asked then.
    ask_at: Option<Instant>,
    sweep_at: Option<Instant>,
    then: Option<Done>,
}

/// Something to be done, at its time or after a child has ended.
type Work = Box<dyn FnOnce() + Send>;
struct Done(Work);

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Done")
    }
}

#[derive(Debug, Default)]
struct Shared {
    orphans: Vec<Orphan>,
    timers: Vec<(Instant, Done)>,
    /// Wakes the thread, while it is there.
    waker: Option<OwnedFd>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { orphans: Vec::new(), timers: Vec::new(), waker: None });

/// Sees a child to its end whose input has been closed, and does something then.
pub(crate) fn see_off(started: Started, then: Option<Work>) {
    if !started.is_ours() {
        return;
    }
    // The end of its input is how it is asked first, if that is ours to say.
    let patience = if started.is_piped { started.graces.eof() + MARGIN } else { Duration::ZERO };
    let ask_at = Some(Instant::now() + patience);
    let orphan = Orphan { started, ask_at, sweep_at: None, then: then.map(Done) };
    add(|shared| shared.orphans.push(orphan));
}

/// Does something at its time.
pub(crate) fn at(when: Instant, work: Work) {
    add(|shared| shared.timers.push((when, Done(work))));
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
        let (mut orphans, timers) = {
            let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let now = Instant::now();
            let (due, later) = std::mem::take(&mut shared.timers).into_iter().partition(|(at, _)| *at <= now);
            shared.timers = later;
            let due: Vec<(Instant, Done)> = due;
            if shared.orphans.is_empty() && shared.timers.is_empty() && due.is_empty() {
                shared.waker = None;
                return;
            }
            (std::mem::take(&mut shared.orphans), due)
        };
        timers.into_iter().for_each(|(_, Done(work))| work());
        let mut over = Vec::new();
        orphans.retain_mut(|orphan| {
            let is_over = orphan.look();
            if is_over {
                orphan.started.exit(); // for those who trace
            }
            over.extend(orphan.then.take_if(|_| is_over));
            !is_over
        });
        // What is done then may let go of something else.
        over.into_iter().for_each(|Done(work)| work());
        let next = orphans.iter().filter_map(Orphan::next).min();
        let handles: Vec<_> = orphans.iter().map(|orphan| (orphan.started.handle.as_fd(), Until::Readable)).collect();
        let (timer, is_idle) = {
            let shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            (shared.timers.iter().map(|(at, _)| *at).min(), shared.timers.is_empty() && shared.orphans.is_empty())
        };
        let timeout = [next, timer].into_iter().flatten().min();
        if !(orphans.is_empty() && is_idle) {
            let mut events = vec![(wakes.as_fd(), Until::Readable)];
            // One that has ended stays readable; it is looked at again in a moment.
            events.extend(handles.iter().filter(|(fd, _)| !has_ended(fd)));
            wait(&events, timeout.map(|at| at.saturating_duration_since(Instant::now()))).ok();
        }
        drop(handles);
        let mut crumbs = [0; 64];
        while matches!(nostray_sys::stream::read(wakes, &mut crumbs), Ok(Some(count)) if count > 0) {}
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.orphans.append(&mut orphans);
    }
}

fn has_ended(fd: &std::os::fd::BorrowedFd<'_>) -> bool {
    wait(&[(*fd, Until::Readable)], Some(Duration::ZERO)).is_ok_and(|came| came.contains(&true))
}

impl Orphan {
    /// Does what is due. True once nothing is left of it.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        if self.started.reap() {
            if self.started.is_gone() {
                return true;
            }
            // Its front was killed; whoever is left keeps it, or nobody does.
            if self.sweep_at.is_none_or(|at| at <= now) {
                if self.sweep_at.is_some() {
                    self.started.sweeper()();
                }
                self.sweep_at = Some(now + LOOK);
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
