//! The servers of a file: what each is called, which words start it, and where these words stand.

use std::ops::Range;

use crate::document::{Kind, Member, Node, Style, line_of};
use crate::hosts::Shape;

/// An entry for a server.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What the host calls it.
    pub name: String,
    /// The project that it is for, where a file has several.
    pub project: Option<String>,
    /// What starts it; empty unless it is a stdio server.
    pub words: Vec<String>,
    /// The names of the variables that the entry sets, in its order.
    pub env: Vec<String>,
    /// The line in which it begins.
    pub line: usize,
    /// Whether it can be wrapped, or why not.
    pub state: State,
    /// Which members of which maps lead to it, from the top.
    pub(crate) path: Vec<usize>,
    /// How its command is written.
    pub(crate) form: Option<Form>,
    /// What its command is called.
    pub(crate) key: &'static str,
}

/// Whether an entry can be wrapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// A server that the host starts.
    Stdio,
    /// One that the host does not start at present.
    Disabled,
    /// The host connects to it, and starts nothing.
    Remote,
    /// Nothing can be put in front of its command, for this reason.
    Stuck(&'static str),
}

/// How a command is written.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// One list with all words.
    List(Words),
    /// The program, and a list of arguments.
    Pair { command: Slot, args: Option<(Slot, Words)>, style: Style },
    /// All words in one string.
    OneString(Slot),
}

/// A member: its name and its value.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) name: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// A list of words.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    pub(crate) span: Range<usize>,
    pub(crate) items: Vec<Range<usize>>,
    pub(crate) style: Style,
}

/// Every entry of a file, or why there can be none.
///
/// # Errors
/// If the file's top, or what should hold servers, is something else.
pub(crate) fn entries(text: &str, root: &Node, shape: Shape) -> Result<Vec<Entry>, String> {
    if !matches!(root.kind, Kind::Map { .. } | Kind::Null) {
        return Err("does not have names and values at its top".to_owned());
    }
    let mut all = Vec::new();
    for path in shape.servers {
        below(text, root, path, &mut Trail::default(), shape, &mut all)?;
    }
    // `mcp.servers` of one version is an entry of the name `servers` below `mcp` of another version.
    all.retain(|entry| entry.form.is_some() || entry.state != State::Stuck(NOT_A_SERVER));
    Ok(all)
}

const NOT_A_SERVER: &str = "it has no command";

/// The way from the top to a node.
#[derive(Debug, Clone, Default)]
struct Trail {
    path: Vec<usize>,
    project: Option<String>,
}

fn below(
    text: &str,
    node: &Node,
    names: &[&str],
    trail: &mut Trail,
    shape: Shape,
    all: &mut Vec<Entry>,
) -> Result<(), String> {
    let Some((first, rest)) = names.split_first() else { return servers(text, node, trail, shape, all) };
    let mut found = 0;
    for (at, member) in node.members().iter().enumerate() {
        if *first != "*" && member.name != *first {
            continue;
        }
        found += 1;
        if found > 1 && *first != "*" {
            return Err(format!("has '{first}' twice, at line {}", line_of(text, member.name_span.start)));
        }
        trail.path.push(at);
        if *first == "*" {
            trail.project = Some(member.name.clone());
        }
        // What holds the servers must be a map or a list; on the way to it, other things are other settings.
        let is_last = rest.is_empty();
        match &member.value.kind {
            Kind::Map { .. } => below(text, &member.value, rest, trail, shape, all)?,
            Kind::List { .. } if is_last => below(text, &member.value, rest, trail, shape, all)?,
            Kind::Null => {}
            _ if is_last => return Err(format!("'{first}' does not hold servers by their names")),
            _ => {}
        }
        trail.path.pop();
    }
    if *first == "*" {
        trail.project = None;
    }
    Ok(())
}

