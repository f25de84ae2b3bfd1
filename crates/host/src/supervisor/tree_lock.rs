//! At most one live tree for a key, across drivers and runtimes.

use std::sync::Arc;

use tokio::sync::watch;

/// The lock of one key, held while a tree of that key lives. It outlives drivers, runtimes and shutdowns, so that a new child waits for
/// the end of the old one.
#[derive(Debug, Clone)]
pub(super) struct TreeLock(Arc<watch::Sender<LockState>>);

/// Trees are counted, so that a task that waits for the end of one does not wait for the end of the next.
#[derive(Debug, Clone, Copy, Default)]
struct LockState {
    holder: Option<u64>,
    /// How many trees there have been.
    trees: u64,
}

/// Holds the lock until it is dropped: when nothing is left of the tree.
#[derive(Debug)]
pub(super) struct TreeLockGuard {
    tree_lock: TreeLock,
    pub(super) tree: u64,
}

impl Default for TreeLock {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(LockState::default())))
    }
}

impl TreeLock {
    /// Locks it for a child that is about to be started, unless another tree is there.
    pub(super) fn try_lock(&self) -> Option<TreeLockGuard> {
        let mut tree = None;
        self.0.send_if_modified(|state| {
            if state.holder.is_none() {
                tree = Some(state.trees);
                *state = LockState { holder: tree, trees: state.trees + 1 };
            }
            tree.is_some()
        });
        tree.map(|tree| TreeLockGuard { tree_lock: self.clone(), tree })
    }

    pub(super) fn is_free(&self) -> bool {
        self.0.borrow().holder.is_none()
    }

    /// The tree that holds it.
    pub(super) fn holder(&self) -> Option<u64> {
        self.0.borrow().holder
    }

    /// Waits until this tree is gone.
    pub(super) async fn until_released_by(&self, tree: Option<u64>) {
        // It cannot fail: we have the sender.
        self.0.subscribe().wait_for(|state| tree.is_none() || state.holder != tree).await.ok();
    }
}

impl Drop for TreeLockGuard {
    fn drop(&mut self) {
        self.tree_lock.0.send_modify(|state| state.holder = None);
    }
}
