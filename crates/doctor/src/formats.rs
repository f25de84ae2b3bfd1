//! The three formats of configuration files: read into one kind of value, and the lines of a server written in each.

use serde_json::{Map, Value};
use yaml_rust2::{Yaml, YamlLoader};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// With comments and trailing commas, which most hosts allow.
    Json,
    Toml,
    Yaml,
}

impl Format {
    /// What a file says, or what is wrong with it and where. Never a part of its text, which may be a secret.
    pub(super) fn read(self, text: &str) -> Result<Value, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        match self {
            Self::Json => serde_json::from_str(&without_comments(text)).map_err(|error| error.to_string()),
            Self::Toml => toml::from_str(text).map_err(|error| {
                let before = error.span().and_then(|span| text.get(..span.start));
                let place =
                    before.map_or(String::new(), |text| format!(" at line {}", text.matches('\n').count() + 1));
                format!("{}{place}", error.message())
            }),
            Self::Yaml => {
                let documents = YamlLoader::load_from_str(text).map_err(|error| error.to_string())?;
                Ok(documents.into_iter().next().map_or(Value::Null, value_of))
            }
        }
    }

    /// The lines by which a server is started, under the given keys.
    pub(super) fn write(self, [command_key, args_key]: [&str; 2], command: &str, args: &[String]) -> String {
        // A string of JSON is one of TOML and of YAML, too.
        let quote = |text: &str| Value::from(text).to_string();
        let command = quote(command);
        let args = args.iter().map(|arg| quote(arg)).collect::<Vec<_>>().join(", ");
        match self {
            Self::Json => format!("\"{command_key}\": {command},\n\"{args_key}\": [{args}]"),
            Self::Toml => format!("{command_key} = {command}\n{args_key} = [{args}]"),
            Self::Yaml => format!("{command_key}: {command}\n{args_key}: [{args}]"),
        }
    }
}

fn value_of(yaml: Yaml) -> Value {
    match yaml {
        Yaml::String(text) | Yaml::Real(text) => Value::from(text),
        Yaml::Integer(number) => Value::from(number),
        Yaml::Boolean(yes) => Value::from(yes),
        Yaml::Array(list) => list.into_iter().map(value_of).collect(),
        Yaml::Hash(map) => {
            let key = |key: Yaml| match value_of(key) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            map.into_iter().map(|(name, value)| (key(name), value_of(value))).collect()
        }
        Yaml::Alias(_) | Yaml::Null | Yaml::BadValue => Value::Null,
    }
}

/// Blanks in the place of comments and trailing commas, so that every other character stays on its line and column.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut comma = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', _) => {
                comma = None;
                out.push(c);
                while let Some(c) = rest.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => {
                out.push(' ');
                while rest.peek().is_some_and(|&c| c != '\n') {
                    rest.next();
                    out.push(' ');
                }
            }
            ('/', Some('*')) => {
                rest.next();
                out.push_str("  ");
                while let Some(c) = rest.next() {
                    if c == '*' && rest.peek() == Some(&'/') {
                        rest.next();
                        out.push_str("  ");
                        break;
                    }
                    out.push(if c == '\n' { c } else { ' ' });
                }
            }
            (']' | '}', _) => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(c);
            }
            _ => {
                if c == ',' {
                    comma = Some(out.len());
                } else if !c.is_whitespace() {
                    comma = None;
                }
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comments_and_trailing_commas_are_allowed_in_json() {
        let text =
            "{ // one\n \"a\": \"no // comment, /* here */ \\\" ,]\", /* two\n lines, */ \"b\": [1, 2, /**/ ],\n}\n";
        let expected = json!({ "a": "no // comment, /* here */ \" ,]", "b": [1, 2] });
        assert_eq!(Format::Json.read(text), Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_without_the_text() {
        let broken = [
            (Format::Json, "{\n // c\n \"env\": {\"T\": \"hunter2\" \n\"x\": 1}"),
            (Format::Toml, "[a]\nb = 1\ntoken = hunter2\n"),
            (Format::Yaml, "a:\n  - hunter2\n b: [\n"),
        ];
        for (format, text) in broken {
            let error = format.read(text).expect_err("broken");
            assert!(error.contains("line"), "{format:?}: {error}");
            assert!(!error.contains("hunter2"), "{format:?}: {error}");
        }
        assert!(Format::Json.read("{\n // c\n 1}").expect_err("broken").contains("line 3"));
    }

    #[test]
    fn every_cut_of_a_file_is_read_or_refused() {
        let text = "{ \"a\": \"b\\\"\", /* c */ \"d\": [1, 2,], // e\n }";
        for (end, _) in text.char_indices() {
            Format::Json.read(&text[..end]).ok();
        }
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let args: Vec<String> = ["run", "--", "npx", "a \"b\" \\ ä\n", "yes"].map(str::to_owned).into();
        for (format, wrap) in [(Format::Json, ("{", "}")), (Format::Toml, ("", "")), (Format::Yaml, ("", ""))] {
            let text = format.write(["command", "args"], "nostray", &args);
            let read = format.read(&format!("{}{text}{}", wrap.0, wrap.1));
            assert_eq!(read, Ok(json!({ "command": "nostray", "args": args })), "{text}");
        }
    }
}
