//! `wrap` and `unwrap`: bytes in, bytes out. Words are inserted and removed where the parser says that the entry's words stand; every
//! other byte stays. The result is parsed and compared with what was wanted before the caller gets it.
//!
//! What an edit inserts is a function of what stands around it and stays. So `unwrap` can compute what `wrap` inserted, and removes
//! exactly that; if a host or a person has formatted the file anew, it removes the same words wherever they are.

use std::path::PathBuf;

use crate::document::{Format, Kind, Node};
use crate::entries::{Entry, Form, State, entries};
use crate::hosts::Shape;
use crate::invocation::{Grammar, Way, Wrapping, recognise};
use crate::splices::{Found, Splice, has_args, inserted, quote, removed, words_of};

/// Why an edit was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file cannot be read; says where.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The entry is not there.
    #[error("has no such server")]
    Missing,
    /// Nothing can be put in front of the command.
    #[error("{0}")]
    Stuck(&'static str),
    /// The result would say something else than what was wanted.
    #[error("cannot be edited without a change to something else")]
    Inexact,
}

/// Which entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What the host calls it.
    pub name: String,
    /// The project that it is for.
    pub project: Option<String>,
}

impl Target {
    /// This entry.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self { name: entry.name.clone(), project: entry.project.clone() }
    }

    fn is(&self, entry: &Entry) -> bool {
        self.name == entry.name && self.project == entry.project
    }
}

/// What is put in front of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// `nostray`, or its path.
    pub program: String,
    /// `run` or `share`.
    pub way: Way,
    /// `--lazy` and the like.
    pub options: Vec<String>,
}

/// A file's text, without the mark that some editors put before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    mark: &'a str,
    text: &'a str,
}

impl<'a> Text<'a> {
    /// # Errors
    /// If it is not UTF-8.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self, Error> {
        let whole = std::str::from_utf8(bytes)
            .map_err(|error| Error::Unreadable(format!("is not UTF-8 after byte {}", error.valid_up_to())))?;
        let text = whole.strip_prefix('\u{feff}').unwrap_or(whole);
        Ok(Self { mark: whole.get(..whole.len() - text.len()).unwrap_or_default(), text })
    }
}

/// The entries of a file.
///
/// # Errors
/// If the file cannot be read.
pub fn read(bytes: &[u8], format: Format, shape: Shape) -> Result<Vec<Entry>, Error> {
    let text = Text::of(bytes)?;
    let root = format.parse(text.text).map_err(Error::Unreadable)?;
    entries(text.text, &root, shape).map_err(Error::Unreadable)
}

/// The projects that a host's own state file names.
pub(crate) fn projects(bytes: &[u8], format: Format, shape: Shape) -> Vec<PathBuf> {
    let has_projects = shape.servers.iter().any(|path| path.get(..2) == Some(&["projects", "*"]));
    let root = Text::of(bytes).ok().filter(|_| has_projects).and_then(|text| format.parse(text.text).ok());
    let projects = root.as_ref().and_then(|root| root.get("projects"));
    let paths = projects.into_iter().flat_map(Node::members).map(|member| PathBuf::from(&member.name));
    paths.filter(|path| path.is_absolute()).collect()
}

/// What is to be done to one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Which entry.
    pub target: Target,
    /// The words in front of its command; `None` to take them away.
    pub prefix: Option<Prefix>,
}

/// The file with the words in front of the entry's command. A wrapped entry gets these words instead of those that it has; so twice is
/// once.
///
/// # Errors
/// If the edit cannot be made. Nothing is changed then.
pub fn wrap(
    bytes: &[u8],
    format: Format,
    shape: Shape,
    target: &Target,
    prefix: &Prefix,
    grammar: Grammar<'_>,
) -> Result<Vec<u8>, Error> {
    one(bytes, format, shape, &Edit { target: target.clone(), prefix: Some(prefix.clone()) }, grammar)
}

/// The file without nostray's words in front of the entry's command.
///
/// # Errors
/// If the edit cannot be made. Nothing is changed then.
pub fn unwrap(
    bytes: &[u8],
    format: Format,
    shape: Shape,
    target: &Target,
    grammar: Grammar<'_>,
) -> Result<Vec<u8>, Error> {
    one(bytes, format, shape, &Edit { target: target.clone(), prefix: None }, grammar)
}

