//! Any valid document: wrapped and unwrapped it is the same bytes, and only the entry that was meant differs in between.

use super::checks;

use nostray_sys::random::Random;
use nostray_wrap::Format;

/// Writes documents with all the freedom that a format allows.
struct Writer {
    random: Random,
    text: String,
    newline: &'static str,
}

const WORDS: [&str; 12] =
    ["npx", "-y", "some-server", "--", "ä ö", "a \\\"b\\\"", "${VAR}", "${input:x}", "/c", "run", "x@1.2", "日本"];

impl Writer {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let newline = random.pick(&["\n", "\r\n"]);
        Self { random, text: String::new(), newline }
    }

    fn gap(&mut self, comments: &[&str]) {
        let gap = match self.random.below(10) {
            0..5 => String::new(),
            5 | 6 => " ".to_owned(),
            7 => format!("{}\t ", self.newline),
            8 => "  ".to_owned(),
            _ if comments.is_empty() => " ".to_owned(),
            _ => {
                let comment = self.random.pick(comments);
                if comment.starts_with("/*") {
                    format!(" {comment} ")
                } else {
                    format!(" {comment}{}  ", self.newline)
                }
            }
        };
        self.text += &gap;
    }

    fn word(&mut self) -> &'static str {
        self.random.pick(&WORDS)
    }

    fn name(&mut self, at: u64) -> String {
        format!("{}{at}", self.random.pick(&["fetch", "ä", "a.b", "x-y", "Z"]))
    }

    // JSON and JSON5.

    fn string(&mut self, text: &str, is_json5: bool) {
        let quote = if is_json5 && !text.contains(['"', '\\']) && self.random.percent(50) { '\'' } else { '"' };
        self.text += &format!("{quote}{text}{quote}");
    }

    fn key(&mut self, name: &str, is_json5: bool) {
        let is_bare = name.chars().all(|c| c.is_ascii_alphabetic());
        if is_json5 && is_bare && self.random.percent(50) {
            self.text += name
        } else {
            self.string(name, is_json5)
        }
        self.gap(&["/* c */"]);
        self.text.push(':');
        self.gap(&["// d", "/* e, \" [ */"]);
    }

    fn list(&mut self, close: char, count: u64, item: &mut dyn FnMut(&mut Self, u64)) {
        for at in 0..count {
            self.gap(&["// in a list", "/* [ */"]);
            item(self, at);
            self.gap(&["/* ] */"]);
            let is_last = at + 1 == count;
            if !is_last || self.random.percent(30) {
                self.text.push(',');
            }
        }
        self.gap(&["// at the end", "/* } */"]);
        self.text.push(close);
    }

    fn json(&mut self, is_json5: bool) {
        if self.random.percent(20) {
            self.text.push('\u{feff}');
        }
        self.gap(&["// top"]);
        self.text.push('{');
        let top = self.random.pick(&["mcpServers", "servers", "context_servers", "mcp", "amp.mcpServers"]);
        let others = self.random.below(3);
        let place = self.random.below(others + 1);
        self.list('}', others + 1, &mut |writer, at| {
            if at != place {
                writer.key(&format!("other{at}"), is_json5);
                writer.text += "[1, {\"command\": \"not a server\"}, null]";
                return;
            }
            writer.key(top, is_json5);
            writer.text.push('{');
            let servers = writer.random.below(4);
            writer.list('}', servers, &mut |writer, at| {
                let name = writer.name(at);
                writer.key(&name, is_json5);
                writer.json_entry(is_json5);
            });
        });
        self.gap(&["// bottom"]);
    }

    fn json_entry(&mut self, is_json5: bool) {
        let shape = self.random.below(7);
        let mut members: Vec<&str> = match shape {
            0 => vec!["command"],
            1 => vec!["url", "headers"],
            2 => vec!["command", "type"],
            3 => vec!["words"],
            4 => vec!["old"],
            _ => vec!["command", "args"],
        };
        members.extend(["env", "disabled"].iter().filter(|_| self.random.percent(40)));
        if self.random.percent(50) {
            members.reverse();
        }
        self.text.push('{');
        let count = members.len() as u64;
        self.list('}', count, &mut |writer, at| {
            let member = members[usize::try_from(at).expect("small")];
            writer.key(if matches!(member, "words" | "old") { "command" } else { member }, is_json5);
            match member {
                "command" => {
                    let text = writer.random.pick(&["npx", "uvx", "n\\u0070x", "npx -y a", "/opt/a b/c"]);
                    writer.string(text, is_json5);
                }
                "args" | "words" => {
                    writer.text.push('[');
                    let count = writer.random.below(5);
                    writer.list(']', count, &mut |writer, _| {
                        let word = writer.word();
                        if writer.random.percent(10) { writer.text += "80" } else { writer.string(word, is_json5) }
                    });
                }
                "old" => {
                    writer.text += "{\"path\": \"npx\", \"args\": [";
                    let count = writer.random.below(3);
                    writer.list(']', count, &mut |writer, _| writer.string("a", is_json5));
                    writer.text.push('}');
                }
                "env" => writer.text += "{\"TOKEN\": \"hunter2\", \"B\": \"\"}",
                "disabled" => writer.text += "false",
                "type" => writer.string("stdio", is_json5),
                _ => writer.string("https://example.org", is_json5),
            }
        });
    }

    // TOML.

    fn toml_string(&mut self) -> String {
        let word = self.word();
        match self.random.below(4) {
            0 if !word.contains('\\') => format!("'{word}'"),
            1 => format!("\"\"\"{word}\"\"\""),
            _ => format!("\"{word}\""),
        }
    }

    fn toml_args(&mut self, comments: &[&str]) -> String {
        let mut list =
            Self { random: Random::new(self.random.below(1 << 40)), text: "[".to_owned(), newline: self.newline };
        let count = list.random.below(4);
        let comments: Vec<&str> = comments.to_vec();
        for at in 0..count {
            list.gap(&comments);
            let word = list.toml_string();
            list.text += &word;
            if at + 1 < count || list.random.percent(30) {
                list.text.push(',');
            }
        }
        list.gap(&comments);
        list.text + "]"
    }

    fn toml(&mut self) {
        self.line("# top");
        self.line("model = \"a\" # [mcp_servers.no]");
        for at in 0..self.random.below(4) {
            let name = format!("s{at}");
            let (command, args, inner) = (self.toml_string(), self.toml_args(&["# in a list"]), self.toml_args(&[]));
            match self.random.below(5) {
                0 => self.line(&format!("[mcp_servers.{name}]\n  command = {command} # c")),
                1 => self.line(&format!("[mcp_servers.\"{name}\"]\ncommand={command}\nargs = {args} # c\n[mcp_servers.{name}.env]\nA = '1'")),
                2 => self.line(&format!("[mcp_servers.{name}]\nargs = {args}\nenabled = true\ncommand\t=\t{command}")),
                3 => self.line(&format!("[mcp_servers.{name}]\nurl = \"https://example.org\"")),
                _ => self.line(&format!("[mcp_servers]\n{name}.command = {command}\n{name}.env = {{ A = \"1\" }}\nother{at} = {{ command = {command}, args = {inner} }}\n[z{at}]")),
            }
        }
        if self.random.percent(30) {
            self.text = self.text.trim_end().to_owned();
        }
    }

    fn line(&mut self, text: &str) {
        let lines = text.replace(self.newline, "\n").replace('\n', self.newline);
        self.text += &lines;
        self.text += self.newline;
    }

    // YAML.

    fn yaml_word(&mut self) -> String {
        self.random
            .pick(&["npx", "-y", "\"a b\"", "'it''s'", "some-server", "--", "\"ä\\n\"", "80", "a b"])
            .to_owned()
    }

    fn yaml(&mut self) {
        let is_list = self.random.percent(30);
        self.line("# top: no");
        self.line(if is_list { "mcpServers:" } else { "mcp_servers:   # servers" });
        let step = self.random.pick(&["  ", "    ", " "]);
        for at in 0..self.random.below(4) {
            let (first, indent) = if is_list {
                (format!("{step}- name: s{at}"), format!("{step}  "))
            } else {
                (format!("{step}s{at}:"), format!("{step}{step}"))
            };
            self.line(&first);
            let command = self.random.pick(&["npx", "\"npx\"", "'uvx'", "a, b", "/opt/a b"]);
            let comment = self.random.pick(&["", " # c", "   "]);
            let key = self.random.pick(&["command", "cmd"]);
            self.line(&format!("{indent}{key}: {command}{comment}"));
            match self.random.below(4) {
                0 => {}
                1 => {
                    let words = (0..self.random.below(4)).map(|_| self.yaml_word()).collect::<Vec<_>>().join(", ");
                    self.line(&format!("{indent}args: [{words}]{comment}"));
                }
                2 => {
                    self.line(&format!("{indent}args:{comment}"));
                    let deeper = self.random.pick(&["", "  "]);
                    for _ in 0..=self.random.below(3) {
                        let word = self.yaml_word();
                        let dash = self.random.pick(&["- ", "-   "]);
                        self.line(&format!("{indent}{deeper}{dash}{word}{comment}"));
                    }
                }
                _ => self.line(&format!("{indent}env: {{A: hunter2}}")),
            }
        }
        self.line("other: {command: npx}");
        if self.random.percent(30) {
            self.text = self.text.trim_end().to_owned();
        }
    }
}

