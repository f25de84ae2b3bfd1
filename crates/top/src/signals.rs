//! The signals that would end or stop this process without restoring the terminal, and the one of a new size.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nostray_sys::signal::{self, Signal, SignalFd, SignalSet};

const ALL: [Signal; 6] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::WINCH];

/// Blocked, and read from a descriptor.
#[derive(Debug)]
pub(crate) struct Signals(SignalFd);

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        // An ignored signal, as below `nohup`, stays ignored; blocked, it would arrive all the same.
        let wanted = ALL.into_iter().filter(|signal| !signal::is_ignored(*signal));
        let set = wanted.fold(SignalSet::empty(), SignalSet::with);
        set.set_as_mask()?;
        Ok(Self(SignalFd::new(&set)?))
    }

    /// The next signal that has arrived.
    pub(crate) fn next(&self) -> io::Result<Option<Signal>> {
        Ok(self.0.next()?.map(|arrived| arrived.signal))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
