//! What is answered here, because no child is needed for it.

use nostray_rpc::{Id, find, result};

use super::host::text_at;
use super::{Effect, Protocol, Session, Verdict};
use crate::memory::Note;

impl Session {
    /// Answers a request of the host if no child is there and none is needed.
    pub(super) fn answer_here(
        &mut self,
        id: &Id,
        method: &str,
        note: &Note,
        params: Option<&[u8]>,
    ) -> Option<Verdict> {
        if self.protocol != Protocol::Mcp || self.gate.is_open() || self.machine.state().live().is_some() {
            return None;
        }
        let answer: Box<[u8]> = match note {
            // Whether the connection is alive. It is, and nobody is woken to say so.
            Note::Nothing if method == "ping" => b"{}".as_slice().into(),
            // Hosts set it as soon as they are connected. The next child is told before anything else.
            Note::SetLevel(line) if self.has_logging() && is_level(params) => {
                self.memory.set_level(line.clone());
                b"{}".as_slice().into()
            }
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

    /// Whether the host was told that there are log levels to set.
    fn has_logging(&self) -> bool {
        self.hello.as_ref().is_some_and(|hello| find(hello, &["capabilities", "logging"]).is_some())
    }
}

/// Whether this is a level that every server takes.
fn is_level(params: Option<&[u8]>) -> bool {
    const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let level = params.and_then(|params| text_at(params, &["level"]));
    level.is_some_and(|level| LEVELS.contains(&level.as_str()))
}
