//! A configuration file as a tree whose every node knows the bytes that it stands in. One tree for all formats, so that one splicer
//! edits them all: no file is ever written from the tree.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions};
use saphyr_parser::{Event, Parser, ScalarStyle};
use toml_edit::{Item, TableLike, Value};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// With comments and trailing commas: hosts that do not allow them say so themselves, and no edit adds one.
    Json,
    /// Also with names without quotes, single quotes, and further spellings of numbers.
    Json5,
    /// TOML
    Toml,
    /// YAML
    Yaml,
}

impl Format {
    /// The format that the end of a file's name tells.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name.rsplit('.').next()? {
            "json" | "jsonc" => Some(Self::Json),
            "json5" => Some(Self::Json5),
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// What a file says, or what is wrong with it and where. Never a part of its text, which may be a secret.
    ///
    /// # Errors
    /// If the text is not written in this format.
    pub fn parse(self, text: &str) -> Result<Node, String> {
        if text.trim().is_empty() {
            return Ok(Node { span: 0..0, kind: Kind::Null });
        }
        match self {
            Self::Json | Self::Json5 => json(text, self == Self::Json5),
            Self::Toml => toml(text),
            Self::Yaml => yaml(text),
        }
    }
}

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its bytes. Of a block in YAML and a table in TOML only the beginning is meant.
    pub span: Range<usize>,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A string, and whether its bytes can stand elsewhere in the file and mean the same.
    Text {
        text: String,
        is_token: bool,
    },
    Bool(bool),
    Null,
    /// A number, a date, and whatever else is one word.
    Other(String),
    List {
        items: Vec<Node>,
        style: Style,
    },
    Map {
        members: Vec<Member>,
        style: Style,
    },
    /// The value of an anchor elsewhere (YAML).
    Alias(usize),
}

/// How a list or a map is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// In brackets, with commas.
    Flow,
    /// In lines.
    Block,
}

/// A name and its value.
#[derive(Debug, Clone)]
pub struct Member {
    /// The name.
    pub name: String,
    /// Where the name stands, with its quotes.
    pub name_span: Range<usize>,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The members of a map.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Map { members, .. } => members,
            _ => &[],
        }
    }

    /// The member of this name. A name that is there twice is no member: readers disagree on which one counts.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        let mut all = self.members().iter().filter(|member| member.name == name);
        all.next().filter(|_| all.next().is_none())
    }

    /// The value of the member of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.member(name).map(|member| &member.value)
    }

    /// The string that it is.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The word that a host makes of it in a list of arguments.
    #[must_use]
    pub fn word(&self) -> Option<String> {
        match &self.kind {
            Kind::Text { text, .. } | Kind::Other(text) => Some(text.clone()),
            Kind::Bool(yes) => Some(yes.to_string()),
            _ => None,
        }
    }

    /// Whether both say the same, wherever they stand.
    #[must_use]
    pub fn means_the_same(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Text { text: one, .. }, Kind::Text { text: two, .. }) | (Kind::Other(one), Kind::Other(two)) => {
                one == two
            }
            (Kind::Bool(one), Kind::Bool(two)) => one == two,
            (Kind::Null, Kind::Null) => true,
            (Kind::Alias(one), Kind::Alias(two)) => one == two,
            (Kind::List { items: one, .. }, Kind::List { items: two, .. }) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.means_the_same(two))
            }
            (Kind::Map { members: one, .. }, Kind::Map { members: two, .. }) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.means_the_same(two))
            }
            _ => false,
        }
    }
}

impl Member {
    /// Whether both say the same.
    #[must_use]
    pub fn means_the_same(&self, other: &Self) -> bool {
        self.name == other.name && self.value.means_the_same(&other.value)
    }
}

/// The number of the line in which a byte stands.
#[must_use]
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn json(text: &str, is_json5: bool) -> Result<Node, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_loose_object_property_names: is_json5,
        allow_single_quoted_strings: is_json5,
        allow_hexadecimal_numbers: is_json5,
        allow_unary_plus_numbers: is_json5,
        allow_bare_decimal_point_numbers: is_json5,
        allow_non_finite_numbers: is_json5,
        allow_extended_string_escapes: is_json5,
    };
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        format!("{} at line {} column {}", error.kind(), error.line_display(), error.column_display())
    })?;
    Ok(parsed.value.map_or(Node { span: 0..0, kind: Kind::Null }, of_json))
}

