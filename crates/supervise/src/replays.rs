//! `--replay`: what the host has said that every new child is told again.

use std::str::FromStr;

use nostray_rpc::{Id, find};

use crate::memory::{Line, MAX_REMEMBERED};

/// A method whose messages every new child is told again, and how they are taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    open: String,
    close: Option<Close>,
}

/// What takes back an earlier message: another method, with the same value at this place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Close {
    method: String,
    key: Vec<String>,
}

impl FromStr for Replay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it like session.open, or like session.open=session.close@params.sessionId".to_owned();
        let (open, close) = match text.split_once('=') {
            None if text.contains('@') => return Err(wrong()),
            None => (text, None),
            Some((open, close)) => {
                let (method, key) = close.split_once('@').ok_or_else(wrong)?;
                let key: Vec<_> = key.split('.').map(str::to_owned).collect();
                if method.is_empty() || method == open || key.iter().any(String::is_empty) {
                    return Err(wrong());
                }
                (open, Some(Close { method: method.to_owned(), key }))
            }
        };
        if open.is_empty() {
            return Err(wrong());
        }
        Ok(Self { open: open.to_owned(), close })
    }
}

/// What is opened and closed: the place of its rule, and the value that names it. Without a value, only an equal line is the same.
type Key = (usize, Option<Id>);

/// A message that `--replay` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    what: What,
    /// Its place in the order in which the host said such messages.
    serial: u64,
    line: Line,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// It is always told again.
    Plain,
    /// It is told again until it is closed.
    Opens(Key),
    /// It closes what was opened before it.
    Closes(Vec<Key>),
}

impl Entry {
    pub(crate) fn is_plain(&self) -> bool {
        self.what == What::Plain
    }

    pub(crate) fn opens(&self) -> bool {
        matches!(self.what, What::Opens(_))
    }

    /// Whether it closes what the other one opens.
    pub(crate) fn closes(&self, other: &Self) -> bool {
        match (&self.what, &other.what) {
            (What::Closes(keys), What::Opens(key)) => keys.contains(key) && other.serial < self.serial,
            _ => false,
        }
    }

    /// Whether a new child need be told only one of the two.
    fn replaces(&self, other: &Self) -> bool {
        match (&self.what, &other.what) {
            (What::Opens((rule, Some(key))), What::Opens((other, Some(known)))) => rule == other && key == known,
            (ours, theirs) => ours == theirs && self.line == other.line,
        }
    }
}

/// All that is told again, in its order.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    rules: Vec<Replay>,
    kept: Vec<Entry>,
    said: u64,
}

