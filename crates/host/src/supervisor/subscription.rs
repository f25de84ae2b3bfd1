//! Listening to the notifications of a child. Each subscription has a bounded queue: a subscriber that does not read misses the
//! oldest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::wire::Notification;

/// How many are kept for a subscriber that does not read.
const MAX_QUEUED: usize = 1024;
/// And how many bytes of their lines.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// The notifications of a child.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    held: Mutex<Held>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Held {
    notifications: VecDeque<(usize, Notification)>,
    bytes: usize,
    is_over: bool,
}

impl Queue {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// The next notification. A subscriber that is 1024 of them behind, or 16 MiB, misses the oldest. None once no more can come: no lease holds the
    /// child any more, or its supervisor was shut down.
    pub async fn next(&mut self) -> Option<Notification> {
        loop {
            {
                let mut held = self.queue.held();
                if let Some((size, notification)) = held.notifications.pop_front() {
                    held.bytes -= size;
                    return Some(notification);
                }
                if held.is_over {
                    return None;
                }
            }
            self.queue.more.notified().await;
        }
    }
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    queues: Mutex<Vec<Weak<Queue>>>,
}

impl Subscribers {
    fn queues(&self) -> MutexGuard<'_, Vec<Weak<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self) -> Subscription {
        let queue = Arc::new(Queue::default());
        let mut queues = self.queues();
        queues.retain(|other| other.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        Subscription { queue }
    }

    /// `size` is that of its line.
    pub(super) fn tell(&self, notification: &Notification, size: usize) {
        self.queues().retain(|queue| {
            let Some(queue) = queue.upgrade() else { return false };
            let mut held = queue.held();
            held.notifications.push_back((size, notification.clone()));
            held.bytes += size;
            while held.notifications.len() > MAX_QUEUED
                || held.bytes > MAX_QUEUED_BYTES && held.notifications.len() > 1
            {
                let Some((size, _)) = held.notifications.pop_front() else { break };
                held.bytes -= size;
            }
            drop(held);
            queue.more.notify_one();
            true
        });
    }

    /// No more will come.
    pub(super) fn end(&self) {
        for queue in self.queues().drain(..).filter_map(|queue| queue.upgrade()) {
            queue.held().is_over = true;
            queue.more.notify_one();
        }
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.end();
    }
}