fn of_json(value: ast::Value<'_>) -> Node {
    let span = |range: jsonc_parser::common::Range| range.start..range.end;
    match value {
        ast::Value::StringLit(literal) => {
            let kind = Kind::Text { text: literal.value.into_owned(), is_token: true };
            Node { span: span(literal.range), kind }
        }
        ast::Value::NumberLit(number) => {
            Node { span: span(number.range), kind: Kind::Other(number.value.to_owned()) }
        }
        ast::Value::BooleanLit(boolean) => Node { span: span(boolean.range), kind: Kind::Bool(boolean.value) },
        ast::Value::NullKeyword(null) => Node { span: span(null.range), kind: Kind::Null },
        ast::Value::Array(array) => {
            let items = array.elements.into_iter().map(of_json).collect();
            Node { span: span(array.range), kind: Kind::List { items, style: Style::Flow } }
        }
        ast::Value::Object(object) => {
            let member = |property: ast::ObjectProp<'_>| {
                let (name, at) = match property.name {
                    ast::ObjectPropName::String(literal) => (literal.value.into_owned(), literal.range),
                    ast::ObjectPropName::Word(word) => (word.value.to_owned(), word.range),
                };
                Member { name, name_span: span(at), value: of_json(property.value) }
            };
            let members = object.properties.into_iter().map(member).collect();
            Node { span: span(object.range), kind: Kind::Map { members, style: Style::Flow } }
        }
    }
}

fn toml(text: &str) -> Result<Node, String> {
    let document = toml_edit::Document::parse(text).map_err(|error| {
        // The error's own text quotes the line, which may hold a secret.
        let place = error.span().map_or(String::new(), |span| format!(" at line {}", line_of(text, span.start)));
        format!("{}{place}", error.message().lines().next().unwrap_or("is not TOML"))
    })?;
    Ok(of_table(document.as_table(), 0..0))
}

fn of_table(table: &dyn TableLike, span: Range<usize>) -> Node {
    let style = if span.is_empty() { Style::Block } else { Style::Flow };
    let member = |(name, item): (&str, &Item)| {
        let name_span = table.key(name).and_then(toml_edit::Key::span).unwrap_or(0..0);
        Member { name: name.to_owned(), name_span, value: of_item(item) }
    };
    Node { span, kind: Kind::Map { members: table.iter().map(member).collect(), style } }
}

fn of_item(item: &Item) -> Node {
    match item {
        Item::None => Node { span: 0..0, kind: Kind::Null },
        Item::Value(value) => of_value(value),
        Item::Table(table) => of_table(table, 0..0),
        Item::ArrayOfTables(tables) => {
            let items = tables.iter().map(|table| of_table(table, 0..0)).collect();
            Node { span: 0..0, kind: Kind::List { items, style: Style::Block } }
        }
    }
}

fn of_value(value: &Value) -> Node {
    let span = value.span().unwrap_or(0..0);
    let kind = match value {
        Value::String(text) => Kind::Text { text: text.value().clone(), is_token: true },
        Value::Boolean(yes) => Kind::Bool(*yes.value()),
        Value::Integer(number) => Kind::Other(number.value().to_string()),
        Value::Float(number) => Kind::Other(number.value().to_string()),
        Value::Datetime(moment) => Kind::Other(moment.value().to_string()),
        Value::Array(array) => Kind::List { items: array.iter().map(of_value).collect(), style: Style::Flow },
        // A dotted name makes tables that are written nowhere.
        Value::InlineTable(table) => return of_table(table, if table.is_dotted() { 0..0 } else { span }),
    };
    Node { span, kind }
}

/// The first document of a file; hosts read no other.
fn yaml(text: &str) -> Result<Node, String> {
    let places = Places::of(text);
    let mut events = Parser::new_from_str(text);
    let mut depth = 0;
    loop {
        match next(&mut events)? {
            Some((Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _)) => {}
            Some((event, span)) => return of_event(event, &span, &mut events, text, &places, &mut depth),
            None => return Ok(Node { span: 0..0, kind: Kind::Null }),
        }
    }
}

type Events<'a> = Parser<'a, saphyr_parser::StrInput<'a>>;