impl Replays {
    pub(crate) fn new(rules: Vec<Replay>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Whether any method is named.
    pub(crate) fn any(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Forgets what was said.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }

    /// What a message of the host's means here, if anything.
    pub(crate) fn read(&mut self, method: &str, message: &[u8]) -> Option<Entry> {
        let value = |close: &Close| {
            let path: Vec<&str> = close.key.iter().map(String::as_str).collect();
            find(message, &path).and_then(|at| Id::from_json(&message[at]))
        };
        let opening = self.rules.iter().position(|rule| rule.open == method);
        let what = match opening.map(|at| (at, &self.rules[at].close)) {
            Some((_, None)) => What::Plain,
            Some((at, Some(close))) => What::Opens((at, value(close))),
            None => {
                let closed = |(at, rule): (usize, &Replay)| {
                    let close = rule.close.as_ref().filter(|close| close.method == method)?;
                    Some((at, Some(value(close)?)))
                };
                What::Closes(self.rules.iter().enumerate().filter_map(closed).collect())
            }
        };
        if what == What::Closes(Vec::new()) {
            return None;
        }
        self.said += 1;
        let line = message.iter().copied().chain((!message.ends_with(b"\n")).then_some(b'\n')).collect();
        Some(Entry { what, serial: self.said, line })
    }

    /// The child has taken a message.
    pub(crate) fn learn(&mut self, entry: Entry) {
        if matches!(entry.what, What::Closes(_)) {
            return self.kept.retain(|kept| !entry.closes(kept));
        }
        self.kept.retain(|kept| !entry.replaces(kept));
        let mut plain = self.kept.iter().enumerate().filter(|(_, kept)| kept.is_plain()).map(|(at, _)| at);
        if entry.is_plain()
            && let Some(oldest) = plain.next()
            && plain.count() + 1 >= MAX_REMEMBERED
        {
            self.kept.remove(oldest);
        }
        self.kept.push(entry);
    }

    /// Whether it opens what is not open.
    pub(crate) fn is_new(&self, entry: &Entry) -> bool {
        entry.opens() && !self.kept.iter().any(|kept| entry.replaces(kept))
    }

    /// Whether it opens what cannot be kept, with so many that are about to be opened.
    pub(crate) fn has_no_room_for(&self, entry: &Entry, about_to_be: usize) -> bool {
        let open = || self.kept.iter().filter(|kept| kept.opens()).count();
        entry.opens() && open() + about_to_be >= MAX_REMEMBERED && self.is_new(entry)
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.kept.iter().map(|entry| &entry.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_a_method_or_with_what_closes_it() {
        let close = Close { method: "b".to_owned(), key: vec!["params".to_owned(), "id".to_owned()] };
        assert_eq!("a".parse(), Ok(Replay { open: "a".to_owned(), close: None }));
        assert_eq!("a=b@params.id".parse(), Ok(Replay { open: "a".to_owned(), close: Some(close) }));
        for wrong in ["", "a=", "a=b", "a@params.id", "=b@x", "a=@x", "a=b@", "a=b@x.", "a=b@.x", "a=a@x"] {
            let why = wrong.parse::<Replay>().expect_err(wrong);
            assert!(why.contains("session.open=session.close@params.sessionId"), "{wrong}: {why}");
        }
    }

    fn replays(rules: &[&str]) -> Replays {
        Replays::new(rules.iter().map(|rule| rule.parse().expect("a rule")).collect())
    }

    fn say(replays: &mut Replays, method: &str, params: &str) {
        let line = format!(r#"{{"method":"{method}","params":{params}}}"#);
        if let Some(entry) = replays.read(method, line.as_bytes()) {
            replays.learn(entry);
        }
    }

    fn kept(replays: &Replays) -> Vec<String> {
        let params =
            |line: &Line| String::from_utf8_lossy(&line[find(line, &["params"]).expect("params")]).into_owned();
        replays.lines().map(params).collect()
    }

    #[test]
    fn what_is_open_is_kept_once_and_what_is_closed_is_not() {
        let mut replays = replays(&["open=close@params.id", "resume=close@params.id", "hint"]);
        for (method, params) in [
            ("open", r#"{"id":1}"#),
            ("open", r#"{"id":2}"#),
            ("open", r#"{"id":"1"}"#),
            ("resume", r#"{"id":1}"#),
            ("hint", r#"{"id":1}"#),
            ("open", r#"{"id":2,"again":true}"#),
            ("open", r#"{"without":1}"#),
            ("open", r#"{"without":2}"#),
            ("open", r#"{"without":1}"#),
            ("other", r#"{"id":2}"#),
            ("close", r#"{"id":1.0}"#),
            ("close", r#"{"without":1}"#),
        ] {
            say(&mut replays, method, params);
        }
        let expected = [
            r#"{"id":"1"}"#,
            r#"{"id":1}"#, // the hint
            r#"{"id":2,"again":true}"#,
            r#"{"without":2}"#,
            r#"{"without":1}"#,
        ];
        assert_eq!(kept(&replays), expected);
    }

    #[test]
    fn plain_ones_are_forgotten_beyond_a_limit_and_open_ones_are_not() {
        let mut replays = replays(&["open=close@params.id", "hint"]);
        for id in 0..MAX_REMEMBERED + 2 {
            say(&mut replays, "hint", &format!(r#"{{"id":{id}}}"#));
        }
        assert_eq!((replays.kept.len(), &kept(&replays)[0][..]), (MAX_REMEMBERED, r#"{"id":2}"#));
        let mut opens =
            |id: usize| replays.read("open", format!(r#"{{"params":{{"id":{id}}}}}"#).as_bytes()).expect("one");
        let all: Vec<_> = (0..=MAX_REMEMBERED).map(&mut opens).collect();
        for entry in &all[..MAX_REMEMBERED] {
            assert!(!replays.has_no_room_for(entry, 0));
            replays.learn(entry.clone());
        }
        assert!(replays.has_no_room_for(&all[MAX_REMEMBERED], 0));
        assert!(!replays.has_no_room_for(&all[0], 0), "that is open");
        say(&mut replays, "close", r#"{"id":7}"#);
        assert!(!replays.has_no_room_for(&all[MAX_REMEMBERED], 0));
        assert!(replays.has_no_room_for(&all[MAX_REMEMBERED], 1));
    }
}
