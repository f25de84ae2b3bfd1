//! What nostray answers in the place of a child, in words for the agent that reads them. An agent sees the message of an error and little
//! else, so the message names the server, says what happened and whether the call was made, and quotes what the server said last.

use std::time::Duration;

use nostray_sys::rate::Rate;
use nostray_sys::secrets::masked_text;
use nostray_sys::text::escaped;
use serde::{Deserialize, Serialize};

use crate::as_text;
use crate::machine::Cause;

/// The error of the language servers' protocol for a request that its client has cancelled.
pub const CANCELLED: i64 = -32800;

/// How much of the server's last words is quoted, in characters.
const MAX_LAST_WORDS: usize = 200;

/// What errors call a server, and where they send the reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerLabel {
    /// The server's name. Empty if it is not known.
    pub name: String,
    /// The command that shows more, if there is one.
    pub details: Option<String>,
}

/// A child has failed too often, and is not started for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trip {
    /// The limit that it has exceeded.
    #[serde(with = "as_text")]
    pub limit: Rate,
    /// How long it is not started.
    pub left: Duration,
}

/// What a caller can expect of a server that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// A later call may find it.
    Open,
    /// It has failed too often, and is not started for a while.
    Tripped(Trip),
    /// It never comes back in this session.
    ForGood,
}

impl ServerLabel {
    /// The server, as the subject of a sentence.
    #[must_use]
    pub fn subject(&self) -> String {
        match self.name.as_str() {
            "" => "the server".to_owned(),
            name => format!("`{}`", escaped(name)),
        }
    }

    /// The server was lost while it worked on this call.
    #[must_use]
    pub fn cut_off(&self, cause: &Cause, stderr: &[String]) -> String {
        let text = format!("{}; the call was not retried.", self.during_call(cause));
        self.with_tail(text, stderr)
    }

    /// What became of the server during a call, as a clause.
    #[must_use]
    pub fn during_call(&self, Cause { what, why }: &Cause) -> String {
        format!("{} {what} during this call{}", self.subject(), behind_colon(why.as_deref()))
    }

    /// What became of the server, as a clause.
    #[must_use]
    pub fn clause(&self, Cause { what, why }: &Cause) -> String {
        format!("{} {what}{}", self.subject(), behind_colon(why.as_deref()))
    }

    /// The call was not made, since there is no server for it.
    #[must_use]
    pub fn not_made(&self, cause: &Cause, outlook: Outlook, stderr: &[String]) -> String {
        let text = match outlook {
            Outlook::Open => format!("{} This call was not made.", sentence(&self.clause(cause))),
            Outlook::ForGood => format!(
                "{} This call was not made, and the server is not started again in this session.",
                sentence(&self.clause(cause))
            ),
            Outlook::Tripped(trip) => format!("{} This call was not made.", sentence(&self.tripped(cause, trip))),
        };
        self.with_tail(text, stderr)
    }

    /// The server has failed too often, as a clause.
    #[must_use]
    pub fn tripped(&self, Cause { what, why }: &Cause, Trip { limit, left }: Trip) -> String {
        format!(
            "{} failed too often (--max-failures {limit}), and is not started for another {}; most recently it \
             {what}{}",
            self.subject(),
            in_seconds(left),
            behind_colon(why.as_deref()),
        )
    }

    /// The server has not answered in time.
    #[must_use]
    pub fn too_slow(&self, limit: Duration) -> String {
        let text = format!(
            "{} did not answer within {} (--call-timeout). The call was cancelled and was not retried; the server keeps \
             running.",
            self.subject(),
            humantime::format_duration(limit)
        );
        self.with_tail(text, &[])
    }

    /// There was no server for the call in time. `meanwhile` says what the server was doing.
    #[must_use]
    pub fn waited_too_long(&self, limit: Duration, meanwhile: &str, stderr: &[String]) -> String {
        let text = format!(
            "{} was not there for this call within {} (--call-timeout): {} This call was not made.",
            self.subject(),
            humantime::format_duration(limit),
            sentence(meanwhile),
        );
        self.with_tail(text, stderr)
    }

