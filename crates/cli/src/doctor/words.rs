//! Command lines as they may be shown: without secrets, quoted, and shortened.

/// What stands in the place of a secret.
const MASK: &str = "***";
/// How much of a command line a person needs to recognise it.
const SHORT: usize = 100;

/// Parts of the names of options and variables whose values are nobody's business.
const SECRET_NAMES: [&str; 12] = [
    "token",
    "secret",
    "passw",
    "pwd",
    "apikey",
    "api-key",
    "api_key",
    "auth",
    "credential",
    "private",
    "access-key",
    "access_key",
];
/// How well-known kinds of keys begin.
const KEYS: [&str; 14] = [
    "sk-",
    "sk_",
    "pk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
    "npm_",
];

/// The words of a command, with values that look like secrets masked.
pub(super) fn masked(command: &[String]) -> Vec<String> {
    let mut is_value_of_secret = false;
    let mask = |word: &String| {
        let shown = match word.split_once('=') {
            _ if is_value_of_secret && !word.starts_with('-') => MASK.to_owned(),
            Some((name, value))
                if !name.contains("://") && (is_variable(name) || is_secret_name(name) || is_key(value)) =>
            {
                format!("{name}={MASK}")
            }
            _ if is_key(word) => MASK.to_owned(),
            _ => mask_in_address(word),
        };
        is_value_of_secret = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
        shown
    };
    command.iter().map(mask).collect()
}

/// As in `env NAME=value` and `docker run -e NAME=value`: environments are never shown.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn is_key(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    // As a header: `Authorization: Bearer ...`, `X-Api-Key: ...`
    let is_header = lower.split_once(':').is_some_and(|(name, _)| !name.contains('/') && is_secret_name(name));
    let value = if lower.starts_with("bearer ") { &value[7..] } else { value };
    is_header || (value.len() >= 16 && KEYS.iter().any(|key| value.starts_with(key))) || is_random(value)
}

/// Long, of one piece, with letters and digits mixed all over: nobody has typed that.
fn is_random(value: &str) -> bool {
    let bytes = value.as_bytes();
    let mixed = bytes.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    bytes.len() >= 32
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'='))
        && mixed * 5 >= bytes.len()
}

/// `scheme://user:password@host/path?key=value`
fn mask_in_address(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let (before_query, query) = rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
    let (authority, path) = before_query.find('/').map_or((before_query, ""), |at| before_query.split_at(at));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => {
            format!("{}{MASK}@{host}", user.split_once(':').map_or(String::new(), |(n, _)| format!("{n}:")))
        }
        None => authority.to_owned(),
    };
    let parts = |query: &str| {
        let mask = |part: &str| match part.split_once('=') {
            Some((name, value)) if is_secret_name(name) || name.contains("key") || is_key(value) => {
                format!("{name}={MASK}")
            }
            _ => part.to_owned(),
        };
        query.split('&').map(mask).collect::<Vec<_>>().join("&")
    };
    let query = query.map_or(String::new(), |query| format!("?{}", parts(query)));
    format!("{scheme}://{authority}{path}{query}")
}

/// As one could type it, without secrets.
pub(super) fn quoted(command: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:@%+,*".contains(c);
    let quote = |word: String| {
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word } else { format!("'{}'", visible(&word).replace('\'', r"'\''")) }
    };
    masked(command).into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// A command in one line of a report.
pub(super) fn shortened(command: &[String]) -> String {
    let whole = quoted(command);
    if whole.chars().count() <= SHORT { whole } else { whole.chars().take(SHORT - 3).chain("...".chars()).collect() }
}

/// Without characters that would steer a terminal: a process may call itself what it likes.
pub(super) fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A time as people say it.
pub(super) fn age(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shown(command: &str, expected: &str) {
        let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
        assert_eq!(masked(&words).join(" "), expected);
    }

    #[test]
    fn secrets_are_masked_and_other_words_are_not() {
        shown("server --api-key abc --port 80", "server --api-key *** --port 80");
        shown("env GITHUB_TOKEN=abc HOST=x npx x --password=x", "env GITHUB_TOKEN=*** HOST=*** npx x --password=***");
        shown("server sk-ant-abcdef0123456789", "server ***");
        shown("curl -H Authorization:abc X-Api-Key:abc", "curl -H *** ***");
        shown("psql postgres://joe:secret@db:5432/x", "psql postgres://joe:***@db:5432/x");
        shown("proxy https://h/sse?token=abc&x=1 https://tok@h", "proxy https://h/sse?token=***&x=1 https://***@h");
        for plain in [
            "npx -y @modelcontextprotocol/server-everything",
            "uvx mcp-server-git --repository /home/joe/projects/a-very-long-name-for-a-repository-1",
            "node /usr/lib/x/index.js --port=8080 http://localhost:80/a?b=c",
        ] {
            shown(plain, plain);
        }
    }

    #[test]
    fn a_command_can_be_typed_and_does_not_steer_a_terminal() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(quoted(&words(&["sh", "-c", "a b", "", "it's"])), r"sh -c 'a b' '' 'it'\''s'");
        assert_eq!(quoted(&words(&["a\x1b[2J"])), "'a?[2J'");
        assert_eq!(shortened(&words(&["ä".repeat(200).as_str()])).chars().count(), SHORT);
    }
}
