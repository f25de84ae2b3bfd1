//! A broker that is stopped. There is no broker yet on Windows.

/// Looks for it.
#[derive(Debug, Default)]
pub(crate) struct StoppedBroker;

impl StoppedBroker {
    /// Nothing is to be said of it.
    pub(crate) fn look(&mut self) -> Option<String> {
        None
    }
}
