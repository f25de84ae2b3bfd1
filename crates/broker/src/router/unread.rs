//! The child is gone before it has read these: they go back to their sessions, which say them to the next one.

use nostray_rpc::{Envelope, Id, Kind, Message, find, read};

use super::Router;
use super::admission::place_in;
use super::calls::Note;
use super::edits::Edits;
use super::meta::Meta;
use super::sessions::SessionId;

impl Router {
    /// A line that the child has not read, without its ending. If it is a call that a session waits for: whose, and as the session wrote
    /// it. It is in flight no more.
    ///
    /// What else there was is told to the next child anyway, or is of no use to it. A call of a batch is answered with the others.
    pub fn take_back(&mut self, text: &[u8]) -> Option<(SessionId, Vec<u8>)> {
        let Ok(Message::One(Envelope { kind: Kind::Request { id, params, .. }, .. })) = read(text) else {
            return None;
        };
        let Id::Int(ours) = id.id() else { return None };
        let call = self.calls.get(ours).filter(|call| call.batch.is_none())?;
        let session_id = call.waited_for_by()?;
        let mut edits = Edits::none();
        edits.replace(place_in(text, id.raw()), call.id.clone());
        let params = params.map(|params| place_in(text, params));
        if let (Some(place), Some(token)) = (Meta::of(text, params.clone()).progress, &call.progress) {
            edits.replace(place, token.clone());
        }
        if let (Note::SetLevel { asked: Some(asked), told }, Some(params)) = (&call.note, params)
            && asked != told
            && let Some(at) = find(&text[params.clone()], &["level"])
        {
            edits.replace(params.start + at.start..params.start + at.end, asked.token());
        }
        let mut line = edits.line(text);
        line.pop();
        self.calls.remove(ours);
        self.sessions.landed(session_id);
        Some((session_id, line))
    }

    /// Takes out what a session has said and the child was not given, without the ends of the lines.
    pub fn take_waiting(&mut self, session_id: SessionId) -> Vec<Vec<u8>> {
        let (mut lines, mut of_batches) = (Vec::new(), Vec::new());
        while let Some(waiting) = self.sessions.pop(session_id) {
            match waiting.batch {
                None => lines.push(waiting.text),
                Some(_) => of_batches.push(waiting),
            }
        }
        of_batches.into_iter().for_each(|waiting| self.sessions.push(session_id, waiting));
        lines
    }

    /// Whether nothing that a session has said waits for the child, here or there, but what needs no work.
    #[must_use]
    pub fn has_only_light_of(&self, session_id: SessionId) -> bool {
        self.sessions.get(session_id).is_none_or(|session| {
            session.queue().is_empty() && session.in_flight() == self.calls.light_of(session_id)
        })
    }
}