fn one(bytes: &[u8], format: Format, shape: Shape, edit: &Edit, grammar: Grammar<'_>) -> Result<Vec<u8>, Error> {
    let parsed = Parsed::of(bytes, format, shape)?;
    match parsed.prepare(edit, format, grammar)? {
        Prepared::Nothing => Ok(bytes.to_vec()),
        Prepared::Change(change) => parsed.finish(format, shape, vec![change]),
        Prepared::Anew => {
            let bare = one(bytes, format, shape, &Edit { prefix: None, ..edit.clone() }, grammar)?;
            one(&bare, format, shape, edit, grammar)
        }
    }
}

/// What the words of an entry are after an edit, or why it was not made.
pub type Then = Result<Vec<String>, Error>;

/// Makes many edits at once: a state file may have megabytes, and is read twice for all of them together. Says for each edit what the
/// words of its entry are then, or why it was not made. An entry that is not there needs no edit.
///
/// # Errors
/// If the file cannot be read.
pub fn make_all(
    bytes: &[u8],
    format: Format,
    shape: Shape,
    edits: &[Edit],
    grammar: Grammar<'_>,
) -> Result<(Vec<u8>, Vec<Then>), Error> {
    let parsed = Parsed::of(bytes, format, shape)?;
    let prepared: Vec<_> = edits.iter().map(|edit| parsed.prepare(edit, format, grammar)).collect();
    let can_be_together = prepared.iter().all(|prepared| !matches!(prepared, Ok(Prepared::Anew)));
    let mut changes = Vec::new();
    let mut then = Vec::new();
    for (edit, prepared) in edits.iter().zip(prepared) {
        then.push(match prepared {
            Ok(Prepared::Change(change)) => {
                let wanted = change.wanted.clone();
                changes.push(change);
                Ok(wanted)
            }
            Ok(_) => Ok(parsed.entry(&edit.target).map(|entry| entry.words.clone()).unwrap_or_default()),
            Err(error) => Err(error),
        });
    }
    if can_be_together && let Ok(edited) = parsed.finish(format, shape, changes) {
        return Ok((edited, then));
    }
    // One of them cannot be made, or needs two steps.
    let mut now = bytes.to_vec();
    let mut then = Vec::new();
    for edit in edits {
        then.push(one(&now, format, shape, edit, grammar).and_then(|edited| {
            now = edited;
            Ok(Parsed::of(&now, format, shape)?.entry(&edit.target)?.words.clone())
        }));
    }
    Ok((now, then))
}

/// The lines by which a server is started with these words in front: what a person can write by hand.
#[must_use]
pub fn lines_to_paste(format: Format, entry: &Entry, prefix: &Prefix) -> String {
    // A string of JSON is one of TOML and of YAML, too.
    let quoted = |words: &[String]| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(", ");
    let words: Vec<String> = words_of(prefix, true).chain(nostray_sys::secrets::masked(&entry.words)).collect();
    let (program, args) =
        words.split_first().map_or((String::new(), String::new()), |(first, rest)| (quote(first), quoted(rest)));
    if matches!(entry.form, Some(Form::List(_))) {
        return format!("{}[{}]", member(format, entry.key), quoted(&words));
    }
    let end = if matches!(format, Format::Json | Format::Json5) { "," } else { "" };
    format!("{}{program}{end}\n{}[{args}]", member(format, entry.key), member(format, "args"))
}

fn member(format: Format, name: &str) -> String {
    match format {
        Format::Json | Format::Json5 => format!("\"{name}\": "),
        Format::Toml => format!("{name} = "),
        Format::Yaml => format!("{name}: "),
    }
}

/// A file that was read.
struct Parsed<'a> {
    mark: &'a str,
    text: &'a str,
    root: Node,
    entries: Vec<Entry>,
}

/// How one entry changes.
struct Change<'a> {
    entry: &'a Entry,
    splices: Vec<Splice>,
    wanted: Vec<String>,
}

/// What an edit comes to.
enum Prepared<'a> {
    /// The entry is as it should be.
    Nothing,
    Change(Change<'a>),
    /// The entry has other words of nostray, which have to go first.
    Anew,
}

