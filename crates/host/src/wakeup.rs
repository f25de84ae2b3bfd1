//! Waking a task when a process has ended or a time has come, in any async runtime: one thread waits for all tasks of this program. It
//! is there only while a task waits.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use nostray_sys::Pidfd;
use nostray_sys::poll::{Until, wait};
use nostray_sys::stream::{Pipe, Sink, do_not_wait, read};

/// How long the thread rests if the kernel cannot poll.
const AFTER_A_FAILURE: Duration = Duration::from_millis(20);

/// Resolves when its event has come.
#[derive(Debug)]
pub(crate) struct Wakeup {
    entry: Arc<Entry>,
}

/// What a task waits for.
#[derive(Debug)]
struct Entry {
    process: Option<Arc<Pidfd>>,
    at: Option<Instant>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Not polled yet: the thread does not know of it.
    New,
    Waiting(Waker),
    Fired,
}

/// What the tasks and the thread share.
#[derive(Debug, Default)]
struct Shared {
    entries: Vec<Arc<Entry>>,
    /// Interrupts the thread, while it is there.
    interrupt: Option<OwnedFd>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { entries: Vec::new(), interrupt: None });

/// Resolves when the process has ended.
pub(crate) fn ended(process: &Arc<Pidfd>) -> Wakeup {
    Wakeup::new(Some(process.clone()), None)
}

/// Resolves at this time; never, if there is none.
pub(crate) fn sleep_until(at: Option<Instant>) -> Wakeup {
    Wakeup::new(None, at)
}

/// Resolves after this time. A time that no clock can show is for ever.
pub(crate) fn sleep(time: Duration) -> Wakeup {
    sleep_until(Instant::now().checked_add(time))
}

/// The output of a future, if it comes within this time.
pub(crate) async fn timeout<T>(time: Duration, future: impl Future<Output = T>) -> io::Result<Option<T>> {
    let (mut future, mut sleep) = (pin!(future), sleep(time));
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(Some(output))),
        Poll::Pending => Pin::new(&mut sleep).poll(context).map_ok(|()| None),
    })
    .await
}

/// Does something that takes its time, in a thread of its own. Dropping the future does not stop it.
pub(crate) async fn unblock(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let done = Wakeup::new(None, None);
    let entry = done.entry.clone();
    let work = move || {
        work();
        entry.fire();
    };
    std::thread::Builder::new().name("nostray-sweep".to_owned()).spawn(work)?;
    done.await
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    fn fire(&self) {
        let before = std::mem::replace(&mut *lock(&self.state), State::Fired);
        if let State::Waiting(waker) = before {
            waker.wake();
        }
    }

    fn has_fired(&self) -> bool {
        matches!(*lock(&self.state), State::Fired)
    }
}

impl Wakeup {
    fn new(process: Option<Arc<Pidfd>>, at: Option<Instant>) -> Self {
        Self { entry: Arc::new(Entry { process, at, state: Mutex::new(State::New) }) }
    }
}

impl Future for Wakeup {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let before = {
            let mut state = lock(&self.entry.state);
            if matches!(*state, State::Fired) {
                return Poll::Ready(Ok(()));
            }
            std::mem::replace(&mut *state, State::Waiting(context.waker().clone()))
        };
        // One without an event of its own is fired by another thread.
        let has_event = self.entry.process.is_some() || self.entry.at.is_some();
        if matches!(before, State::New) && has_event {
            register(&self.entry)?;
        }
        Poll::Pending
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        let mut shared = lock(&SHARED);
        let count = shared.entries.len();
        shared.entries.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
        if shared.entries.len() < count {
            interrupt(&shared);
        }
    }
}

fn interrupt(shared: &Shared) {
    if let Some(pipe) = &shared.interrupt {
        // A pipe that is full interrupts as well.
        Sink::OwnPipe.write(pipe.as_fd(), &[0]).ok();
    }
}

fn register(entry: &Arc<Entry>) -> io::Result<()> {
    let mut shared = lock(&SHARED);
    if shared.interrupt.is_none() {
        let Pipe { reader, writer } = Pipe::new()?;
        do_not_wait(&reader)?;
        do_not_wait(&writer)?;
        let thread = std::thread::Builder::new().name("nostray-waker".to_owned()).stack_size(128 << 10);
        thread.spawn(move || run(&reader))?;
        shared.interrupt = Some(writer);
    }
    shared.entries.push(entry.clone());
    interrupt(&shared);
    Ok(())
}

/// The thread.
fn run(interrupts: &OwnedFd) {
    loop {
        let entries = {
            let mut shared = lock(&SHARED);
            shared.entries.retain(|entry| !entry.has_fired());
            if shared.entries.is_empty() {
                shared.interrupt = None;
                return;
            }
            shared.entries.clone()
        };
        let process = |entry: &Arc<Entry>| entry.process.clone();
        let processes: Vec<_> = entries.iter().filter_map(|entry| Some((entry, process(entry)?))).collect();
        let mut events = vec![(interrupts.as_fd(), Until::Readable)];
        events.extend(processes.iter().map(|(_, process)| (process.as_fd(), Until::Readable)));
        let next = entries.iter().filter_map(|entry| entry.at).min();
        let came = wait(&events, next.map(|at| at.saturating_duration_since(Instant::now())));
        let Ok(came) = came else {
            std::thread::sleep(AFTER_A_FAILURE);
            continue;
        };
        let mut crumbs = [0; 64];
        while matches!(read(interrupts, &mut crumbs), Ok(Some(count)) if count > 0) {}
        let ended = processes.iter().zip(came.into_iter().skip(1)).filter(|(_, has_ended)| *has_ended);
        ended.for_each(|((entry, _), _)| entry.fire());
        let now = Instant::now();
        entries.iter().filter(|entry| entry.at.is_some_and(|at| at <= now)).for_each(|entry| entry.fire());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Wake;

    use super::*;

    /// The smallest runtime.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        struct Unpark(mpsc::Sender<()>);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.send(()).ok();
            }
        }
        let (sender, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Unpark(sender)));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            woken.recv_timeout(Duration::from_secs(60)).expect("it is woken");
        }
    }

    #[test]
    fn many_tasks_wait_for_processes_and_times_at_once() {
        let task = |number: u64| {
            move || {
                let mut child =
                    std::process::Command::new("sleep").arg(format!("0.0{}", number % 10)).spawn().expect("sleep");
                let pid = nostray_sys::Pid::from_raw(i32::try_from(child.id()).expect("small")).expect("not zero");
                let handle = Arc::new(Pidfd::open(pid).expect("a child of ours"));
                block_on(async {
                    sleep(Duration::from_millis(number)).await.expect("sleep");
                    assert!(timeout(Duration::from_secs(60), ended(&handle)).await.expect("wait").is_some());
                    assert!(handle.has_ended().expect("look"));
                    let never = timeout(Duration::from_millis(5), sleep(Duration::MAX)).await;
                    assert!(never.expect("sleep").is_none());
                });
                child.wait().expect("reap");
            }
        };
        let threads: Vec<_> = (0..20).map(|number| std::thread::spawn(task(number))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }

    #[test]
    fn what_takes_its_time_is_done_elsewhere() {
        let (sender, done) = mpsc::channel();
        block_on(unblock(move || sender.send(1).expect("is waited for"))).expect("a thread");
        assert_eq!(done.try_recv(), Ok(1));
    }
}
