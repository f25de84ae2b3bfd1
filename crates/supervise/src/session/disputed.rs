//! Lines that readers understand in different ways. A server could answer such a request under an id that the host does not wait for,
//! twice, or not at all; so it is answered here with an error, and the child does not see it.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::Finder;
use nostray_rpc::{Agreed, Agreement, Disagreement, Refusal, error, error_to};

use super::{Effect, INTERNAL, Session};

/// The names that say what a message is.
static DECISIVE: LazyLock<Agreement> = LazyLock::new(|| {
    let names: [&[&str]; 6] = [&["jsonrpc"], &["id"], &["method"], &["params"], &["result"], &["error"]];
    // What a Python host writes, a Python server reads.
    Agreement::new(names).with_nan()
});
static NAMES: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [Finder::new("\"id\""), Finder::new("\"method\"")]);
/// By which an ASCII letter of a name can be written.
static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r"\u00"));

/// Whether it is worth the time to read a line through. Nearly none is.
fn may_be_disputed(text: &[u8]) -> bool {
    let is_twice = |name: &Finder<'_>| name.find_iter(text).nth(1).is_some();
    memchr(b'\r', text).is_some() || NAMES.iter().any(is_twice) || ESCAPED.find(text).is_some()
}

/// How a line of the host can be passed on.
pub(super) fn check(text: &[u8]) -> Result<Agreed, Disagreement> {
    match may_be_disputed(text).then(|| DECISIVE.check(text)) {
        // How deep a server reads is its own affair.
        None | Some(Err(Disagreement::TooDeep)) => Ok(Agreed::AsItCame),
        Some(checked) => checked,
    }
}

impl Session {
    /// Answers each request of a line that is not passed on.
    pub(super) fn refuse_line(&mut self, text: &[u8], why: &Disagreement) {
        match why.refuse(text) {
            Refusal::Answer(line) => self.effects.push(Effect::ToHost(line)),
            Refusal::LostAnswer(id) => {
                if let Some((asker, asked)) = self.reverse.answered(&id)
                    && asker.is_some()
                    && asker == self.lifecycle.state().live()
                {
                    let message = format!("the client's answer was not passed on: {why}");
                    self.effects.push(Effect::ToChild(error(&asked, INTERNAL, &message, None)));
                }
            }
            Refusal::NoMessage(_) => {
                let message = format!("this message was not passed on: {why}");
                self.effects.push(Effect::ToHost(error_to(b"null", why.code(), &message)));
            }
        }
    }
}
