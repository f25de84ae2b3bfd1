//! Both kinds of pens as one, so that each behaviour is tested with both.

use std::io::{Read, Write};
use std::time::Duration;

use badchild::{Found, pid, wait_until};
use nostray::{Error, Exit, Pen, PenSpec, blocking};
#[cfg(feature = "supervisor")]
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

/// Which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Async,
    Blocking,
}

pub const KINDS: [Kind; 2] = [Kind::Async, Kind::Blocking];

/// A pen of either kind. Its fields are dropped in this order: the pen, and then its runtime.
#[derive(Debug)]
pub enum Any {
    Async(Pen, Runtime),
    Blocking(blocking::Pen),
}

/// A runtime with one thread, this one.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

impl Kind {
    pub fn try_spawn(self, spec: &PenSpec) -> Result<Any, Error> {
        Ok(match self {
            Self::Blocking => Any::Blocking(blocking::Pen::spawn(spec)?),
            Self::Async => {
                let runtime = runtime();
                let pen = runtime.block_on(async { Pen::spawn(spec) })?;
                Any::Async(pen, runtime)
            }
        })
    }

    pub fn spawn(self, spec: &PenSpec) -> Any {
        self.try_spawn(spec).expect("start a pen")
    }

    /// One that has said `ready`.
    pub fn ready(self, spec: &PenSpec) -> Any {
        let mut pen = self.spawn(spec);
        assert_eq!(pen.line(), "ready");
        pen
    }
}

#[cfg(feature = "supervisor")]
fn read(pen: &mut Pen, runtime: &Runtime, bytes: &mut [u8]) -> usize {
    runtime.block_on(pen.stdout.as_mut().expect("piped").read(bytes)).expect("read")
}

#[cfg(not(feature = "supervisor"))]
fn read(pen: &mut Pen, _: &Runtime, bytes: &mut [u8]) -> usize {
    nostray_sys::stream::read(pen.stdout.as_ref().expect("piped"), bytes).expect("read").expect("it waits")
}

/// Writes and reads at the same time, in threads.
fn exchange<W: Write + Send, R: Read + Send>(
    input: &[u8],
    stdin: Option<W>,
    (stdout, output): (Option<R>, &mut Vec<u8>),
    (stderr, errors): (Option<R>, &mut Vec<u8>),
) {
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input).expect("write")));
        scope.spawn(move || stderr.map(|mut stderr| stderr.read_to_end(errors).expect("read")));
        stdout.map(|mut stdout| stdout.read_to_end(output).expect("read"));
    });
}

impl Any {
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            let count = match self {
                Self::Async(pen, runtime) => read(pen, runtime, &mut byte),
                Self::Blocking(pen) => pen.stdout.as_mut().expect("piped").read(&mut byte).expect("read"),
            };
            if count == 0 || byte == *b"\n" {
                return String::from_utf8_lossy(&line).into_owned();
            }
            line.push(byte[0]);
        }
    }

    /// Writes all, closes the input, and meanwhile reads output and errors to their end. With nothing to write the input stays open: a
    /// child that does not read it must not have to hurry.
    pub fn exchange(&mut self, input: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        match self {
            #[cfg(feature = "supervisor")]
            Self::Async(pen, runtime) => runtime.block_on(async {
                let stdin = if input.is_empty() { None } else { pen.stdin.take() };
                let write = async {
                    if let Some(mut stdin) = stdin {
                        stdin.write_all(input).await.expect("write");
                    }
                };
                let read = async {
                    if let Some(stdout) = &mut pen.stdout {
                        stdout.read_to_end(&mut output).await.expect("read");
                    }
                };
                let read_errors = async {
                    if let Some(stderr) = &mut pen.stderr {
                        stderr.read_to_end(&mut errors).await.expect("read");
                    }
                };
                tokio::join!(write, read, read_errors);
            }),
            #[cfg(not(feature = "supervisor"))]
            Self::Async(pen, _) => {
                let stdin = if input.is_empty() { None } else { pen.stdin.take() };
                let stdin = stdin.map(|stdin| stdin.into_std().expect("a pipe"));
                let stdout = pen.stdout.take().map(|stdout| stdout.into_std().expect("a pipe"));
                let stderr = pen.stderr.take().map(|stderr| stderr.into_std().expect("a pipe"));
                exchange(input, stdin, (stdout, &mut output), (stderr, &mut errors));
            }
            Self::Blocking(pen) => {
                let stdin = if input.is_empty() { None } else { pen.stdin.take() };
                exchange(input, stdin, (pen.stdout.take(), &mut output), (pen.stderr.take(), &mut errors));
            }
        }
        (output, errors)
    }

    pub fn wait(&mut self) -> Exit {
        match self {
            Self::Async(pen, runtime) => runtime.block_on(pen.wait()),
            Self::Blocking(pen) => pen.wait(),
        }
        .expect("wait")
    }

    pub fn stop(&mut self, eof: Duration, term: Duration) -> Exit {
        match self {
            Self::Async(pen, runtime) => runtime.block_on(pen.stop(eof, term)),
            Self::Blocking(pen) => pen.stop(eof, term),
        }
        .expect("stop")
    }

    pub fn kill(&self) {
        match self {
            Self::Async(pen, _) => pen.kill(),
            Self::Blocking(pen) => pen.kill(),
        }
    }

    pub fn close_stdin(&mut self) {
        match self {
            Self::Async(pen, _) => drop(pen.stdin.take()),
            Self::Blocking(pen) => drop(pen.stdin.take()),
        }
    }

    /// Keeps the child's input open for ever, as if another process had it: the child does not end by the end of its
    /// input.
    pub fn leak_stdin(&mut self) {
        match self {
            Self::Async(pen, _) => std::mem::forget(pen.stdin.take()),
            Self::Blocking(pen) => std::mem::forget(pen.stdin.take()),
        }
    }

    pub fn id(&self) -> String {
        match self {
            Self::Async(pen, _) => pen.id(),
            Self::Blocking(pen) => pen.id(),
        }
        .expect("not over")
    }

    /// The child's own process.
    pub fn child(&mut self) -> Found {
        let mut child = None;
        wait_until("the guard tells who the child is", || {
            child = match self {
                Self::Async(pen, _) => pen.child_pid(),
                Self::Blocking(pen) => pen.child_pid(),
            };
            child.is_some()
        });
        child.and_then(|number| Found::by_pid(pid(number))).expect("is there")
    }
}
