//! What is to be done to the entries of a file, decided before anything is asked or written.

use crate::choice::{Wishes, choose, is_named};
use crate::edit::{self, Edit, Prefix, Target};
use crate::entries::{Entry, State};
use crate::file;
use crate::hosts::Source;
use crate::invocation::{Grammar, Invocation, Way, Wrapping, recognise};
use crate::survey::{Config, Standing, standing};

/// Which servers are meant.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// These only, by the names of their entries or packages; all if there is none.
    pub servers: Vec<String>,
    /// Not these.
    pub excluded: Vec<String>,
}

impl Selection {
    fn has(&self, entry: &Entry) -> bool {
        let is = |wish: &String| is_named(wish, &entry.name, &entry.words);
        (self.servers.is_empty() || self.servers.iter().any(is)) && !self.excluded.iter().any(is)
    }

    /// Whether the user has named this server.
    fn names(&self, entry: &Entry) -> bool {
        self.servers.iter().any(|wish| is_named(wish, &entry.name, &entry.words))
    }
}

/// A change of one entry.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which entry.
    pub target: Target,
    /// The line in which it begins.
    pub line: usize,
    /// The words in front of its command; `None` to take them away.
    pub prefix: Option<Prefix>,
    /// Its words now.
    pub before: Vec<String>,
    /// Its words then.
    pub after: Vec<String>,
    /// Why this way.
    pub reason: String,
    /// What was asked for and is not done.
    pub note: Option<String>,
}

/// An entry that is left as it is although it was meant.
#[derive(Debug, Clone)]
pub struct Left {
    /// Which entry.
    pub target: Target,
    /// The line in which it begins.
    pub line: usize,
    /// Why.
    pub why: String,
    /// What a person can write by hand.
    pub paste: Option<String>,
}

/// What is to be done to a file.
#[derive(Debug, Default)]
pub struct Plan {
    /// The changes, in the order of the file.
    pub changes: Vec<Change>,
    /// What cannot be done.
    pub left: Vec<Left>,
}

/// What everything in this module needs to know.
#[derive(Clone, Copy)]
pub struct Tools<'a> {
    /// What nostray understands.
    pub grammar: Grammar<'a>,
    /// Whether a name or a path is a program.
    pub is_program: &'a dyn Fn(&str) -> bool,
    /// The name or the path of nostray.
    pub program: &'a str,
}

/// How to wrap what is not wrapped.
#[must_use]
pub fn to_wrap(config: &Config, selection: &Selection, wishes: &Wishes, tools: Tools<'_>) -> Plan {
    let mut plan = Plan::default();
    let Ok(entries) = &config.entries else { return plan };
    let mut candidates = Vec::new();
    for entry in entries.iter().filter(|entry| selection.has(entry)) {
        let standing = standing(entry, tools.grammar, tools.is_program);
        let words = bare(entry, tools.grammar);
        let has_wish = |list: &[String]| list.iter().any(|wish| is_named(wish, &entry.name, &words));
        let is_changed =
            has_wish(&wishes.share) || has_wish(&wishes.run) || wishes.lazy || wishes.hibernate.is_some();
        match &standing {
            Standing::Remote | Standing::WrappedByHand => continue,
            // One that is switched off is wrapped if it is named.
            Standing::Disabled if !selection.names(entry) => continue,
            Standing::Wrapped(now) if !is_changed || now.is_by_hand => continue,
            Standing::Stuck(why) => {
                let prefix = prefix(entry, &words, wishes, tools).0;
                let paste = Some(edit::lines_to_paste(config.source.format, entry, &prefix))
                    .filter(|_| !entry.words.is_empty());
                plan.left.push(Left { target: Target::of(entry), line: entry.line, why: (*why).to_owned(), paste });
                continue;
            }
            _ => {}
        }
        let (prefix, reason, note) = match &standing {
            Standing::Wrapped(now) => prefix(entry, &words, &as_wrapped(entry, now, wishes, &has_wish), tools),
            _ => prefix(entry, &words, wishes, tools),
        };
        candidates.push((entry, prefix, reason, note));
    }
    let Source { format, shape, .. } = config.source;
    let edit = |(entry, prefix, ..): &(&Entry, Prefix, String, Option<String>)| Edit {
        target: Target::of(entry),
        prefix: Some(prefix.clone()),
    };
    let edits: Vec<Edit> = candidates.iter().map(edit).collect();
    if edits.is_empty() {
        return plan;
    }
    // Tried before it is offered.
    let bytes = file::read(&config.source.path).and_then(Result::ok).unwrap_or_default();
    let tried = edit::make_all(&bytes, format, shape, &edits, tools.grammar);
    let tried = tried.map_or_else(|error| vec![Err(error); edits.len()], |(_, then)| then);
    for ((entry, prefix, reason, note), tried) in candidates.into_iter().zip(tried) {
        let (target, line) = (Target::of(entry), entry.line);
        match tried {
            Ok(after) if after == entry.words => {}
            Ok(after) => {
                let before = entry.words.clone();
                plan.changes.push(Change { target, line, prefix: Some(prefix), before, after, reason, note });
            }
            Err(error) => {
                let paste = Some(edit::lines_to_paste(format, entry, &prefix));
                plan.left.push(Left { target, line, why: error.to_string(), paste });
            }
        }
    }
    plan
}