impl<'a> Parsed<'a> {
    fn of(bytes: &'a [u8], format: Format, shape: Shape) -> Result<Self, Error> {
        let Text { mark, text } = Text::of(bytes)?;
        let root = format.parse(text).map_err(Error::Unreadable)?;
        let entries = entries(text, &root, shape).map_err(Error::Unreadable)?;
        Ok(Self { mark, text, root, entries })
    }

    fn entry(&self, target: &Target) -> Result<&Entry, Error> {
        self.entries.iter().find(|entry| target.is(entry)).ok_or(Error::Missing)
    }

    fn prepare(&self, edit: &Edit, format: Format, grammar: Grammar<'_>) -> Result<Prepared<'_>, Error> {
        let entry = self.entry(&edit.target)?;
        let form = match (&entry.state, &entry.form) {
            (State::Stdio | State::Disabled, Some(form)) => form,
            (State::Stuck(why), _) => return Err(Error::Stuck(why)),
            _ => return Err(Error::Stuck("the host does not start it")),
        };
        let found = Found { text: self.text, entry, form };
        match (recognise(&entry.words, grammar), &edit.prefix) {
            (Wrapping::Indirect, _) => Err(Error::Stuck("another program starts nostray in front of it")),
            (Wrapping::Refused, _) => {
                Err(Error::Stuck("it names nostray, with words that this version does not understand"))
            }
            (Wrapping::None, None) => Ok(Prepared::Nothing),
            (Wrapping::Direct(now), Some(prefix)) => {
                let is_same = now.program == prefix.program && now.way == prefix.way && now.options == prefix.options;
                Ok(if is_same { Prepared::Nothing } else { Prepared::Anew })
            }
            (Wrapping::Direct(now), None) => {
                let wanted = entry.words.get(now.own..).unwrap_or_default().to_vec();
                Ok(Prepared::Change(Change { entry, splices: removed(&found, &now, format)?, wanted }))
            }
            (Wrapping::None, Some(prefix)) => {
                let own = words_of(prefix, has_args(form));
                let wanted: Vec<String> = own.chain(entry.words.iter().cloned()).collect();
                // A command that begins like an option would be taken for one.
                let own = wanted.len() - entry.words.len();
                if !matches!(recognise(&wanted, grammar), Wrapping::Direct(then) if then.own == own) {
                    return Err(Error::Stuck("its command begins with a dash"));
                }
                Ok(Prepared::Change(Change { entry, splices: inserted(&found, prefix, format)?, wanted }))
            }
        }
    }

    /// The edited file, if it says exactly what was wanted.
    fn finish(&self, format: Format, shape: Shape, changes: Vec<Change<'_>>) -> Result<Vec<u8>, Error> {
        let mut splices: Vec<&Splice> = changes.iter().flat_map(|change| &change.splices).collect();
        splices.sort_by_key(|splice| splice.at.start);
        let mut edited = String::with_capacity(self.text.len() + 64);
        let mut from = 0;
        for Splice { at, with } in splices {
            edited += self.text.get(from..at.start).ok_or(Error::Inexact)?;
            edited += with;
            from = at.end;
        }
        edited += self.text.get(from..).ok_or(Error::Inexact)?;
        let root = format.parse(&edited).map_err(|_| Error::Inexact)?;
        let then = entries(&edited, &root, shape).map_err(|_| Error::Inexact)?;
        let is_as_wanted = |change: &Change<'_>| {
            let mut found = then.iter().filter(|entry| Target::of(change.entry).is(entry));
            found.next().is_some_and(|then| {
                then.words == change.wanted
                    && then.state == change.entry.state
                    && then.env == change.entry.env
                    && then.path == change.entry.path
            })
        };
        let paths: Vec<&[usize]> = changes.iter().map(|change| change.entry.path.as_slice()).collect();
        if !changes.iter().all(is_as_wanted) || !differs_only_at(&self.root, &root, &paths) {
            return Err(Error::Inexact);
        }
        Ok([self.mark, &edited].concat().into_bytes())
    }
}