fn rounds() -> u64 {
    if std::env::var_os("NOSTRAY_LONG").is_some() { 50_000 } else { 3_000 }
}

fn check(format: Format, write: fn(&mut Writer)) {
    let prefixes = checks::prefixes();
    let (mut valid, mut wrapped) = (0, 0);
    for seed in 0..rounds() {
        let mut writer = Writer::new(seed);
        write(&mut writer);
        valid += u64::from(nostray_wrap::read(writer.text.as_bytes(), format, nostray_wrap::hosts::ANY).is_ok());
        let prefix = &prefixes[usize::try_from(seed).expect("small") % prefixes.len()];
        wrapped += checks::there_and_back(writer.text.as_bytes(), format, seed % 2 == 0, prefix);
    }
    // A generator whose documents are refused would prove nothing.
    assert!(valid * 10 > rounds() * 9, "{format:?}: only {valid} of {} can be read", rounds());
    assert!(wrapped as u64 > rounds() / 2, "{format:?}: only {wrapped} entries were wrapped");
}

#[test]
fn json_comes_back() {
    check(Format::Json, |writer| writer.json(false));
}

#[test]
fn json5_comes_back() {
    check(Format::Json5, |writer| writer.json(true));
}

#[test]
fn toml_comes_back() {
    check(Format::Toml, Writer::toml);
}

#[test]
fn yaml_comes_back() {
    check(Format::Yaml, Writer::yaml);
}

/// A document with a byte changed, removed or repeated is refused, or comes back.
#[test]
fn damaged_documents_come_back_or_are_refused() {
    let prefixes = checks::prefixes();
    for seed in 0..rounds() {
        let mut writer = Writer::new(seed);
        let at = usize::try_from(seed).expect("small") % 4;
        [|w: &mut Writer| w.json(false), |w: &mut Writer| w.json(true), Writer::toml, Writer::yaml][at](&mut writer);
        let mut bytes = writer.text.into_bytes();
        let mut random = Random::new(seed);
        for _ in 0..=random.below(3) {
            let place = random.index(bytes.len());
            match random.below(3) {
                0 => drop(bytes.remove(place)),
                1 => bytes[place] = random.pick(b"{}[]\"',:#-\n x\\"),
                _ => bytes.insert(place, random.pick(b"{}[]\"',:#-&*|> \n")),
            }
            if bytes.is_empty() {
                bytes.push(b'{');
            }
        }
        checks::there_and_back(
            &bytes,
            checks::FORMATS[at],
            true,
            &prefixes[usize::try_from(seed).expect("small") % 3],
        );
    }
}
