//! Runs an ending that blocks, beside a claim: in a thread.

use nostray_registry::{Holder, Place, sweep_slot_here};

#[derive(Debug)]
pub(crate) struct Helper(std::thread::JoinHandle<()>);

impl Helper {
    /// Ends this holder, or sweeps the slot. `None` if it cannot be started.
    pub(crate) fn start(to_end: Option<&Holder>, slot: String, places: Vec<Place>, _: bool) -> Option<Self> {
        let id = to_end.map(|holder| holder.record.id.clone());
        let work = move || sweep_slot_here(&slot, &places, id.as_deref());
        std::thread::Builder::new().spawn(work).ok().map(Self)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_finished()
    }

    /// No thread is ever stopped.
    pub(crate) fn wake(&self) {}
}