/// The wishes for an entry that is wrapped: what the user does not ask for now stays as it was asked for earlier.
fn as_wrapped(entry: &Entry, now: &Invocation, wishes: &Wishes, has_wish: &dyn Fn(&[String]) -> bool) -> Wishes {
    let mut wishes = wishes.clone();
    if !has_wish(&wishes.share) && !has_wish(&wishes.run) {
        let list = if now.way == Way::Share { &mut wishes.share } else { &mut wishes.run };
        list.push(entry.name.clone());
    }
    let mut options = now.options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--lazy" => wishes.lazy = true,
            "--hibernate" => wishes.hibernate = wishes.hibernate.or_else(|| options.next().cloned()),
            _ => continue,
        }
        wishes.named.push(entry.name.clone());
    }
    wishes
}

/// How to take back what was wrapped.
#[must_use]
pub fn to_unwrap(config: &Config, selection: &Selection, tools: Tools<'_>) -> Plan {
    let mut plan = Plan::default();
    for entry in config.entries.iter().flatten().filter(|entry| selection.has(entry)) {
        let target = Target::of(entry);
        let left = |why: &str| Left { target: Target::of(entry), line: entry.line, why: why.to_owned(), paste: None };
        match recognise(&entry.words, tools.grammar) {
            Wrapping::Direct(now) if now.is_by_hand && !selection.names(entry) => {
                plan.left.push(left("it has options that a person wrote; --server with its name takes them away"));
            }
            Wrapping::Direct(_) if matches!(entry.state, State::Stuck(_)) => {
                plan.left.push(left("it cannot be edited"))
            }
            Wrapping::Direct(now) => {
                let (before, after) = (entry.words.clone(), entry.words.get(now.own..).unwrap_or_default().to_vec());
                plan.changes.push(Change {
                    target,
                    line: entry.line,
                    prefix: None,
                    before,
                    after,
                    reason: String::new(),
                    note: None,
                });
            }
            Wrapping::Indirect => plan.left.push(left("another program starts nostray in front of it")),
            Wrapping::Refused => plan.left.push(left("this version of nostray does not understand its words")),
            Wrapping::None => {}
        }
    }
    plan
}

/// The words of a server without those of nostray.
#[must_use]
pub fn bare(entry: &Entry, grammar: Grammar<'_>) -> Vec<String> {
    match recognise(&entry.words, grammar) {
        Wrapping::Direct(now) => entry.words.get(now.own..).unwrap_or_default().to_vec(),
        _ => entry.words.clone(),
    }
}

fn prefix(entry: &Entry, words: &[String], wishes: &Wishes, tools: Tools<'_>) -> (Prefix, String, Option<String>) {
    let choice = choose(entry, words, wishes);
    let prefix = Prefix { program: tools.program.to_owned(), way: choice.way, options: choice.options };
    (prefix, choice.reason, choice.note)
}

/// Makes the changes in a file's bytes, those that can be made. An entry that another process has taken away meanwhile needs none.
///
/// # Errors
/// If the file cannot be read, or an entry cannot be edited exactly.
pub fn make(bytes: &[u8], source: &Source, changes: &[Change], grammar: Grammar<'_>) -> Result<Vec<u8>, edit::Error> {
    let edit = |change: &Change| Edit { target: change.target.clone(), prefix: change.prefix.clone() };
    let edits: Vec<Edit> = changes.iter().map(edit).collect();
    let (edited, then) = edit::make_all(bytes, source.format, source.shape, &edits, grammar)?;
    match then.into_iter().find_map(|then| then.err().filter(|error| *error != edit::Error::Missing)) {
        Some(error) => Err(error),
        None => Ok(edited),
    }
}
