//! Where bytes are inserted and removed, so that an entry gets or loses nostray's words. What is inserted is a function of what stands around it
//! and stays.

use std::ops::Range;

use crate::document::{Format, Style};
use crate::edit::{Error, Prefix};
use crate::entries::{Entry, Form, Slot, Words};
use crate::invocation::Invocation;

/// An entry in its file.
pub(crate) struct Found<'a> {
    pub(crate) text: &'a str,
    pub(crate) entry: &'a Entry,
    pub(crate) form: &'a Form,
}

/// Some bytes, and what is to stand in their place.
pub(crate) struct Splice {
    pub(crate) at: Range<usize>,
    pub(crate) with: String,
}

impl Found<'_> {
    fn raw(&self, at: &Range<usize>) -> Result<&str, Error> {
        self.text.get(at.clone()).ok_or(Error::Inexact)
    }
}

/// All words in front of the command.
pub(crate) fn words_of(prefix: &Prefix, has_args: bool) -> impl Iterator<Item = String> {
    let dashes = has_args.then(|| "--".to_owned());
    let way = [prefix.program.clone(), prefix.way.name().to_owned()];
    way.into_iter().chain(prefix.options.clone()).chain(dashes)
}

pub(crate) fn has_args(form: &Form) -> bool {
    match form {
        Form::List(_) => true,
        Form::Pair { args, .. } => args.is_some(),
        Form::OneString(_) => false,
    }
}

/// What `wrap` does to an entry.
pub(crate) fn inserted(found: &Found<'_>, prefix: &Prefix, format: Format) -> Result<Vec<Splice>, Error> {
    let words: Vec<String> = words_of(prefix, has_args(found.form)).collect();
    let (program, rest) = words.split_first().ok_or(Error::Inexact)?;
    let tokens: Vec<String> = rest.iter().map(|word| token(format, word)).collect();
    match found.form {
        Form::List(list) => {
            let tokens: Vec<String> = std::iter::once(token(format, program)).chain(tokens).collect();
            Ok(vec![before_first(found.text, list, &tokens)?])
        }
        Form::Pair { command, args: Some((_, list)), .. } => {
            let moved = found.raw(&command.value)?.to_owned();
            let tokens: Vec<String> = tokens.into_iter().chain([moved]).collect();
            let program = Splice { at: command.value.clone(), with: token(format, program) };
            Ok(vec![program, before_first(found.text, list, &tokens)?])
        }
        Form::Pair { command, args: None, style } => {
            let moved = found.raw(&command.value)?.to_owned();
            let list = flow_list(tokens.into_iter().chain([moved]));
            let program = Splice { at: command.value.clone(), with: token(format, program) };
            let (at, with) = added_args(found.text, command, *style, format, &list)?;
            Ok(vec![program, Splice { at: at..at, with }])
        }
        Form::OneString(command) => {
            let (at, _) = inside(found.raw(&command.value)?);
            if words.iter().any(|word| !is_plain(&word.replace(',', ""))) {
                return Err(Error::Stuck(
                    "its command is one string, and the path of nostray cannot be a word of it",
                ));
            }
            if found.entry.words.first().is_some_and(|word| word.contains(['=', '"', '\'', '\\'])) {
                return Err(Error::Stuck("its command is one string that does not begin with a program"));
            }
            let at = command.value.start + at;
            Ok(vec![Splice { at: at..at, with: words.join(" ") + " " }])
        }
    }
}

