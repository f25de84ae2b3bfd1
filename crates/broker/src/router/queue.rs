//! Messages of a session that wait for their turn. Bounded: beyond that, the session is not read from.

use std::collections::VecDeque;

use nostray_rpc::Id;

const MAX_QUEUED_LINES: usize = 1024;
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// One message that waits.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    /// Without its end.
    pub(super) text: Vec<u8>,
    /// The id, if it is a request.
    pub(super) id: Option<Id>,
    /// The batch that its answer belongs to.
    pub(super) batch: Option<u64>,
    /// It waits for its turn and for nothing else, so it need not be looked at before.
    pub(super) plain: bool,
}

/// The messages of one session, in their order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<QueuedMessage>,
    bytes: usize,
}

impl Queue {
    pub(super) fn push(&mut self, waiting: QueuedMessage) {
        self.bytes += waiting.text.len();
        self.waiting.push_back(waiting);
    }

    /// Puts a message back to where it was taken from.
    pub(super) fn put_back(&mut self, waiting: QueuedMessage) {
        self.bytes += waiting.text.len();
        self.waiting.push_front(waiting);
    }

    pub(super) fn pop(&mut self) -> Option<QueuedMessage> {
        let waiting = self.waiting.pop_front()?;
        self.bytes -= waiting.text.len();
        Some(waiting)
    }

    pub(super) fn first(&self) -> Option<&QueuedMessage> {
        self.waiting.front()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_QUEUED_LINES || self.bytes >= MAX_QUEUED_BYTES
    }

    /// The session waits for this no longer. Some if it was here: then the child has not seen it and never will.
    pub(super) fn cancelled(&mut self, id: &Id) -> Option<QueuedMessage> {
        let at = self.waiting.iter().position(|waiting| waiting.id.as_ref() == Some(id))?;
        let waiting = self.waiting.remove(at)?;
        self.bytes -= waiting.text.len();
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(id: i64, length: usize) -> QueuedMessage {
        QueuedMessage { text: vec![b'x'; length], id: Some(Id::Int(id)), batch: None, plain: true }
    }

    #[test]
    fn what_is_cancelled_leaves_and_the_rest_keeps_its_order() {
        let mut queue = Queue::default();
        (1..=4).for_each(|id| queue.push(waiting(id, 10)));
        assert!(queue.cancelled(&Id::Int(2)).is_some());
        assert!(queue.cancelled(&Id::Int(2)).is_none());
        let first = queue.pop().expect("three are left");
        assert_eq!((first.id.clone(), queue.bytes), (Some(Id::Int(1)), 20));
        queue.put_back(first);
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).filter_map(|waiting| waiting.id).collect();
        assert_eq!(left, [Id::Int(1), Id::Int(3), Id::Int(4)]);
        assert!(queue.is_empty() && queue.bytes == 0);
    }

    #[test]
    fn it_is_bounded_by_lines_and_by_bytes() {
        let mut queue = Queue::default();
        for id in 0..1024 {
            assert!(!queue.is_full());
            queue.push(waiting(id, 10));
        }
        assert!(queue.is_full());
        let mut queue = Queue::default();
        queue.push(waiting(1, MAX_QUEUED_BYTES));
        assert!(queue.is_full());
    }
}
