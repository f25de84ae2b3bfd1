//! Lines of the host that wait for a child. Bounded: beyond that, the host is not read from.

use std::collections::VecDeque;

use nostray_rpc::Id;

use crate::flights::Ask;
use crate::machine::Moment;
use crate::memory::Note;

const MAX_QUEUED_LINES: usize = 1024;
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// One line that waits.
#[derive(Debug)]
pub(crate) struct QueuedLine {
    pub(crate) line: Vec<u8>,
    /// What is asked in it.
    pub(crate) asks: Vec<Ask>,
    pub(crate) batch: Option<u64>,
    pub(crate) deadline: Option<Moment>,
}

/// The lines that wait, in their order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    lines: VecDeque<QueuedLine>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn push(&mut self, waiting: QueuedLine) {
        self.bytes += waiting.line.len();
        self.lines.push_back(waiting);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lines.len() >= MAX_QUEUED_LINES || self.bytes >= MAX_QUEUED_BYTES
    }

    /// Whether this is asked by what waits.
    pub(crate) fn asks(&self, id: &Id) -> bool {
        self.lines.iter().any(|waiting| waiting.asks.iter().any(|ask| ask.id == *id))
    }

    /// How many requests of this kind wait.
    pub(crate) fn count_of(&self, is_it: impl Fn(&Note) -> bool) -> usize {
        self.lines.iter().flat_map(|waiting| &waiting.asks).filter(|ask| is_it(&ask.note)).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<QueuedLine> {
        self.bytes = 0;
        std::mem::take(&mut self.lines)
    }

    /// The host waits for this no longer. True if it was here: then no child has seen it or ever will.
    pub(crate) fn cancelled(&mut self, id: &Id) -> bool {
        let before = self.lines.len();
        self.lines.retain(|waiting| !matches!(waiting.asks.as_slice(), [ask] if ask.id == *id));
        self.bytes = self.lines.iter().map(|waiting| waiting.line.len()).sum();
        before > self.lines.len()
    }

    /// All of them have the same patience, so the oldest has the earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        self.lines.iter().find_map(|waiting| waiting.deadline)
    }

    /// Takes out one line whose deadline has passed.
    pub(crate) fn overdue(&mut self, now: Moment) -> Option<QueuedLine> {
        let at = self.lines.iter().position(|waiting| waiting.deadline.is_some_and(|at| at <= now))?;
        let waiting = self.lines.remove(at)?;
        self.bytes -= waiting.line.len();
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(id: i64, deadline: u64) -> QueuedLine {
        let deadline = Some(Moment::from_secs(deadline));
        QueuedLine {
            line: vec![b'x'; 10],
            asks: vec![Ask { id: Id::Int(id), note: Note::Nothing, method: Default::default() }],
            batch: None,
            deadline,
        }
    }

    #[test]
    fn what_is_cancelled_or_overdue_leaves_and_the_rest_keeps_its_order() {
        let mut queue = Queue::default();
        (1..=4).for_each(|n| queue.push(waiting(n, n.unsigned_abs())));
        assert!(queue.cancelled(&Id::Int(2)));
        assert!(!queue.cancelled(&Id::Int(2)));
        assert_eq!(queue.overdue(Moment::from_secs(1)).map(|w| w.asks[0].id.clone()), Some(Id::Int(1)));
        assert!(queue.overdue(Moment::from_secs(2)).is_none());
        assert_eq!(queue.deadline(), Some(Moment::from_secs(3)));
        assert_eq!(queue.bytes, 20);
        let left: Vec<_> = queue.take_all().into_iter().map(|w| w.asks[0].id.clone()).collect();
        assert_eq!(left, [Id::Int(3), Id::Int(4)]);
        assert!(queue.is_empty() && queue.bytes == 0);
    }

    #[test]
    fn it_is_bounded_by_lines_and_by_bytes() {
        let mut queue = Queue::default();
        for n in 0..1024 {
            assert!(!queue.is_full());
            queue.push(waiting(n, 1));
        }
        assert!(queue.is_full());
        let mut queue = Queue::default();
        queue.push(QueuedLine { line: vec![0; MAX_QUEUED_BYTES], asks: Vec::new(), batch: None, deadline: None });
        assert!(queue.is_full());
    }
}