/// What `unwrap` does to an entry.
pub(crate) fn removed(found: &Found<'_>, invocation: &Invocation, format: Format) -> Result<Vec<Splice>, Error> {
    match found.form {
        Form::List(list) => Ok(vec![without_first(found.text, list, invocation.own)?]),
        Form::Pair { command, args: Some((slot, list)), style } => {
            // Of the list, the word behind nostray's own was the program.
            let moved = list.items.get(invocation.own - 1).ok_or(Error::Inexact)?;
            let moved = found.raw(moved)?.to_owned();
            let program = Splice { at: command.value.clone(), with: moved.clone() };
            let was_added = !invocation.has_dashes && list.items.len() == invocation.own;
            if was_added && let Some(at) = what_was_added(found, command, slot, list, *style, format)? {
                return Ok(vec![program, Splice { at, with: String::new() }]);
            }
            Ok(vec![program, without_first(found.text, list, invocation.own)?])
        }
        // nostray's words alone cannot be a whole command.
        Form::Pair { args: None, .. } => Err(Error::Inexact),
        Form::OneString(command) => {
            let raw = found.raw(&command.value)?;
            let (at, _) = inside(raw);
            let own = found.entry.words.get(..invocation.own).unwrap_or_default().join(" ") + " ";
            let begins = raw.get(at..).is_some_and(|raw| raw.starts_with(&own));
            let at = command.value.start + at;
            if begins {
                Ok(vec![Splice { at: at..at + own.len(), with: String::new() }])
            } else {
                Err(Error::Inexact)
            }
        }
    }
}

/// Where the member `args` goes that an entry did not have, and its text.
fn added_args(
    text: &str,
    command: &Slot,
    style: Style,
    format: Format,
    list: &str,
) -> Result<(usize, String), Error> {
    let name = text.get(command.name.clone()).ok_or(Error::Inexact)?;
    let quote = name.chars().next().filter(|c| ['"', '\''].contains(c)).map(String::from).unwrap_or_default();
    let between = text.get(command.name.end..command.value.start).ok_or(Error::Inexact)?;
    let is_simple = between.chars().all(|c| [' ', '\t', ':', '='].contains(&c));
    let between = match (is_simple, format) {
        (true, _) => between,
        (false, Format::Toml) => " = ",
        (false, _) => ": ",
    };
    let member = format!("{quote}args{quote}{between}{list}");
    let before = text.get(..command.name.start).ok_or(Error::Inexact)?;
    let indent = before.trim_end_matches([' ', '\t']).len();
    match style {
        // Behind the command, so that a comment and a trailing comma behind it stay where they are.
        Style::Flow => {
            let gap = before.get(indent..).unwrap_or_default();
            let gap = match before.get(..indent).unwrap_or_default() {
                above if above.ends_with("\r\n") => format!("\r\n{gap}"),
                above if above.ends_with('\n') => format!("\n{gap}"),
                _ => " ".to_owned(),
            };
            Ok((command.value.end, format!(",{gap}{member}")))
        }
        // A line above it: behind the command there may be a comment.
        Style::Block => {
            let line = before.rfind('\n').map_or(0, |at| at + 1);
            let indent = text.get(line..command.name.start).unwrap_or_default();
            let indent = match format {
                // `- command: npx`
                Format::Yaml => indent.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect(),
                // `mcp_servers.some.command = "npx"`
                _ => indent.to_owned(),
            };
            Ok((command.name.start, format!("{member}{}{indent}", line_end(text, command.name.start))))
        }
    }
}

/// The bytes that `wrap` has added for a member `args`; `None` if the member was written by another program, and stays as an empty list.
fn what_was_added(
    found: &Found<'_>,
    command: &Slot,
    slot: &Slot,
    list: &Words,
    style: Style,
    format: Format,
) -> Result<Option<Range<usize>>, Error> {
    let written = found.raw(&list.span)?;
    match style {
        // A host that writes its file anew keeps the order, and not the spaces.
        Style::Flow if slot.name.start > command.value.end => {
            let between = found.raw(&(command.value.end..slot.name.start))?;
            let is_next = between.trim_start().strip_prefix(',').is_some_and(|rest| rest.trim().is_empty());
            Ok(is_next.then_some(command.value.end..slot.value.end))
        }
        Style::Block if slot.name.start < command.name.start => {
            let (_, expected) = added_args(found.text, command, style, format, written)?;
            // The line of a dotted name begins before its last part.
            let at = command.name.start.saturating_sub(expected.len());
            let is_there = found.text.get(at..command.name.start) == Some(expected.as_str());
            Ok(is_there.then_some(at..command.name.start))
        }
        _ => Ok(None),
    }
}

