//! Listening to what a child says to nobody in particular. Each listener has a queue of its own, which is bounded: whoever does not
//! listen misses the oldest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::wire::Notification;

/// So many are kept for one who does not listen.
const MOST: usize = 1024;
/// And not more than this of it, by the bytes of their lines.
const MOST_BYTES: usize = 16 << 20;

/// What a child says to nobody in particular.
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
    /// The next one. Whoever is 1024 of them behind, or 16 MiB, misses the oldest. Nothing once no more can come: nobody holds the
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

/// All who listen.
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
            while held.notifications.len() > MOST || held.bytes > MOST_BYTES && held.notifications.len() > 1 {
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