    /// The server's answer cannot be passed on, and was dropped. `why` is a clause about the answer.
    #[must_use]
    pub fn answer_dropped(&self, why: &str) -> String {
        let text =
            format!("the answer of {} to this call was dropped: {why}; the call was not retried.", self.subject());
        self.with_tail(text, &[])
    }

    /// The request was not passed on. `why` is a clause about the request.
    #[must_use]
    pub fn request_dropped(&self, why: &str) -> String {
        format!("this request was not passed on to {}: {why}", self.subject())
    }

    fn with_tail(&self, mut text: String, stderr: &[String]) -> String {
        if let Some(words) = last_words(stderr, &text) {
            text += &format!(" Last words: {}", sentence(&words));
        }
        if let Some(details) = &self.details {
            text += &format!(" Details: {details}");
        }
        text
    }
}

/// Why a line is not passed on that is longer than `--max-line` allows.
#[must_use]
pub fn too_long(length: u64, limit: usize) -> String {
    format!("it has {length} bytes, more than --max-line {limit} allows")
}

/// The last line of stderr that says something, in one line without secrets and not too long. What the guard of the child has written
/// there, and the error says anyway, is not quoted.
#[must_use]
pub fn last_words(stderr: &[String], already_said: &str) -> Option<String> {
    let says_something = |line: &&String| {
        let text = line.trim();
        let is_ours = |text: &str| already_said.contains(text) || text.ends_with("; ending the tree");
        !text.is_empty() && !text.strip_prefix("nostray: ").is_some_and(is_ours)
    };
    let lines: Vec<_> = stderr.iter().filter(says_something).collect();
    let from_node = lines.last().is_some_and(|last| last.trim().starts_with(NODE_VERSION));
    let error = lines.iter().rev().find(|line| from_node && names_error(line));
    let line = error.or_else(|| lines.iter().rev().find(|line| !is_boilerplate(line))).or(lines.last())?;
    let line = escaped(&masked_text(line.trim())).into_owned();
    let is_long = line.chars().count() > MAX_LAST_WORDS;
    Some(if is_long { line.chars().take(MAX_LAST_WORDS - 1).chain(['…']).collect() } else { line })
}

/// The last line that Node.js writes when an error ends it.
const NODE_VERSION: &str = "Node.js v";

/// `TypeError: x is not a function`, `Error [ERR_X]: …`
fn names_error(line: &str) -> bool {
    line.split([':', ' ', '[']).next().is_some_and(|word| word.ends_with("Error"))
}

/// What runtimes and package managers write behind the line that says what went wrong.
fn is_boilerplate(line: &str) -> bool {
    let text = line.trim();
    text.starts_with("at ")
        || text.starts_with(NODE_VERSION)
        || text.contains("A complete log of this run can be found in")
        || text.starts_with("note: run with `RUST_BACKTRACE=1`")
        || text.chars().all(|c| c.is_ascii_punctuation())
}

/// `: why`, or nothing.
fn behind_colon(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {why}"))
}

/// With a full stop, unless it has one.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?', '…']) { text.to_owned() } else { format!("{text}.") }
}

