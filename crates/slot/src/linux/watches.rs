//! What a claim waits for, beside the time.

use nostray_sys::poll::{AsFd, BorrowedFd, Until};

use super::helper::Helper;
use crate::Claim;

impl Claim {
    /// What to wait for, beside the time.
    pub fn watches(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Until)> {
        let helper = self.helper.as_ref().and_then(|helper| match helper {
            Helper::Process(handle) => Some(handle),
            Helper::Thread(_) => None,
        });
        let handles = [self.before.as_ref(), helper];
        let handles = handles.into_iter().flatten().map(|handle| (handle.as_fd(), Until::Readable));
        handles.chain([(self.watch.as_fd(), Until::HungUp)])
    }

    /// The most file descriptors that [`Claim::watches`] returns.
    pub const EVENTS: usize = 3;
}
