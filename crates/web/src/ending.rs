//! When `nostray web` ends: with its terminal, or by a signal.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};

use nostray_sys::poll::{Until, wait};
use nostray_sys::signal::{self, Signal, SignalFd, SignalSet};
use nostray_terminal::ExitCode;
use tokio::sync::oneshot;

/// Blocks the signals that end the program. To be called before any other thread is started: threads inherit it.
pub(crate) fn block_signals() -> io::Result<SignalFd> {
    // One that is ignored, as below `nohup`, stays ignored; blocked, it would arrive all the same.
    let all = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
    let wanted = all.into_iter().filter(|signal| !signal::is_ignored(*signal));
    let set = wanted.fold(SignalSet::empty(), SignalSet::with);
    set.set_as_mask()?;
    SignalFd::new(&set)
}

/// A thread that waits for the end, and tells with which code.
pub(crate) fn wait_for_end(signals: SignalFd) -> io::Result<oneshot::Receiver<ExitCode>> {
    let (to, ended) = oneshot::channel();
    std::thread::Builder::new().name("ending".to_owned()).spawn(move || {
        // Without a way to wait for it, the program must not stay for ever.
        let code = watch(&signals).unwrap_or(ExitCode::from(nostray_pen::OWN_FAILURE));
        to.send(code).ok(); // the server has ended already
    })?;
    Ok(ended)
}

fn watch(signals: &SignalFd) -> io::Result<ExitCode> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    // A user who wants it to outlive the terminal says so by `nohup`.
    let outlives = signal::is_ignored(Signal::HUP);
    let terminal = File::open("/dev/tty").ok();
    let mut ends: Vec<BorrowedFd<'_>> = Vec::new();
    if !outlives {
        // Standard output may also be a pipe, and no process reads it any more.
        ends.push(stdout.as_fd());
        ends.extend(Some(stdin.as_fd()).filter(|_| stdin.is_terminal()));
        ends.extend(terminal.as_ref().map(AsFd::as_fd));
    }
    loop {
        match signals.next()?.map(|arrived| arrived.signal) {
            // The usual way to end it, so this is no failure.
            Some(Signal::INT) => return Ok(ExitCode::SUCCESS),
            Some(other) => return Ok(ExitCode::from(128 + u8::try_from(other.as_raw()).unwrap_or(0))),
            None => {}
        }
        let mut events = vec![(signals.as_fd(), Until::Readable)];
        events.extend(ends.iter().map(|end| (*end, Until::HungUp)));
        let fired = wait(&events, None)?;
        if fired.first() == Some(&false) && fired.contains(&true) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}
