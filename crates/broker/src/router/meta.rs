//! What a request says in `params._meta`: a progress token, and in the newer era its version and how much of the log it wants. That
//! is the only place inside a message that has to be found on the way of every call, so it is looked for by how it begins and how it
//! ends before it is counted to. The gate has seen to it that its names are written plainly, and once.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::{Finder, FinderRev};
use nostray_rpc::{find, members};

use super::gate::Checked;
use super::levels::Level;

/// In a text the quotes would be escaped, so wherever this stands it is a key.
const META: &[u8] = b"\"_meta\":";
const VERSION_KEY: &[u8] = b"\"io.modelcontextprotocol/protocolVersion\"";
const LOG_LEVEL_KEY: &[u8] = b"\"io.modelcontextprotocol/logLevel\"";
const PROGRESS_KEY: &[u8] = b"\"progressToken\"";
/// Up to this length it costs less to count than to look.
const SHORT: usize = 256;

static FIRST: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"_meta\""));
static LAST: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new(META));

/// What a request says there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    /// Where the progress token is, in the text in which the params are.
    pub(super) progress: Option<Range<usize>>,
    /// It says for itself which version it is of, as requests of the newer era do.
    pub(super) is_modern: bool,
    /// What it wants to be told meanwhile, in the newer era.
    pub(super) log: Option<Level>,
}

impl Meta {
    /// Of a request that the gate has noted it of.
    pub(super) fn noted(line: Checked<'_>) -> Self {
        Self { progress: line.progress(), is_modern: line.is_modern(), log: line.log_level().and_then(level) }
    }

    /// Of the params that stand at this place of a text.
    pub(super) fn of(text: &[u8], params: Option<Range<usize>>) -> Self {
        let Some(params) = params else { return Self::default() };
        let json = &text[params.clone()];
        let Some(place) = place(json) else { return Self::default() };
        let meta = &json[place.clone()];
        let mut seen = Self::default();
        let start = params.start + place.start;
        let whole = members(meta, |key, value| match key {
            PROGRESS_KEY => seen.progress = Some(start + value.start..start + value.end),
            VERSION_KEY => seen.is_modern = true,
            LOG_LEVEL_KEY => seen.log = level(&meta[value]),
            _ => {}
        });
        if whole.is_none() { Self::default() } else { seen }
    }
}

fn level(json: &[u8]) -> Option<Level> {
    serde_json::from_slice::<String>(json).ok().and_then(|name| Level::named(&name))
}

/// Where `_meta` is in params.
fn place(params: &[u8]) -> Option<Range<usize>> {
    if params.len() <= SHORT {
        return find(params, &["_meta"]);
    }
    FIRST.find(params)?;
    quick_place(params).or_else(|| find(params, &["_meta"]))
}

/// The same where it is the first member or the last one, as SDKs write it.
fn quick_place(params: &[u8]) -> Option<Range<usize>> {
    let last = LAST.rfind(params)?;
    let start = last + META.len();
    let end = start + find(&params[start..], &[])?.end;
    // After it the params end, and with them the brackets: so it is a member of theirs, and of nothing inside.
    let is_last = &params[end..] == b"}";
    // It is the only one, and nothing is open before it but the params.
    let is_first = last == 1 && params[0] == b'{';
    (is_last || is_first).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found the long way.
    fn slowly(params: &str) -> Option<&str> {
        find(params.as_bytes(), &["_meta"]).map(|at| &params[at])
    }

    #[test]
    fn it_is_found_wherever_it_is_and_nowhere_else() {
        let long = "x".repeat(300);
        for params in [
            format!(r#"{{"_meta":{{"progressToken":1}},"x":"{long}"}}"#),
            format!(r#"{{"x":"{long}","_meta":{{"progressToken":1}}}}"#),
            format!(r#"{{"x":"{long}","_meta":{{"progressToken":1}},"y":1}}"#),
            format!(r#"{{"x":"{long}","arguments":{{"_meta":{{"progressToken":1}}}}}}"#),
            format!(r#"{{"x":"{long}","arguments":{{"_meta":{{"progressToken":1}}}},"y":{{}}}}"#),
            format!(r#"{{"x":"{long}\"_meta\":{{}}}}"}}"#),
            format!(r#"{{"x":"{long}","_meta":1}}"#),
            format!(r#"{{"x":"{long}"}}"#),
            r#"{"_meta":{}}"#.to_owned(),
            "[]".to_owned(),
        ] {
            assert_eq!(place(params.as_bytes()).map(|at| &params[at]), slowly(&params), "{params}");
        }
    }

    #[test]
    fn a_progress_token_and_a_version_are_seen() {
        let text = r#"xx{"_meta":{"a":{"progressToken":1},"progressToken":"abc"}}"#;
        let meta = Meta::of(text.as_bytes(), Some(2..text.len()));
        assert_eq!(meta.progress.map(|at| &text[at]), Some(r#""abc""#));
        assert!(!meta.is_modern);
        let text = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7}}"#;
        let meta = Meta::of(text.as_bytes(), Some(0..text.len()));
        assert_eq!((meta.progress.map(|at| &text[at]), meta.is_modern), (Some("7"), true));
        let text = r#"{"_meta":{"io.modelcontextprotocol/logLevel":"error"}}"#;
        assert_eq!(Meta::of(text.as_bytes(), Some(0..text.len())).log, Level::named("error"));
        assert_eq!(Meta::of(b"{}", None), Meta::default());
    }
}
