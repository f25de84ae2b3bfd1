//! Runs an ending that blocks, beside a claim: in a process of its own, or in a thread where a program must not fork.

use nostray_registry::{Holder, Place, end_holder_apart, sweep_slot_apart, sweep_slot_here};
use nostray_sys::poll::{self, AsFd, Until};
use nostray_sys::{Pidfd, Signal};

#[derive(Debug)]
pub(crate) enum Helper {
    Process(Pidfd),
    Thread(std::thread::JoinHandle<()>),
}

impl Helper {
    /// Ends this holder, or sweeps the slot. `None` if it cannot be started.
    pub(crate) fn start(to_end: Option<&Holder>, slot: String, places: Vec<Place>, may_fork: bool) -> Option<Self> {
        if may_fork {
            let helper = match to_end {
                Some(holder) => end_holder_apart(holder, &places),
                None => sweep_slot_apart(&slot, &places),
            };
            return helper.and_then(Pidfd::open).ok().map(Self::Process);
        }
        let id = to_end.map(|holder| holder.record.id.clone());
        let work = move || sweep_slot_here(&slot, &places, id.as_deref());
        std::thread::Builder::new().spawn(work).ok().map(Self::Thread)
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Process(handle) => {
                poll::wait(&[(handle.as_fd(), Until::Readable)], Some(std::time::Duration::ZERO))
                    .is_ok_and(|fired| fired.contains(&true))
            }
            Self::Thread(thread) => thread.is_finished(),
        }
    }

    /// A stopped helper would keep every claim waiting.
    pub(crate) fn wake(&self) {
        if let Self::Process(handle) = self {
            handle.send(Signal::CONT).ok();
        }
    }
}