/// Deeper files are no configurations, and could use up the stack.
const DEEPEST: usize = 128;

fn next<'a>(events: &mut Events<'a>) -> Result<Option<(Event<'a>, saphyr_parser::Span)>, String> {
    // The parser's own words may name an anchor or a tag, but quote no value.
    let told = |error: saphyr_parser::ScanError| format!("{} at line {}", error.info(), error.marker().line());
    events.next_event().transpose().map_err(told)
}

fn of_event<'a>(
    event: Event<'a>,
    span: &saphyr_parser::Span,
    events: &mut Events<'a>,
    text: &str,
    places: &Places,
    depth: &mut usize,
) -> Result<Node, String> {
    let span = places.byte(span.start.index())..places.byte(span.end.index());
    let style = match text.as_bytes().get(span.start) {
        Some(b'[' | b'{') => Style::Flow,
        _ => Style::Block,
    };
    if *depth > DEEPEST {
        return Err(format!("is nested too deeply at line {}", line_of(text, span.start)));
    }
    *depth += 1;
    let broken = || format!("ends in the middle, at line {}", line_of(text, text.len()));
    let node = match event {
        Event::Scalar(value, scalar, anchor, tag) => {
            of_scalar(&value, scalar, anchor == 0 && tag.is_none(), span, text)
        }
        Event::Alias(anchor) => Node { span, kind: Kind::Alias(anchor) },
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match next(events)?.ok_or_else(broken)? {
                    (Event::SequenceEnd, end) => {
                        let span = span.start..places.byte(end.end.index());
                        break Node { span, kind: Kind::List { items, style } };
                    }
                    (event, at) => items.push(of_event(event, &at, events, text, places, depth)?),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut members: Vec<Member> = Vec::new();
            loop {
                let name = match next(events)?.ok_or_else(broken)? {
                    (Event::MappingEnd, end) => {
                        let span = span.start..places.byte(end.end.index());
                        break Node { span, kind: Kind::Map { members, style } };
                    }
                    (event, at) => of_event(event, &at, events, text, places, depth)?,
                };
                let (event, at) = next(events)?.ok_or_else(broken)?;
                let value = of_event(event, &at, events, text, places, depth)?;
                // A name that is a list or a map is never the name of a server or of its command.
                let text = name.word().unwrap_or_default();
                members.push(Member { name: text, name_span: name.span, value });
            }
        }
        _ => Node { span, kind: Kind::Null },
    };
    *depth -= 1;
    Ok(node)
}

