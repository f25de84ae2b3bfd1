//! How other programs read a line. None of this is ours: it is written anew here, so that a mistake of ours is not made twice.

/// A JSON value as it stands in the text, with every member, also those of the same name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Object(Vec<(String, Json)>),
    List(Vec<Json>),
    Text(String),
    /// A number or a word, as it is written.
    Bare(String),
}

/// Which member a reader takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The first of that name.
    FirstWins,
    /// The last of that name, as Python's and JavaScript's do.
    LastWins,
    /// The last whose name is the same but for case, as Go's does.
    IgnoresCase,
    /// The last whose name is the same up to a NUL, as readers in C do.
    EndsAtNul,
}

pub(crate) const READERS: [Reader; 4] = [Reader::FirstWins, Reader::LastWins, Reader::IgnoresCase, Reader::EndsAtNul];

impl Json {
    /// What this reader finds by a name.
    pub(crate) fn get(&self, reader: Reader, name: &str) -> Option<&Json> {
        let Self::Object(members) = self else { return None };
        let mut found = members.iter().filter(|(key, _)| match reader {
            Reader::FirstWins | Reader::LastWins => key == name,
            Reader::IgnoresCase => key.to_lowercase().replace('\u{17f}', "s") == name.to_lowercase(),
            Reader::EndsAtNul => key.split('\0').next() == Some(name),
        });
        let found = if reader == Reader::FirstWins { found.next() } else { found.next_back() };
        found.map(|(_, value)| value)
    }

    pub(crate) fn at(&self, reader: Reader, path: &[&str]) -> Option<&Json> {
        path.iter().try_fold(self, |value, name| value.get(reader, name))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number or a text that is written like this.
    pub(crate) fn is(&self, written: &str) -> bool {
        match self {
            Self::Bare(bare) => {
                bare == written || matches!((bare.parse::<f64>(), written.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
            }
            Self::Text(text) => text == written,
            _ => false,
        }
    }
}

/// The lines of a reader that ends them wherever any reader does: Python's `splitlines`, universal newlines, Node's `readline`.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let ends = ['\r', '\n', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    text.split(ends).filter(|line| !line.trim().is_empty()).collect()
}

/// Reads one JSON value, and nothing behind it. NaN and the infinities are words like others.
pub(crate) fn json(text: &str) -> Option<Json> {
    let mut parser = Parser { rest: text };
    let value = parser.value(0)?;
    parser.space();
    parser.rest.is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.space();
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.space();
        if depth > 1000 {
            return None;
        }
        match self.rest.chars().next()? {
            '{' => {
                self.take("{")?;
                let mut members = Vec::new();
                if self.take("}").is_some() {
                    return Some(Json::Object(members));
                }
                loop {
                    self.space();
                    let name = self.text()?;
                    self.take(":")?;
                    members.push((name, self.value(depth + 1)?));
                    if self.take("}").is_some() {
                        return Some(Json::Object(members));
                    }
                    self.take(",")?;
                }
            }
            '[' => {
                self.take("[")?;
                let mut items = Vec::new();
                if self.take("]").is_some() {
                    return Some(Json::List(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    if self.take("]").is_some() {
                        return Some(Json::List(items));
                    }
                    self.take(",")?;
                }
            }
            '"' => self.text().map(Json::Text),
            _ => {
                let end = self.rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(self.rest.len());
                let (bare, rest) = self.rest.split_at(end);
                self.rest = rest;
                let is_word = ["true", "false", "null", "NaN", "Infinity", "-Infinity"].contains(&bare);
                let is_number = bare.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
                    && bare.ends_with(|last: char| last.is_ascii_digit())
                    && bare.parse::<f64>().is_ok();
                (is_word || is_number).then(|| Json::Bare(bare.to_owned()))
            }
        }
    }

    fn text(&mut self) -> Option<String> {
        let mut chars = self.rest.strip_prefix('"')?.chars();
        let mut units: Vec<u16> = Vec::new();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'u' => {
                        let digits: String = chars.by_ref().take(4).collect();
                        units.push(u16::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4)?);
                    }
                    escape => {
                        let meant = match escape {
                            '"' | '\\' | '/' => escape,
                            'b' => '\u{8}',
                            'f' => '\u{c}',
                            'n' => '\n',
                            'r' => '\r',
                            't' => '\t',
                            _ => return None,
                        };
                        units.push(meant as u16);
                    }
                },
                control if control < ' ' => return None,
                other => units.extend(other.encode_utf16(&mut [0; 2]).iter()),
            }
        }
        self.rest = chars.as_str();
        Some(String::from_utf16_lossy(&units))
    }
}