/// Whole seconds, and at least one.
fn in_seconds(time: Duration) -> humantime::FormattedDuration {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    humantime::format_duration(Duration::from_secs(seconds.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Why;

    fn label() -> ServerLabel {
        ServerLabel { name: "some-server".to_owned(), details: Some("nostray log k7f39q2x --output".to_owned()) }
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn an_error_names_the_server_what_happened_its_last_words_and_where_to_look() {
        let cause = Cause::new("exited with code 1");
        assert_eq!(
            label().cut_off(&cause, &lines("starting\nAPI_KEY is not set")),
            "`some-server` exited with code 1 during this call; the call was not retried. Last words: API_KEY is not \
             set. Details: nostray log k7f39q2x --output"
        );
        assert_eq!(
            label().not_made(
                &Cause::not_started("cannot run 'x': not found; check its spelling"),
                Outlook::ForGood,
                &[]
            ),
            "`some-server` could not be started: cannot run 'x': not found; check its spelling. This call was not \
             made, and the server is not started again in this session. Details: nostray log k7f39q2x --output"
        );
        let trip = Trip { limit: "5/1m".parse().expect("right"), left: Duration::from_millis(41_200) };
        assert_eq!(
            label().not_made(&cause, Outlook::Tripped(trip), &lines("What now?")),
            "`some-server` failed too often (--max-failures 5/1m), and is not started for another 42s; most recently \
             it exited with code 1. This call was not made. Last words: What now? Details: nostray log k7f39q2x --output"
        );
        assert_eq!(
            label().not_made(&cause, Outlook::Open, &[]),
            "`some-server` exited with code 1. This call was not made. Details: nostray log k7f39q2x --output"
        );
        let unknown = ServerLabel::default();
        assert_eq!(
            unknown.cut_off(&Why::Memory.cause(), &[]),
            "the server was restarted during this call: its process tree used more memory than --max-memory allows; the \
             call was not retried."
        );
    }

    #[test]
    fn every_reason_to_end_a_child_reads_as_a_sentence() {
        for (why, expected) in [
            (Why::Stop, "`x` was stopped during this call"),
            (Why::Released, "`x` was ended during this call: no session holds it any more"),
            (Why::Hibernate, "`x` was put to sleep during this call"),
            (Why::Age, "`x` was restarted during this call: it reached its --max-age"),
            (
                Why::StartTimeout,
                "`x` was ended during this call: it took longer to start than --start-timeout allows",
            ),
            (Why::Restart, "`x` was restarted during this call: a user or a program asked for that"),
            (
                Why::BadStart,
                "`x` was ended during this call: it refused the handshake that its predecessor had accepted",
            ),
        ] {
            let label = ServerLabel { name: "x".to_owned(), details: None };
            assert_eq!(label.cut_off(&why.cause(), &[]), format!("{expected}; the call was not retried."));
        }
    }

    #[test]
    fn last_words_show_no_secret_steer_no_terminal_and_are_short() {
        let quoted = |text: &str| last_words(&lines(text), "");
        assert_eq!(quoted(""), None);
        assert_eq!(quoted("a\n  \n"), Some("a".to_owned()));
        assert_eq!(
            quoted("\u{1b}[31mAPI_KEY=hunter2 is wrong\u{7}"),
            Some("\\u{1b}[31mAPI_KEY=*** is wrong\\u{7}".to_owned())
        );
        let long = quoted(&"é".repeat(300)).expect("a line");
        assert_eq!(long.chars().count(), MAX_LAST_WORDS);
        assert!(long.ends_with("é…"));
    }

    #[test]
    fn the_line_that_says_what_went_wrong_is_quoted_and_not_what_a_runtime_adds() {
        let node = "/app/index.js:3\nthrow new Error('x')\n^\n\nError: API_KEY is not set\n    at Object.<anonymous> \
                    (/app/index.js:3:7)\n    at node:internal/main:1\n\nNode.js v20.11.0";
        assert_eq!(last_words(&lines(node), ""), Some("Error: API_KEY is not set".to_owned()));
        let module = "node:internal/modules:1\nError: Cannot find module '/x'\n    at x {\n  code: 'MODULE_NOT_FOUND',\n  \
                      requireStack: []\n}\n\nNode.js v20.11.0";
        assert_eq!(last_words(&lines(module), ""), Some("Error: Cannot find module '/x'".to_owned()));
        let npm = "npm error 404 Not Found\nnpm error A complete log of this run can be found in: /root/.npm/_logs/x";
        assert_eq!(last_words(&lines(npm), ""), Some("npm error 404 Not Found".to_owned()));
        assert_eq!(last_words(&lines("at 5 o'clock"), ""), Some("at 5 o'clock".to_owned()), "better than nothing");
        let own = "its own\nnostray: cannot run 'x': not found";
        assert_eq!(last_words(&lines(own), "cannot run 'x': not found."), Some("its own".to_owned()));
        assert_eq!(last_words(&lines("nostray: the guard was killed; ending the tree"), ""), None);
        // The child may be another nostray.
        assert_eq!(last_words(&lines("nostray: other news"), "x"), Some("nostray: other news".to_owned()));
    }
}
