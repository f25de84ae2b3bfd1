//! What is answered here, because no child is needed for it.

use nostray_rpc::{Id, result};

use super::{Effect, Protocol, Session, Verdict};
use crate::memory::Note;

impl Session {
    /// Answers a request of the host if no child is there and none is needed.
    pub(super) fn answer_here(
        &mut self,
        id: &Id,
        method: &str,
        note: &Note,
        _params: Option<&[u8]>,
    ) -> Option<Verdict> {
        if self.protocol != Protocol::Mcp || self.gate.is_open() || self.machine.state().live().is_some() {
            return None;
        }
        let answer: Box<[u8]> = match note {
            // Whether the connection is alive. It is, and nobody is woken to say so.
            Note::Nothing if method == "ping" => b"{}".as_slice().into(),
            _ if !self.lazy => return None,
            Note::Initialize(line) => {
                let answer: Box<[u8]> = self.cache.as_ref()?.hello(self.asker.as_ref()?)?.into();
                self.memory.initialize(line.clone());
                self.hello = Some(answer.clone());
                answer
            }
            Note::Discover(asker) => self.cache.as_ref()?.hello(asker.as_ref()?)?.into(),
            Note::List { kind, cursor, params } => {
                let answer: Box<[u8]> =
                    self.cache.as_ref()?.page(self.asker.as_ref()?, *kind, cursor.as_deref())?.into();
                self.saw_page(*kind, cursor.as_deref(), params.clone(), &answer);
                answer
            }
            _ => return None,
        };
        self.effects.push(Effect::ToHost(result(id, &answer)));
        Some(Verdict::Swallow)
    }
}
