//! Messages that came in one list: the child gets them one by one, and the session gets its answers in one list again.

use std::collections::HashMap;

use super::sessions::SessionId;

/// The batches that are not complete.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: HashMap<u64, Batch>,
    last: u64,
}

#[derive(Debug)]
struct Batch {
    session_id: SessionId,
    left: usize,
    /// The list so far, without its end.
    text: Vec<u8>,
}

impl Batches {
    /// One with so many requests; none if there is none.
    pub(super) fn open(&mut self, session_id: SessionId, requests: usize) -> Option<u64> {
        if requests == 0 {
            return None;
        }
        self.last += 1;
        self.open.insert(self.last, Batch { session_id, left: requests, text: Vec::new() });
        Some(self.last)
    }

    /// One of its requests has been answered, or will not be. The whole line, if that was the last one.
    pub(super) fn answered(&mut self, batch: u64, answer: Option<&[u8]>) -> Option<(SessionId, Vec<u8>)> {
        let open = self.open.get_mut(&batch)?;
        if let Some(answer) = answer {
            open.text.push(if open.text.is_empty() { b'[' } else { b',' });
            open.text.extend_from_slice(answer.trim_ascii_end());
        }
        open.left -= 1;
        if open.left > 0 {
            return None;
        }
        let Batch { session_id, mut text, .. } = self.open.remove(&batch)?;
        if text.is_empty() {
            return None;
        }
        text.extend_from_slice(b"]\n");
        Some((session_id, text))
    }

    pub(super) fn left(&mut self, session_id: SessionId) {
        self.open.retain(|_, batch| batch.session_id != session_id);
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