/// How the line ends in which a byte stands.
fn line_end(text: &str, at: usize) -> &'static str {
    let behind = text.get(at..).and_then(|rest| rest.find('\n').map(|end| at + end));
    let end = behind.or_else(|| text.get(..at).and_then(|before| before.rfind('\n')));
    let is_windows = end.is_some_and(|end| end > 0 && text.as_bytes().get(end - 1) == Some(&b'\r'));
    if is_windows { "\r\n" } else { "\n" }
}

/// Puts words at the beginning of a list, in the way in which the list is written.
fn before_first(text: &str, list: &Words, tokens: &[String]) -> Result<Splice, Error> {
    match (list.items.first(), list.style) {
        (None, Style::Flow) => {
            let at = list.span.start + 1;
            Ok(Splice { at: at..at, with: tokens.join(", ") })
        }
        (Some(first), Style::Flow) => {
            let gap = text.get(list.span.start + 1..first.start).ok_or(Error::Inexact)?;
            let is_in_lines = gap.contains('\n') && gap.trim().is_empty();
            let gap = if is_in_lines { format!(",{gap}") } else { ", ".to_owned() };
            let with = tokens.iter().map(|token| format!("{token}{gap}")).collect();
            Ok(Splice { at: first.start..first.start, with })
        }
        (Some(first), Style::Block) => {
            let at = dash_before(text, first.start)?;
            let line = text.get(..at).ok_or(Error::Inexact)?.rfind('\n').map_or(0, |at| at + 1);
            let indent = text.get(line..at).ok_or(Error::Inexact)?;
            if !indent.trim().is_empty() {
                return Err(Error::Stuck("its arguments begin in the middle of a line"));
            }
            let end = line_end(text, at);
            let with = tokens.iter().map(|token| format!("- {token}{end}{indent}")).collect();
            Ok(Splice { at: at..at, with })
        }
        (None, Style::Block) => Err(Error::Inexact),
    }
}

/// Takes words from the beginning of a list.
fn without_first(text: &str, list: &Words, count: usize) -> Result<Splice, Error> {
    let (Some(first), Some(last)) = (list.items.first(), list.items.last()) else { return Err(Error::Inexact) };
    let begin = |item: &Range<usize>| match list.style {
        Style::Flow => Ok(item.start),
        Style::Block => dash_before(text, item.start),
    };
    match (list.items.get(count), list.style) {
        (Some(next), _) => Ok(Splice { at: begin(first)?..begin(next)?, with: String::new() }),
        // With a comma behind the last one, which may not stand alone.
        (None, Style::Flow) => {
            let behind = text.get(last.end..list.span.end).ok_or(Error::Inexact)?;
            let comma = behind.trim_start().starts_with(',').then(|| behind.len() - behind.trim_start().len() + 1);
            Ok(Splice { at: first.start..last.end + comma.unwrap_or(0), with: String::new() })
        }
        (None, Style::Block) => Ok(Splice { at: begin(first)?..last.end, with: "[]".to_owned() }),
    }
}

/// Where the dash of an item of a YAML list is.
fn dash_before(text: &str, item: usize) -> Result<usize, Error> {
    let before = text.get(..item).ok_or(Error::Inexact)?.trim_end();
    before
        .strip_suffix('-')
        .map(str::len)
        .ok_or(Error::Stuck("its arguments have anchors, tags or comments between the words"))
}

fn flow_list(tokens: impl Iterator<Item = String>) -> String {
    format!("[{}]", tokens.collect::<Vec<_>>().join(", "))
}

/// How much of a string's bytes is its opening quote, and its closing one.
fn inside(raw: &str) -> (usize, usize) {
    let quotes = raw.len() >= 2 && raw.starts_with(['"', '\'']);
    if quotes { (1, 1) } else { (0, 0) }
}

/// A word as a string of the format.
fn token(format: Format, word: &str) -> String {
    match format {
        // Words that mean something else without quotes are none that wrap writes; a path with blanks is quoted.
        Format::Yaml if is_plain(word) && word.parse::<f64>().is_err() => word.to_owned(),
        _ => quote(word),
    }
}

fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    !word.is_empty() && word.chars().all(is_plain)
}

/// In double quotes, as JSON, TOML and YAML all read it.
pub(crate) fn quote(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            c if c.is_control() => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
