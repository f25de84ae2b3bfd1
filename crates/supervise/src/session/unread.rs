//! What a child was given and has not read: it was not made, so the next child is told it.

use nostray_rpc::{Envelope, Kind, Message, read};

use super::replay::Gate;
use super::{Session, Verdict};
use crate::flights::{Ask, Hold};
use crate::machine::Moment;
use crate::memory::Note;
use crate::queue::QueuedLine;

impl Session {
    /// These lines were written to the child, and no process of its tree has read anything of them or will: they are said to the next
    /// one. To be told before its end is.
    pub fn child_has_not_read(&mut self, lines: &[u8], now: Moment) {
        if !lines.is_empty() {
            self.gate = Gate::Closed;
        }
        for raw in lines.split_inclusive(|byte| *byte == b'\n') {
            self.take_back(raw, now);
        }
    }

    /// The child is about to be lost by no fault of its own. A handshake that it has not answered waits for the next one, which would
    /// be told of it anyway: hosts make it once, and give up a server that refuses it.
    pub fn keep_handshake(&mut self) {
        if let Some((id, note)) = self.flights.take_handshake()
            && let Note::Initialize(line) = &note
        {
            let (line, method) = (line.to_vec(), self.flights.method("initialize"));
            self.queue.push(QueuedLine { line, asks: vec![Ask { id, note, method }], batch: None, deadline: None });
        }
    }

    /// A line that no child has got: as if the host said it now. What it was told on the host's behalf is not for the next one: that
    /// is told all of it anyway, and asked what is asked of each. Nor is what the host does not wait for any more.
    pub fn take_back(&mut self, raw: &[u8], now: Moment) {
        let text = raw.strip_suffix(b"\n").unwrap_or(raw);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let mut left = raw.to_vec();
        if !left.ends_with(b"\n") {
            left.push(b'\n');
        }
        match read(text) {
            Ok(Message::One(envelope)) => {
                if !self.lands(&envelope) {
                    return;
                }
            }
            Ok(Message::Batch(envelopes)) => {
                let kept: Vec<_> = envelopes.iter().filter(|one| self.lands(one)).map(|one| one.text).collect();
                if kept.is_empty() {
                    return;
                }
                if kept.len() < envelopes.len() {
                    left = [b"[", kept.join(&b","[..]).as_slice(), b"]\n"].concat();
                }
            }
            Err(_) => {}
        }
        let text = left.trim_ascii_end().to_vec();
        let verdict = self.host_says(&text, &left, now);
        debug_assert!(verdict == Verdict::Swallow, "there is no child to be told");
    }

    /// If it is a request, it is in flight no more. False if the host does not wait for it, or has not made it; or if it is a
    /// notification that opened or closed something, since the next child is told what is open.
    fn lands(&mut self, envelope: &Envelope<'_>) -> bool {
        if let Kind::Notification { method, .. } = &envelope.kind {
            return self.memory.replays.read(method, envelope.text).is_none_or(|entry| entry.is_plain());
        }
        let Some(id) = envelope.request_id() else { return true };
        match self.flights.take_last(&id) {
            Some(flight) if flight.note().is_stream() => !self.memory.listens(&id),
            // The next child would never hear of its cancel, which the dead one had already.
            Some(flight) if flight.is_withdrawn && flight.batch.is_none() => {
                self.is_never_asked(&id);
                false
            }
            Some(flight) => flight.hold != Hold::Nothing,
            None => false,
        }
    }
}
