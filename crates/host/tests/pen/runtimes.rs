//! Pens in a host without tokio: an executor of twenty lines waits for them, and the streams are the standard library's. The same with
//! and without the feature `supervisor`.

use std::future::Future;
use std::io::{Read, Write};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::apart::{apart, child, expect_alone, keepers, zombies};
use badchild::{PATIENCE, wait_until};
use nostray::{Cause, ChangeKind, Error, IfTaken, Pen, PenSpec, Registry, singleton};
use nostray_sys::Signal;

struct Awake(Sender<()>);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.send(()).ok();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (sender, woken) = channel();
    let waker = Waker::from(Arc::new(Awake(sender)));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        woken.recv_timeout(PATIENCE).expect("it is woken");
    }
}

#[test]
fn a_pen_is_waited_for_in_any_runtime() {
    apart(|| {
        let mut pen = Pen::spawn(&PenSpec::builder("cat").build().expect("right")).expect("start a pen");
        let mut stdin = pen.stdin.take().expect("piped").into_std().expect("a pipe");
        stdin.write_all(b"hello").expect("write");
        drop(stdin);
        let mut text = String::new();
        pen.stdout.take().expect("piped").into_std().expect("a pipe").read_to_string(&mut text).expect("read");
        assert_eq!(text, "hello");
        assert!(block_on(pen.wait()).expect("wait").success());
        assert!(block_on(pen.wait()).expect("wait again").success());
        expect_alone();
        assert_eq!(zombies(), [0; 0]);
        // The thread that wakes tasks ends when no task waits.
        wait_until("one thread is left", || std::fs::read_dir("/proc/self/task").expect("read").count() <= 2);
    });
}

#[test]
fn many_pens_are_stopped_at_once_in_any_runtime() {
    apart(|| {
        let stop = || {
            let spec = child(&["tree", "stubborn", "daemon"]).build().expect("right");
            let mut pen = Pen::spawn(&spec).expect("start a pen");
            let mut stdout = pen.stdout.take().expect("piped").into_std().expect("a pipe");
            stdout.read_exact(&mut [0; 6]).expect("it is ready");
            let exit = block_on(pen.stop(Duration::from_millis(20), Duration::from_millis(20))).expect("stop");
            assert_eq!(exit.signal, Some(9), "{exit}");
        };
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(stop))));
        expect_alone();
    });
}

#[test]
fn a_pen_whose_front_is_killed_is_waited_for_until_nothing_is_left() {
    apart(|| {
        let spec = child(&["tree", "stubborn", "daemon"]).build().expect("right");
        let mut pen = Pen::spawn(&spec).expect("start a pen");
        let mut stdout = pen.stdout.take().expect("piped").into_std().expect("a pipe");
        stdout.read_exact(&mut [0; 6]).expect("it is ready");
        wait_until("the guard has told", || pen.child_pid().is_some());
        keepers().iter().for_each(|keeper| keeper.send(Signal::KILL));
        let exit = block_on(pen.wait()).expect("wait");
        assert_eq!(exit.cause, Cause::KeepersKilled);
        expect_alone();
    });
}

#[test]
fn a_missing_program_is_an_error_at_once() {
    apart(|| {
        let refused = Pen::spawn(&PenSpec::builder("no-such-program-in-path").build().expect("right"));
        let Err(Error::Program { program, source }) = refused else { panic!("{refused:?}") };
        assert_eq!(program.to_str(), Some("no-such-program-in-path"));
        assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
        assert_eq!(badchild::company().len(), 0);
        assert_eq!(Registry::new().list().len(), 0);
    });
}

#[test]
fn slots_and_the_registry_are_waited_for_in_any_runtime() {
    apart(|| {
        let mut watch = Registry::new().watch();
        let held = block_on(singleton::acquire_async("s", IfTaken::Fail)).expect("free");
        let late = singleton::acquire_async("s", IfTaken::WaitFor(Duration::from_millis(200)));
        assert!(matches!(block_on(late), Err(Error::Taken(_))));
        let waiter = std::thread::spawn(|| block_on(singleton::acquire_async("s", IfTaken::Wait)));
        drop(held);
        waiter.join().expect("no panic").expect("free again");
        let mut pen = Pen::spawn(&child(&["exit", "0"]).build().expect("right")).expect("start a pen");
        block_on(pen.wait()).expect("wait");
        block_on(async { while watch.next().await.kind != ChangeKind::Empty {} });
    });
}