fn servers(text: &str, node: &Node, trail: &Trail, shape: Shape, all: &mut Vec<Entry>) -> Result<(), String> {
    let with = |at: usize| trail.path.iter().copied().chain([at]).collect::<Vec<_>>();
    match &node.kind {
        Kind::Map { members, .. } => {
            for (at, member) in members.iter().enumerate() {
                let is_twice = members.iter().filter(|other| other.name == member.name).count() > 1;
                let mut entry = entry(text, &member.name, &member.value, member.name_span.start, shape);
                if is_twice && entry.form.is_some() {
                    entry.state = State::Stuck("its name is there twice");
                }
                (entry.path, entry.project) = (with(at), trail.project.clone());
                all.push(entry);
            }
        }
        Kind::List { items, .. } => {
            // An empty list holds no servers by any name.
            for (at, item) in items.iter().enumerate() {
                let Some(name) = item.get("name").and_then(Node::text) else {
                    return Err("has a list of servers in which one has no name".to_owned());
                };
                let mut entry = entry(text, name, item, item.span.start, shape);
                (entry.path, entry.project) = (with(at), trail.project.clone());
                all.push(entry);
            }
            if items.is_empty() && shape.servers.len() == 1 && !is_list_of_names(shape) {
                return Err(format!("'{}' does not hold servers by their names", shape.servers[0].join(".")));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Continue keeps a list; its files and those of many other hosts have the same name for it.
fn is_list_of_names(shape: Shape) -> bool {
    shape.servers == [&["mcpServers"]]
}

fn entry(text: &str, name: &str, node: &Node, at: usize, shape: Shape) -> Entry {
    let found = form(text, node, shape);
    let key = key_of(node);
    let says = |key: &str, wanted: bool| matches!(node.get(key).map(|value| &value.kind), Some(Kind::Bool(said)) if *said == wanted);
    let kind = node.get("type").or_else(|| node.get("transport")).and_then(Node::text).unwrap_or("stdio");
    let is_remote = !["stdio", "local"].contains(&kind)
        || (found.is_none() && ["url", "uri", "httpUrl", "serverUrl"].iter().any(|key| node.get(key).is_some()));
    let (state, words, form) = match found {
        _ if is_remote => (State::Remote, Vec::new(), None),
        None => (State::Stuck(NOT_A_SERVER), Vec::new(), None),
        Some((words, Err(why))) => (State::Stuck(why), words, None),
        Some((words, Ok(form))) if says("enabled", false) || says("disabled", true) => {
            (State::Disabled, words, Some(form))
        }
        Some((words, Ok(form))) => (State::Stdio, words, Some(form)),
    };
    let env = ["env", "envs", "environment", "env_vars"]
        .iter()
        .filter_map(|key| node.get(key))
        .flat_map(names_in)
        .collect();
    Entry {
        name: name.to_owned(),
        project: None,
        words,
        env,
        line: line_of(text, at),
        state,
        path: Vec::new(),
        form,
        key,
    }
}

/// The names of variables: of a map, of a list of names, or of a list of `NAME=value`.
fn names_in(node: &Node) -> Vec<String> {
    match &node.kind {
        Kind::Map { members, .. } => members.iter().map(|member| member.name.clone()).collect(),
        Kind::List { items, .. } => {
            let name = |item: &Node| {
                let text = item.text().or_else(|| item.get("name").and_then(Node::text))?;
                Some(text.split('=').next().unwrap_or(text).to_owned())
            };
            items.iter().filter_map(name).collect()
        }
        _ => Vec::new(),
    }
}

/// What the command of an entry is called. Goose says `cmd`; Zed once had path and args below `command`.
fn key_of(node: &Node) -> &'static str {
    match node.get("command").map(|command| &command.kind) {
        _ if node.member("cmd").is_some() => "cmd",
        Some(Kind::Map { .. }) => "path",
        _ => "command",
    }
}

type Found = (Vec<String>, Result<Form, &'static str>);

/// The words of a command, and how they are written; `None` if it is no command.
fn form(text: &str, node: &Node, shape: Shape) -> Option<Found> {
    let command = node.member(if node.member("cmd").is_some() { "cmd" } else { "command" })?;
    match &command.value.kind {
        Kind::Map { .. } => pair(text, &command.value, command.value.member("path")?, shape),
        Kind::List { items, style } => {
            let (words, list) = words_of(&command.value, items, *style)?;
            if node.get("args").is_some_and(|args| !matches!(args.kind, Kind::Null)) {
                return Some((words, Err("it has a list of words as its command, and arguments besides")));
            }
            (!words.is_empty()).then_some((words, Ok(Form::List(list))))
        }
        Kind::Text { .. } => pair(text, node, command, shape),
        _ => None,
    }
}

fn pair(text: &str, node: &Node, command: &Member, shape: Shape) -> Option<Found> {
    let Kind::Text { text: program, is_token } = &command.value.kind else { return None };
    let Kind::Map { style, .. } = &node.kind else { return None };
    let slot = |member: &Member| Slot { name: member.name_span.clone(), value: member.value.span.clone() };
    let args = node.member("args").filter(|args| !is_absent(&args.value));
    let mut words = vec![program.clone()];
    let has_blanks = program.trim().contains(char::is_whitespace);
    let given = match args.map(|args| (args, &args.value.kind)) {
        None => None,
        Some((args, Kind::List { items, style })) => match words_of(&args.value, items, *style) {
            Some((more, list)) => {
                words.extend(more);
                Some((slot(args), list))
            }
            None => return Some((words, Err("its arguments are not all words"))),
        },
        Some(_) => return Some((words, Err("its arguments are not a list"))),
    };
    let begins_with_nostray =
        program.split_whitespace().next().is_some_and(|word| word.rsplit('/').next() == Some("nostray"));
    let form = match given {
        _ if program.trim().is_empty() => return None,
        _ if node.members().iter().filter(|member| member.name == "args").count() > 1 => Err("it has 'args' twice"),
        _ if node.member("args").is_some() && given.is_none() => {
            Err("its arguments are empty: write [] or leave them out")
        }
        _ if !is_token => Err("its command is written over several lines, or has an anchor or a tag"),
        _ if program.starts_with('~') => {
            Err("its command begins with ~, which only the host itself expands: write the whole path")
        }
        None if has_blanks && shape.splits => {
            words = program.split_whitespace().map(str::to_owned).collect();
            Ok(Form::OneString(slot(command)))
        }
        _ if has_blanks && begins_with_nostray => {
            Err("its command is one string, which this host does not split into words")
        }
        given => Ok(Form::Pair { command: slot(command), args: given, style: *style }),
    };
    // In TOML a name may stand anywhere; without a place it was made by other names.
    let is_placed = text.get(command.name_span.clone()).is_some_and(|name| !name.is_empty());
    Some((words, form.and_then(|form| if is_placed { Ok(form) } else { Err("its command has no place of its own") })))
}

/// `args:` with nothing behind it.
fn is_absent(node: &Node) -> bool {
    matches!(node.kind, Kind::Null)
}

fn words_of(node: &Node, items: &[Node], style: Style) -> Option<(Vec<String>, Words)> {
    let words = items.iter().map(Node::word).collect::<Option<Vec<_>>>()?;
    let items = items.iter().map(|item| item.span.clone()).collect();
    Some((words, Words { span: node.span.clone(), items, style }))
}
