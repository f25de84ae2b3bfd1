//! A few at a time.

use std::sync::{Condvar, Mutex, PoisonError};

/// So many may do something at once.
pub(super) struct Permits {
    left: Mutex<usize>,
    given_back: Condvar,
}

/// Given back with the value.
pub(super) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(super) fn new(count: usize) -> Self {
        Self { left: Mutex::new(count), given_back: Condvar::new() }
    }

    /// Waits for one.
    pub(super) fn take(&self) -> Permit<'_> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self.given_back.wait_while(left, |left| *left == 0).unwrap_or_else(PoisonError::into_inner);
        *left -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}