fn of_scalar(value: &str, style: ScalarStyle, is_bare: bool, span: Range<usize>, text: &str) -> Node {
    let raw = text.get(span.clone()).unwrap_or_default();
    // The parser tells the end of a scalar behind the blanks and the comment that follow it.
    let raw = match style {
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => raw.get(..quoted_length(raw)).unwrap_or_default(),
        _ => raw.trim_end_matches([' ', '\t', '\r', '\n']),
    };
    let span = span.start..span.start + raw.len();
    let quoted = |quote: char| raw.len() >= 2 && raw.starts_with(quote) && raw.ends_with(quote);
    let is_whole = match style {
        ScalarStyle::Plain => raw == value,
        ScalarStyle::SingleQuoted => quoted('\''),
        ScalarStyle::DoubleQuoted => quoted('"'),
        ScalarStyle::Literal | ScalarStyle::Folded => false,
    };
    let string = || Kind::Text { text: value.to_owned(), is_token: is_bare && is_whole && !raw.contains('\n') };
    let kind = match (style, value) {
        (ScalarStyle::Plain, "true" | "True" | "TRUE") => Kind::Bool(true),
        (ScalarStyle::Plain, "false" | "False" | "FALSE") => Kind::Bool(false),
        (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Kind::Null,
        (ScalarStyle::Plain, number) if number.parse::<f64>().is_ok() => Kind::Other(number.to_owned()),
        _ => string(),
    };
    Node { span, kind }
}

/// How long a string is, with its quotes.
fn quoted_length(raw: &str) -> usize {
    let quote = raw.as_bytes().first().copied().unwrap_or_default();
    let mut at = 1;
    while let Some(byte) = raw.as_bytes().get(at) {
        at += match byte {
            b'\\' if quote == b'"' => 2,
            byte if *byte == quote && quote == b'\'' && raw.as_bytes().get(at + 1) == Some(&quote) => 2,
            byte if *byte == quote => return at + 1,
            _ => 1,
        };
    }
    raw.len()
}

/// Where each character begins. The parser counts characters.
struct Places(Option<Vec<usize>>, usize);

impl Places {
    fn of(text: &str) -> Self {
        let all = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self(all, text.len())
    }

    fn byte(&self, character: usize) -> usize {
        self.0.as_ref().map_or(character, |all| all.get(character).copied().unwrap_or(self.1)).min(self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every string that is a token, as it is written.
    fn tokens(format: Format, text: &str) -> Vec<String> {
        fn collect(node: &Node, text: &str, all: &mut Vec<String>) {
            match &node.kind {
                Kind::Text { is_token: true, .. } => all.push(text[node.span.clone()].to_owned()),
                Kind::List { items, .. } => items.iter().for_each(|item| collect(item, text, all)),
                Kind::Map { members, .. } => members.iter().for_each(|member| {
                    all.push(text[member.name_span.clone()].to_owned());
                    collect(&member.value, text, all);
                }),
                _ => {}
            }
        }
        let mut all = Vec::new();
        collect(&format.parse(text).expect("is right"), text, &mut all);
        all
    }

    #[test]
    fn every_format_tells_the_bytes_of_names_and_strings() {
        let json = "{ // ä\n \"a\": [\"b\\n\", 1, true,], /* c */ \"d\": null }";
        assert_eq!(tokens(Format::Json, json), ["\"a\"", "\"b\\n\"", "\"d\""]);
        assert_eq!(
            tokens(Format::Json5, "{a: 'b', c: .5, d: +Infinity, 'e': \"\\x41\"}"),
            ["a", "'b'", "c", "d", "'e'", "\"\\x41\""]
        );
        let toml = "ä = 1\n".replace('ä', "\"ä\"")
            + "[a.b]\r\nc = 'd' # e\r\nf.g = [\n \"h\", # i\n]\n[j]\nk = { l = \"m\" }\n";
        assert_eq!(
            tokens(Format::Toml, &toml),
            ["\"ä\"", "a", "b", "c", "'d'", "f", "g", "\"h\"", "j", "k", "l", "\"m\""]
        );
        let yaml =
            "# ä\na: b   # c\nd:\n  - e f\n  - \"g\" # \"\n  - 'h' \n  - &x i\ni: {j: k, l: [m, --]}\nn: |\n  o\n";
        assert_eq!(
            tokens(Format::Yaml, yaml),
            ["a", "b", "d", "e f", "\"g\"", "'h'", "i", "j", "k", "l", "m", "--", "n"]
        );
        assert_eq!(tokens(Format::Yaml, "a: b\r\nc:\r\n- d\r\n- e\r\n"), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_without_the_text() {
        let broken = [
            (Format::Json, "{\n // c\n \"env\": {\"T\": \"hunter2\" \n\"x\": 1}"),
            (Format::Json, "{ \"x\": hunter2 }"),
            (Format::Json5, "{\n a: hunter2 b\n}"),
            (Format::Toml, "[a]\nb = 1\ntoken = hunter2\n"),
            (Format::Toml, "[a]\ntoken = \"hunter2\"\ntoken = \"hunter2\"\n"),
            (Format::Yaml, "a:\n  - hunter2\n b: [\n"),
        ];
        for (format, text) in broken {
            let error = format.parse(text).expect_err("broken");
            assert!(error.contains("line"), "{format:?}: {error}");
            assert!(!error.contains("hunter2"), "{format:?}: {error}");
        }
    }

    #[test]
    fn every_cut_of_a_file_is_read_or_refused() {
        let json = "{ \"a\": \"b\\\"\", /* c */ \"d\": [1, 2,], // e\n }";
        let yaml = "a: [b, {c: 'd'}]\ne:\n - &f g\n - *f\nh: |\n  i\n";
        let toml = "a = [1, 'b']\n[c.d]\ne = \"\"\"\nf\"\"\"\n";
        for (format, text) in
            [(Format::Json, json), (Format::Json5, json), (Format::Yaml, yaml), (Format::Toml, toml)]
        {
            for (end, _) in text.char_indices() {
                format.parse(&text[..end]).ok();
            }
        }
    }
}
