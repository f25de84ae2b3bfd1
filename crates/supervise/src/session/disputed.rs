//! Lines that readers understand in different ways. A server could answer such a request under an id that the host does not wait for,
//! twice, or not at all; so it is answered here with an error, and the child does not see it.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};
use nostray_rpc::{Agreed, Agreement, Disagreement, Id, Refusal, error, error_to};

use super::{Effect, INTERNAL, Session};

/// The names that say what a message is.
static DECISIVE: LazyLock<Agreement> = LazyLock::new(|| {
    let names: [&[&str]; 6] = [&["jsonrpc"], &["id"], &["method"], &["params"], &["result"], &["error"]];
    // What a Python host writes, a Python server reads.
    Agreement::new(names).with_nan()
});
/// With which both names end that are searched for.
static NAME_END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("d\""));
/// By which an ASCII letter of a name can be written.
static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r"\u00"));

/// Whether a request in a usual layout is passed on as it came, as [`check`] would find. For nearly all that a host says, this looks at no
/// more than what the layout leaves open.
pub(super) fn is_clear(id: &Id, method: &[u8], middle: &[u8]) -> bool {
    let id_is_a_name = matches!(id, Id::Text(text) if is_name(text.as_bytes()));
    !id_is_a_name && !is_name(method) && !may_be_disputed(middle, 0)
}

fn is_name(text: &[u8]) -> bool {
    matches!(text, b"id" | b"method")
}

/// Whether it is worth the time to read a text through, in which each name is expected so often. Nearly none is.
fn may_be_disputed(text: &[u8], expected: usize) -> bool {
    // Of each name: its begin, from where on it is searched for, and how often it was found.
    let mut names = [(&b"\"i"[..], 0, 0), (b"\"metho", 0, 0)];
    for end in NAME_END.find_iter(text) {
        for (begin, from, found) in &mut names {
            if text[*from..end].ends_with(begin) {
                (*from, *found) = (end + 2, *found + 1);
            }
        }
    }
    let is_escaped = || memchr(b'\r', text).is_some() || ESCAPED.find(text).is_some();
    names.iter().any(|(.., found)| *found > expected) || memchr2(b'\r', b'\\', text).is_some() && is_escaped()
}

/// How a line of the host can be passed on.
pub(super) fn check(text: &[u8]) -> Result<Agreed, Disagreement> {
    match may_be_disputed(text, 1).then(|| DECISIVE.check(text)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use nostray_rpc::{QuickEnvelope, quick_read};
    use nostray_sys::random::Random;

    /// The same, a name at a time.
    fn naive(text: &[u8]) -> bool {
        let is_twice = |name: &str| Finder::new(name).find_iter(text).nth(1).is_some();
        text.contains(&b'\r')
            || is_twice("\"id\"")
            || is_twice("\"method\"")
            || Finder::new(r"\u00").find(text).is_some()
    }

    #[test]
    fn what_a_layout_leaves_open_says_the_same_as_the_whole_line() {
        let parts = [
            "\"id\"",
            "\"method\"",
            "\"i",
            "d\"",
            "metho",
            "\r",
            "\\",
            r"\u00",
            r"\u20",
            "\"",
            ",",
            ":",
            "{}",
            "x",
            "command\"",
            "id",
        ];
        let mut random = Random::new(3);
        let (mut clear, mut disputed) = (0, 0);
        for round in 0..30_000 {
            let mut text = |most: usize| -> String {
                (0..random.index(most)).map(|_| parts[random.index(parts.len())]).collect()
            };
            let (id, method, rest) = (text(2), text(2), text(6));
            let id = if round % 3 == 0 { format!("\"{id}\"") } else { "17".to_owned() };
            for line in [
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{rest}}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#),
                format!(r#"{{"method":"{method}","params":{rest},"jsonrpc":"2.0","id":{id}}}"#),
                rest.clone(),
            ] {
                let line = line.as_bytes();
                assert_eq!(may_be_disputed(line, 1), naive(line), "{}", String::from_utf8_lossy(line));
                if let Some(QuickEnvelope::Request { id, method, middle }) = quick_read(line) {
                    let is_clear = is_clear(&id, method, middle);
                    assert_eq!(is_clear, !naive(line), "{}", String::from_utf8_lossy(line));
                    *(if is_clear { &mut clear } else { &mut disputed }) += 1;
                }
            }
        }
        assert!(clear > 1000 && disputed > 1000, "{clear} {disputed}");
    }
}
