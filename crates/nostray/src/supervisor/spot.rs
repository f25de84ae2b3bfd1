//! The place where the child of a key lives: one tree at a time, whoever drives it.

use std::sync::Arc;

use tokio::sync::watch;

/// The place of one key. It outlives drivers, runtimes and shutdowns, so that a new child waits for the end of the old one
/// whoever had that.
#[derive(Debug, Clone)]
pub(super) struct Spot(Arc<watch::Sender<Taken>>);

/// Trees are counted, so that whoever waits for the end of one does not wait for the end of the next.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    by: Option<u64>,
    count: u64,
}

/// A tree lives here until this is dropped.
#[derive(Debug)]
pub(super) struct Tenure {
    spot: Spot,
    pub(super) tree: u64,
}

impl Default for Spot {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Taken::default())))
    }
}

impl Spot {
    /// For one who is about to start a child, unless somebody's is here.
    pub(super) fn take(&self) -> Option<Tenure> {
        let mut tree = None;
        self.0.send_if_modified(|taken| {
            if taken.by.is_none() {
                tree = Some(taken.count);
                *taken = Taken { by: tree, count: taken.count + 1 };
            }
            tree.is_some()
        });
        tree.map(|tree| Tenure { spot: self.clone(), tree })
    }

    pub(super) fn is_free(&self) -> bool {
        self.0.borrow().by.is_none()
    }

    /// Which tree is here.
    pub(super) fn taken_by(&self) -> Option<u64> {
        self.0.borrow().by
    }

    /// Waits until this tree is gone.
    pub(super) async fn left_by(&self, tree: Option<u64>) {
        // It cannot fail: we have the sender.
        self.0.subscribe().wait_for(|taken| tree.is_none() || taken.by != tree).await.ok();
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.spot.0.send_modify(|taken| taken.by = None);
    }
}