/// Whether two files say the same, except for the commands of the entries to which the paths lead.
fn differs_only_at(one: &Node, two: &Node, paths: &[&[usize]]) -> bool {
    if paths.is_empty() {
        return one.means_the_same(two);
    }
    if paths.iter().any(|path| path.is_empty()) {
        return differs_in_command_only(one, two);
    }
    let below = |at: usize| -> Vec<&[usize]> {
        paths.iter().filter(|path| path.first() == Some(&at)).filter_map(|path| path.get(1..)).collect()
    };
    match (&one.kind, &two.kind) {
        (Kind::Map { members: one, .. }, Kind::Map { members: two, .. }) => {
            one.len() == two.len()
                && one.iter().zip(two).enumerate().all(|(at, (one, two))| {
                    one.name == two.name && differs_only_at(&one.value, &two.value, &below(at))
                })
        }
        (Kind::List { items: one, .. }, Kind::List { items: two, .. }) => {
            one.len() == two.len()
                && one.iter().zip(two).enumerate().all(|(at, (one, two))| differs_only_at(one, two, &below(at)))
        }
        _ => false,
    }
}

fn differs_in_command_only(one: &Node, two: &Node) -> bool {
    let others = |node: &Node| {
        let is_other = |name: &str| !["command", "cmd", "args"].contains(&name);
        node.members().iter().filter(|member| is_other(&member.name)).cloned().collect::<Vec<_>>()
    };
    let (one, two) = (others(one), others(two));
    one.len() == two.len() && one.iter().zip(&two).all(|(one, two)| one.means_the_same(two))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::ANY;
    use crate::invocation::written_by_wrap;

    fn prefix(way: Way, options: &[&str]) -> Prefix {
        Prefix { program: "nostray".into(), way, options: options.iter().map(|word| (*word).to_owned()).collect() }
    }

    fn target(name: &str) -> Target {
        Target { name: name.into(), project: None }
    }

    fn there(format: Format, text: &str, way: Way, options: &[&str]) -> String {
        let shape = Shape { splits: true, ..ANY };
        let bytes = wrap(text.as_bytes(), format, shape, &target("x"), &prefix(way, options), &written_by_wrap)
            .unwrap_or_else(|error| panic!("{error}: {text}"));
        let wrapped = String::from_utf8(bytes.clone()).expect("text");
        let again = wrap(&bytes, format, shape, &target("x"), &prefix(way, options), &written_by_wrap);
        assert_eq!(again, Ok(bytes.clone()), "twice is once: {wrapped}");
        let back = unwrap(&bytes, format, shape, &target("x"), &written_by_wrap)
            .unwrap_or_else(|error| panic!("{error}: {wrapped}"));
        assert_eq!(String::from_utf8(back).expect("text"), text, "by way of {wrapped}");
        let other = prefix(Way::Share, &["--share-env", "A,B", "--any-dir"]);
        let other = wrap(&bytes, format, shape, &target("x"), &other, &written_by_wrap).expect("another way");
        assert_eq!(unwrap(&other, format, shape, &target("x"), &written_by_wrap).expect("back"), text.as_bytes());
        wrapped
    }

    #[test]
    fn json_is_wrapped_in_place_and_unwrapped_to_the_same_bytes() {
        for (text, expected) in [
            (
                r#"{"mcpServers":{"x":{"command":"npx","args":["-y","a"]}}}"#,
                r#"{"mcpServers":{"x":{"command":"nostray","args":["run", "--", "npx", "-y","a"]}}}"#,
            ),
            (
                r#"{"mcpServers":{"x":{"args":[ "-y" , "a" ],"command":"n\u0070x"}}}"#,
                r#"{"mcpServers":{"x":{"args":[ "run", "--", "n\u0070x", "-y" , "a" ],"command":"nostray"}}}"#,
            ),
            (
                r#"{"mcpServers":{"x":{"command":"npx","args":[]}}}"#,
                r#"{"mcpServers":{"x":{"command":"nostray","args":["run", "--", "npx"]}}}"#,
            ),
            (
                r#"{"mcpServers":{"x":{"command":"npx"}}}"#,
                r#"{"mcpServers":{"x":{"command":"nostray", "args":["run", "npx"]}}}"#,
            ),
            (
                r#"{"mcpServers":{"x":{"command":"npx -y \"a b\""}}}"#,
                r#"{"mcpServers":{"x":{"command":"nostray run npx -y \"a b\""}}}"#,
            ),
            (
                r#"{"mcp":{"x":{"type":"local","command":["npx","-y"]}}}"#,
                r#"{"mcp":{"x":{"type":"local","command":["nostray", "run", "--", "npx","-y"]}}}"#,
            ),
            (
                r#"{"context_servers":{"x":{"command":{"path":"npx","args":["a"]}}}}"#,
                r#"{"context_servers":{"x":{"command":{"path":"nostray","args":["run", "--", "npx", "a"]}}}}"#,
            ),
        ] {
            assert_eq!(there(Format::Json, text, Way::Run, &[]), expected);
        }
        let text = "\u{feff}{\r\n\t\"servers\": { // ä\r\n\t\t\"x\": {\r\n\t\t\t\"command\": \"npx\", // b\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"-y\", /* c */\r\n\t\t\t\t\"a\",\r\n\t\t\t],\r\n\t\t},\r\n\t},\r\n}\r\n";
        let wrapped = there(Format::Json, text, Way::Run, &["--lazy"]);
        assert!(wrapped.contains("[\r\n\t\t\t\t\"run\",\r\n\t\t\t\t\"--lazy\",\r\n\t\t\t\t\"--\",\r\n\t\t\t\t\"npx\",\r\n\t\t\t\t\"-y\", /* c */"), "{wrapped}");
        let text =
            "{\"mcpServers\": {\"x\": {\n    // why\n    \"command\": \"npx\" // b\n    ,\n    \"env\": {}\n}}}";
        let wrapped = there(Format::Json, text, Way::Run, &[]);
        assert!(wrapped.contains("\"nostray\",\n    \"args\": [\"run\", \"npx\"] // b\n    ,"), "{wrapped}");
    }

    #[test]
    fn json5_keeps_its_quotes_and_names() {
        let text = "{mcp: {servers: {x: {command: 'npx', args: ['-y', 'a',], },},},}";
        assert_eq!(
            there(Format::Json5, text, Way::Run, &[]),
            "{mcp: {servers: {x: {command: \"nostray\", args: [\"run\", \"--\", 'npx', '-y', 'a',], },},},}"
        );
        let text = "{mcp: {servers: {x: {'command': 'npx', n: +.5}}}}";
        assert_eq!(
            there(Format::Json5, text, Way::Run, &[]),
            "{mcp: {servers: {x: {'command': \"nostray\", 'args': [\"run\", 'npx'], n: +.5}}}}"
        );
    }

    #[test]
    fn toml_keeps_comments_and_tables() {
        for (text, expected) in [
            (
                "[mcp_servers.x]\ncommand = 'npx' # a\nargs = [\"-y\"]\n",
                "[mcp_servers.x]\ncommand = \"nostray\" # a\nargs = [\"run\", \"--\", 'npx', \"-y\"]\n",
            ),
            (
                "[mcp_servers.x]\r\n  command = \"npx\" # a\r\n",
                "[mcp_servers.x]\r\n  args = [\"run\", \"npx\"]\r\n  command = \"nostray\" # a\r\n",
            ),
            (
                "[mcp_servers]\nx = { command = \"npx\" }\n",
                "[mcp_servers]\nx = { command = \"nostray\", args = [\"run\", \"npx\"] }\n",
            ),
            (
                "mcp_servers.x.command = \"npx\"\n",
                "mcp_servers.x.args = [\"run\", \"npx\"]\nmcp_servers.x.command = \"nostray\"\n",
            ),
            ("[mcp_servers.x]\ncommand=\"npx\"", "[mcp_servers.x]\nargs=[\"run\", \"npx\"]\ncommand=\"nostray\""),
            (
                "[mcp_servers.x]\nargs = [\n  # why\n  '-y', # b\n]\ncommand = \"npx\"\n[mcp_servers.x.env]\nA = '1'\n",
                "[mcp_servers.x]\nargs = [\n  # why\n  \"run\", \"--\", \"npx\", '-y', # b\n]\ncommand = \"nostray\"\n[mcp_servers.x.env]\nA = '1'\n",
            ),
        ] {
            assert_eq!(there(Format::Toml, text, Way::Run, &[]), expected);
        }
    }

    #[test]
    fn yaml_keeps_blocks_flows_and_comments() {
        for (text, expected) in [
            (
                "mcp_servers:\n  x:\n    command: npx # a\n    args: [-y, \"b\"]\n",
                "mcp_servers:\n  x:\n    command: nostray # a\n    args: [run, --, npx, -y, \"b\"]\n",
            ),
            (
                "extensions:\n  x:\n    cmd: 'npx'\n    args:\n      - -y # ä\n      - b\n",
                "extensions:\n  x:\n    cmd: nostray\n    args:\n      - run\n      - --\n      - 'npx'\n      - -y # ä\n      - b\n",
            ),
            (
                "mcpServers:\r\n- name: x\r\n  command: npx\r\n  args:\r\n  - 80\r\n",
                "mcpServers:\r\n- name: x\r\n  command: nostray\r\n  args:\r\n  - run\r\n  - --\r\n  - npx\r\n  - 80\r\n",
            ),
            (
                "mcpServers:\n  - command: npx # a\n    name: x\n",
                "mcpServers:\n  - args: [run, npx]\n    command: nostray # a\n    name: x\n",
            ),
            (
                "mcp_servers: {x: {command: npx, args: []}}\n",
                "mcp_servers: {x: {command: nostray, args: [run, --, npx]}}\n",
            ),
            ("mcp_servers: {x: {command: npx}}\n", "mcp_servers: {x: {command: nostray, args: [run, npx]}}\n"),
            (
                "mcp_servers:\n  x:\n    command: npx",
                "mcp_servers:\n  x:\n    args: [run, npx]\n    command: nostray",
            ),
        ] {
            assert_eq!(there(Format::Yaml, text, Way::Run, &[]), expected);
        }
    }

    #[test]
    fn what_a_host_has_written_anew_is_unwrapped_all_the_same() {
        let back = |format, text: &str| {
            String::from_utf8(
                unwrap(text.as_bytes(), format, ANY, &target("x"), &written_by_wrap).expect("is wrapped"),
            )
            .expect("text")
        };
        let anew = "{\n  \"mcpServers\": {\n    \"x\": {\n      \"command\": \"nostray\",\n      \"args\": [\n        \"run\",\n        \"npx\"\n      ]\n    }\n  }\n}";
        assert_eq!(
            back(Format::Json, anew),
            "{\n  \"mcpServers\": {\n    \"x\": {\n      \"command\": \"npx\"\n    }\n  }\n}"
        );
        assert_eq!(
            back(Format::Json, r#"{"mcpServers":{"x":{"args":["run","--","npx",],"command":"nostray"}}}"#),
            r#"{"mcpServers":{"x":{"args":[],"command":"npx"}}}"#
        );
        assert_eq!(
            back(Format::Yaml, "mcp_servers:\n  x:\n    command: nostray\n    args:\n      - run\n      - npx\n"),
            "mcp_servers:\n  x:\n    command: npx\n    args:\n      []\n"
        );
    }

    #[test]
    fn what_cannot_be_edited_exactly_is_refused() {
        for (format, text) in [
            (Format::Yaml, "base: &b {command: npx}\nmcp_servers:\n  x:\n    <<: *b\n"),
            (
                Format::Yaml,
                "mcp_servers:\n  x:\n    command: npx\n    args: &a [-y]\n  y:\n    command: npx\n    args: *a\n",
            ),
            (Format::Yaml, "mcp_servers:\n  x:\n    command: >\n      npx\n    args: []\n"),
            (Format::Yaml, "mcp_servers:\n  x:\n    command: a, b\n    args: [c]\n"),
            (Format::Json, r#"{"mcpServers":{"x":{"command":"npx","args":null}}}"#),
            (Format::Json, r#"{"mcpServers":{"x":{"command":"npx","args":[["a"]]}}}"#),
            (Format::Json, r#"{"mcpServers":{"x":{"command":"npx","command":"node"}}}"#),
            (Format::Json, r#"{"mcpServers":{"x":{"command":"npx"},"x":{"command":"node"}}}"#),
            (Format::Json, r#"{"mcpServers":{"x":{"command":"~/bin/a"}}}"#),
            (Format::Json, r#"{"mcpServers":{"x":{"url":"https://example.org"}}}"#),
            (Format::Json, r#"{"mcpServers":{"x":{"command":"nostray","args":["nonsense"]}}}"#),
        ] {
            let done = wrap(text.as_bytes(), format, ANY, &target("x"), &prefix(Way::Run, &[]), &written_by_wrap);
            assert!(done.is_err(), "{text}: {}", String::from_utf8_lossy(&done.unwrap_or_default()));
        }
    }
}
